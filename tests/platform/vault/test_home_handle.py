"""The handle of the vault's home: it says what the home says, in time or not at all."""

import inspect
from typing import Any

import pytest
import ray

from labeldp.platform.vault import home_handle
from labeldp.platform.vault.home_handle import HomeHandle, VaultLost, ask
from labeldp.platform.vault.vault_home import VaultHome

CALLS = sorted(name for name in vars(HomeHandle) if not name.startswith("_"))
HERE = {"end"}  # of the actor itself
RAYS_OWN = (
    "_ray_trace_ctx"  # added to the class's methods once this process has made an actor of it
)


def test_every_call_is_the_homes_own() -> None:
    assert len(CALLS) > 10
    for name in set(CALLS) - HERE - {"actor"}:
        mine, homes = (
            [word for word in inspect.signature(getattr(kind, name)).parameters if word != RAYS_OWN]
            for kind in (HomeHandle, VaultHome)
        )
        assert mine == homes, name


def test_every_question_that_the_home_answers_can_be_asked() -> None:
    answers = {name for name in vars(VaultHome) if not name.startswith("_")}
    assert answers == set(CALLS) - HERE - {"actor"}


def raising(error: Exception) -> Any:
    def get(reference: Any, timeout: float) -> Any:
        assert timeout == home_handle.TIME_LIMIT_SECONDS
        raise error

    return get


def task_error(cause: Exception) -> Exception:
    """What Ray makes of an error in an actor."""
    make: Any = ray.exceptions.RayTaskError
    error: Exception = make("f", "trace", cause)
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ray.exceptions.GetTimeoutError("late"), "did not answer within 300 s"),
        (ray.exceptions.RayActorError(), "died more than 5 times.*--resume auto"),
    ],
)
def test_a_home_that_does_not_answer_is_lost(
    error: Exception, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray, "get", raising(error))
    with pytest.raises(VaultLost, match=words):
        ask("a reference")


def test_what_the_home_refuses_is_raised_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = task_error(ValueError("over the budget"))
    monkeypatch.setattr(ray, "get", raising(refused))
    with pytest.raises(ValueError, match=r"^over the budget$"):
        ask("a reference")
    broken = task_error(KeyError("a bug"))
    monkeypatch.setattr(ray, "get", raising(broken))
    with pytest.raises(ray.exceptions.RayTaskError):
        ask("a reference")

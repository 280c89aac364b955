"""The proxy of the vault's home: it says what the home says, in time or not at all."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.home_proxy import HomeProxy, VaultLost, ask


class Actor:
    """Ray's handle of an actor with a home."""

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: (name, arguments))


def test_a_call_is_the_homes_own_and_travels_with_its_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference)
    proxy = pickle.loads(pickle.dumps(HomeProxy(Actor())))
    assert proxy.epsilon(["k"], 0.0) == ("epsilon", (["k"], 0.0))
    with pytest.raises(AttributeError, match="_truth"):
        _ = proxy._truth


def raising(error: Exception) -> Any:
    def get(reference: Any, timeout: float) -> Any:
        assert timeout == home_proxy.TIME_LIMIT_SECONDS
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

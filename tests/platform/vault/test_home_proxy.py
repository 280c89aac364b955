"""The proxy of the labels' home: it returns the home's answer, in time or not at all."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.home_proxy import HomeProxy, VaultLost, ask


class Call:
    """Ray's handle of a method."""

    def remote(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return name, arguments


def test_a_call_is_the_homes_own_and_travels_with_its_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference)
    proxy = pickle.loads(pickle.dumps(HomeProxy(SimpleNamespace(call=Call()))))
    assert proxy.epsilon(["k"], 0.0) == ("epsilon", (["k"], 0.0))
    with pytest.raises(AttributeError, match="_truth"):
        _ = proxy._truth


def task_error(cause: Exception) -> Exception:
    """Ray's form of an error in an actor."""
    make: Any = ray.exceptions.RayTaskError
    error: Exception = make("f", "trace", cause)
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ray.exceptions.GetTimeoutError("late"), VaultLost, "did not answer within 300 s"),
        (ray.exceptions.RayActorError(), VaultLost, "died more than 5 times.*--resume auto"),
        # A refusal is raised as it was; all else is Ray's.
        (task_error(ValueError("over the budget")), ValueError, r"^over the budget$"),
        (task_error(KeyError("a bug")), ray.exceptions.RayTaskError, "trace"),
    ],
)
def test_a_home_that_does_not_answer_is_lost(
    error: Exception, kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(reference: Any, timeout: float) -> Any:
        assert timeout == home_proxy.TIME_LIMIT_SECONDS
        raise error

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(kind, match=words):
        ask("a reference")

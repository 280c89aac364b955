"""The proxy of the labels' home: it returns the home's answer, in time or not at all."""

import pickle
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.home_proxy import HomeActor, HomeProxy, VaultLost, ask, start
from labeldp.platform.vault.label_home import SecretLabels
from tests.platform.vault.homes import home_settings


class Call:
    def remote(self, name: str, arguments: tuple[Any, ...]) -> Any:
        return name, arguments


def test_a_call_travels_with_its_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference)
    proxy = pickle.loads(pickle.dumps(HomeProxy(SimpleNamespace(call=Call()))))
    assert proxy.epsilon(["k"], 0.0) == ("epsilon", (["k"], 0.0))
    with pytest.raises(AttributeError, match="_truth"):
        _ = proxy._truth


def test_a_home_starts_beside_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    options, sent, killed = dict[str, Any](), list[SecretLabels](), list[Any]()

    class Actor(HomeActor):
        def __init__(self, labels: SecretLabels, **settings: Any) -> None:
            super().__init__(labels, **settings)
            sent.append(labels)
            self.call: Any = SimpleNamespace(remote=super().call)

    def remote(kind: type) -> Any:
        assert kind is HomeActor
        return SimpleNamespace(
            options=lambda **given: options.update(given) or SimpleNamespace(remote=Actor)
        )

    context = SimpleNamespace(get_node_id=lambda: "ab" * 28)
    for name, value in {
        "remote": remote,
        "get": lambda reference, timeout: reference,
        "get_runtime_context": lambda: context,
        "kill": killed.append,
    }.items():
        monkeypatch.setattr(ray, name, value)
    training, held_out = np.arange(300) % 10, np.arange(40) % 10
    for apart in (held_out, None):
        labels = SecretLabels(training=training, held_out=apart, num_classes=10)
        home = start(labels, **home_settings(None, budget=Budget(epsilon=3.0)))
        assert home.num_labels() == 300
        # One byte each, in the request that makes the actor.
        assert sent[-1].training.dtype == np.uint8 and (sent[-1].training == training).all()
    assert sent[0].held_out is not None and sent[0].held_out.dtype == np.uint8
    assert (sent[0].held_out == held_out).all() and sent[1].held_out is None
    with pytest.raises(BudgetExceeded):
        home.release(RandomizedResponse(epsilon=4.0, num_classes=10), (), None, OsEntropy())
    with pytest.raises(ValueError, match="classes"):  # a refusal comes before any trial
        start(replace(labels, num_classes=5), **home_settings(None))
    where = options.pop("scheduling_strategy")
    assert (where.node_id, where.soft) == ("ab" * 28, False), "where its store is"
    # It takes no core from trials, and comes back with the request under way.
    assert options == {"num_cpus": 0, "max_restarts": 5, "max_task_retries": 5}
    home.end()
    assert [type(actor) for actor in killed] == [Actor]


def task_error(cause: Exception) -> Exception:
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
def test_a_lost_home(
    error: Exception, kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(reference: Any, timeout: float) -> Any:
        assert timeout == home_proxy.TIME_LIMIT_SECONDS
        raise error

    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(kind, match=words):
        ask("a reference")

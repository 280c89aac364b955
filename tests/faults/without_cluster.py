"""A driver whose vault and trials are in its own process: what it writes is what any driver writes.

Ray takes most of the time of a tiny sweep. Tests that are about the driver's own files and its
tracking, a hundred starts long, do without.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ray
from ray import tune

from labeldp.platform import driver, home_handle, open_sweep, tune_adapter
from labeldp.platform.cluster import Capacity
from labeldp.platform.home_handle import HomeHandle
from labeldp.platform.records import checkpoints
from labeldp.platform.records.recorder import Recorder
from labeldp.platform.sweep import PlannedTrial
from labeldp.platform.trusted import vault_home
from labeldp.platform.trusted.vault_home import SecretLabels


class Here:
    """Stands for an actor: `here.name.remote(...)` is the object's own answer."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self._actor, name))


@contextmanager
def without_cluster() -> Iterator[None]:
    """Have drivers of this process start no cluster."""
    with (
        patch.object(open_sweep, "connected", _connected),
        patch.object(driver, "run_trials", _run_trials),
        patch.object(ray, "put", _itself),
        patch.object(ray, "get", _itself),
        patch.object(ray, "kill", _itself),
        patch.object(home_handle, "ask", _itself),
        patch.object(vault_home, "start", _start),
    ):
        yield


def _itself(reference: Any, **limits: Any) -> Any:
    return reference


@contextmanager
def _connected(address: str | None) -> Iterator[Capacity]:
    yield Capacity(nodes=1, cpus=1.0, gpus=0.0, largest=((1.0, 0.0),), grows=False)


def _start(labels: SecretLabels, **settings: Any) -> HomeHandle:
    return HomeHandle(Here(vault_home.VaultHome(labels, **settings)))


def _run_trials(
    plans: Mapping[str, PlannedTrial],
    *,
    recorder: Recorder,
    data: Any,
    home: HomeHandle,
    **others: Any,
) -> None:
    folder = recorder.folder
    own = checkpoints.Keeper(str(folder.checkpoints), str(folder.models))
    keeper = checkpoints.KeeperHandle(Here(own))
    for digest in plans:
        trial = SimpleNamespace(config={"hash": digest})
        recorder.on_trial_start(0, [], trial)

        def report(result: dict[str, Any], trial: Any = trial) -> None:
            recorder.on_trial_result(0, [], trial, result)

        with patch.object(tune, "report", report):
            tune_adapter.tune_trial(
                trial.config, plans=plans, data=data, home=home, keeper=keeper, cpus=1
            )

"""A driver whose vault and trials are in its own process: what it writes is what any driver writes.

Ray takes most of the time of a tiny sweep. Tests that are about the driver's own files and its
tracking, a hundred starts long, do without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ray
from ray import tune
from ray._private.dict import flatten_dict

from labeldp.platform import cluster
from labeldp.platform.cluster import Capacity
from labeldp.platform.records import tracking
from labeldp.platform.sweep import open_sweep, trial_runs
from labeldp.platform.sweep import recorder as recording
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.recorder import Recorder
from labeldp.platform.sweep.trial import EarlyStops, Keeper, tune_trial
from labeldp.platform.sweep.trial_runs import SuggestionSearcher
from labeldp.platform.vault import actors
from labeldp.platform.vault.label_home import LabelHome
from tests.platform.sweep.stores import copy_store


class Here:
    """Stands for an actor: `here.name.remote(...)` is the object's own answer."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self._actor, name))


@contextmanager
def without_cluster() -> Iterator[None]:
    """Have drivers of this process start no cluster, and copy an empty tracking store."""
    with (
        patch.object(open_sweep, "connected", _connected),
        patch.object(cluster, "known_nodes", list),  # there are none
        patch.object(trial_runs, "_run_trials", _run_trials),
        patch.object(recording, "in_use", str),
        patch.object(ray, "put", _itself),
        patch.object(ray, "get", _itself),
        patch.object(ray, "kill", _itself),
        patch.object(actors, "start_home", LabelHome),
        patch.object(tracking, "_create_whole", copy_store),
    ):
        yield


def _itself(reference: Any, **limits: Any) -> Any:
    return reference


@contextmanager
def _connected(address: str | None) -> Iterator[Capacity]:
    yield Capacity(nodes=((1.0, 0.0),), grows=False)


def _run_trials(sweep: OpenSweep, recorder: Recorder, *, seconds: float) -> None:
    """What Tune does, one trial at a time."""
    keeper = Here(Keeper(str(sweep.folder.checkpoints), str(sweep.folder.models)))
    searcher = SuggestionSearcher(recorder) if sweep.suggestions else None
    rule = sweep.plan.sweep.stop
    by = sweep.plan.choose_by
    stops = None if rule is None else EarlyStops(rule=rule, by=by, keeper=keeper)
    scheduler = None if stops is None else trial_runs.scheduler_of(sweep, stops)
    plans = {} if searcher else dict(sweep.left)
    for config in _configs(sweep, searcher):
        trial = SimpleNamespace(config=config)
        recorder.on_trial_start(0, [], trial)

        def told(result: dict[str, Any], trial: Any = trial) -> None:
            if scheduler is not None:
                scheduler.on_trial_result(None, trial, flatten_dict(result))
            recorder.on_trial_result(0, [], trial, result)

        with patch.object(tune, "report", told):
            tune_trial(
                config,
                plans=plans,
                data=sweep.data.public,
                home=sweep.home,
                keeper=keeper,
                cpus=1,
                stops=stops,
            )


def _configs(sweep: OpenSweep, searcher: SuggestionSearcher | None) -> Iterator[dict[str, Any]]:
    if searcher is None:
        yield from ({"hash": digest} for digest in list(sweep.left))
        return
    while isinstance(config := searcher.suggest("next"), dict):
        yield config

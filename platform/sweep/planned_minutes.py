"""Processor minutes of planned trials, from trials that this machine has finished."""

import os
import platform as machine
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.configuration import flatten
from labeldp.platform.sweep.sweep import PlannedTrial

#: Settings that change a trial's numbers and not its time.
_NO_TIME = (
    *("seed", "noise.seed", "noise.draw", "noise.secure", "trainer.epsilon", "trainer.delta"),
    *("trainer.sigma1", "trainer.sigma2", "trainer.threshold", "trainer.learning_rate"),
    *("trainer.ensemble.seed", "data.root", "models.keep"),
)


def planned_minutes(trials: Sequence[PlannedTrial], *, results: Path) -> list[float | None]:
    """Return the minutes of each trial; None where no record in `results` tells.

    A trial takes as long as recorded ones that differ in seeds and noise alone.
    """
    seconds: dict[str, list[float]] = {}
    here = (machine.platform(), str(os.cpu_count()))
    for path in sorted((results.expanduser() / "trials").glob("*.json")):
        record = TrialRecord.read(path)
        there = (record.environment.get("system"), record.environment.get("cores"))
        took = record.metrics.get("processor_seconds")
        if record.finished and not record.stopped_early and there == here and took is not None:
            seconds.setdefault(_kind(record.config), []).append(took)
    if not seconds:
        return [None] * len(trials)
    kinds = [_kind(flatten(trial.config)) for trial in trials]
    return [median(seconds[kind]) / 60 if kind in seconds else None for kind in kinds]


def _kind(config: Mapping[str, Any]) -> str:
    return repr(sorted((key, str(value)) for key, value in config.items() if key not in _NO_TIME))

"""Examples for tests of platform: records of trials, lines of a ledger, a small sweep."""

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.vault import Charge
from labeldp.platform.cluster import Capacity
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.settings.configuration import TrialConfig, flat_of, flatten, with_changes
from labeldp.platform.settings.sweep import Grid, Preset, Sweep, Variant
from labeldp.platform.sweep.recorder import SweepOutcome
from labeldp.trainers.methods.settings import Noise

METRICS = {
    "accuracy": 0.9,
    "epsilon": 1.0,
    "delta": 0.0,
    "epsilon_m_low": 0.25,
    "epsilon_m_high": 1.5,
    "epsilon_m_ceiling": 3.0,
    "train_seconds": 2.0,
}


def a_record(
    digest: str = "0123456789abcdef",
    *,
    variant: str = "ALIBI",
    point: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    finished: bool = True,
    reason: str = "",
    release_keys: tuple[str, ...] = ("r1",),
    figures: Mapping[str, float] | None = None,
    **metrics: float,
) -> TrialRecord:
    return TrialRecord(
        hash=digest,
        variant=variant,
        config=flatten(with_changes(TrialConfig(), changes or {})),
        point=dict(point or {}),
        finished=finished,
        reason=reason,
        metrics={**METRICS, **(figures or {}), **metrics} if finished else {},
        curves=[
            {"epoch": 1, "loss": 2.0, "val_accuracy": 0.5, "seconds": 0.1},
            {"epoch": 2, "loss": 1.0, "val_accuracy": 0.9, "seconds": 0.1},
        ],
        release_keys=list(release_keys),
        seconds=2.5,
    )


def a_charge(key: str = "r1") -> Charge:
    mechanism = {
        "name": "LaplaceNoise",
        "epsilon": 1.0,
        "num_classes": 10,
        "noise": {"name": "OsEntropy", "draw": 0},
    }
    return Charge(
        key=key,
        event=PureEvent(epsilon=1.0),
        indices=None,
        mechanism=mechanism,
        failure_probability=0.0,
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` by its relative path, but for locks."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.name not in ("lock", "driver.lock"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def a_cluster(*nodes: tuple[float, float], grows: bool = False) -> Capacity:
    return Capacity(nodes=nodes, grows=grows)


def a_sweep(**changes: Any) -> Sweep:
    """Return a sweep of two variants over two epsilons each, and a baseline: five trials."""
    epsilons = {"trainer.epsilon": Grid(0.5, 2.0)}
    settings: dict[str, Any] = {
        "name": "small",
        "base": with_changes(TrialConfig(), {"trainer.epochs": 2, "audit.canaries": 20}),
        "variants": [
            Variant(name="ALIBI", space=epsilons),
            Variant(name="AGIBI", changes={"trainer.noise": Noise.GAUSSIAN}, space=epsilons),
            Variant(name="no privacy", changes={"trainer.noise": Noise.NONE}),
        ],
        "smoke": Preset(changes={"trainer.epochs": 1}, space={"trainer.epsilon": Grid(8.0)}),
    }
    return Sweep(**{**settings, **changes})


def an_outcome(**changes: Any) -> SweepOutcome:
    facts: dict[str, Any] = {
        "experiment": "small",
        "tracking_uri": "sqlite:///mlflow.db",
        "parent_run_id": "0" * 32,
        "trials": 5,
        "finished": 5,
        "failed": 0,
        "skipped": 0,
        "over_budget": 0,
        "left": 0,
        "results_dir": "results/small",
        "pareto": [],
        "ledger": {"releases": 4, "epsilon_total": 5.0, "delta": 1e-5},
        "report": "report.html",
        "tracked": True,
    }
    return SweepOutcome(**{**facts, **changes})


def from_yaml(text: str) -> TrialConfig:
    return with_changes(TrialConfig(), flat_of(yaml.safe_load(text)))

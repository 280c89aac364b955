"""The one Tune trainable: runs any trial, reports epochs and the end, and never raises.

What goes wrong in a trial is part of its result: the reason travels to the driver, which marks the
trial failed while the others go on. Only what ends the process (a lost node, a killed worker) is
left to Tune, which starts the trial again.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from ray import tune

from labeldp.mechanisms.ledger import BudgetExceeded
from labeldp.platform.records.checkpoints import Checkpoints, KeeperHandle
from labeldp.platform.records.kept_models import ModelShelf
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.early_stops import StopsHandle, rung_metric
from labeldp.platform.sweep.strands import Strand
from labeldp.platform.sweep.sweep import PlannedTrial
from labeldp.platform.sweep.trial import Rungs, run_trial
from labeldp.platform.vault.label_home import LabelHome
from labeldp.platform.vault.trial_labels import TrialLabels
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.schedules import TrainingDiverged

#: Epochs are reported together, at most this often: a report costs the driver some milliseconds.
REPORT_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Plans:
    """Every trial that Tune may choose.

    Attributes:
        listed: By hash.
        strands: Of a search, which chooses one of them and its numbers.
    """

    listed: Mapping[str, PlannedTrial] = field(default_factory=dict)
    strands: Sequence[Strand] = ()

    def chosen(self, config: Mapping[str, Any]) -> PlannedTrial:
        """Return the trial that Tune's `config` names."""
        if "strand" in config:
            place: int = config["strand"]
            return self.strands[place].planned(config["numbers"])
        return self.listed[config["hash"]]


def tune_trial(
    config: Mapping[str, Any],
    *,
    plans: Plans,
    data: PublicData,
    home: LabelHome,
    keeper: KeeperHandle,
    cpus: float,
    stops: StopsHandle | None = None,
) -> None:
    """Run the trial that `config` names.

    Args:
        config: What Tune chose, its hash among it.
        plans: Every trial of the sweep.
        data: Public features and test split.
        home: The vault's home.
        keeper: Keeps the states of trials in training, and trained models.
        cpus: Cores that this trial may use.
        stops: Tells it to stop before its last epoch; nothing does if not given.
    """
    planned, digest = plans.chosen(config), config["hash"]
    torch.set_num_threads(max(1, int(cpus)))
    reports = _Reports()
    vault = TrialLabels(home=home, noise=planned.config.noise.source(), trial=digest)
    started = time.perf_counter()
    end: dict[str, Any] = {"finished": False, "reason": "", "metrics": {}}
    try:
        outcome = run_trial(
            planned.config,
            data=data,
            vault=vault,
            on_epoch=lambda metrics: reports.take(asdict(metrics)),
            checkpoints=Checkpoints(keeper=keeper, digest=digest),
            models=ModelShelf(keeper=keeper, digest=digest),
            rungs=None if stops is None else _rungs(stops, planned, digest, reports),
        )
        end |= {"finished": True, "metrics": dict(outcome.metrics)}
        end |= {"stopped_early": outcome.stopped_early}
    except (Exception, SystemExit) as error:
        end |= {"reason": _reason(error), "over_budget": isinstance(error, BudgetExceeded)}
    end |= {"release_keys": vault.keys, "seconds": time.perf_counter() - started}
    reports.send(end=end)


class _Reports:
    """Epochs on their way to the driver."""

    def __init__(self) -> None:
        self._epochs: list[dict[str, float]] = []
        self._sent = time.monotonic()

    def take(self, figures: Mapping[str, float]) -> None:
        """Take an epoch's figures, and send what has come together when it is time."""
        self.add(figures)
        if time.monotonic() - self._sent >= REPORT_SECONDS:
            self.send()

    def add(self, figures: Mapping[str, float]) -> None:
        """Take an epoch's figures."""
        self._epochs.append({name: each for name, each in figures.items() if not math.isnan(each)})

    def send(self, **more: Any) -> None:
        """Send the epochs; returns when Tune asks on, so when it has dealt with them."""
        tune.report({"epochs": self._epochs, **more})
        self._epochs, self._sent = [], time.monotonic()


def _rungs(stops: StopsHandle, planned: PlannedTrial, digest: str, reports: _Reports) -> Rungs:
    """Where a trial tells how accurate it is, and hears whether to stop."""

    def judged(figures: Mapping[str, float]) -> bool:
        reports.add(figures)
        accuracy = figures[rung_metric(stops.by)]
        reports.send(rung={"epoch": int(figures["epoch"]), "accuracy": accuracy})
        return stops.board.stopped(digest)

    return Rungs(
        epochs=stops.stop.rungs(planned.config.trainer.epochs),
        estimated=stops.by is ChooseBy.ESTIMATED,
        judged=judged,
        stopped=lambda: stops.board.stopped(digest),
    )


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, BudgetExceeded | TrainingDiverged):
        return f"{type(error).__name__}: {text}"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "out of memory" in text:
        return (
            f"out of memory ({text[:300]}); lower trainer.batch_size or trainer.width, or give the "
            "trial a larger device"
        )
    return f"{type(error).__name__}: {text[:1000]}"

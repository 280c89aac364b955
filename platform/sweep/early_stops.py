"""Trials that fall behind are stopped, by Ray Tune's ASHA; each still comes to an orderly end.

Tune would end a trial's process: with it the evaluation and the audit that every record has. So the
scheduler's word is put on a board, and the trial, which looks there when its rung has been judged,
ends by itself as it would after its last epoch.

Trials are compared with those of their own group only: the same variant, seed and releases. A
small epsilon is no reason to stop, and stopping the unlucky seeds would make the others look good.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ray
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.records.trial_record import TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.search_settings import AshaStop

_WAIT_SECONDS = 120.0


def rung_metric(by: ChooseBy) -> str:
    """Return what an epoch's figures call the accuracy that trials are compared by."""
    return "val_accuracy" if by is ChooseBy.TEST else by.metric


class StopBoard:
    """Names of trials that should stop; made into an actor by `start_board`."""

    def __init__(self) -> None:
        """Begin with none."""
        self._stopped: set[str] = set()

    def stop(self, digest: str) -> None:
        """Put a trial's name up."""
        self._stopped.add(digest)

    def stopped(self, digest: str) -> bool:
        """Whether a trial's name is up."""
        return digest in self._stopped


@dataclass(frozen=True)
class BoardHandle:
    """The calls of a `StopBoard` that lives in an actor.

    Attributes:
        actor: Ray's handle; nobody but this class calls it.
    """

    actor: Any

    def stop(self, digest: str) -> None:
        """Put a trial's name up, and wait until it is."""
        ray.get(self.actor.stop.remote(digest), timeout=_WAIT_SECONDS)

    def stopped(self, digest: str) -> bool:
        """Whether a trial's name is up."""
        found: bool = ray.get(self.actor.stopped.remote(digest), timeout=_WAIT_SECONDS)
        return found

    def end(self) -> None:
        """End the actor."""
        ray.kill(self.actor)


def start_board() -> BoardHandle:
    """Start a board beside the driver and return its handle."""
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(StopBoard)
    place = NodeAffinitySchedulingStrategy(here, soft=False)
    return BoardHandle(remote.options(num_cpus=0, scheduling_strategy=place).remote())


@dataclass(frozen=True, kw_only=True)
class StopsHandle:
    """What a trial has of the scheduler.

    Attributes:
        board: Where it looks whether it should stop.
        stop: Says at which epochs.
        by: The accuracy that it tells there.
    """

    board: BoardHandle
    stop: AshaStop
    by: ChooseBy


class AshaByGroup(FIFOScheduler):
    """One ASHA for each group of trials; what it stops goes on the board."""

    def __init__(
        self,
        stop: AshaStop,
        *,
        board: BoardHandle,
        group_of: Callable[[str], Hashable],
        most_epochs: int,
    ) -> None:
        """Begin with no trial.

        Args:
            stop: The rungs, and how many go on.
            board: Where trials look.
            group_of: A trial's hash -> what it is compared within.
            most_epochs: Of any trial.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # Ray gives it no types
        self._stop, self._board, self._group_of = stop, board, group_of
        self._most_epochs = most_epochs
        self._groups: dict[Hashable, ASHAScheduler] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's snapshots: a sweep resumes from its records."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Write nothing."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Let a trial go on; one that should not is told so where it looks."""
        if "rung/epoch" in result:  # Tune's way to write a mapping within a result
            digest = trial.config["hash"]
            rung = {"epoch": result["rung/epoch"], "accuracy": result["rung/accuracy"]}
            if self._judge(digest, rung) == TrialScheduler.STOP:
                self._board.stop(digest)
        return str(TrialScheduler.CONTINUE)

    def recall(self, record: TrialRecord, *, by: ChooseBy) -> None:
        """Take a trial of an earlier start into account, as its record has it."""
        rungs = self._stop.rungs(self._most_epochs)
        name = rung_metric(by)
        for figures in record.curves:
            if figures["epoch"] in rungs and name in figures:
                rung = {"epoch": int(figures["epoch"]), "accuracy": figures[name]}
                self._judge(record.hash, rung)

    def _judge(self, digest: str, rung: Mapping[str, Any]) -> str:
        group = self._group_of(digest)
        if group not in self._groups:
            self._groups[group] = ASHAScheduler(
                time_attr="epoch",
                metric="accuracy",
                mode="max",
                grace_period=self._stop.grace_epochs,
                reduction_factor=self._stop.keep_one_in,
                max_t=max(self._most_epochs, self._stop.grace_epochs),
            )
        # Of Tune's trial it looks at the name alone, and at the controller not at all.
        asha: Any = self._groups[group]
        trial = SimpleNamespace(trial_id=digest)
        asha.on_trial_add(None, trial)  # of one bracket: asking again changes nothing
        return str(asha.on_trial_result(None, trial, dict(rung)))

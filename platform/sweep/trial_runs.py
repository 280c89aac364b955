"""Trials under Ray Tune: searches, early stops, and the wait for a place in the cluster."""

import shutil
import time
import warnings
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray import tune
from ray.tune.error import TuneError
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from labeldp.platform.records.checkpoints import start_keeper
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.recorder import Recorder
from labeldp.platform.records.results import ResultsFolderError, TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.cluster import capacity
from labeldp.platform.sweep.configuration import AshaStop
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.search_book import SearchBook
from labeldp.platform.sweep.sweep import CannotFit, Resources
from labeldp.platform.sweep.trial import (
    BoardHandle,
    Plans,
    StopsHandle,
    rung_metric,
    start_board,
    tune_trial,
)

#: How often a trial is started again whose worker died. What a trial raises itself is final.
WORKER_DEATHS_ALLOWED = 3
#: How long all trials may wait for a place: a machine of a cloud takes minutes to come.
WAIT_SECONDS = 900.0
#: When the waiting is first spoken of.
TELL_SECONDS = 30.0


def run_trials(sweep: OpenSweep) -> None:
    """Run a sweep's unfinished trials to their ends; what becomes of them is in the recorder.

    Raises:
        ResultsFolderError: Records can't be written.
        CannotFit: No trial got a place for too long.
        VaultLost: The vault is gone.
        ConfigurationError: A search came up with settings that can't be used.
    """
    recorder, each, minutes = sweep.recorder, sweep.sizes.trial, sweep.plan.options.max_minutes
    folder = recorder.folder
    keeper = start_keeper(folder.checkpoints, folder.models)
    stops = stops_of(sweep)
    hand_out = hand_out_of(sweep)
    trainable = tune.with_parameters(
        tune_trial,
        plans=plans_of(sweep),
        data=sweep.checked.data.public,
        home=sweep.home,
        keeper=keeper,
        cpus=each.cpus,
        stops=stops,
    )
    shutil.rmtree(folder.scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": each.cpus, "gpu": each.gpus}),
        param_space={} if hand_out else {"hash": tune.grid_search(list(sweep.left))},
        tune_config=tune.TuneConfig(
            search_alg=hand_out,
            num_samples=sweep.unfinished if hand_out else 1,
            scheduler=None if stops is None else scheduler_of(sweep, stops),
            # A fresh worker per trial imports torch again, for six seconds; on a GPU a fresh one is
            # what gives its memory back.
            reuse_actors=each.gpus == 0,
            time_budget_s=None if minutes is None else 60 * minutes,
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder.scratch),
            callbacks=[recorder, PlaceWatch(each=each, progress=sweep.progress)],
            failure_config=tune.FailureConfig(max_failures=WORKER_DEATHS_ALLOWED),
            verbose=0,
        ),
    )
    try:
        _fit(tuner, recorder, hand_out)
    finally:
        keeper.end()  # Tune keeps handles of it for as long as the cluster lives
        if stops is not None:
            stops.board.end()
        shutil.rmtree(folder.scratch, ignore_errors=True)


def plans_of(sweep: OpenSweep) -> Plans:
    """Return every trial that Tune may choose."""
    searches = sweep.plan.searches
    return Plans(searches=searches) if searches else Plans(listed=dict(sweep.left))


def hand_out_of(sweep: OpenSweep) -> "HandOut | None":
    """Return Tune's searcher; None for a sweep whose trials are listed."""
    if sweep.book is None:
        return None
    return HandOut(sweep.book, records=lambda: {**sweep.skipped, **sweep.recorder.records})


def stops_of(sweep: OpenSweep) -> StopsHandle | None:
    """Return what trials have of the scheduler; None for a sweep that stops none early."""
    stop = sweep.plan.sweep.stop
    if stop is None:
        return None
    return StopsHandle(board=start_board(), stop=stop, by=sweep.plan.choose_by)


def scheduler_of(sweep: OpenSweep, stops: StopsHandle) -> "AshaByGroup":
    """Return the scheduler, which knows the trials of earlier starts.

    Trials are compared within their group alone: the same variant, seed and releases. A small
    epsilon is no reason to stop, and stopping the unlucky seeds would flatter the others.
    """
    plan = sweep.plan
    probed = [trial for search in plan.searches for trial in search.probed.values()]
    epochs = [trial.config.trainer.epochs for trial in probed or plan.trials]

    def group_of(digest: str) -> Hashable:
        trial = sweep.recorder.plans[digest]
        shared = frozenset(releases_of(trial, num_classes=plan.size.num_classes))
        return (trial.variant, trial.config.seed, shared)

    scheduler = AshaByGroup(
        stops.stop, board=stops.board, group_of=group_of, most_epochs=max(epochs)
    )
    for record in sweep.skipped.values():
        scheduler.recall(record, by=stops.by)
    return scheduler


def _fit(tuner: tune.Tuner, recorder: Recorder, hand_out: "HandOut | None") -> None:
    """Run Tune to its end; what broke it is raised as what it was."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Tune's own deprecations
        try:
            tuner.fit()
        except OSError as error:
            raise ResultsFolderError(
                f"results folder {recorder.folder.path} can't be written ({error}); free the disk "
                "or make it writable, and run again with --resume auto"
            ) from error
        except TuneError:
            broken = recorder.broken or (hand_out and hand_out.broken)
            if not broken:
                raise
            raise broken from None


class HandOut(Searcher):
    """Tune's searcher; what it has found lies in the records, and nowhere else."""

    def __init__(self, book: SearchBook, *, records: Callable[[], Mapping[str, TrialRecord]]):
        """Stand ready.

        Args:
            book: Says what is next.
            records: Returns all that is known of trials that ended.
        """
        super().__init__()
        self._book, self._records = book, records
        self.broken: Exception | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's snapshots: a sweep resumes from its records."""
        return {}

    def suggest(self, trial_id: str) -> Any:
        """Return the next trial's settings, or Tune's word for that there is none."""
        try:
            found = self._book.next(self._records())
        except Exception as error:
            self.broken = error  # Tune passes on its text only
            raise
        if found is None:
            return Searcher.FINISHED
        return {"hash": found.hash, "search": found.search, "numbers": list(found.numbers)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing: the trial's record is what counts."""

    def save(self, checkpoint_path: str) -> None:
        """Leave an empty file: Tune moves one."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a sweep is not resumed by Tune."""


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


class PlaceWatch(tune.Callback):
    """Says that trials wait, and gives up when none gets a place for too long."""

    def __init__(self, *, each: Resources, progress: SweepProgress) -> None:
        """Prepare one.

        Args:
            each: What one trial occupies.
            progress: Told that trials wait.
        """
        self._each, self._progress = each, progress
        self._since: float | None = None
        self._told = False

    def __getstate__(self) -> dict[str, Any]:
        """Nothing for Tune's snapshots."""
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Look whether any trial runs.

        Raises:
            CannotFit: None has for too long.
        """
        now = time.monotonic()
        if any(trial.status == "RUNNING" for trial in trials):
            self._since, self._told = None, False
            return
        # A step lasts as long as the result that it waits for: that is no waiting for a place.
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited > WAIT_SECONDS:
            raise CannotFit(
                f"no trial got a place for {waited:.0f} s: {self._why()}; add a node, and run "
                "again: what has finished is kept"
            )
        elif waited > TELL_SECONDS and not self._told:
            self._told = True
            self._progress.say(
                f"trials wait for a place: {self._why()}; giving up after {WAIT_SECONDS:.0f} s"
            )

    def _why(self) -> str:
        here = capacity()
        return (
            f"each takes {self._each.cpus:g} CPU + {self._each.gpus:g} GPU on one node, and the "
            f"{here.nodes} nodes have {here.sizes}, others' work included"
        )

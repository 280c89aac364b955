"""Trials under Ray Tune: searches, early stops, and the wait for a place in the cluster."""

import math
import shutil
import time
import warnings
from collections.abc import Callable, Hashable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray
from ray import tune
from ray.tune.error import TuneError
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from labeldp.platform.cluster import beside_driver, capacity
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.settings.sweep import CannotFit, Resources, ensembles_of
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.recorder import Recorder, Unsaved
from labeldp.platform.sweep.trial import EarlyStops, Keeper, rung_metric, tune_trial
from labeldp.platform.vault.actors import pool_size, train_ensemble
from labeldp.trainers.methods.pate import TeacherVotes

#: Restarts of a trial whose worker died, or was out of memory on a shared GPU. Any other is final.
WORKER_DEATHS_ALLOWED = 3
#: How long all trials may wait for a place: a machine of a cloud takes minutes to come.
WAIT_SECONDS = 900.0
#: When the waiting is first reported.
TELL_SECONDS = 30.0


def run(sweep: OpenSweep) -> Recorder:
    """Train the teachers whose votes are missing, run the trials that are left; return records."""
    left = list(sweep.left.values()) if sweep.suggestions is None else list(sweep.plan.trials)
    ensembles = ensembles_of(left if sweep.unfinished else [])
    # Once in Ray's memory: sent with each batch of teachers it would be copied each time.
    data = ray.put(sweep.data.public) if ensembles else None
    trained = 0
    reused = 0
    until = time.monotonic() + 60 * (sweep.plan.options.max_minutes or math.inf)
    for ensemble, performance in ensembles.items():
        begun = time.monotonic()
        now = train_ensemble(
            TeacherVotes(config=ensemble, performance=performance),
            data=data,
            shards=sweep.home.shards(sweep.authority, ensemble),
            batch=ensemble.batch,
            journal=sweep.home.journal(ensemble)(),
            actors=pool_size(sweep.teacher, sweep.capacity),
            resources=sweep.teacher,
            until=until,
            say=sweep.progress.say,
        )
        trained += now
        # Trials would find votes missing, so that none is started.
        if time.monotonic() >= until:
            sweep.progress.say(f"the time is over; {now} teachers were trained now, and are kept")
            break
        reused += ensemble.teachers - now
        sweep.progress.say(
            f"ensemble of {ensemble.teachers} {ensemble.kind} teachers: {now} trained in "
            f"{time.monotonic() - begun:.1f} s, {ensemble.teachers - now} reused"
        )
    if trained or reused:
        # A later start that has nothing left to do reports the same to tracking.
        sweep.folder.identify(teachers_trained=trained, teachers_reused=reused)
    recorder = Recorder(sweep)
    recorder.write_state()
    left_seconds = until - time.monotonic()
    if sweep.unfinished and left_seconds > 0:
        _run_trials(sweep, recorder, seconds=left_seconds)
    return recorder


def _run_trials(sweep: OpenSweep, recorder: Recorder, *, seconds: float) -> None:
    folder = sweep.folder
    resources = sweep.trial
    # All that it must remember is on disk, so one that died is restarted and called again. It has
    # forgotten which trials should stop: those train on.
    actor = beside_driver(Keeper, max_restarts=-1, max_task_retries=-1)
    keeper = actor.remote(str(folder.checkpoints), str(folder.models))
    rule = sweep.plan.sweep.stop
    searcher = SuggestionSearcher(recorder) if sweep.suggestions else None
    by = sweep.plan.choose_by
    stops = None if rule is None else EarlyStops(rule=rule, by=by, keeper=keeper)
    left = sweep.left
    trainable = tune.with_parameters(
        tune_trial,
        plans={} if searcher else left,
        data=sweep.data.public,
        home=sweep.home,
        keeper=keeper,
        cpus=resources.cpu,
        stops=stops,
    )
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": resources.cpu, "gpu": resources.gpu}),
        param_space={} if searcher else {"hash": tune.grid_search(list(left))},
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            num_samples=sweep.unfinished if searcher else 1,
            scheduler=None if stops is None else scheduler_of(sweep, stops),
            # A fresh worker per trial imports torch again, for six seconds; on a GPU a fresh one is
            # what gives its memory back.
            reuse_actors=resources.gpu == 0,
            time_budget_s=seconds if seconds < math.inf else None,
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder.scratch),
            callbacks=[recorder, PlaceWatch(resources=resources, progress=sweep.progress)],
            failure_config=tune.FailureConfig(max_failures=WORKER_DEATHS_ALLOWED),
            verbose=0,
        ),
    )
    try:
        _fit(tuner, recorder)
    finally:
        ray.kill(keeper)  # Tune keeps handles of it for as long as the cluster lives
        shutil.rmtree(folder.scratch, ignore_errors=True)


def scheduler_of(sweep: OpenSweep, stops: EarlyStops) -> "AshaByGroup":
    """Return the scheduler, which knows the trials of earlier starts.

    Trials are compared within their group alone: the same variant, seed and releases. A small
    epsilon is not a reason to stop, and stopping the unlucky seeds would flatter the others.
    """
    plan = sweep.plan
    probed = [trial for search in plan.searches for trial in search.probed.values()]
    epochs = [trial.config.trainer.epochs for trial in probed or plan.trials]

    def group_of(digest: str) -> Hashable:
        trial = sweep.plans[digest]
        shared = frozenset(releases_of(trial, num_classes=plan.size.num_classes))
        return (trial.variant, trial.config.seed, shared)

    scheduler = AshaByGroup(stops, group_of=group_of, most_epochs=max(epochs))
    for record in sweep.skipped.values():
        scheduler.recall(record)
    return scheduler


def _fit(tuner: tune.Tuner, recorder: Recorder) -> None:
    """Run Tune to its end; raise the error that broke it in place of Tune's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Tune's own deprecations
        try:
            tuner.fit()
        except OSError as error:
            raise ValueError(
                f"results folder {recorder.sweep.folder.path} can't be written ({error}); free the "
                "disk or make it writable, and run again with --resume auto"
            ) from error
        except TuneError:
            if not recorder.broken:
                raise
            raise recorder.broken from None


class SuggestionSearcher(Unsaved, Searcher):
    """Tune's searcher: passes on the suggestions of a sweep. Results are in records."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def suggest(self, trial_id: str) -> Any:
        """Return the next trial's settings, or that there is none."""
        suggestions = self._recorder.sweep.suggestions
        assert suggestions is not None
        with self._recorder.telling_why():
            found = suggestions.next(self._recorder.ended)
        if found is None:
            return Searcher.FINISHED
        return {"hash": found, "settings": suggestions.plans[found].config}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing: the trial's record counts."""

    def save(self, checkpoint_path: str) -> None:
        """Leave an empty file: Tune moves one."""
        Path(checkpoint_path).touch()

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a sweep is not resumed by Tune."""


class AshaByGroup(Unsaved, FIFOScheduler):
    """One ASHA for each group and bracket; the keeper has the names of trials that it stops."""

    def __init__(
        self, stops: EarlyStops, *, group_of: Callable[[str], Hashable], most_epochs: int
    ) -> None:
        """Begin with no trial; a trial is compared within its group, by `group_of` its hash."""
        super().__init__()  # type: ignore[no-untyped-call]  # Ray gives it no types
        self._stops = stops
        self._group_of = group_of
        self._most_epochs = most_epochs
        self._groups: dict[Hashable, ASHAScheduler] = {}

    def save(self, checkpoint_path: str) -> None:
        """Write nothing."""

    def on_trial_result(self, tune_controller: object, trial: Any, result: dict[str, Any]) -> str:
        """Let a trial continue; one that should stop finds its name with the keeper."""
        if "rung/epoch" in result:  # Tune's way to write a mapping within a result
            digest = trial.config["hash"]
            end = self._judge(digest, result["rung/epoch"], result["rung/accuracy"])
            if end == TrialScheduler.STOP:
                self._stops.stop(digest)
        return str(TrialScheduler.CONTINUE)

    def recall(self, record: TrialRecord) -> None:
        """Take a trial of an earlier start into account."""
        rungs = self._stops.rule.of(record.hash).rungs(self._most_epochs)
        name = rung_metric(self._stops.by)
        for figures in record.curves:
            if figures["epoch"] in rungs and name in figures:
                accuracy = self._stops.by.rank(figures[name])
                self._judge(record.hash, int(figures["epoch"]), accuracy)

    def _judge(self, digest: str, epoch: int, accuracy: float) -> str:
        rule = self._stops.rule.of(digest)
        group = (self._group_of(digest), rule)
        if group not in self._groups:
            self._groups[group] = ASHAScheduler(
                time_attr="epoch",
                metric="accuracy",
                mode="max",
                grace_period=rule.grace_epochs,
                reduction_factor=rule.keep_one_in,
                max_t=max(self._most_epochs, rule.grace_epochs),
            )
        # Of Tune's trial it reads the name alone, and of the controller nothing.
        asha: Any = self._groups[group]
        trial = SimpleNamespace(trial_id=digest)
        asha.on_trial_add(None, trial)  # of one bracket: a repetition changes nothing
        rung = {"epoch": epoch, "accuracy": accuracy}
        return str(asha.on_trial_result(None, trial, rung))


class PlaceWatch(Unsaved, tune.Callback):
    """Reports that trials wait for a place, and gives up when none gets one for too long."""

    def __init__(self, *, resources: Resources, progress: SweepProgress) -> None:
        self._resources = resources
        self._progress = progress
        self._since: float | None = None
        self._reported = False

    def on_step_end(self, iteration: int, trials: list[Any], **info: object) -> None:
        """Look whether any trial runs; end the sweep where none has for too long."""
        now = time.monotonic()
        if any(trial.status == "RUNNING" for trial in trials):
            self._since = None
            self._reported = False
            return
        # A step lasts as long as the result that it waits for, which is not a wait for a place.
        self._since = now if self._since is None else self._since
        waited = now - self._since
        if waited > WAIT_SECONDS:
            raise CannotFit(
                f"no trial could start for {waited:.0f} s: {self._why()}; add a node, and run "
                "again: finished trials are kept"
            )
        if waited > TELL_SECONDS and not self._reported:
            self._reported = True
            self._progress.say(
                f"trials wait for resources: {self._why()}; giving up after {WAIT_SECONDS:.0f} s"
            )

    def _why(self) -> str:
        here = capacity()
        needed = self._resources
        return (
            f"each takes {needed.cpu:g} CPU + {needed.gpu:g} GPU on one node, and the nodes "
            f"({len(here.nodes)}) have {here.sizes}, others' work included"
        )

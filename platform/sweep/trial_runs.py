"""Hand trials to Ray Tune, and turn what can end it into words."""

import shutil
import warnings
from collections.abc import Hashable

from ray import tune
from ray.tune.error import TuneError

from labeldp.platform.records.checkpoints import start_keeper
from labeldp.platform.records.recorder import Recorder
from labeldp.platform.records.results import ResultsFolderError
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.early_stops import AshaByGroup, StopsHandle, start_board
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.tune_adapter import Plans, tune_trial
from labeldp.platform.sweep.tune_search import HandOut
from labeldp.platform.sweep.watch import PlaceWatch

#: How often a trial is started again whose worker died. What a trial raises itself is final.
WORKER_DEATHS_ALLOWED = 3


def run_trials(sweep: OpenSweep) -> None:
    """Run a sweep's unfinished trials to their ends; what becomes of them is in the recorder.

    Raises:
        ResultsFolderError: Records can't be written.
        CannotFit: No trial got a place for too long.
        VaultLost: The vault is gone.
        ConfigurationError: A search came up with settings that can't be used.
    """
    recorder, each, minutes = sweep.recorder, sweep.sizes.trial, sweep.checked.options.max_minutes
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
    search = sweep.checked.search
    return Plans(listed=dict(sweep.left)) if search is None else Plans(strands=search.strands)


def hand_out_of(sweep: OpenSweep) -> HandOut | None:
    """Return what hands a search's trials to Tune; None for a sweep whose trials are listed."""
    if sweep.book is None:
        return None
    return HandOut(sweep.book, records=lambda: {**sweep.skipped, **sweep.recorder.records})


def stops_of(sweep: OpenSweep) -> StopsHandle | None:
    """Return what trials have of the scheduler; None for a sweep that stops none early."""
    stop = sweep.checked.sweep.stop
    if stop is None:
        return None
    return StopsHandle(board=start_board(), stop=stop, by=sweep.checked.choose_by)


def scheduler_of(sweep: OpenSweep, stops: StopsHandle) -> AshaByGroup:
    """Return the scheduler, which knows the trials of earlier starts."""
    checked = sweep.checked
    classes = checked.data.public.num_classes
    epochs = [trial.config.trainer.epochs for trial in checked.trials]
    if checked.search is not None:
        epochs = [
            trial.config.trainer.epochs
            for strand in checked.search.strands
            for trial in strand.probed.values()
        ]

    def group_of(digest: str) -> Hashable:
        """Trials that share every release, of one variant and training seed."""
        trial = sweep.recorder.plans[digest]
        shared = frozenset(releases_of(trial, num_classes=classes))
        return (trial.variant, trial.config.seed, shared)

    scheduler = AshaByGroup(
        stops.stop, board=stops.board, group_of=group_of, most_epochs=max(epochs)
    )
    for record in sweep.skipped.values():
        scheduler.recall(record, by=stops.by)
    return scheduler


def _fit(tuner: tune.Tuner, recorder: Recorder, hand_out: HandOut | None) -> None:
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

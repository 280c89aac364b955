"""Hand trials to Ray Tune, and turn what can end it into words."""

import shutil
import warnings
from collections.abc import Mapping

from ray import tune
from ray.tune.error import TuneError

from labeldp.platform.home_handle import HomeHandle
from labeldp.platform.records.checkpoints import start_keeper
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.recorder import Recorder
from labeldp.platform.records.results import ResultsFolderError
from labeldp.platform.sweep import PlannedTrial, Resources
from labeldp.platform.tune_adapter import tune_trial
from labeldp.platform.watch import PlaceWatch
from labeldp.trainers.data import PublicData

#: How often a trial is started again whose worker died. What a trial raises itself is final.
WORKER_DEATHS_ALLOWED = 3


def run_trials(
    plans: Mapping[str, PlannedTrial],
    *,
    data: PublicData,
    home: HomeHandle,
    each: Resources,
    recorder: Recorder,
    progress: SweepProgress,
    max_minutes: float | None,
) -> None:
    """Run trials to their ends; what becomes of them is in the recorder.

    Args:
        plans: The trials by hash.
        data: Public features and test split.
        home: The vault's home.
        each: What one trial occupies.
        recorder: Told of every epoch and end.
        progress: Told of what is in the way.
        max_minutes: Stop after so long.

    Raises:
        ResultsFolderError: Records can't be written.
        CannotFit: No trial got a place for too long.
        VaultLost: The vault is gone.
    """
    folder = recorder.folder
    keeper = start_keeper(folder.checkpoints, folder.models)
    trainable = tune.with_parameters(
        tune_trial, plans=dict(plans), data=data, home=home, keeper=keeper, cpus=each.cpus
    )
    shutil.rmtree(folder.scratch, ignore_errors=True)
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": each.cpus, "gpu": each.gpus}),
        param_space={"hash": tune.grid_search(list(plans))},
        tune_config=tune.TuneConfig(
            # A fresh worker per trial imports torch again, for six seconds; on a GPU a fresh one is
            # what gives its memory back.
            reuse_actors=each.gpus == 0,
            time_budget_s=None if max_minutes is None else 60 * max_minutes,
        ),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=str(folder.scratch),
            callbacks=[recorder, PlaceWatch(each=each, progress=progress)],
            failure_config=tune.FailureConfig(max_failures=WORKER_DEATHS_ALLOWED),
            verbose=0,
        ),
    )
    try:
        _fit(tuner, recorder)
    finally:
        keeper.end()  # Tune keeps handles of it for as long as the cluster lives
        shutil.rmtree(folder.scratch, ignore_errors=True)


def _fit(tuner: tune.Tuner, recorder: Recorder) -> None:
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
            if recorder.broken is None:
                raise
            raise recorder.broken from None

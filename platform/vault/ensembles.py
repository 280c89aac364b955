"""Before the trials: train the teachers whose votes are missing, once for all noise settings."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.sweep.cluster import Capacity
from labeldp.platform.sweep.sweep import PlannedTrial, Resources, ensembles_of
from labeldp.platform.vault.label_home import LabelHome
from labeldp.platform.vault.teacher_pool import (
    PoolProgress,
    PoolSize,
    TeacherWork,
    train_ensemble,
)
from labeldp.trainers.methods.teachers import TeacherVotes

#: Actors that ask an autoscaler for room. Its cap is the user's; those beyond it wait, and go with
#: the last batch. More than these the driver could not keep at work in any case.
GROWN_ACTORS = 1_000
#: Progress is told at most so often.
_TELL_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Ensembles:
    """What was done before the trials.

    Attributes:
        teachers_trained: Now.
        teachers_reused: Whose votes were there.
        seconds: Of training.
    """

    teachers_trained: int = 0
    teachers_reused: int = 0
    seconds: float = 0.0


def train_missing(
    trials: Sequence[PlannedTrial],
    *,
    home: LabelHome,
    data: Any,
    each: Resources,
    available: Capacity,
    progress: SweepProgress,
) -> Ensembles:
    """Train what is missing of every ensemble that `trials` ask.

    Args:
        trials: Those that are going to run.
        home: The vault's home.
        data: Reference to the public data.
        each: What one actor of the pool occupies; the driver has seen to it that it fits.
        available: What the cluster has.
        progress: Told how it goes.

    Raises:
        CannotFit: The cluster is too full to start one actor.
        EnsembleIncomplete: Teachers that failed again and again.
        ValueError: An ensemble that doesn't fit the data, or votes that can't be kept.
    """
    trained = reused = 0
    seconds = 0.0
    for ensemble, performance in ensembles_of(trials).items():
        journal = home.ensemble_file(ensemble).journal()
        outcome = train_ensemble(
            TeacherWork(
                vote=TeacherVotes(config=ensemble, performance=performance),
                data=data,
                shards=home.shards(ensemble),
                batch=ensemble.batch,
            ),
            journal=journal,
            pool=PoolSize(actors=pool_size(each, available), each=each),
            on_progress=_Teller(progress),
        )
        progress.say(
            f"ensemble of {ensemble.teachers} {ensemble.kind} teachers: {outcome.trained} trained "
            f"in {outcome.seconds:.1f} s, {outcome.reused} reused"
        )
        trained += outcome.trained
        reused += outcome.reused
        seconds += outcome.seconds
    return Ensembles(teachers_trained=trained, teachers_reused=reused, seconds=seconds)


def pool_size(each: Resources, available: Capacity) -> int:
    """Return how many actors the nodes hold at once, or may hold when the cluster has grown.

    An autoscaler adds machines for actors that wait for room, as many as its own cap allows; one
    that begins without any would stay at a single machine if a single actor asked.
    """
    if available.grows:
        return GROWN_ACTORS
    held = 0
    for cpus, gpus in available.largest:
        shares = [has / asked for has, asked in ((cpus, each.cpus), (gpus, each.gpus)) if asked]
        held += int(min(shares, default=cpus) + 1e-9)
    return max(1, held)


class _Teller:
    """Passes the pool's progress on, now and then."""

    def __init__(self, progress: SweepProgress) -> None:
        self._progress, self._told = progress, time.monotonic()

    def __call__(self, state: PoolProgress) -> None:
        if time.monotonic() - self._told < _TELL_SECONDS:
            return
        self._told = time.monotonic()
        self._progress.say(
            f"teachers: {state.done}/{state.total}, {state.per_hour:,.0f} per hour, "
            f"about {state.seconds_left:.0f} s left"
        )

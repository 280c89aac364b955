"""Teachers in parallel: a bounded pool of persistent actors that pull batches of teachers.

Never one actor per teacher. Features go to the actors once, by reference; each finished batch's
votes are journalled at once, so that a killed actor costs the batch it was training, and a killed
driver nothing that was finished.
"""

import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labeldp.platform.sweep.sweep import Resources
from labeldp.platform.vault.pool_members import Batch, PoolMembers
from labeldp.platform.vault.pool_members import EnsembleIncomplete as EnsembleIncomplete
from labeldp.platform.vault.pool_members import TeacherWork as TeacherWork
from labeldp.platform.vault.vote_store import VoteJournal


@dataclass(frozen=True, kw_only=True)
class PoolProgress:
    """Where an ensemble's training stands.

    Attributes:
        done: Teachers with votes.
        total: T.
        per_hour: Teachers trained per hour in this run.
        seconds_left: At that pace.
    """

    done: int
    total: int
    per_hour: float
    seconds_left: float


@dataclass(frozen=True, kw_only=True)
class PoolOutcome:
    """What a run of the pool did.

    Attributes:
        trained: Teachers trained now.
        reused: Teachers whose votes were there.
        seconds: Wall time.
    """

    trained: int
    reused: int
    seconds: float


def batches_of(teachers: int, batch: int) -> list[list[int]]:
    """Cut 0..T-1 into batches; always the same ones, since a batch's votes are computed as one."""
    return [list(range(start, min(start + batch, teachers))) for start in range(0, teachers, batch)]


@dataclass(frozen=True, kw_only=True)
class PoolSize:
    """How many actors work at once, and what each of them occupies."""

    actors: int
    each: Resources


def train_ensemble(
    work: TeacherWork,
    *,
    journal: VoteJournal,
    pool: PoolSize,
    on_progress: Callable[[PoolProgress], None] = lambda progress: None,
) -> PoolOutcome:
    """Train the teachers whose votes are missing, and journal their votes.

    Args:
        work: All teachers.
        journal: Where votes are kept, and looked up.
        pool: Who trains them.
        on_progress: Told after each batch.

    Raises:
        EnsembleIncomplete: Batches failed again and again; the votes of the others are kept.
        CannotFit: No actor could start.
        VoteStoreUnusable: Votes can't be kept.
    """
    total = len(work.shards)
    with journal.writing():
        batches = batches_of(total, work.batch)
        missing = [ids for ids in batches if not journal.finished.issuperset(ids)]
        reused = total - sum(map(len, missing))
        started = time.monotonic()
        if not missing:
            return PoolOutcome(trained=0, reused=reused, seconds=0.0)
        given_up: list[Batch] = []
        trained = 0
        with closing(_tried(missing, work, pool)) as ended:
            for batch, votes in ended:
                if votes is None:
                    given_up.append(batch)
                    continue
                journal.append(batch.ids, votes)
                trained += len(batch.ids)
                on_progress(_progress(reused, trained, total, started))
    if given_up:
        first = given_up[0]
        raise EnsembleIncomplete(
            f"{sum(len(batch.ids) for batch in given_up)} of {total} teachers could not be "
            f"trained; teacher {first.ids[0]} failed {first.tries + first.machines} times, the "
            f"last time with: {first.error}. The votes of {reused + trained} teachers are kept; "
            "mend the cause and run again"
        )
    return PoolOutcome(trained=trained, reused=reused, seconds=time.monotonic() - started)


def _tried(
    missing: Sequence[list[int]], work: TeacherWork, size: PoolSize
) -> Generator[tuple[Batch, NDArray[np.uint8] | None], None, None]:
    """Train batches on a pool; yields each with its votes, or without when it is given up."""
    pool = PoolMembers(work, size.each, size=min(size.actors, len(missing)))
    queue = deque(Batch(ids=ids) for ids in missing)
    try:
        while queue or pool.busy:
            while queue and (place := pool.free(queue[0])) is not None:
                pool.send(place, queue.popleft())
            if not queue:
                pool.let_go()
            for batch, votes in pool.finished():
                if votes is None and not batch.hopeless:
                    queue.append(batch)
                else:
                    yield batch, votes
    finally:
        pool.close()


def _progress(reused: int, trained: int, total: int, started: float) -> PoolProgress:
    seconds = max(time.monotonic() - started, 1e-9)
    left = total - reused - trained
    return PoolProgress(
        done=reused + trained,
        total=total,
        per_hour=3600 * trained / seconds,
        seconds_left=seconds / trained * left,
    )

"""One call of the campaign: steps in order, until the time is over."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labeldp.platform.vault.vault_store import StoreUnusable
from labeldp.trainers.data.files import DatasetMissing
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.step import Step


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How far a call came.

    Attributes:
        done: Steps that are done, in all calls so far.
        failed: Steps that failed.
        left: Steps that are not done and did not fail.
    """

    done: int
    failed: int
    left: int


def run(place: Place, steps: Sequence[Step], clock: Clock, *, told: Callable[[str], None]) -> Ended:
    """Go on where the last call stopped.

    A step that fails is written down, and the others go on: a row that does not fit into memory
    must not cost the rest of the campaign.

    Args:
        place: Its folder, which is held.
        steps: In order.
        clock: How long.
        told: What goes on, a line at a time.
    """
    began_any = False
    for step in steps:
        if place.result(step.name) is not None or place.failure(step.name) is not None:
            continue
        if step.after is not None and place.result(step.after) is None:
            continue
        # The first of a call always begins: with less time than it needs in every call, it would
        # never do.
        if began_any and not clock.allows(step.needs_seconds):
            break
        began_any = True
        told(f"{step.name}: begins, {clock.left():.0f} s left")
        try:
            done = step.advance(place, clock)
        except (StoreUnusable, DatasetMissing):
            raise  # no step can go on
        except (RuntimeError, ValueError, MemoryError) as error:
            place.fail(step.name, f"{type(error).__name__}: {error}")
            told(f"{step.name}: failed\n{traceback.format_exc()}")
            continue
        told(f"{step.name}: {'done' if done else 'goes on in the next call'}")
        if not done:
            break
    finished = [step for step in steps if place.result(step.name) is not None]
    failed = [step for step in steps if place.failure(step.name) is not None]
    left = len(steps) - len(finished) - len(failed)
    return Ended(done=len(finished), failed=len(failed), left=left)

"""The command: `python -m tests.benchmarks.gpu_campaign --folder DIR --minutes 9.5`."""

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from labeldp.platform.vault.vault_store import StoreUnusable
from labeldp.trainers.data.files import DatasetMissing
from tests.benchmarks.gpu_campaign.campaign import campaign, small_campaign
from tests.benchmarks.gpu_campaign.place import CampaignBusy, Place
from tests.benchmarks.gpu_campaign.steps import Clock, Step
from tests.benchmarks.gpu_campaign.table import table
from tests.benchmarks.interruption import ended

_SMALL_LIMIT = 100


def run(place: Place, steps: Sequence[Step], clock: Clock) -> None:
    """Continue where the last call stopped.

    A failed step is written down and the others continue: a network that does not fit into memory
    must not cost the rest of the campaign.
    """
    first = True
    for step in steps:
        if place.result(step.name) is not None or place.failure(step.name) is not None:
            continue
        if step.after is not None and place.result(step.after) is None:
            continue
        # The first step of a call always begins: with calls shorter than it needs it never would.
        if not first and not clock.allows(step.needs_seconds):
            break
        first = False
        print(f"{step.name}: begins, {clock.left():.0f} s left", flush=True)
        try:
            done = step.advance(place, clock)
        except (StoreUnusable, DatasetMissing):
            raise  # no step can continue
        except (RuntimeError, ValueError, MemoryError) as error:
            place.fail(step.name, f"{type(error).__name__}: {error}")
            print(f"{step.name}: failed\n{traceback.format_exc()}", flush=True)
            continue
        print(f"{step.name}: {'done' if done else 'continues in the next call'}", flush=True)
        if not done:
            break


def main() -> int:
    """Run, list or print; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu_campaign",
        description="Run the most useful experiments on an accelerator, some minutes at a time.",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="all results")
    parser.add_argument("--minutes", type=float, default=9.5, help="of this call (default: 9.5)")
    text = "repeatable noise, for machines without randomgen; experiments on public labels only"
    parser.add_argument("--noise-seed", type=int, metavar="N", help=text)
    text = "the folder was carried here from another machine, and no other copy is in use"
    parser.add_argument("--moved", action="store_true", help=text)
    text = "only steps whose names begin with NAME"
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=text)
    parser.add_argument("--commit", metavar="HASH", help="of the code, for a copy without git")
    parser.add_argument("--small", action="store_true", help="tiny sizes: check that all runs")
    parser.add_argument("--list", action="store_true", help="list the steps in order")
    parser.add_argument("--table", action="store_true", help="print results as Markdown and end")
    wanted = parser.parse_args()
    if wanted.folder is None and not wanted.list:
        parser.error("--folder is required (--list alone works without it)")
    names = tuple(wanted.only) or ("",)
    every = small_campaign() if wanted.small else campaign()
    steps = [step for step in every if step.name.startswith(names)]
    if wanted.list:
        print("\n".join(step.name for step in steps))
        return 0
    place = Place(
        folder=wanted.folder,
        noise_seed=wanted.noise_seed,
        limit=_SMALL_LIMIT if wanted.small else None,
        moved=wanted.moved,
        commit=wanted.commit,
    )
    if wanted.table:
        print(table(place, steps))
        return 0
    try:
        with place.held():
            run(place, steps, Clock(60 * wanted.minutes))
    except (CampaignBusy, ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    done = sum(place.result(step.name) is not None for step in steps)
    failed = sum(place.failure(step.name) is not None for step in steps)
    print(f"{done} done, {failed} failed, {len(steps) - done - failed} left")
    return 0


if __name__ == "__main__":
    ended(main)

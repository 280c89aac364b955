"""The command: `python -m tests.benchmarks.gpu_campaign --folder DIR --minutes 9.5`."""

import argparse
import sys
from pathlib import Path

from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.labels import NoiseChoice
from tests.benchmarks.gpu_campaign.place import CampaignBusy, Place
from tests.benchmarks.gpu_campaign.run import run
from tests.benchmarks.gpu_campaign.small import small_campaign
from tests.benchmarks.gpu_campaign.steps import campaign
from tests.benchmarks.gpu_campaign.table import table
from tests.benchmarks.interruption import ended

#: Of the data at the size of a toy.
_SMALL_LIMIT = 100


def _wanted() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.gpu_campaign",
        description="What is worth running on an accelerator, some minutes at a time.",
    )
    parser.add_argument("--folder", type=Path, metavar="DIR", help="all results")
    parser.add_argument("--minutes", type=float, default=9.5, help="of this call (default: 9.5)")
    text = "noise that anybody can repeat: for machines without randomgen, and experiments only"
    parser.add_argument("--noise-seed", type=int, metavar="N", help=text)
    text = "the folder was carried here from another machine, and no other copy is in use"
    parser.add_argument("--moved", action="store_true", help=text)
    text = "only steps whose names begin so"
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=text)
    text = "of the code, where this copy has no git"
    parser.add_argument("--commit", metavar="HASH", help=text)
    text = "a toy's size: does everything run?"
    parser.add_argument("--small", action="store_true", help=text)
    parser.add_argument("--list", action="store_true", help="name the steps, in order")
    text = "print what was found as Markdown; runs nothing"
    parser.add_argument("--table", action="store_true", help=text)
    wanted = parser.parse_args()
    if wanted.folder is None and not wanted.list:
        parser.error("the following arguments are required: --folder (--list alone needs none)")
    return wanted


def main() -> int:
    """Run, list or print; return how the process ends."""
    wanted = _wanted()
    every = small_campaign() if wanted.small else campaign()
    steps = [
        step
        for step in every
        if not wanted.only or any(step.name.startswith(name) for name in wanted.only)
    ]
    if wanted.list:
        print("\n".join(step.name for step in steps))
        return 0
    place = Place(
        folder=wanted.folder,
        noise=NoiseChoice(seed=wanted.noise_seed),
        limit=_SMALL_LIMIT if wanted.small else None,
        moved=wanted.moved,
        commit=wanted.commit,
    )
    if wanted.table:
        print(table(place, steps))
        return 0
    try:
        with place.held():
            clock = Clock(60 * wanted.minutes)
            ended = run(place, steps, clock, told=lambda line: print(line, flush=True))
    except (CampaignBusy, ImportError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{ended.done} done, {ended.failed} failed, {ended.left} left")
    return 0


if __name__ == "__main__":
    ended(main)

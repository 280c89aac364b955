"""Kill parts of a sweep at random moments; the table of what became of it, in Markdown.

    python -m tests.benchmarks.fault_table --kills 20 --seed 0

kills a process at seeded moments. docs/reliability.md describes what is checked.

    python -m tests.benchmarks.fault_table --kills 40 --at-the-end

kills drivers of a smaller sweep before one of their last writes, evenly spread over them.
"""

import argparse
import random
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.faults import kills_at_the_end
from tests.faults.processes import title, titled
from tests.faults.sweep_runs import Driver, Ending, records

#: What is killed -> how its process is found among the driver's; the driver itself is the first.
TITLES = {
    "trial's worker": "ray::ImplicitFunc",
    "vault's home": "ray::HomeActor",
    "keeper of states": "ray::Keeper",
    "raylet": "raylet",
}
LONGER = ("seed=[0,1,2]",)
TRIALS = 18
#: For one run; busy machines are slow.
TIME_LIMIT_SECONDS = 3600.0


def main() -> int:
    """Print the table; 0 if every sweep ended as in peace."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--at-the-end", action="store_true")
    chosen = options.parse_args()
    if chosen.at_the_end:
        return at_the_end(chosen.kills)
    draw = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory(prefix="ldp") as folder:
        root = Path(folder)
        started = time.monotonic()
        with Driver(root / "peace", *LONGER) as driver:
            driver.finish(seconds=TIME_LIMIT_SECONDS)
        seconds = time.monotonic() - started
        peace = Ending.of(root / "peace")
        assert len(peace.trials) == TRIALS
        print(f"In peace: {seconds:.0f} s.\n", flush=True)
        print("| second | killed | trials done | then | end |\n|---|---|---|---|---|", flush=True)
        bad = 0
        for number in range(chosen.kills):
            victim = draw.choice(["driver", *TITLES])
            moment = draw.uniform(0.05, 0.95) * seconds
            words, wrong = disturbed(root / f"{number}", victim, moment, peace)
            bad += bool(wrong)
            print(f"{words} {f'**{wrong}**' if wrong else 'as in peace'} |", flush=True)
    return int(bad > 0)


def at_the_end(kills: int) -> int:
    """Print the table of kills at the last writes; 0 if every sweep ended as in peace."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="ldp") as folder:
        root = Path(folder)
        assert kills_at_the_end.drive(root / "peace") == 0
        peace = Ending.of(root / "peace")
        moments = (root / "peace.moments").read_text().splitlines()
        writes = len(moments)
        print(f"{writes} writes from the last trial's end to the driver's.\n")
        print("| write | killed before | end |\n|---|---|---|", flush=True)
        for number in range(kills):
            # From the first to the last, each at most once where there are enough.
            moment = 1 + round(number * (writes - 1) / max(1, kills - 1))
            wrong = kills_at_the_end.disturbed(root / f"{number}", peace, moment)
            bad += bool(wrong)
            what = re.sub(r"[0-9a-f]{32}/|\.\w{8}$|\.\d+$", "", moments[moment - 1])
            end = f"**{wrong}**" if wrong else "as in peace"
            print(f"| {moment} | {what} | {end} |", flush=True)
    return int(bad > 0)


def disturbed(results: Path, victim: str, moment: float, peace: Ending) -> tuple[str, str]:
    """Run the sweep to its end with a kill after so many seconds.

    Returns a row of the table, and what is wrong.
    """
    with Driver(results, *LONGER) as driver:
        started = time.monotonic()
        while driver.lives and time.monotonic() < started + moment:
            time.sleep(0.05)
        if not driver.lives:  # it was faster than the one in peace
            driver.finish(seconds=TIME_LIMIT_SECONDS)
            shutil.rmtree(results)
            return disturbed(results, victim, 0.6 * moment, peace)
        processes = driver.processes()
        found = [processes[0]] if victim == "driver" else _find(processes, victim)
        if not found:  # not started yet, or ended already
            victim, found = f"driver ({victim} not there)", processes[:1]
        done, when = len(records(results)), time.monotonic() - started
        found[0].kill()
        code = driver.ended(seconds=TIME_LIMIT_SECONDS)
    if code == 0:
        then = "went on"
    else:
        then = "was run again" if code < 0 else f"ended with {code}, was run again"
        with Driver(results, *LONGER, "--resume", "auto") as driver:
            driver.finish(seconds=TIME_LIMIT_SECONDS)
    wrong = kills_at_the_end.ending_difference(results, peace)
    return f"| {when:.0f} | {victim} | {done} | {then} |", wrong


def _find(processes: list[psutil.Process], victim: str) -> list[psutil.Process]:
    if victim == "raylet":
        return [p for p in processes if title(p).split(" ")[0].endswith("/raylet")]
    return titled(processes, TITLES[victim])


if __name__ == "__main__":
    sys.exit(main())

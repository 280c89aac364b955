"""Start-up, plan, demo and comparison of two checkouts, in turn, five times each.

    git worktree add --detach ../before 7e5f390 && make -C ../before install
    python -m tests.benchmarks.before_after ../before --write

Each side runs with its own `.venv`. A Markdown table on the terminal, all figures as JSON, and with
`--write` the table in docs/performance.md. `--only comparison` needs MNIST (`labeldp data fetch`)
and takes longest; it is left out unless it is named. What an earlier call measured of other
commands stays in the table.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.interruption import ended
from tests.benchmarks.machine import this_machine
from tests.benchmarks.performance_page import PAGE, with_part
from tests.benchmarks.timed_command import CommandFailed, Timing, timed

_ROOT = Path(__file__).resolve().parent.parent.parent
PART = "before and after"
#: The driver, and what a run loads later where it does not load it at once.
_DRIVER = """
import importlib.util, sys
import labeldp.platform.driver
for name in ("open_sweep", "sweep_report", "trial_runs"):
    if importlib.util.find_spec(f"labeldp.platform.{name}"):
        importlib.import_module(f"labeldp.platform.{name}")
"""


@dataclass(frozen=True, kw_only=True)
class Command:
    """Something that both checkouts can do.

    Attributes:
        name: On the command line.
        words: In the table.
        arguments: After the name of the program; RESULTS is a new folder each time.
        program: In `.venv/bin`.
        by_default: Whether it is timed where none is named.
    """

    name: str
    words: str
    arguments: tuple[str, ...]
    program: str = "python"
    by_default: bool = True


COMMANDS = (
    Command(
        name="import",
        words="`import labeldp.platform.driver`",
        arguments=("-c", "import labeldp.platform.driver"),
    ),
    Command(
        name="driver", words="the same with all that a run loads later", arguments=("-c", _DRIVER)
    ),
    Command(
        name="plan",
        words="`labeldp plan sweeps/quickstart.py`",
        arguments=("plan", "sweeps/quickstart.py", "--json"),
        program="labeldp",
    ),
    Command(
        name="demo",
        words="the sweep of `make demo`",
        arguments=("sweeps/quickstart.py", "--results", "RESULTS", "--json"),
    ),
    Command(
        name="comparison",
        words="`sweeps/compare_mnist.py --smoke`",
        arguments=("sweeps/compare_mnist.py", "--smoke", "--results", "RESULTS", "--json"),
        by_default=False,
    ),
)


def once(command: Command, checkout: Path) -> Timing:
    """Time a command of a checkout.

    Raises:
        CommandFailed: It ended with an error.
    """
    with tempfile.TemporaryDirectory(prefix="labeldp-timed-") as folder:
        arguments = [word.replace("RESULTS", f"{folder}/results") for word in command.arguments]
        program = str(checkout / ".venv" / "bin" / command.program)
        return timed([program, *arguments], cwd=checkout, environment={"PYTHONPATH": ""})


def trials_of(output: str) -> int | None:
    """Return how many trials a command says that it ran or planned; None if it does not say."""
    lines = output.strip().splitlines()
    try:
        told = json.loads(lines[-1] if lines[-1:] and lines[-1].startswith("{") else output)
    except ValueError:
        return None
    return int(told["trials"]) if isinstance(told, dict) and "trials" in told else None


def row_of(command: Command, before: Sequence[Timing], after: Sequence[Timing]) -> dict[str, Any]:
    """Return what was measured of a command: medians of both sides, and the load."""
    every = [*before, *after]

    def side(timings: Sequence[Timing]) -> dict[str, Any]:
        return {
            "wall": statistics.median(each.wall for each in timings),
            "processor": statistics.median(each.processor for each in timings),
            "trials": trials_of(timings[-1].output),
            "every": [[each.wall, each.processor] for each in timings],
        }

    return {
        "name": command.name,
        "words": command.words,
        "rounds": len(before),
        "before": side(before),
        "after": side(after),
        "load_before": [min(e.load_before for e in every), max(e.load_before for e in every)],
        "others": max(each.others for each in every),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def measured(command: Command, old: Path, new: Path, *, rounds: int) -> dict[str, Any]:
    """Time a command in both checkouts, in turn; once in each beforehand, which counts for nothing.

    The first time reads files that the disk has to fetch, and writes byte code.
    """
    sides: tuple[list[Timing], list[Timing]] = ([], [])
    for number in range(rounds + 1):
        for timings, checkout in zip(sides, (old, new), strict=True):
            found = once(command, checkout)
            print(f"{command.name} {number}: {found.wall:.1f} s", file=sys.stderr, flush=True)
            if number:
                timings.append(found)
    return row_of(command, *sides)


def table_of(report: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        f"Commit {report['before']} against {report['after']}: {report['processor']}, "
        f"{report['cores']} cores. Medians of runs in turn; wall and processor seconds, Ray's "
        "processes included.",
        "",
        "| what | trials | wall before | after | share | processor before | after | share | "
        "runs each, load before, cores that others used |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        before, after = row["before"], row["after"]
        cells = [row["words"], _trials(before["trials"], after["trials"])]
        for clock in ("wall", "processor"):
            share = f"{after[clock] / before[clock]:.0%}"
            cells += [f"{before[clock]:.1f} s", f"{after[clock]:.1f} s", share]
        low, high = row["load_before"]
        cells.append(
            f"{row['rounds']} on {row['date']}, {low:.1f} to {high:.1f}, at most "
            f"{row['others']:.1f}"
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _trials(before: int | None, after: int | None) -> str:
    if before is None and after is None:
        return ""
    return str(after) if before == after else f"{before}, then {after}"


def chosen(names: Sequence[str]) -> list[Command]:
    """Return the commands of these names; for none, those that are timed by default.

    Raises:
        ValueError: There is none of that name.
    """
    unknown = [name for name in names if name not in {each.name for each in COMMANDS}]
    if unknown:
        known = ", ".join(each.name for each in COMMANDS)
        raise ValueError(f"there is no command {unknown[0]!r}; there are {known}")
    return [each for each in COMMANDS if (each.name in names if names else each.by_default)]


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _kept(path: Path, commits: tuple[str, str]) -> dict[str, Any]:
    """Rows of an earlier call, by name, if it was of the same two commits."""
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text(encoding="utf-8"))
    if (earlier["before"], earlier["after"]) != commits:
        return {}
    return {row["name"]: row for row in earlier["rows"]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("before", type=Path, help="an older checkout with a .venv of its own")
    parser.add_argument("--after", type=Path, default=_ROOT, help="this one, if not given")
    parser.add_argument("--only", nargs="+", action="extend", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=_ROOT / "results" / "before_after.json")
    parser.add_argument("--write", action="store_true", help="write the table of docs/")
    options = parser.parse_args(arguments)
    sides = [options.before.resolve(), options.after.resolve()]
    for checkout in sides:
        if not (checkout / ".venv" / "bin" / "labeldp").exists():
            parser.error(f"{checkout} has no .venv with labeldp in it: run make install there")
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}; it must be at least 1")
    try:
        commands = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    commits, machine = (_commit(sides[0]), _commit(sides[1])), this_machine()
    rows = _kept(options.json, commits)
    for command in commands:
        try:
            rows[command.name] = measured(command, *sides, rounds=options.rounds)
        except CommandFailed as error:
            print(error, file=sys.stderr)
            return 1
    report = {
        "before": commits[0],
        "after": commits[1],
        "processor": machine.processor,
        "cores": machine.cores,
        "rows": [rows[each.name] for each in COMMANDS if each.name in rows],
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    table = table_of(report)
    print(table)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_part(PART, table, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    ended(main)

"""Sizes beyond the usual: `python -m tests.benchmarks.large_sizes [NAME ...] [--write]`.

Each part runs in a process of its own on one thread, whose processor time and peak of memory are
measured from its start, imports included. With `--write` the table goes into docs/performance.md.
Ends with 1 where a part takes more time or memory than it may.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.interruption import ended
from tests.benchmarks.machine import this_machine

_ROOT = Path(__file__).resolve().parent.parent.parent
_PAGE = _ROOT / "docs" / "performance.md"
_BEGIN, _END = "<!-- begin: large sizes -->", "<!-- end: large sizes -->"
_LONGEST = 1800
_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that is done at a large size.

    Attributes:
        name: On the command line.
        what: Is measured.
        size: How many of them.
        run: Does it at a size, with files in a folder; returns further figures by name.
        most_seconds: Of the processor; None where nothing is promised.
        most_megabytes: Likewise.
    """

    name: str
    what: str
    size: int
    run: Callable[[int, Path], dict[str, float]]
    most_seconds: float | None = None
    most_megabytes: float | None = None


def _labels(size: int) -> Any:
    """Labels of one byte each, as a vault's home gets them."""
    import numpy as np

    return np.random.default_rng(0).integers(0, _CLASSES, size=size, dtype=np.uint8)


def first_release(size: int, folder: Path) -> dict[str, float]:
    """Labels into a vault on disk, randomized response on all of them, and read once more."""
    from labeldp.mechanisms.randomized_response import RandomizedResponse
    from labeldp.mechanisms.vault import LabelVault
    from labeldp.platform.trusted.vault_store import SqliteStore

    store = SqliteStore(folder / "vault.db")
    vault = LabelVault(labels=_labels(size), num_classes=_CLASSES, store=store)
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=_CLASSES)
    first = vault.release(mechanism)
    before, began = peak_megabytes(), time.process_time()
    second = vault.release(mechanism)
    return {
        "second_seconds": time.process_time() - began,
        "second_megabytes": peak_megabytes() - before,
        "shared": float(second.values is first.values),
        "file_megabytes": (folder / "vault.db").stat().st_size / 1e6,
    }


def read_by_another(size: int, folder: Path) -> dict[str, float]:
    """A release that another process has drawn, read from its file."""
    import numpy as np

    from labeldp.mechanisms.randomized_response import RandomizedResponse
    from labeldp.mechanisms.vault import Charge
    from labeldp.platform.trusted.vault_store import SqliteStore

    path = folder / "vault.db"
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=_CLASSES)
    line = Charge(
        key="r", event=mechanism.event, indices=None, mechanism={}, failure_probability=0.0
    )
    SqliteStore(path).record(line, np.zeros(size, np.int64), lines=0)
    began = time.process_time()
    found = SqliteStore(path).release("r")
    assert found is not None and len(found) == size
    return {"read_seconds": time.process_time() - began}


def plan(size: int, folder: Path) -> dict[str, float]:
    """A plan of so many trials: resolved, checked against each other, priced."""
    from labeldp.platform.cli.sweep_plan import plan_of
    from labeldp.platform.configuration import TrialConfig, with_changes
    from labeldp.platform.space import Grid
    from labeldp.platform.sweep import Sweep
    from labeldp.platform.sweep_options import SweepOptions

    epsilons = (0.5, 1.0, 2.0, 4.0)
    sweep = Sweep(
        name="planned",
        base=with_changes(TrialConfig(), {"audit.canaries": 20}),
        space={"trainer.epsilon": Grid(*epsilons), "seed": Grid(*range(size // len(epsilons)))},
    )
    found = plan_of(sweep, SweepOptions(results=folder))
    assert found.trials == size and not found.problems
    return {"epsilon_total": found.epsilon_total}


def written_records(size: int, folder: Path) -> None:
    """Write records of so many finished trials into a results folder."""
    from dataclasses import replace

    from labeldp.platform.records.results import ResultsFolder
    from tests.platform.examples import a_record

    trials, made = ResultsFolder(folder, sweep="small").path / "trials", a_record()
    for seed in range(size):
        record = replace(made, hash=f"{seed:016x}", point={"seed": seed})
        (trials / f"{record.hash}.json").write_text(json.dumps(asdict(record), indent=1))


def resume(size: int, folder: Path) -> dict[str, float]:
    """Records of so many trials: read and checked by a sweep that goes on, and what is left."""
    from labeldp.platform.earlier_starts import Resume, finished_before
    from labeldp.platform.records.results import ResultsFolder

    written_records(size, folder)
    began = time.process_time()
    found = finished_before(ResultsFolder(folder, sweep="small"), Resume.AUTO, "")
    assert len(found) == size
    return {"read_seconds": time.process_time() - began}


PARTS = (
    Part(
        name="vault",
        what="labels locked into a vault on disk, first release, and a second reader of it",
        size=10**7,
        run=first_release,
        most_seconds=30.0,
        most_megabytes=2048.0,
    ),
    Part(
        name="vault-reader",
        what="labels' release read from the file by another process",
        size=10**7,
        run=read_by_another,
        most_seconds=30.0,
        most_megabytes=2048.0,
    ),
    Part(
        name="vault-wall",
        what="labels locked into a vault on disk, first release, and a second reader of it",
        size=10**8,
        run=first_release,
    ),
    Part(name="plan", what="trials planned", size=10**5, run=plan, most_seconds=60.0),
    Part(
        name="resume",
        what="records of trials written, read and checked by a sweep that goes on",
        size=10**4,
        run=resume,
        most_seconds=20.0,
    ),
)


def peak_megabytes() -> float:
    """Most memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def here(part: Part, size: int) -> dict[str, float]:
    """Run a part in this process."""
    with tempfile.TemporaryDirectory() as folder:
        figures = part.run(size, Path(folder))
    return {**figures, "seconds": time.process_time(), "megabytes": peak_megabytes()}


def in_its_own_process(part: Part, *, size: int | None = None) -> dict[str, Any]:
    """Run a part in a fresh process; return its row.

    Args:
        part: Which.
        size: In place of its own.
    """
    size = part.size if size is None else size
    command = [sys.executable, "-m", "tests.benchmarks.large_sizes"]
    command += ["--here", part.name, "--size", str(size)]
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    row: dict[str, Any] = {"name": part.name, "what": part.what, "size": size}
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        timeout=_LONGEST,
    )
    if done.returncode:
        words = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return {**row, "passed": False, "words": words}
    row |= json.loads(done.stdout.splitlines()[-1])
    limits = (
        ("seconds", part.most_seconds),
        ("megabytes", part.most_megabytes),
    )
    short = [f"{row[unit]:.4g} {unit}" for unit, most in limits if most and row[unit] > most]
    return {**row, "passed": not short, "words": ", ".join(short)}


def line_of(row: dict[str, Any]) -> str:
    """Return a row for the terminal."""
    begin = f"{row['name']:<14}{row['size']:>11,}"
    if "seconds" not in row:
        return f"{begin}  FAILED: {row['words']}"
    state = "ok" if row["passed"] else f"FAILED: {row['words']}"
    return f"{begin}{row['seconds']:>9.1f} s{row['megabytes']:>8.0f} MB  {state}"


def page_with(rows: Sequence[dict[str, Any]], text: str) -> str:
    """Return the page with another table between its two marks.

    Raises:
        ValueError: The page lacks them.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{_PAGE} lacks {_BEGIN} or {_END}, between which the table belongs")
    machine = this_machine()
    lines = [
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, commit {machine.commit}: "
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gigabytes} GB; "
        f"{machine.versions}. Load afterwards {os.getloadavg()[0]:.0f}.",
        "",
        "| name | what | how many | processor time | most memory |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['name']} | {row['what']} | {row['size']:,} | {row['seconds']:.1f} s | "
            f"{row['megabytes']:.0f} MB |"
        )
    return f"{before}{_BEGIN}\n" + "\n".join(lines) + f"\n{_END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    known = {part.name: part for part in PARTS}
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.large_sizes", description=__doc__
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--json", type=Path, default=_ROOT / "results" / "large_sizes.json")
    parser.add_argument("--write", action="store_true", help="write the table of docs/")
    parser.add_argument("--here", choices=known, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help="in place of each part's own size")
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(here(known[options.here], options.size)))
        return 0
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(known)}")
    if options.write and (options.names or options.size):
        parser.error("--write writes the whole table at its sizes: leave names and --size out")
    rows = []
    for part in [known[name] for name in options.names] or PARTS:
        rows.append(in_its_own_process(part, size=options.size))
        print(line_of(rows[-1]), flush=True)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if not all(row["passed"] for row in rows):
        return 1
    if options.write:
        _PAGE.write_text(page_with(rows, _PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    ended(main)

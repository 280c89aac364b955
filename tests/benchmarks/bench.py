"""Every hot path against its reference: `python -m tests.benchmarks.bench [--only NAME ...]`.

Each runs in a process of its own on one thread, so that neither the memory nor the faults of one
are another's. One line each on the terminal, all figures as JSON, and with `--write` the table
docs/bench.csv and the machine of docs/performance.md. Ends with 1 where a ratio falls under its
mark or both sides differ.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.benchmark import BENCHMARKS, Benchmark, commit, machine
from tests.benchmarks.hot_paths import mechanisms, platform, training

_ROOT = Path(__file__).resolve().parent.parent.parent
_PAGE = _ROOT / "docs" / "performance.md"
_FIGURES = _ROOT / "results" / "bench.json"
_LONGEST = 600
#: Of the ratio and its mark.
_UNIT = "times the reference"


def in_its_own_process(benchmark: Benchmark) -> dict[str, Any]:
    """Return one row of the JSON: what was timed, the figures, the verdict."""
    row: dict[str, Any] = {"name": benchmark.name, "path": benchmark.path}
    row |= {"reference": benchmark.reference, "mark": benchmark.mark, "unit": _UNIT}
    command = [sys.executable, "-m", "tests.benchmarks.bench", "--here", benchmark.name]
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            env={**os.environ, **threads},
            capture_output=True,
            text=True,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        return {**row, "passed": False, "words": f"it took more than {_LONGEST} s"}
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no word"])[-1]
        return {**row, "passed": False, "words": words}
    return {**row, **json.loads(done.stdout.splitlines()[-1])}


def line_of(row: dict[str, Any]) -> str:
    if "ratio" not in row:
        return f"{row['name']:<22} FAILED: {row['words']}"
    peak = "?" if row["peak_megabytes"] is None else f"{row['peak_megabytes']:.0f}"
    state = ("busy" if row["busy"] else "ok") if row["passed"] else f"FAILED: {row['words']}"
    return (
        f"{row['name']:<22}{_time(row['seconds']):>10}{_time(row['reference_seconds']):>11}"
        f"{row['ratio']:9.3g}{row['mark']:8.3g}{peak:>7}  {state}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def machine_of(rows: Sequence[dict[str, Any]], *, where: str) -> str:
    """Return the line of docs/performance.md about the machine."""
    loads, busy = [row["load_before"] for row in rows], sum(row["busy"] for row in rows)
    quiet = f"during {busy} of {len(rows)} others used the machine" if busy else "a quiet machine"
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return (
        f"{today}, {where}. Load before each between {min(loads):.1f} and {max(loads):.1f}; "
        f"{quiet}."
    )


def write_table(rows: Sequence[dict[str, Any]], file: Path) -> None:
    """Write docs/bench.csv, which the page shows as its table."""
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["name", "what is timed", "median", "ratio", "mark"])
        for row in rows:
            numbers = [_time(row["seconds"]), f"{row['ratio']:.3g}", f"{row['mark']:g}"]
            writer.writerow([row["name"], row["path"], *numbers])


def main(arguments: Sequence[str] | None = None) -> int:
    assert mechanisms and training and platform  # whose imports fill the list
    known = {each.name: each for each in BENCHMARKS}
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", action="extend", choices=known, metavar="NAME")
    parser.add_argument("--write", action="store_true", help="write the table of docs/")
    parser.add_argument("--here", choices=known, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        with tempfile.TemporaryDirectory() as scratch:
            print(json.dumps(known[options.here].measure(Path(scratch))))
        return 0
    if options.write and options.only:
        parser.error("--write writes the whole table of one run: leave --only out")
    began, where = time.perf_counter(), f"commit {commit()}: {machine()}"
    print(f"{where}\n{'name':<22}{'median':>10}{'reference':>11}{'ratio':>9}{'mark':>8}{'MB':>7}")
    rows = []
    for name in options.only or known:
        rows.append(in_its_own_process(known[name]))
        print(line_of(rows[-1]), flush=True)
    _FIGURES.parent.mkdir(parents=True, exist_ok=True)
    _FIGURES.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    failed = [row["name"] for row in rows if not row["passed"]]
    if busy := sum(row.get("busy", False) for row in rows):
        print(f"the machine was busy during {busy} of {len(rows)}: their marks were widened")
    print(f"{len(rows)} hot paths in {time.perf_counter() - began:.0f} s; figures in {_FIGURES}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if options.write:
        begin, end = "<!-- begin: bench -->\n", "\n<!-- end: bench -->"
        before, rest = _PAGE.read_text(encoding="utf-8").split(begin)
        after = rest.split(end)[1]
        _PAGE.write_text(
            f"{before}{begin}{machine_of(rows, where=where)}{end}{after}", encoding="utf-8"
        )
        write_table(rows, _PAGE.with_name("bench.csv"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

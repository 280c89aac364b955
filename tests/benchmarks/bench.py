"""Every hot path against its reference: `python -m tests.benchmarks.bench [--only NAME ...]`.

Each runs in a process of its own on one thread, so that neither the memory nor the faults of one
are another's. One line each on the terminal, all figures as JSON, and with `--write` the table of
docs/performance.md. Ends with 1 where a ratio falls under its mark or both sides differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.benchmark import Benchmark, Figures, judge
from tests.benchmarks.hot_paths import BENCHMARKS
from tests.benchmarks.interruption import ended
from tests.benchmarks.machine import Machine, this_machine
from tests.benchmarks.measuring import measure
from tests.benchmarks.performance_page import BENCH, PAGE, table_of, with_part

_ROOT = Path(__file__).resolve().parent.parent.parent
_LONGEST = 600


def chosen(names: Sequence[str]) -> tuple[Benchmark, ...]:
    """Return the benchmarks of these names, all for none.

    Raises:
        ValueError: There is none of that name.
    """
    known = {each.name: each for each in BENCHMARKS}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no benchmark {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names) or BENCHMARKS


def row_of(benchmark: Benchmark, figures: Figures, *, cores: int) -> dict[str, Any]:
    """Return one row of the JSON: what was timed, the figures, the verdict."""
    verdict = judge(benchmark, figures, cores=cores)
    return {
        "name": benchmark.name,
        "path": benchmark.path,
        "reference": benchmark.reference,
        "clock": benchmark.clock.value,
        "mark": benchmark.mark,
        **asdict(figures),
        "ratio": figures.ratio,
        "gpu": "not run",
        "busy": verdict.busy,
        "passed": verdict.passed,
        "words": verdict.words,
    }


def in_this_process(benchmark: Benchmark) -> Figures:
    """Measure a benchmark here and now."""
    with tempfile.TemporaryDirectory() as scratch:
        return measure(benchmark, Path(scratch))


def in_its_own_process(benchmark: Benchmark) -> Figures | str:
    """Measure a benchmark in a fresh process; return what it said last if it fails."""
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
        return f"it took more than {_LONGEST} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no word"])[-1]
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def line_of(row: dict[str, Any]) -> str:
    """Return a row for the terminal."""
    if "ratio" not in row:
        return f"{row['name']:<22} FAILED: {row['words']}"
    peak = row["peak_megabytes"]
    memory = "      ?" if peak is None else f"{peak:7.0f}"
    state = ("busy" if row["busy"] else "ok") if row["passed"] else "FAILED"
    line = (
        f"{row['name']:<22}{seconds(row['seconds']):>10}{seconds(row['reference_seconds']):>11}"
        f"{row['ratio']:9.3g}{row['mark']:8.3g}{memory}  {state}"
    )
    return line if row["passed"] else f"{line}: {row['words']}"


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"


def run(benchmarks: Sequence[Benchmark], machine: Machine) -> list[dict[str, Any]]:
    """Measure one after the other and say each as it ends."""
    print(
        f"{machine.processor}, {machine.cores} cores, load {os.getloadavg()[0]:.1f}, "
        f"bf16: {machine.bf16}, commit {machine.commit}\n"
        f"{'name':<22}{'median':>10}{'reference':>11}{'ratio':>9}{'mark':>8}{'MB':>7}",
        flush=True,
    )
    rows: list[dict[str, Any]] = []
    for benchmark in benchmarks:
        found = in_its_own_process(benchmark)
        if isinstance(found, str):
            rows.append({"name": benchmark.name, "passed": False, "words": found})
        else:
            rows.append(row_of(benchmark, found, cores=machine.cores))
        print(line_of(rows[-1]), flush=True)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bench", description=__doc__)
    parser.add_argument("--only", nargs="+", action="extend", default=[], metavar="NAME")
    parser.add_argument("--json", type=Path, default=_ROOT / "results" / "bench.json")
    parser.add_argument("--write", action="store_true", help="write the table of docs/")
    parser.add_argument("--list", action="store_true", help="name the benchmarks and end")
    parser.add_argument("--here", metavar="NAME", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.here:
        print(json.dumps(asdict(in_this_process(chosen([options.here])[0]))))
        return 0
    try:
        benchmarks = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        print("\n".join(f"{each.name:<22}{each.path}" for each in benchmarks))
        return 0
    if options.write and options.only:
        parser.error("--write writes the whole table of one run: leave --only out")
    began, machine = time.perf_counter(), this_machine()
    rows = run(benchmarks, machine)
    report = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": asdict(machine),
        "seconds": time.perf_counter() - began,
        "rows": rows,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    failed = [row["name"] for row in rows if not row["passed"]]
    busy = sum(row.get("busy", False) for row in rows)
    if busy:
        print(f"the machine was busy during {busy} of {len(rows)}: their marks were widened")
    print(f"{len(rows)} hot paths in {report['seconds']:.0f} s; figures in {options.json}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if options.write:
        page = with_part(BENCH, table_of(report), PAGE.read_text(encoding="utf-8"))
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    ended(main)

"""How many workers, how many teachers a call, what a spot machine costs: the pool, simulated.

    python -m tests.benchmarks.pool_simulation
    python -m tests.benchmarks.pool_simulation --teachers 800 --workers 8 16 32 --each 240 \
        --deaths-per-hour 0.05

Without arguments: the tables of docs/scale.md. With them: an ensemble of one's own, for each number
of workers. `--each` is what a teacher takes in seconds, `--fixed` what a call takes beside it;
times vary as they were measured (`python -m tests.benchmarks.teacher_times`), and some runs
straggle.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.interruption import ended
from tests.benchmarks.pool_model import Machines, Policy, PoolRun, TaskTimes, simulate

#: `python -m tests.benchmarks.teacher_times`: times of equal batches over their mean, by the
#: processor's clock, as of a machine that is quiet.
MEASURED_SPREAD = (
    0.845, 0.873, 0.883, 0.9, 0.91, 0.917, 0.928, 0.944, 0.962, 0.976,
    0.986, 0.99, 1.0, 1.018, 1.028, 1.052, 1.063, 1.118, 1.203, 1.405,
)  # fmt: skip
#: The same by the clock on the wall, on two cores that some forty others wanted too.
SWAMPED_SPREAD = (
    0.065, 0.091, 0.117, 0.185, 0.238, 0.268, 0.327, 0.364, 0.386, 0.404,
    0.451, 0.512, 0.556, 0.635, 0.831, 0.912, 1.048, 1.231, 2.628, 8.752,
)  # fmt: skip
#: Small networks that train together on one core, likewise: seconds of a call, of each teacher.
TOGETHER = (0.0072, 0.0047)
#: Driver's processor for a batch: `python -m tests.benchmarks.cluster_scale`.
DRIVER_SECONDS = 0.0009
#: The pool as it was: a batch always sent ahead, workers kept to the end, deaths counted.
BEFORE = Policy(ahead=2, release=False, tries=3)
NOW = Policy(ahead=1, release=True, tries=10)
#: A teacher of the large grid: minutes on a GPU, as FixMatch on CIFAR-10 takes or more.
_TEACHER_SECONDS = 300.0
_SEEDS = 5


def times_of(*, fixed: float = 0.0, each: float, straggling: bool = True) -> TaskTimes:
    """Return times as measured; one run of a hundred takes five times as long."""
    share = 0.01 if straggling else 0.0
    return TaskTimes(fixed=fixed, each=each, spread=MEASURED_SPREAD, stragglers=share, slower=5.0)


def row_of(runs: Sequence[PoolRun], **about: Any) -> dict[str, Any]:
    """Return the means over seeds."""
    return {
        **about,
        "hours": float(np.mean([run.makespan for run in runs])) / 3600,
        "gpu_hours": float(np.mean([run.gpu_hours for run in runs])),
        "utilization": float(np.mean([run.utilization for run in runs])),
        "tail_minutes": float(np.mean([run.tail for run in runs])) / 60,
        "lost": float(np.mean([run.lost / run.paid for run in runs])),
        "copied": float(np.mean([run.copied / run.paid for run in runs])),
        "given_up": float(np.mean([run.given_up for run in runs])),
    }


def several(
    teachers: int, batch: int, *, times: TaskTimes, machines: Machines, policy: Policy, seeds: int
) -> list[PoolRun]:
    """Simulate under several seeds."""
    return [
        simulate(teachers, batch, times=times, machines=machines, policy=policy, seed=seed)
        for seed in range(seeds)
    ]


def sizes(largest: int) -> Iterator[dict[str, Any]]:
    """From 10^2 teachers to `largest` on 1 to 1,000 workers, on spot machines that live 20 h."""
    times = times_of(each=_TEACHER_SECONDS)
    for power in range(2, len(str(largest))):
        teachers = 10**power
        for workers in (1, 10, 100, 1_000):
            machines = Machines(workers=workers, deaths_per_hour=0.05, driver=DRIVER_SECONDS)
            runs = several(
                teachers,
                1,
                times=times,
                machines=machines,
                policy=NOW,
                seeds=_SEEDS if teachers < 10**4 else 1,
            )
            yield row_of(runs, teachers=teachers, workers=workers)


def policies() -> Iterator[dict[str, Any]]:
    """What the pool's rules buy: 1,000 teachers of 5 minutes on 100 workers."""
    plain = times_of(each=_TEACHER_SECONDS)
    swamped = TaskTimes(each=_TEACHER_SECONDS, spread=SWAMPED_SPREAD)
    for machines, times, rate in (
        ("quiet", times_of(each=_TEACHER_SECONDS, straggling=False), 0.0),
        ("1 run of 100 straggles", plain, 0.0),
        ("and spot, 20 h", plain, 0.05),
        ("and spot, 2 h", plain, 0.5),
        ("swamped", swamped, 0.0),
    ):
        for name, policy in (
            ("before", BEFORE),
            ("not ahead", replace(BEFORE, ahead=1)),
            ("now", NOW),
            ("now, and copies", replace(NOW, copy_after=1.5)),
        ):
            pool = Machines(workers=100, deaths_per_hour=rate, driver=DRIVER_SECONDS)
            runs = several(1_000, 1, times=times, machines=pool, policy=policy, seeds=4 * _SEEDS)
            yield row_of(runs, machines=machines, policy=name)


def batches() -> Iterator[dict[str, Any]]:
    """How many teachers a call: 10,000 small networks that train together, and large ones."""
    fixed, each = TOGETHER
    for about, times, workers, rate in (
        ("small, together, 8 workers", times_of(fixed=fixed, each=each), 8, 0.0),
        ("small, together, 100 workers", times_of(fixed=fixed, each=each), 100, 0.0),
        ("5 min each, 100 spot, 20 h", times_of(each=_TEACHER_SECONDS), 100, 0.05),
        ("5 min each, 100 spot, 2 h", times_of(each=_TEACHER_SECONDS), 100, 0.5),
    ):
        for batch in (1, 5, 25, 100, 250):
            # Short calls are sent ahead, as the pool does.
            short = times.fixed + batch * times.each < 1
            machines = Machines(workers=workers, deaths_per_hour=rate, driver=DRIVER_SECONDS)
            runs = several(
                10_000,
                batch,
                times=times,
                machines=machines,
                policy=replace(NOW, ahead=2 if short else 1),
                seeds=1,
            )
            yield row_of(runs, teachers=about, batch=batch)


def own(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """An ensemble of one's own."""
    for workers in asked.workers:
        runs = several(
            asked.teachers,
            asked.batch,
            times=times_of(fixed=asked.fixed, each=asked.each),
            machines=Machines(
                workers=workers,
                deaths_per_hour=asked.deaths_per_hour,
                replaced_after=asked.replaced_after,
                driver=DRIVER_SECONDS,
            ),
            policy=replace(NOW, ahead=2 if asked.fixed + asked.batch * asked.each < 1 else 1),
            seeds=_SEEDS if asked.teachers <= 10**4 else 1,
        )
        yield row_of(runs, workers=workers)


def table_of(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as a table in Markdown, which is one to read as well."""
    head = list(rows[0])
    lines = [f"| {' | '.join(name.replace('_', ' ') for name in head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = [_text(name, row[name]) for name in head]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _text(name: str, value: Any) -> str:
    if name in ("utilization", "lost", "copied"):
        return f"{100 * value:.1f}%"
    return f"{value:,.3g}" if isinstance(value, float) and value < 1000 else (
        f"{value:,.0f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int)
        else str(value)
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.pool_simulation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--teachers", type=int, metavar="T", help="an ensemble of one's own")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 8, 32], metavar="W")
    parser.add_argument("--each", type=float, default=_TEACHER_SECONDS, metavar="SECONDS")
    parser.add_argument("--fixed", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="teachers of a call")
    parser.add_argument("--deaths-per-hour", type=float, default=0.0, metavar="RATE")
    parser.add_argument("--replaced-after", type=float, default=180.0, metavar="SECONDS")
    parser.add_argument("--largest", type=int, default=10**5, metavar="T", help="of the tables")
    parser.add_argument("--json", type=Path, help="where to write the figures too")
    asked = parser.parse_args(arguments)
    began, tables = time.process_time(), {}
    try:
        if asked.teachers is not None:
            tables["own"] = list(own(asked))
        else:
            tables["sizes"] = list(sizes(asked.largest))
            tables["policies"] = list(policies())
            tables["batches"] = list(batches())
    except ValueError as error:
        parser.error(str(error))
    for name, rows in tables.items():
        print(f"\n{name}\n\n{table_of(rows)}")
    print(f"\n{time.process_time() - began:.0f} s of processor time")
    if asked.json is not None:
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        facts = {"policy": asdict(NOW), "tables": tables}
        asked.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    ended(main)

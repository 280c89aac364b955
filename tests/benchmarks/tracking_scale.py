"""What a trial costs to track in a SQLite store that holds none, a thousand, ten thousand others.

    python -m tests.benchmarks.tracking_scale [--trials 40] [--among 0 1000 10000]

The others are copies of one that the tracker wrote itself, row for row, under names of their own.
"""

import argparse
import json
import os
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.interruption import ended
from tests.platform.examples import a_record

_NAMED_BY_RUN = ("runs", "tags", "params", "metrics", "latest_metrics")
_TEXTS = dict.fromkeys(("config.yaml", "ledger.json", "run_card.md", "curves.json"), "x" * 2_000)
_EPOCHS = 10


@dataclass(frozen=True, kw_only=True)
class TrackingFigures:
    """Of a store of one size.

    Attributes:
        others: Trials that were in it before.
        milliseconds: Of the processor, for a trial.
        trials_per_second: By the clock on the wall.
        reconcile_seconds: Of the processor: what a start asks about all trials.
        store_megabytes: Of the file.
        resident_megabytes: Of this process, all trials' records among it.
    """

    others: int
    milliseconds: float
    trials_per_second: float
    reconcile_seconds: float
    store_megabytes: float
    resident_megabytes: float


def multiply(store: Path, run_id: str, copies: int, *, begin: int) -> None:
    """Copy a run's rows, with new ids and hashes."""
    with closing(sqlite3.connect(store)) as connection, connection:
        for table in _NAMED_BY_RUN:
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            row = dict(
                zip(
                    names,
                    zip(
                        *connection.execute(
                            f"SELECT {','.join(names)} FROM {table} WHERE run_uuid = ?", (run_id,)
                        ).fetchall(),
                        strict=True,
                    ),
                    strict=True,
                )
            )
            rows: list[tuple[Any, ...]] = []
            for number in range(begin, begin + copies):
                own = {**row, "run_uuid": (f"{number:032x}",) * len(row["run_uuid"])}
                if table == "tags":
                    own["value"] = tuple(
                        f"{number:016x}" if key == "config_hash" else value
                        for key, value in zip(row["key"], row["value"], strict=True)
                    )
                rows.extend(zip(*(own[name] for name in names), strict=True))
            marks = ",".join("?" * len(names))
            connection.executemany(
                f"INSERT INTO {table} ({','.join(names)}) VALUES ({marks})", rows
            )


def write_trial(tracker: Any, digest: str) -> str:
    """Track one trial as the recorder does; returns its run."""
    record = a_record(digest)
    tags = {"trainer": "alibi", "dataset": "digits", "seed": "0", "point": "{}"}
    run_id: str = tracker.open_child(digest, name=digest, tags=tags)
    curve = [{"epoch": float(epoch), "loss": 1.0, "val_accuracy": 0.5} for epoch in range(_EPOCHS)]
    tracker.log_curves(run_id, curve)
    tracker.close_child(record, run_id=run_id, texts=_TEXTS)
    return run_id


def measured(folder: Path, *, trials: int, among: Sequence[int]) -> list[TrackingFigures]:
    """Measure stores of several sizes, ascending."""
    from labeldp.platform.records.tracking import Tracker

    store = folder / "tracking.db"
    tracker = Tracker(uri=f"sqlite:///{store}", experiment="e", artifacts=folder / "artifacts")
    tracker.open_parent("scale", tags={}, run_id=None)
    first = write_trial(tracker, "first")
    there, found = 1, []
    for others in among:
        if others > there:
            multiply(store, first, others - there, begin=there)
            there = others
        used, began = time.process_time(), time.perf_counter()
        for number in range(trials):
            write_trial(tracker, f"t{there + number}")
        used, wall = time.process_time() - used, time.perf_counter() - began
        there += trials
        looked = time.process_time()
        tracker.reconcile()
        looked = time.process_time() - looked
        assert tracker.has(f"t{there - 1}") and tracker.has("first")
        pages = Path("/proc/self/statm").read_text().split()[1]
        found.append(
            TrackingFigures(
                others=there - trials,
                milliseconds=1e3 * used / trials,
                trials_per_second=trials / wall,
                reconcile_seconds=looked,
                store_megabytes=store.stat().st_size / 1e6,
                resident_megabytes=int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6,
            )
        )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.tracking_scale")
    parser.add_argument("--trials", type=int, default=40, metavar="N", help="timed at each size")
    parser.add_argument("--among", type=int, nargs="+", default=[0, 1_000, 10_000], metavar="N")
    parser.add_argument("--json", type=Path, help="where to write the figures too")
    asked = parser.parse_args(arguments)
    if asked.trials < 1 or min(asked.among) < 0 or sorted(asked.among) != asked.among:
        parser.error("--trials is 1 or more, and --among are counts in ascending order")
    with tempfile.TemporaryDirectory() as scratch:
        found = measured(Path(scratch), trials=asked.trials, among=asked.among)
    print("  others   ms of processor   trials/s   reconcile s   store MB   process MB")
    for row in found:
        print(
            f"{row.others:>8,}{row.milliseconds:>18.0f}{row.trials_per_second:>11.1f}"
            f"{row.reconcile_seconds:>14.2f}{row.store_megabytes:>11.1f}"
            f"{row.resident_megabytes:>13.0f}"
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(row) for row in found], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    ended(main)

"""Two parties on a Parquet file of 40 columns that is never in memory: time and peak memory.

    python -m tests.benchmarks.large_table                      # 100,000 rows in parts of 20,000
    python -m tests.benchmarks.large_table --rows 10000000 --rows-at-once 500000    # the full size

Thirty numbers, ten categories that are hashed into 16 texts, and a label that 5% of the rows have.
Each command runs in a process of its own, whose peak memory the operating system reports. The last
column is the ROC AUC of the model on 50,000 further rows, and the best possible one.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.special import expit
from sklearn.metrics import roc_auc_score

NUMBERS, CATEGORIES, BUCKETS = 30, 10, 16
_CHUNK = 250_000
_WEIGHTS = np.random.default_rng(0).normal(size=NUMBERS) / 4
_EFFECTS = np.random.default_rng(1).normal(size=(CATEGORIES, BUCKETS)) / 4


def rows_of(count: int, *, seed: int, first: int = 0) -> pd.DataFrame:
    """Return ids, features, the label and its chance."""
    generator = np.random.default_rng(seed)
    numbers = generator.normal(size=(count, NUMBERS)).astype(np.float32)
    buckets = generator.integers(BUCKETS, size=(count, CATEGORIES))
    score = numbers @ _WEIGHTS + _EFFECTS[np.arange(CATEGORIES), buckets].sum(1) - 3.6
    texts = np.array([f"{each:02x}" for each in range(BUCKETS)], dtype=object)
    table: dict[str, Any] = {"id": np.arange(first, first + count)}
    table |= {f"number{place}": numbers[:, place] for place in range(NUMBERS)}
    table |= {f"category{place}": texts[buckets[:, place]] for place in range(CATEGORIES)}
    chance = expit(score)
    bought = np.where(generator.random(count) < chance, "yes", "no")
    return pd.DataFrame({**table, "bought": bought, "chance": chance})


def write(folder: Path, *, rows: int) -> None:
    """Write `features.parquet` and `labels.parquet` chunk by chunk, and `test.parquet`."""
    writers: dict[str, parquet.ParquetWriter] = {}
    for first in range(0, rows, _CHUNK):
        table = rows_of(min(_CHUNK, rows - first), seed=2 + first, first=first)
        parts = {"features": table.drop(columns=["bought", "chance"])}
        parts["labels"] = table[["id", "bought"]]
        for name, part in parts.items():
            content = pa.Table.from_pandas(part, preserve_index=False)
            if name not in writers:
                writers[name] = parquet.ParquetWriter(folder / f"{name}.parquet", content.schema)
            writers[name].write_table(content)
    for writer in writers.values():
        writer.close()
    rows_of(50_000, seed=1).to_parquet(folder / "test.parquet", index=False)


def commands(
    folder: Path, *, rows_at_once: int | None, estimator: str = "boosting", to: str = ""
) -> dict[str, list[str]]:
    """Return the arguments of each command on the files of a folder; results begin with `to`."""
    asked = ["--id-column", "id", "--method", "moments", "--classes", "no,yes"]
    parts = [] if rows_at_once is None else ["--rows-at-once", str(rows_at_once)]
    owner = ["--id-column", "id", "--label-column", "bought", "--epsilon", "1"]
    owner += ["--vault", f"{folder}/{to}vault"]
    features, labels = f"{folder}/features.parquet", f"{folder}/labels.parquet"
    request, release, model = (f"{folder}/{to}{name}" for name in ("request", "release", "model"))
    return {
        "request": ["request", features, *asked, *parts, "-o", request],
        "release": ["release", labels, *owner, "--request", request, "-o", release],
        "fit": ["fit", features, "--release", release, "--estimator", estimator, "-o", model],
    }


def auc(folder: Path, *, model: str = "model") -> tuple[float, float]:
    """Return the ROC AUC of the model on the test rows, and that of the true chances."""
    from labeldp.trainers.models.trained_model import load_model

    test = pd.read_parquet(folder / "test.parquet")
    found = load_model(folder / model).predict_proba(test)[:, 1]
    bought = test.bought == "yes"
    return roc_auc_score(bought, found), roc_auc_score(bought, test.chance)


def main() -> None:
    """Print a table line by line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rows-at-once", type=int, default=20_000)
    parser.add_argument("--estimator", default="boosting")
    options = parser.parse_args()
    print(f"{options.rows:,} rows in parts of {options.rows_at_once:,}, {options.estimator}")
    print("| command | wall s | processor s | peak MB |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder, rows=options.rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        every = commands(folder, rows_at_once=options.rows_at_once, estimator=options.estimator)
        program = "import sys; from labeldp.platform.cli.command_line import main; sys.exit(main())"
        for name, arguments in every.items():
            began = time.perf_counter()
            child = os.posix_spawn(
                sys.executable,
                [sys.executable, "-W", "ignore", "-c", program, *arguments],
                {**os.environ, "PYTHONPATH": os.getcwd()},
                file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
            )
            _, status, used = os.wait4(child, 0)
            if status:
                raise SystemExit(f"{name} failed")
            seconds, processor = time.perf_counter() - began, used.ru_utime + used.ru_stime
            peak = used.ru_maxrss / 1024
            print(f"| {name} | {seconds:.0f} | {processor:.0f} | {peak:.0f} |", flush=True)
        print(
            "{1:.0f} MB of Parquet; ROC AUC {0[0]:.3f} (best {0[1]:.3f})".format(
                auc(folder), size / 1e6
            )
        )


if __name__ == "__main__":
    main()

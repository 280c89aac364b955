"""Two parties on a Parquet file of 40 columns that is never in memory: time and peak memory.

    python -m tests.benchmarks.large_table                      # 100,000 rows in parts of 20,000
    python -m tests.benchmarks.large_table --rows 10000000 --rows-at-once 500000    # the full size

Thirty numbers, ten categories of 16 texts, and a label that 5% of the rows have. Each command runs
in a process of its own. A fit's ROC AUC stands beside that on 200,000 true labels.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
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
    folder: Path,
    *,
    rows_at_once: int | None,
    estimators: Sequence[str] = ("boosting",),
    to: str = "",
) -> dict[str, list[str]]:
    """Return the arguments of each command on the files of a folder; results begin with `to`.

    A fit and its model have the name of their estimator.
    """
    asked = ["--id-column", "id", "--method", "moments", "--classes", "no,yes"]
    parts = [] if rows_at_once is None else ["--rows-at-once", str(rows_at_once)]
    owner = ["--id-column", "id", "--label-column", "bought", "--epsilon", "1"]
    owner += ["--vault", f"{folder}/{to}vault"]
    features, labels = f"{folder}/features.parquet", f"{folder}/labels.parquet"
    request, release = f"{folder}/{to}request", f"{folder}/{to}release"
    fit = ["fit", features, "--release", release, "--estimator"]
    return {
        "request": ["request", features, *asked, *parts, "-o", request],
        "release": ["release", labels, *owner, "--request", request, "-o", release],
        **{name: [*fit, name, "-o", f"{folder}/{to}{name}"] for name in estimators},
    }


def auc(folder: Path, *, model: str) -> float:
    from labeldp.trainers.models.trained_model import load_model

    test = pd.read_parquet(folder / "test.parquet")
    features = test.drop(columns=["id", "bought", "chance"])
    found = load_model(folder / model).predict_proba(features)[:, 1]
    return float(roc_auc_score(test.bought == "yes", found))


def auc_without_privacy(folder: Path, *, estimator: str, rows: int) -> float:
    """Return the same of an estimator of a fit of N rows on true labels of 200,000 rows."""
    from labeldp.platform.api.fitting import number_rows
    from labeldp.trainers.methods.any_model import named_estimator

    test, train = pd.read_parquet(folder / "test.parquet"), rows_of(200_000, seed=2)
    both = pd.concat([train, test]).drop(columns=["id", "bought", "chance"])
    numbers = number_rows(both, num_classes=2).train_features
    model = named_estimator(estimator, rows=rows, seed=0)
    model.fit(numbers[: len(train)], train.bought == "yes")
    found = model.predict_proba(numbers[len(train) :])[:, 1]
    return float(roc_auc_score(test.bought == "yes", found))


def ran(arguments: list[str]) -> tuple[float, float, float]:
    """Run a command, and return wall seconds, processor seconds and peak MB."""
    program = "import sys; from labeldp.platform.cli.command_line import main; sys.exit(main())"
    began = time.perf_counter()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        {**os.environ, "PYTHONPATH": os.getcwd()},
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{arguments[0]} failed")
    seconds = time.perf_counter() - began
    return seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rows-at-once", type=int, default=20_000)
    options = parser.parse_args()
    print(f"{options.rows:,} rows in parts of {options.rows_at_once:,}")
    print(
        "| command | wall s | processor s | peak MB | ROC AUC | without privacy |\n"
        + "|---" * 6
        + "|"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write(folder, rows=options.rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        parts, estimators = options.rows_at_once, ("boosting", "logistic")
        every = commands(folder, rows_at_once=parts, estimators=estimators)
        for name, arguments in every.items():
            shown = [f"{each:.0f}" for each in ran(arguments)]
            if name in estimators:
                plain = auc_without_privacy(folder, estimator=name, rows=options.rows)
                shown += [f"{auc(folder, model=name):.3f}", f"{plain:.3f}"]
                name = f"fit, {name}"
            print(f"| {name} | {' | '.join(shown)} |", flush=True)
        test = pd.read_parquet(folder / "test.parquet")
        best = roc_auc_score(test.bought == "yes", test.chance)
        print(f"{size / 1e6:.0f} MB of Parquet; best ROC AUC {best:.3f}")


if __name__ == "__main__":
    main()

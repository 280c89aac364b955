"""Coverage and size of prediction sets: `python -m tests.benchmarks.prediction_sets [--runs 200]`.

A model of a third of the rows, calibration by a random half of the rest, sets of the other half.
Beside them are sets without privacy, by the quantile of split conformal prediction.
"""

import argparse
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labeldp
from labeldp.platform.api import paid_fits
from labeldp.platform.api.process_ledger import ProcessLedger
from tests.shared_material import shared_path

COVERAGE = 0.9
EPSILONS = (0.5, 1.0, 2.0)


def cases() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, rows, labels, and the bounds of amounts."""
    X, y = load_digits(return_X_y=True)
    yield "digits", X + np.random.default_rng(0).normal(scale=6, size=X.shape), y, None
    for name in ("winequality-white", "insurance"):
        table = pd.read_csv(shared_path("data", "tables", f"{name}.csv.xz"))
        target = table.pop(table.columns[-1])
        numbers = pd.get_dummies(table, drop_first=True).to_numpy(float)
        bounds = (0.0, 60_000.0) if name == "insurance" else None
        yield name, numbers, target.to_numpy(), bounds


def without_privacy(model: Any, X: Any, y: Any, bounds: Any) -> Any:
    """Return a threshold as PredictionSets has it, of the true calibration labels."""
    sets = labeldp.PredictionSets(model, coverage=COVERAGE, bounds=bounds)
    if bounds is None:
        scores = 1 - model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    else:
        scores = np.abs(y - model.predict(X).clip(*bounds))
    rank = int(np.ceil((len(y) + 1) * COVERAGE)) - 1
    sets.threshold_ = float(np.sort(scores)[rank])
    return sets


def measured(sets: Any, model: Any, X: Any, y: Any) -> tuple[float, float]:
    """Return the share of labels that sets hold, and the mean size of these."""
    found = sets.predict_set(X)
    if found.dtype == bool:
        held = found[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        return float(held.mean()), float(found.sum(1).mean())
    held = (found[:, 0] <= y) & (y <= found[:, 1])
    return float(held.mean()), float((found[:, 1] - found[:, 0]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    given = parser.parse_args()
    for name, X, y, bounds in cases():
        first, others, labels, left = train_test_split(X, y, train_size=1 / 3, random_state=0)
        last = LogisticRegression(max_iter=500) if bounds is None else Ridge()
        model = make_pipeline(StandardScaler(), last).fit(first, labels)
        found: dict[Any, list[tuple[float, float]]] = {}
        for run in range(given.runs):
            some, rest, known, truth = train_test_split(
                others, left, train_size=0.5, random_state=run
            )
            for epsilon in EPSILONS:
                # The data are public, and a line is of one fit: all of them have no sum of use.
                with mock.patch.object(paid_fits, "LEDGER", ProcessLedger()):
                    sets = labeldp.PredictionSets(model, epsilon, COVERAGE, bounds=bounds)
                    sets.fit(some, known)
                found.setdefault(epsilon, []).append(measured(sets, model, rest, truth))
            sets = without_privacy(model, some, known, bounds)
            found.setdefault("none", []).append(measured(sets, model, rest, truth))
            if (run + 1) % 50 == 0:
                print(f"{name}: {run + 1} of {given.runs} runs", file=sys.stderr, flush=True)
        for epsilon, pairs in found.items():
            coverage, size = np.mean(pairs, axis=0)
            print(f"| {name} | {len(some)} | {epsilon} | {coverage:.3f} | {size:.4g} |", flush=True)


if __name__ == "__main__":
    main()

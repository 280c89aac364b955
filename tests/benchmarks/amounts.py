"""Regression on released amounts: the table of docs/amounts.md.

    python -m tests.benchmarks.amounts --seeds 5
    python -m tests.benchmarks.amounts --data FOLDER --seeds 5    # with cal_housing.data in it

Mean squared error on test rows as a share of the variance of their amounts, mean and standard
deviation over seeds of the noise. Without a file, rows of its kind are made. `laplace` is boosted
trees on amounts between 0 and 1 with Laplace noise of scale 1 / epsilon.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp import LabelPrivateRegressor, PrivacyAddsUp
from labeldp.mechanisms.amounts import AmountNoise
from labeldp.trainers.methods.amounts import named_regressor

EPSILONS = (0.5, 1.0, 2.0, 4.0)
METHODS = ("sums", *AmountNoise, "laplace")
BOUNDS = (0.0, 500_001.0)
Floats = NDArray[np.float64]


def rows_and_amounts(folder: Path | None) -> tuple[Floats, Floats]:
    """Return features [N, 8] and amounts [N] of California housing, or of a synthetic table."""
    if folder is not None:
        table = pd.read_csv(folder / "cal_housing.data", header=None).to_numpy(np.float64)
        return table[:, :8], table[:, 8]
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(20_000, 8))
    score = 0.8 * rows[:, 0] + 0.5 * np.sin(2 * rows[:, 1]) + 0.4 * rows[:, 0] * rows[:, 2]
    score += 0.3 * np.abs(rows[:, 3]) + 0.5 * generator.normal(size=len(rows))
    return rows, np.minimum(150_000 * np.exp(0.5 * score), BOUNDS[1])


def share_of_variance(
    rows: Floats, amounts: Floats, *, method: str, epsilon: float, seed: int
) -> float:
    """Fit on four fifths of the rows, and return the error on the others."""
    order = np.random.default_rng(0).permutation(len(rows))
    test, train = np.split(order, [len(rows) // 5])
    if method in ("none", "laplace"):
        noise = np.random.default_rng(seed).laplace(size=len(train)) / epsilon
        scaled = amounts[train] / BOUNDS[1] + noise
        model = named_regressor("squared", quantile=0.5, rows=len(train), seed=seed)
        found = model.fit(rows[train], scaled).predict(rows[test]) * BOUNDS[1]
    else:
        private = LabelPrivateRegressor(epsilon, BOUNDS, method=method, random_state=seed)
        found = private.fit(rows[train], amounts[train]).predict(rows[test])
    error = (np.clip(found, *BOUNDS) - amounts[test]) ** 2
    return float(error.mean() / amounts[test].var())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of cal_housing.data")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    # Fits on the same rows, for comparison.
    warnings.simplefilter("ignore", PrivacyAddsUp)
    rows, amounts = rows_and_amounts(options.data)
    print(f"| method | {' | '.join(f'epsilon {epsilon:g}' for epsilon in EPSILONS)} |")
    print("|---" * (len(EPSILONS) + 1) + "|")
    alone = share_of_variance(rows, amounts, method="none", epsilon=np.inf, seed=0)
    print(f"| no privacy | {' | '.join([f'{alone:.3f}'] * len(EPSILONS))} |")
    for method in METHODS:
        cells = []
        for epsilon in EPSILONS:
            given = {"method": method, "epsilon": epsilon}
            found = [
                share_of_variance(rows, amounts, **given, seed=seed)
                for seed in range(options.seeds)
            ]
            cells.append(f"{np.mean(found):.3f} +- {np.std(found, ddof=1):.3f}")
        print(f"| `{method}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

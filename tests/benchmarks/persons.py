"""Sums bounded per person beside more noise: the table of docs/persons.md.

    python -m tests.benchmarks.persons --rows 50000 --seeds 5

ROC AUC on test rows of the synthetic log at epsilon 1 for all labels of a person, and the loss
against the first line, where epsilon holds for one label only.
"""

import argparse
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from labeldp import LabelPrivateClassifier, PrivacyAddsUp
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.calibration import calibrate_gaussian, price_gaussian
from labeldp.mechanisms.persons import kept_rows, numbered
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.methods.any_model import named_estimator

EPSILON, MOST = 1.0, 20


def epsilon_of_one(labels: int) -> float:
    """Epsilon of one label in a sum with so much noise that k labels together cost `EPSILON`."""
    noise_std = labels * calibrate_gaussian(epsilon=EPSILON, delta=USUAL_DELTA)
    return price_gaussian(noise_std=noise_std, delta=USUAL_DELTA)


def measured(
    train: pd.DataFrame, test: pd.DataFrame, *, seeds: int
) -> Iterator[tuple[str, list[float]]]:
    persons = numbered(train.person)[0]
    unseen = ["id", *SECRETS]

    def auc(seed: int, *, method: str, epsilon: float, most: int | None, groups: bool) -> float:
        some: NDArray[np.intp] = np.arange(len(train))
        if most is not None:
            some = kept_rows(persons, most=most, seed=seed)
        rows = train.iloc[some]
        model = LabelPrivateClassifier(
            method,
            epsilon=epsilon,
            classes=["no", "yes"],
            random_state=seed,
            estimator=named_estimator("logistic", rows=len(rows), seed=seed),
            max_labels_per_person=most or 1,
        ).fit(rows.drop(columns=unseen), rows.bought, groups=rows.person if groups else None)
        found = model.predict_proba(test.drop(columns=unseen))[:, 1]
        return float(roc_auc_score(test.bought == "yes", found))

    def line(name: str, **how: object) -> tuple[str, list[float]]:
        return name, [auc(seed, **how) for seed in range(seeds)]  # type: ignore[arg-type]

    sums, whole = {"method": "moment_labels", "groups": False}, EPSILON
    yield line("nothing: epsilon for each label", **sums, epsilon=whole, most=None)
    yield line(
        "`groups=`: sums bounded per person", **{**sums, "groups": True}, epsilon=whole, most=None
    )
    for most in (1, 5, MOST):
        rows = "row" if most == 1 else "rows"
        name = f"sums without `groups=`, at most {most} {rows} of each person, noise times {most}"
        yield line(name, **sums, epsilon=epsilon_of_one(most), most=most)
    for most in (1, 5, MOST):
        name = f"`groups=`, single labels, at most {most} of each"
        yield line(name, method="subset", epsilon=whole, most=most, groups=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    # Fits on the same rows, for comparison.
    warnings.simplefilter("ignore", PrivacyAddsUp)
    train, test = conversions(options.rows, seed=0), conversions(20_000, seed=1)
    print(f"{options.rows:,} rows of {train.person.nunique():,} persons\n")
    print("| what protects a person | ROC AUC | loss |\n|---|---|---|")
    first = None
    for name, found in measured(train, test, seeds=options.seeds):
        mean = float(np.mean(found))
        first = mean if first is None else first
        spread = f"{mean:.3f} +- {np.std(found, ddof=1):.3f}"
        print(f"| {name} | {spread} | {first - mean:.3f} |", flush=True)


if __name__ == "__main__":
    main()

"""Where single labels win over sums of labels: the measurements behind `method="auto"`.

    python -m tests.benchmarks.automatic_method

Prints the table of docs/python.md: test accuracy of methods by epsilon, and auto's choice.
Tables are scikit-learn's `make_classification`, 20 features of which 10 are informative, and its
digits.
"""

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_classification

from labeldp import LabelPrivateClassifier, PrivacyAddsUp
from labeldp.mechanisms.randomized_response import keep_probability
from labeldp.platform.settings.methods import choose

EPSILONS = (0.5, 1.0, 2.0)
METHODS = ("moment_labels", "cluster_labels", "alibi", "alibi_randomized_response", "subset")
SEEDS = 3

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def table_of(rows: int, classes: int) -> Rows:
    """Return a table and its labels, with a quarter more rows for testing."""
    found: Rows = make_classification(
        5 * rows // 4,
        20,
        n_informative=10,
        n_redundant=0,
        n_classes=classes,
        random_state=0,
    )
    return found


def accuracy(method: str, rows: Rows, *, epsilon: float, classes: int) -> float:
    """Return the mean test accuracy over seeds, each with noise of its own."""
    features, labels = rows
    tested = len(labels) // 5
    found = []
    for seed in range(SEEDS):
        model = LabelPrivateClassifier(
            method=method, epsilon=epsilon, classes=classes, random_state=seed
        )
        model.fit(features[:-tested], labels[:-tested])
        found.append(model.score(features[-tested:], labels[-tested:]))
    return float(np.mean(found))


def main() -> None:
    warnings.simplefilter("ignore", PrivacyAddsUp)  # fits on the same rows, for comparison
    sets: dict[str, tuple[Rows, int]] = {
        f"{rows:,} rows, {classes} classes": (table_of(rows, classes), classes)
        for rows, classes in ((2400, 3), (3200, 2), (5600, 5))
    }
    sets["digits, 10 classes"] = (load_digits(return_X_y=True), 10)
    print("| data | epsilon | kept | " + " | ".join(f"`{name}`" for name in METHODS) + " | auto |")
    print("|---|---|---|" + "---|" * (len(METHODS) + 1))
    for name, (rows, classes) in sets.items():
        for epsilon in EPSILONS:
            cells = [
                f"{100 * accuracy(method, rows, epsilon=epsilon, classes=classes):.1f}"
                for method in METHODS
            ]
            chosen = choose(epsilon=epsilon, delta=1e-5, num_classes=classes)[0]
            share = keep_probability(epsilon=epsilon, num_classes=classes)
            print(
                f"| {name} | {epsilon:g} | {share:.0%} | {' | '.join(cells)} | `{chosen}` |",
                flush=True,
            )


if __name__ == "__main__":
    main()

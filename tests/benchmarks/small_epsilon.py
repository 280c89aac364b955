"""Sums, counts and single labels by epsilon: `python -m tests.benchmarks.small_epsilon bank`.

ROC AUC on a quarter of a table of two classes, three splits: sums at delta 1e-5, counts in
clusters, and single labels. The stack of the last two has linear and kernel models.
"""

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import labeldp
from tests.benchmarks.tables import table

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4)
SPLITS = 3
STACK = {"models": ["linear", "kernel"]}
METHODS: dict[str, Any] = {"moment_labels": None, "cluster_labels": STACK, "subset": STACK}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a table of docs/tables.md with two classes")
    rows, target, _ = table(parser.parse_args().table)
    warnings.simplefilter("ignore")
    for epsilon in EPSILONS:
        cells = []
        for method, settings in METHODS.items():
            found = []
            for seed in range(SPLITS):
                order = np.random.default_rng(seed).permutation(len(target))
                train, test = np.split(order, [3 * len(order) // 4])
                model = labeldp.LabelPrivateClassifier(
                    method, epsilon, classes=2, random_state=seed, settings=settings
                ).fit(rows.iloc[train], target[train])
                predicted = model.predict_proba(rows.iloc[test])[:, 1]
                found.append(roc_auc_score(target[test], predicted))
            cells.append(f"{np.mean(found):.3f}±{np.std(found):.3f}")
        print(f"| {epsilon} |", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

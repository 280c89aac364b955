"""Which release tells most at which epsilon: `python -m tests.benchmarks.small_epsilon bank`.

ROC AUC on a quarter of a table of two classes, three splits: sums at delta 1e-5, counts in
clusters, and single labels. The stack of the last two has linear and kernel models.
"""

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

import labeldp
from labeldp.platform.api.process_ledger import LEDGER
from tests.shared_material import shared_path

EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4)
SPLITS = 3
STACK = {"models": ["linear", "kernel"]}
METHODS: dict[str, Any] = {"moment_labels": None, "cluster_labels": STACK, "subset": STACK}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a file of data/tables whose last column has two classes")
    path = shared_path("data", "tables", f"{parser.parse_args().table}.csv.xz")
    warnings.simplefilter("ignore")
    table = pd.read_csv(path)
    target = pd.factorize(table.pop(table.columns[-1]))[0]
    for epsilon in EPSILONS:
        cells = []
        for method, settings in METHODS.items():
            found = []
            for seed in range(SPLITS):
                order = np.random.default_rng(seed).permutation(len(target))
                train, test = np.split(order, [3 * len(order) // 4])
                LEDGER.__init__()  # type: ignore[misc]  # each fit is another world
                model = labeldp.LabelPrivateClassifier(
                    method, epsilon, classes=2, random_state=seed, settings=settings
                ).fit(table.iloc[train], target[train])
                predicted = model.predict_proba(table.iloc[test])[:, 1]
                found.append(roc_auc_score(target[test], predicted))
            cells.append(f"{np.mean(found):.3f}±{np.std(found):.3f}")
        print(f"| {epsilon} |", *(f"{cell} |" for cell in cells), flush=True)


if __name__ == "__main__":
    main()

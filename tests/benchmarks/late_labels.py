"""Bias by the window for late purchases, on the synthetic log.

    python -m tests.benchmarks.late_labels --rows 100000

A visit without a purchase within the window counts as one without a purchase. A model of such
labels is compared with the final labels of other visits.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from labeldp.platform.api import party_files, two_parties
from labeldp.platform.api.fitting import number_rows
from labeldp.platform.vault.shared_vault import SharedVault
from labeldp.trainers.data.conversions import SECRETS, conversions
from labeldp.trainers.methods.any_model import named_estimator, some_of

WINDOWS = (1.0, 7.0, 30.0)


def without_noise(
    features: pd.DataFrame, labels: NDArray[np.bool_], new: pd.DataFrame
) -> NDArray[np.float64]:
    """Return probabilities [N, 2] by the model of true labels: the bias alone."""
    data = number_rows(features.drop(columns="id"), num_classes=2)
    rows = data.train_features
    some = some_of(len(rows), seed=0)
    model = named_estimator("boosting", rows=len(some), seed=0).fit(rows[some], labels[some] * 1)
    return np.asarray(model.predict_proba(data.preprocessing(new.drop(columns="id"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    given = parser.parse_args()
    log, test = conversions(given.rows, seed=0), conversions(100_000, seed=1)
    bought, truth = ((each.bought == "yes").to_numpy() for each in (log, test))
    features, new = (each.drop(columns=list(SECRETS)) for each in (log, test))
    dear = (test.price > test.price.quantile(0.9)).to_numpy()
    print("window  seen  labels    predicted/true  among the dearest tenth  AUC")
    with tempfile.TemporaryDirectory() as place:
        request = two_parties.write_request(
            features,
            Path(place, "request"),
            id_column="id",
            method="moments",
            classes=("no", "yes"),
        )
        for window in (*WINDOWS, np.inf):
            labels = (log.delay <= window).to_numpy()
            known = features[["id"]][labels].assign(bought="yes")
            folder = Path(place, f"{window:g}")
            two_parties.answer(
                known,
                request,
                folder,
                id_column="id",
                label_column="bought",
                epsilon=1.0,
                vault=SharedVault(),
                missing="no",
            )
            released = two_parties.fit_release(features, [party_files.read_release(folder)])
            true = without_noise(features, labels, new)
            for name, both in (("true", true), ("released", released.predict_proba(new))):
                found = both[:, 1]
                print(
                    f"{window:6g}  {labels.sum() / bought.sum():4.0%}  {name:8s}"
                    f"  {found.mean() / truth.mean():14.2f}"
                    f"  {found[dear].mean() / truth[dear].mean():23.2f}"
                    f"  {roc_auc_score(truth, found):.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

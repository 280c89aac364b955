"""Any model on released labels, beside the same model on true ones: the tables of docs/python.md.

    python -m tests.benchmarks.any_model adult --data DEST --seeds 5

Prints figures of test rows, mean and standard deviation over seeds of the noise, as Markdown. Two
classes: subset selection is randomized response. `network` is the platform's own model.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from labeldp import LabelPrivateClassifier, PrivacyAddsUp
from labeldp.platform.api.fitting import number_rows
from labeldp.platform.sweep.trial import test_figures
from labeldp.trainers.data.published import read_adult_rows
from labeldp.trainers.methods.any_model import named_estimator

EPSILONS = (0.1, 0.5, 1.0, 2.0)
METHODS = ("no_privacy", "moment_labels", "randomized_response")
_SHOWN = {"roc_auc": 4, "log_loss": 4, "calibration_error": 4}
Part = tuple[pd.DataFrame, NDArray[np.int64]]


def adult(folder: Path) -> tuple[Part, Part]:
    """Return features and labels in 0..1 for training and for testing."""
    train, labels = read_adult_rows(folder / "adult.data")
    test, truth = read_adult_rows(folder / "adult.test")
    return (pd.DataFrame(train), labels), (pd.DataFrame(test), truth)


def measured(
    train: Part, test: Part, *, model: str, method: str, epsilon: float, seed: int
) -> dict[str, float]:
    """Fit once, and return the figures of the test rows with the seconds of the fit."""
    rows, labels = train
    started = time.perf_counter()
    estimator = None if model == "network" else named_estimator(model, rows=len(rows), seed=seed)
    if method == "no_privacy" and estimator is not None:
        data = number_rows(rows, num_classes=2)
        fitted = estimator.fit(data.train_features, labels)
        tested = data.preprocessing(test[0])
    else:
        fitted = LabelPrivateClassifier(
            method,
            epsilon=epsilon if method != "no_privacy" else 1.0,
            classes=2,
            random_state=seed,
            estimator=estimator,
        ).fit(rows, labels)
        tested = test[0]
    seconds = time.perf_counter() - started
    return test_figures(fitted.predict_proba(tested), test[1]) | {"seconds": seconds}


def lines(train: Part, test: Part, options: argparse.Namespace) -> Iterator[str]:
    yield f"| model | labels | epsilon | {' | '.join(_SHOWN)} | seconds | seeds |"
    yield "|---" * (len(_SHOWN) + 5) + "|"
    for model in options.models.split(","):
        for method in METHODS:
            private = method != "no_privacy"
            for epsilon in EPSILONS if private else (np.inf,):
                seeds = range(options.seeds if private else 1)
                found = pd.DataFrame(
                    measured(train, test, model=model, method=method, epsilon=epsilon, seed=seed)
                    for seed in seeds
                )
                cells = [
                    f"{found[name].mean():.{digits}f}"
                    + (f" +- {found[name].std():.{digits}f}" if len(seeds) > 1 else "")
                    for name, digits in _SHOWN.items()
                ]
                about = [model, method, f"{epsilon:g}", *cells]
                yield f"| {' | '.join(about)} | {found.seconds.mean():.1f} | {len(seeds)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=("adult",))
    parser.add_argument("--data", type=Path, default=Path(), help="folder of adult.data")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", default="boosting,logistic,network")
    options = parser.parse_args()
    # Fits on the same rows, for comparison.
    warnings.simplefilter("ignore", PrivacyAddsUp)
    train, test = adult(options.data)
    for line in lines(train, test, options):
        print(line, flush=True)


if __name__ == "__main__":
    main()

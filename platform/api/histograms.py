"""Models of histograms that another party noised: its epsilon is stated, and no vault pays it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from labeldp.mechanisms import _validate
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.api.fitting import number_rows
from labeldp.platform.api.label_release import class_numbers
from labeldp.trainers.methods.any_model import fit_to_soft_labels, named_estimator, some_of
from labeldp.trainers.methods.histograms import labels_of_counts, read_histograms
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.settings.trainer import EstimatorPredictor


@_validate.plain_numbers
def fit_histograms(
    features: pd.DataFrame,
    histograms: pd.DataFrame,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    l1: float | None = None,
    classes: Sequence[str] = ("no", "yes"),
    estimator: Any = None,
    seed: int = 0,
) -> TrainedModel:
    """Fit a classifier to noisy counts of labels in buckets of the rows of a table.

    Args:
        features: One row per label; columns without a bucket are not used.
        histograms: A row for each bucket, as `read_histograms` takes it.
        epsilon: Of all counts together, as the party states it that drew their noise. Without it
            the model states an infinite one.
        delta: Likewise, of Gaussian noise.
        l1: The most that one label adds to all counts together. Then all of them have the Laplace
            noise of W3C Attribution, of scale 2 x `l1` / `epsilon`; otherwise the table has it.
        classes: Names of the other class and of the counted one.
        estimator: Any scikit-learn classifier. If None, boosted trees of one column each.
        seed: Of samples.

    Raises:
        ValueError: The table lacks columns, or names columns that the features do not have.
    """
    _validate.positive(epsilon=1.0 if epsilon is None else epsilon, l1=1.0 if l1 is None else l1)
    _validate.delta(delta)
    class_numbers((), classes)
    if l1 is not None and epsilon is None:
        raise ValueError("l1 gives noise of scale 2 x l1 / epsilon; state epsilon, too")
    scale = None if l1 is None or epsilon is None else 2 * l1 / epsilon
    buckets = read_histograms(histograms, scale=scale)
    soft = labels_of_counts(features, buckets)
    columns = buckets["column"].unique().tolist()
    data = number_rows(features.rename(columns=str)[columns], num_classes=2, keep=columns)
    some = some_of(len(soft), seed=seed)
    rows = data.train_features[some]
    if estimator is None:
        model = named_estimator("boosting", rows=len(rows), seed=seed)
        # Weights in place of draws: these trees take them, and have no noise of a draw.
        model.set_params(interaction_cst="no_interactions")
        weights = soft[some].T.ravel()
        model.fit(np.vstack([rows, rows]), np.repeat([0, 1], len(rows)), sample_weight=weights)
    else:
        model = fit_to_soft_labels(estimator, rows, soft[some], seed=seed)
    learner = model.steps[-1][1] if hasattr(model, "steps") else model
    return TrainedModel(
        predictor=EstimatorPredictor(estimator=model, num_classes=2),
        preprocessing=data.preprocessing,
        origin=Origin(
            method=f"{type(learner).__name__} on histograms",
            epsilon=math.inf if epsilon is None else epsilon,
            delta=delta,
            num_classes=2,
            classes=tuple(map(str, classes)),
            seed=seed,
            noise=NoiseKind.PLAIN,
            stated_by="the party that drew the noise",
        ),
    )

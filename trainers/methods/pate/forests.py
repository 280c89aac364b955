"""Random forests for tables, from scikit-learn.

>>> forest = fit_forest(torch.eye(4), np.array([0, 1, 0, 1]), settings=ForestSettings(), seed=0)
>>> forest.predict(torch.eye(4)[:2])
array([0, 1])
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.trainers.methods.closed_forms import ForestPredictor
from labeldp.trainers.settings.forest import ForestSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class Forest:
    """A fitted forest.

    Attributes:
        model: scikit-learn's.
        num_classes: K; a forest that saw fewer classes gives the others 0.
    """

    model: Any
    num_classes: int

    def predict(self, features: torch.Tensor) -> NDArray[np.int64]:
        """Classes [N] of features [N, D]."""
        classes: NDArray[np.int64] = self.probabilities(features).argmax(1)
        return classes

    def predictor(self) -> ForestPredictor:
        """Return the trees as arrays, which give the same probabilities."""
        return ForestPredictor.of(self.model, self.num_classes)

    def probabilities(self, features: torch.Tensor) -> NDArray[np.float32]:
        """Probabilities [N, K] of features [N, D]."""
        found = self.model.predict_proba(_matrix(features))
        full = np.zeros((len(found), self.num_classes), dtype=np.float32)
        full[:, self.model.classes_] = found
        return full


def fit_forest(
    features: torch.Tensor,
    labels: NDArray[np.int64],
    *,
    settings: ForestSettings,
    seed: int,
    num_classes: int | None = None,
) -> Forest:
    """Fit a forest.

    Args:
        features: [N, D]; images are taken pixel by pixel.
        labels: [N].
        settings: Settings.
        seed: Of bootstraps and splits.
        num_classes: K; the largest label and one if not given.
    """
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(
        n_estimators=settings.trees,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=seed,
        n_jobs=1,
    )
    model.fit(_matrix(features), labels)
    return Forest(model=model, num_classes=num_classes or int(labels.max()) + 1)


def _matrix(features: torch.Tensor) -> NDArray[np.float32]:
    return np.asarray(features.reshape(len(features), -1).float().numpy(), dtype=np.float32)

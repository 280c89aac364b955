"""The base of all predictors, and that of a scikit-learn estimator, which needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import Stored
from labeldp.trainers.data.preprocessing import skops_io

#: Libraries whose types a kept estimator may hold.
_LIBRARIES = ("sklearn.", "numpy.", "lightgbm.", "xgboost.", "catboost.", "collections.")


class Predictor(Stored):
    """Features in, probabilities out."""

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...]."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, eq=False)
class EstimatorPredictor(Predictor):
    """A fitted classifier of scikit-learn or a library like it, kept in the format of skops.

    Its classes are places among the model's `num_classes`.
    """

    kind: ClassVar[str] = "estimator"

    estimator: Any
    num_classes: int

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for rows [N, D]."""
        found = np.zeros((len(features), self.num_classes), dtype=np.float32)
        rows = np.asarray(features).reshape(len(features), -1)
        seen = np.asarray(self.estimator.classes_, dtype=int)
        found[:, seen] = self.estimator.predict_proba(rows)
        return found

    def described(self) -> dict[str, Any]:
        """Return its kind and classes; the estimator is bytes."""
        return {"kind": self.kind, "num_classes": self.num_classes}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the estimator as bytes."""
        return {"skops": np.frombuffer(skops_io().dumps(self.estimator), dtype=np.uint8)}

    @classmethod
    def _made(cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        data = arrays["skops"].tobytes()
        unknown = skops_io().get_untrusted_types(data=data)
        foreign = [name for name in unknown if not name.startswith(_LIBRARIES)]
        if foreign:
            raise ValueError(f"a model may not hold {', '.join(foreign)}, which are of no library")
        estimator = skops_io().loads(data, trusted=unknown)
        return cls(estimator=estimator, num_classes=described["num_classes"])

"""What predicts and is no network: linear models, probes, and forests as arrays.

A forest is written down as the nodes of its trees, side by side, so that reading it back needs
neither scikit-learn nor a pickle. It is walked through for all rows at once, a level at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from labeldp.trainers.models.predictors import Pixels, pixels_described, pixels_restored

_CHUNK_ROWS = 8192
#: Scores of a probe are regressions to 0 and 1, too flat for a softmax without a factor.
SHARPNESS = 8.0
#: Where scikit-learn's trees have no further node.
_LEAF = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPredictor:
    """Softmax of a linear model.

    Attributes:
        weights: [D + 1, K] in double precision; the last row is the bias.
        pixels: How images become numbers; None for other features.
    """

    kind: ClassVar[str] = "linear"

    weights: NDArray[np.float64]
    pixels: Pixels | None = None

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...]."""
        chunks = [
            softmax(with_constant(rows, self.pixels) @ self.weights, axis=1)
            for rows in torch.split(features, _CHUNK_ROWS)
        ]
        return np.concatenate(chunks).astype(np.float32)

    def described(self) -> dict[str, Any]:
        """Return what is no array."""
        return {"kind": self.kind, "pixels": pixels_described(self.pixels)}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights."""
        return {"weights": torch.from_numpy(self.weights.copy())}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, Tensor]
    ) -> "LinearPredictor":
        """Return what `described` and `arrays` were taken of."""
        return cls(weights=_matrix(arrays["weights"]), pixels=pixels_restored(described["pixels"]))


def with_constant(features: Tensor, pixels: Pixels | None) -> NDArray[np.float32]:
    """Return flat features and a constant 1, [N, D + 1]; images are normalized first."""
    if pixels is not None:
        features = pixels.normalized(features)
    flat = features.cpu().flatten(1).float()
    return torch.cat([flat, torch.ones(len(flat), 1)], dim=1).numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbePredictor:
    """A ridge regression to the classes, its scores made sharper.

    Attributes:
        weights: Single precision [D + 1, K]; the last row is the bias.
    """

    kind: ClassVar[str] = "probe"

    weights: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Regressions to 0 and 1 [N, K]."""
        return features @ self.weights[:-1] + self.weights[-1]

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, D]."""
        found: NDArray[np.float32] = self.scores(features).mul(SHARPNESS).softmax(1).numpy()
        return found

    def described(self) -> dict[str, Any]:
        """Return what is no array."""
        return {"kind": self.kind}

    def arrays(self) -> dict[str, Tensor]:
        """Return the weights."""
        return {"weights": self.weights.detach().cpu().clone()}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, Tensor]
    ) -> "ProbePredictor":
        """Return what `arrays` were taken of."""
        del described
        _matrix(arrays["weights"])
        return cls(weights=arrays["weights"])


@dataclass(frozen=True, kw_only=True, eq=False)
class ForestPredictor:
    """A forest: each tree's nodes, one tree after the other.

    Attributes:
        roots: First node of each tree [trees].
        feature: That a node looks at [nodes].
        threshold: What goes left is at most so large [nodes].
        left: Next node there [nodes], counted within the tree; -1 at a leaf.
        right: Likewise.
        share: Of each class among the examples of a node [nodes, seen classes].
        classes: That the forest has seen [seen classes]; others get 0.
        num_classes: K.
        num_features: D.
    """

    kind: ClassVar[str] = "forest"

    roots: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    share: NDArray[np.float64]
    classes: NDArray[np.int64]
    num_classes: int
    num_features: int

    @classmethod
    def of(cls, model: Any, num_classes: int) -> "ForestPredictor":
        """Return the trees of scikit-learn's fitted forest."""
        trees = [each.tree_ for each in model.estimators_]
        counts = [tree.node_count for tree in trees]

        def of_all(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(tree, name) for tree in trees])

        return cls(
            roots=np.cumsum([0, *counts[:-1]]),
            feature=of_all("feature").astype(np.int64),
            threshold=of_all("threshold").astype(np.float64),
            left=of_all("children_left").astype(np.int64),
            right=of_all("children_right").astype(np.int64),
            share=of_all("value")[:, 0].astype(np.float64),
            classes=np.asarray(model.classes_, dtype=np.int64),
            num_classes=num_classes,
            num_features=int(model.n_features_in_),
        )

    def predict(self, features: Tensor) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for features [N, ...], taken one by one if images."""
        parts = [self._predicted(rows) for rows in torch.split(features, _CHUNK_ROWS)]
        return np.concatenate(parts)

    def described(self) -> dict[str, Any]:
        """Return what is no array."""
        return {
            "kind": self.kind,
            "num_classes": self.num_classes,
            "num_features": self.num_features,
        }

    def arrays(self) -> dict[str, Tensor]:
        """Return the nodes."""
        return {name: torch.from_numpy(getattr(self, name).copy()) for name in _NODES}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, Tensor]
    ) -> "ForestPredictor":
        """Return what `described` and `arrays` were taken of.

        Raises:
            ValueError: Nodes that lead out of a tree, or in a circle.
        """
        forest = cls(
            **{name: arrays[name].numpy() for name in _NODES},
            num_classes=described["num_classes"],
            num_features=described["num_features"],
        )
        forest._check()
        return forest

    def _predicted(self, rows: Tensor) -> NDArray[np.float32]:
        matrix = rows.reshape(len(rows), -1).float().cpu().numpy()
        total = np.zeros((len(matrix), len(self.classes)))
        # One after the other, as scikit-learn adds them up: another order gives other bits.
        for root in self.roots:
            total += self.share[self._leaves(matrix, root)]
        total /= len(self.roots)
        full = np.zeros((len(matrix), self.num_classes), dtype=np.float32)
        full[:, self.classes] = total
        return full

    def _leaves(self, matrix: NDArray[np.float32], root: np.int64) -> NDArray[np.int64]:
        """Leaf [N] that each row [N, D] ends at in the tree of that root."""
        at = np.full(len(matrix), root)
        going = np.arange(len(matrix))
        while len(going := going[self.left[at[going]] != _LEAF]):
            node = at[going]
            left = matrix[going, self.feature[node]] <= self.threshold[node]
            at[going] = root + np.where(left, self.left[node], self.right[node])
        return at

    def _check(self) -> None:
        count = len(self.feature)
        inner = self.left != _LEAF
        starts = np.zeros(count, dtype=bool)
        starts[self.roots] = True
        own = self.roots[np.cumsum(starts) - 1]
        places = np.arange(count) - own
        ends = np.append(self.roots[1:], count)[np.cumsum(starts) - 1] - own
        children = np.stack([self.left, self.right])[:, inner]
        # A node comes before what follows it, so that no walk is without end.
        sound = (
            all(len(getattr(self, name)) == count for name in ("threshold", "left", "right"))
            and self.share.shape == (count, len(self.classes))
            and (children > places[inner]).all()
            and (children < ends[inner]).all()
            and (self.feature[inner] >= 0).all()
            and (self.feature[inner] < self.num_features).all()
            and ((self.classes >= 0) & (self.classes < self.num_classes)).all()
        )
        if not sound:
            raise ValueError("the nodes of its trees don't belong together")


_NODES = ("roots", "feature", "threshold", "left", "right", "share", "classes")


def _matrix(weights: Tensor) -> NDArray[Any]:
    if weights.ndim != 2:
        raise ValueError(f"weights have shape {tuple(weights.shape)}; they must be [D + 1, K]")
    return np.asarray(weights.numpy())

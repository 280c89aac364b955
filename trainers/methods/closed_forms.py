"""Models fitted at once: linear probes on frozen features, and random forests for tables.

A probe is a ridge regression from features that no label went into to the classes of its own
shard. That is a matrix product and a small linear system; 800 of them take seconds, where 800
networks take days. Nothing about a teacher is tuned on labels: the ridge is a constant.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.trainers.settings.pate import MOST_CLASSES, ForestSettings

#: Teachers that are trained or vote at once, and queries of one matrix product.
_TEACHERS_AT_ONCE = 100
_QUERIES_AT_ONCE = 2000


def train_probes(
    features: Tensor,
    shards: Sequence[NDArray[np.integer[Any]]],
    labels_of_shards: Sequence[NDArray[np.integer[Any]]],
    num_classes: int,
    *,
    ridge: float = 0.1,
) -> Tensor:
    """Train a ridge regression on each shard; return weights [T, D + 1, K], the bias last.

    Each minimizes sum_i |y_i - W x_i|^2 + ridge |W|^2 over its own examples, where x ends with a
    constant 1 and y is the one-hot label less 1/K. The result of a shard depends on the labels
    of that shard alone.

    `features` [N, D] are computed without labels, centered and with a mean squared norm of about 1,
    as `described_by_features` gives them, for the default ridge to fit; it is fixed beforehand,
    never chosen by labels. `shards` are indices of each teacher's examples, T times [n_t], which
    the vault cuts, disjoint; K is 256 at most.
    """
    _validate.whole(num_classes=num_classes, minimum=2)
    _validate.positive(ridge=ridge)
    if num_classes > MOST_CLASSES:
        raise ValueError(
            f"num_classes is {num_classes}; a vote is one byte, so {MOST_CLASSES} is the most"
        )
    weights = features.new_empty((len(shards), features.shape[1] + 1, num_classes))
    for teachers in _groups_of_one_size(shards):
        indices, labels = (
            torch.from_numpy(np.stack([part[t] for t in teachers]).astype(np.int64))
            for part in (shards, labels_of_shards)
        )
        indices, labels = indices.to(features.device), labels.to(features.device)
        targets = functional.one_hot(labels, num_classes).to(features.dtype) - 1 / num_classes
        weights[teachers] = _ridge_regression(_with_constant(features[indices]), targets, ridge)
    return weights


def vote(probes: Tensor, query_features: Tensor) -> NDArray[np.uint8]:
    """Return each teacher's vote [T, Q] on queries [Q, D]: its first highest score."""
    teachers, width, classes = probes.shape
    votes = np.empty((teachers, len(query_features)), dtype=np.uint8)
    for first in range(0, teachers, _TEACHERS_AT_ONCE):
        some = probes[first : first + _TEACHERS_AT_ONCE]
        flat = some.transpose(0, 1).reshape(width, -1)
        for start in range(0, len(query_features), _QUERIES_AT_ONCE):
            queries = query_features[start : start + _QUERIES_AT_ONCE].to(flat)
            scores = torch.addmm(flat[-1], queries, flat[:-1]).view(len(queries), -1, classes)
            chosen = scores.argmax(2).to(torch.uint8).T
            votes[first : first + len(some), start : start + len(queries)] = chosen.cpu().numpy()
    return votes


def _ridge_regression(x: Tensor, y: Tensor, ridge: float) -> Tensor:
    """Solve for the weights [T, D, K] of x [T, n, D] and y [T, n, K], in the smaller dimension."""
    tall = x.shape[1] > x.shape[2]
    gram = (x.mT @ x if tall else x @ x.mT).double()
    gram.diagonal(dim1=1, dim2=2).add_(ridge)
    right = x.mT @ y if tall else y
    solution: Tensor = torch.linalg.solve(gram, right.double()).to(x)
    return solution if tall else x.mT @ solution


def _with_constant(x: Tensor) -> Tensor:
    return functional.pad(x, (0, 1), value=1.0)


def _groups_of_one_size(rows: Sequence[NDArray[Any]]) -> Iterator[list[int]]:
    """Teachers whose shards are equally large can be stacked; bounded groups bound the memory."""
    sizes = np.array([len(indices) for indices in rows])
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size).tolist()
        for start in range(0, len(same), _TEACHERS_AT_ONCE):
            yield same[start : start + _TEACHERS_AT_ONCE]


def fit_forest(
    features: torch.Tensor, labels: NDArray[np.int64], *, settings: ForestSettings, seed: int
) -> Any:
    """Fit a forest to features [N, D], or to images pixel by pixel, and labels [N]."""
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(
        n_estimators=settings.trees,
        min_samples_leaf=settings.min_samples_leaf,
        random_state=seed,
        n_jobs=1,
    )
    return model.fit(features.flatten(1).float().numpy(), labels)

"""The likelihood of a release of labels, from which models of a table learn.

`LabelEvidence` is of single labels, each with its own noise. `CountEvidence` is of noisy counts of
classes in groups of rows. Both compute the cost of predicted probabilities,
-log Pr[release | predictions] up to a constant, and its gradient. They read no true label.

>>> evidence = LabelEvidence.of(np.log(0.1 + 0.8 * np.eye(2)[[0, 0, 1]]))
>>> evidence.shares.round(2).tolist(), round(evidence.information, 2)
([0.71, 0.29], 0.64)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]

#: Of expectation maximization, for shares and weights.
_ROUNDS = 300
_SETTLED = 1e-7
_TINY = 1e-12
_LEAST_SHARE = 1e-9
#: Smaller priors of a class count as this one.
_LEAST_PRIOR = 1e-3
#: Part of the variance of labels in a group that their features leave.
_LEFT_VARIANCE = 0.7
#: Weight of the equation that weights add up to 1.
_SURE = 1e3
#: Weight of the equations that weights are even, since counts are few.
_EVEN = 100.0


class Evidence(Protocol):
    """The likelihood of a release of the labels of N rows."""

    @property
    def shares(self) -> Floats:
        """Shares of the classes [K], none below its error: a class that seems absent may occur."""

    def cost(self, predicted: Floats) -> float:
        """Return -log Pr[release | predicted probabilities [N, K]] up to a constant."""

    def pull(self, predicted: Floats) -> Floats:
        """Return the gradient of the cost by the logits of the predictions [N, K]."""

    def unbiased(self) -> "Unbiased":
        """Return amounts of the classes whose mean is the labels, and what they cost."""

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """Return the evidence of some of the rows: whole groups of them."""

    def folds(self, count: int, *, seed: int) -> NDArray[np.intp]:
        """Return the fold of each row [N], out of `count`."""

    def weights(self, parts: Floats) -> Floats:
        """Return weights [M] under which a mixture of predictions [M, N, K] costs least."""

    def posterior(self, prior: Floats) -> Floats:
        """Return what the release says of each label [N, K] under a prior [N, K]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Unbiased:
    """Amounts of the classes [N, K], which add up to 1 in each row and may be below 0.

    Their cross-entropy is convex in the logits.
    """

    amounts: Floats

    def cost(self, predicted: Floats) -> float:
        """Return the cross-entropy of predicted probabilities [N, K]."""
        return -float((self.amounts * np.log(np.maximum(predicted, _TINY))).sum())

    def pull(self, predicted: Floats) -> Floats:
        """Return its gradient by the logits of the predictions [N, K]."""
        return predicted - self.amounts

    @classmethod
    def of(cls, amounts: Floats) -> Self:
        """Return these amounts [N, K], with what is missing to 1 spread over the classes."""
        return cls(amounts=amounts + (1 - amounts.sum(1, keepdims=True)) / amounts.shape[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelEvidence:
    """The likelihood of single labels with noise.

    Attributes:
        chances: Likelihood of the release by class [N, K]; the largest of each row is 1.
        shares: As in `Evidence`.
        likelier: Classes that the release makes likelier than an even prior [N, K].
        own, other: How often that is so of a label's own class, and of each other class.
    """

    chances: Floats
    shares: Floats
    likelier: NDArray[np.bool_]
    own: float
    other: float

    @classmethod
    def of(cls, log_likelihood: NDArray[np.floating]) -> Self:
        """Read a release by its log-likelihood [N, K], up to a term of the row.

        All mechanisms here treat classes alike, so that the release itself shows `own` and `other`.
        """
        highest = log_likelihood.max(1, keepdims=True)
        return cls._of(np.exp(np.asarray(log_likelihood, np.float64) - highest))

    @classmethod
    def _of(cls, chances: Floats) -> Self:
        flat = chances / chances.sum(1, keepdims=True)
        classes = flat.shape[1]
        likelier = flat > (1 + 1e-9) / classes
        own = float((flat * likelier).sum(1).mean())
        other = (float(likelier.sum(1).mean()) - own) / (classes - 1)
        error = math.sqrt(other * (1 - other) / len(flat)) / max(own - other, _TINY)
        shares = np.maximum(_likeliest_shares(chances), np.clip(error, _LEAST_SHARE, 1 / classes))
        return cls(
            chances=chances,
            shares=shares / shares.sum(),
            likelier=likelier,
            own=own,
            other=other,
        )

    @property
    def information(self) -> float:
        """Information in one label, between 0 and 1, which is that of a true one."""
        classes = len(self.shares)
        size = float(self.likelier.sum(1).mean())
        spread = size * (classes - size)
        return (self.own - self.other) ** 2 * (classes - 1) / spread if spread > 0 else 0.0

    def cost(self, predicted: Floats) -> float:
        """As in `Evidence`."""
        return -float(np.log(self._seen(predicted)).sum())

    def pull(self, predicted: Floats) -> Floats:
        """As in `Evidence`: predictions less their posterior."""
        joint = predicted * self.chances
        return np.asarray(predicted - joint / np.maximum(joint.sum(1, keepdims=True), _TINY))

    def unbiased(self) -> Unbiased:
        """As in `Evidence`, by whether the release makes a class likelier."""
        amounts = (self.likelier - self.other) / max(self.own - self.other, _TINY)
        return Unbiased.of(np.asarray(amounts, np.float64))

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """As in `Evidence`; shares are found anew."""
        return self._of(self.chances[rows])

    def folds(self, count: int, *, seed: int) -> NDArray[np.intp]:
        """As in `Evidence`."""
        return np.random.default_rng(seed).permutation(len(self.chances)) % count

    def weights(self, parts: Floats) -> Floats:
        """As in `Evidence`, by expectation maximization."""
        seen = np.stack([self._seen(part) for part in parts])
        weights = np.full(len(seen), 1 / len(seen))
        for _ in range(_ROUNDS):
            joint = weights[:, None] * seen
            weights = (joint / joint.sum(0)).mean(1)
        return weights

    def posterior(self, prior: Floats) -> Floats:
        """As in `Evidence`."""
        joint = self.chances * np.maximum(prior, _LEAST_PRIOR)
        return np.asarray(joint / joint.sum(1, keepdims=True))

    def _seen(self, predicted: Floats) -> Floats:
        return np.asarray(np.maximum(np.einsum("nk,nk->n", self.chances, predicted), _TINY))


def _likeliest_shares(chances: Floats) -> Floats:
    shares = np.full(chances.shape[1], 1 / chances.shape[1])
    for _ in range(_ROUNDS):
        before = shares
        shares = shares * (chances / (chances @ shares)[:, None]).mean(0)
        if np.abs(shares - before).max() < _SETTLED:
            break
    return shares


@dataclass(frozen=True, kw_only=True, eq=False)
class CountEvidence:
    """The likelihood of noisy counts of classes in groups of rows.

    A count is normal around the sum of its group's predictions. Its variance is that of the noise
    and of labels at random.

    Attributes:
        counts: Noisy counts [G, K].
        groups: Number of each row's group [N].
        noise_std: Standard deviation of the noise of a group's counts [G].
    """

    counts: Floats
    groups: NDArray[np.intp]
    noise_std: Floats

    @classmethod
    def of(cls, counts: NDArray[Any], groups: NDArray[Any], *, noise_std: float) -> Self:
        """Read noisy counts [G, K] of rows whose groups are numbered from 0 [N]."""
        return cls(
            counts=np.asarray(counts, np.float64),
            groups=np.asarray(groups, np.intp),
            noise_std=np.full(len(counts), noise_std),
        )

    @classmethod
    def together(cls, parts: Sequence["CountEvidence"]) -> Self:
        """Return several releases, one after the other, as one of all their rows."""
        starts = np.cumsum([0, *(len(part.counts) for part in parts)])
        groups = [part.groups + start for part, start in zip(parts, starts, strict=False)]
        return cls(
            counts=np.concatenate([part.counts for part in parts]),
            groups=np.concatenate(groups),
            noise_std=np.concatenate([part.noise_std for part in parts]),
        )

    @cached_property
    def shares(self) -> Floats:
        """As in `Evidence`."""
        classes = self.counts.shape[1]
        error = np.linalg.norm(self.noise_std) / len(self.groups)
        least = np.clip(error, _LEAST_SHARE, 1 / classes)
        found = np.maximum(self.counts.sum(0) / len(self.groups), least)
        return np.asarray(found / found.sum())

    @cached_property
    def _deviations(self) -> Floats:
        shares = self.shares
        of_labels = np.outer(np.bincount(self.groups), shares * (1 - shares))
        return np.asarray(np.sqrt(self.noise_std[:, None] ** 2 + _LEFT_VARIANCE * of_labels))

    def cost(self, predicted: Floats) -> float:
        """As in `Evidence`."""
        return float(np.square(self._missing(predicted) / self._deviations).sum()) / 2

    def pull(self, predicted: Floats) -> Floats:
        """As in `Evidence`."""
        slope = -(self._missing(predicted) / self._deviations**2)[self.groups]
        return np.asarray(predicted * (slope - (predicted * slope).sum(1, keepdims=True)))

    def unbiased(self) -> Unbiased:
        """As in `Evidence`: the shares of each row's group."""
        shares = self.counts / np.bincount(self.groups)[:, None]
        return Unbiased.of(shares[self.groups])

    def only(self, rows: NDArray[np.bool_]) -> Self:
        """As in `Evidence`; `rows` are whole groups."""
        kept, groups = np.unique(self.groups[rows], return_inverse=True)
        return type(self)(counts=self.counts[kept], groups=groups, noise_std=self.noise_std[kept])

    def folds(self, count: int, *, seed: int) -> NDArray[np.intp]:
        """As in `Evidence`."""
        return (np.random.default_rng(seed).permutation(len(self.counts)) % count)[self.groups]

    def weights(self, parts: Floats) -> Floats:
        """As in `Evidence`, by least squares of weights not below 0."""
        deviations = self._deviations
        columns = [(self._summed(part) / deviations).ravel() for part in parts]
        count = len(parts)
        pulled = math.sqrt(_EVEN) * np.eye(count)
        equations = np.vstack([np.stack(columns, axis=1), np.full(count, _SURE), pulled])
        right = [(self.counts / deviations).ravel(), [_SURE], pulled.mean(0)]
        found, _ = nnls(equations, np.concatenate(right))
        return np.asarray(found / found.sum())

    def posterior(self, prior: Floats) -> Floats:
        """As in `Evidence`: a group's counts say little of one of its labels."""
        return prior

    def _summed(self, predicted: Floats) -> Floats:
        size = len(self.counts)
        return np.stack([np.bincount(self.groups, each, size) for each in predicted.T], axis=1)

    def _missing(self, predicted: Floats) -> Floats:
        return self.counts - self._summed(predicted)

"""RRWithPrior: randomized response that spends its budget on the classes a prior finds likely.

Ghazi, Golowich, Kumar, Manurangsi, Zhang, "Deep Learning with Label Differential Privacy",
NeurIPS 2021, section 3 (Algorithms 1 and 2, Theorem 3). The k likeliest classes are the only
outputs; k maximizes the probability that the label survives. It follows from the public prior
alone, so that the choice costs nothing; a label outside the k is replaced by one of them.

A prior may come from clusters (Algorithm 4): the features are grouped without labels, and the
classes of each group are counted with a small budget of their own (`ClusterHistograms`).

>>> mechanism = RRWithPrior(epsilon=1.0)
>>> prior = np.array([[0.90, 0.06, 0.03, 0.01], [0.25, 0.25, 0.25, 0.25]])
>>> mechanism.top_k(prior), mechanism.keep_probability(prior).round(3)
(array([1, 4]), array([0.9  , 0.475]))
>>> counts = ClusterHistograms(epsilon=4.0, num_classes=2).release(
...     np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1]), generator=np.random.default_rng(7))
>>> counts.shape
(2, 2)
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, as_numpy, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.randomized_response import happens, wrong_probability
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    DrawnExactly,
    as_discrete_generator,
    discrete_laplace,
)

#: Entries of a block of rows: small enough to stay in the cache, whatever N and K are.
_BLOCK_ENTRIES = 1 << 18


def tempered(logits: AnyArray, *, temperature: float) -> AnyArray:
    """Prior softmax(logits / temperature) [N, K]: below 1 it sharpens, above 1 it flattens.

    For a prior of probabilities pass its logarithm; -inf rules a class out. The paper found
    temperatures of 0.5 to 1 useful.
    """
    _validate.positive(temperature=temperature)
    values = as_numpy(logits).astype(np.float64)
    if values.ndim != 2 or values.size == 0:
        raise ValueError(f"logits has shape {values.shape}; it must be [N, K], neither of them 0")
    top = values.max(axis=1, keepdims=True)
    rule = "it must not hold NaN or +inf, and at least one class must be above -inf"
    _validate.refuse_entries(~np.isfinite(top[:, 0]), values, "logits", rule)
    with np.errstate(over="ignore"):  # a tiny temperature sends all but the largest to -inf
        weights = np.exp((values - top) / temperature)
    return like(weights / weights.sum(axis=1, keepdims=True), logits)


@dataclass(frozen=True, kw_only=True)
class RRWithPrior(PureMechanism):
    """Randomized response on the likeliest classes under a public prior: pure epsilon-DP.

    Whatever the prior is (the paper's Lemma 1).
    """

    failure_probability: ClassVar[float] = 0.0

    def top_k(self, prior: AnyArray) -> AnyArray:
        """Number of classes k* [N] that are possible outputs; of equally good ones the smallest."""
        return like(as_numpy(self.outputs(prior)).sum(axis=1), prior)

    def outputs(self, prior: AnyArray) -> AnyArray:
        """Return the possible outputs [N, K]: the k* likeliest of each row of the prior."""
        checked = _validate.probabilities(prior, name="prior")
        members = np.empty(checked.shape, dtype=bool)
        for rows in _validate.blocks(*checked.shape, entries=_BLOCK_ENTRIES):
            members[rows] = self._members(checked[rows])
        return like(members, prior)

    def keep_probability(self, prior: AnyArray) -> AnyArray:
        """Probability [N] that the output is the true label, if labels follow the prior [N, K]."""
        checked = _validate.probabilities(prior, name="prior")
        members = self.outputs(checked)
        # Single precision leaves rows that miss 1 by 1e-6.
        share = np.einsum("nk,nk->n", members, checked) / checked.sum(axis=1)
        return like(share / (1 + (members.sum(axis=1) - 1) * math.exp(-self.epsilon)), prior)

    def release(self, labels: AnyArray, prior: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy labels [N] once; the prior [N, K] must be made without these labels."""
        checked = _validate.probabilities(prior, name="prior")
        exact = labels_for(checked, labels, secret=True)
        numpy_generator = as_discrete_generator(generator)
        noisy = np.empty_like(exact)
        for rows in _validate.blocks(*checked.shape, entries=_BLOCK_ENTRIES):
            noisy[rows] = self._release_block(exact[rows], checked[rows], numpy_generator)
        return like(noisy, labels)

    def log_likelihood(self, noisy: AnyArray, prior: AnyArray) -> AnyArray:
        """Log-probability [N, K] of the released labels [N] given each class, for Bayes' rule.

        `prior` is the one that they were released with; a label that it makes impossible is
        refused.
        """
        checked = _validate.probabilities(prior, name="prior")
        seen = labels_for(checked, noisy, name="noisy")
        members = self.outputs(checked)
        k = members.sum(axis=1)
        index = np.arange(len(seen))
        if not members[index, seen].all():
            row = int(np.flatnonzero(~members[index, seen])[0])
            raise ValueError(
                f"noisy[{row}] is {seen[row]}, which is not among the {k[row]} likeliest classes "
                "of its prior; was it released with another prior or another epsilon?"
            )
        log_size = np.log1p((k - 1) * math.exp(-self.epsilon))
        inside = -self.epsilon - log_size
        table = np.where(members, inside[:, None], -np.log(k)[:, None])
        table[index, seen] = -log_size
        return like(table, noisy)

    def _members(self, prior: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the possible outputs [B, K]: the k* classes with the largest w_k of the paper.

        w_k = (sum of the k largest) / (1 + (k - 1) e^-epsilon). In exact arithmetic k* never
        separates equally likely classes. Rounding may, and then the lower numbers are taken, so
        that the same prior always has the same outputs.
        """
        ascending = np.sort(prior, axis=1)
        values = np.cumsum(ascending[:, ::-1], axis=1)
        # Counting from k = 0 here: the divisor 1 + (k - 1) e^-epsilon of the paper counts from 1.
        values /= 1 + np.arange(prior.shape[1]) * math.exp(-self.epsilon)
        k = values.argmax(axis=1) + 1  # the first of several: the smallest
        threshold = ascending[np.arange(len(prior)), prior.shape[1] - k]
        members: NDArray[np.bool_] = prior >= threshold[:, None]
        tied = np.flatnonzero(members.sum(axis=1) > k)
        if tied.size:
            above = prior[tied] > threshold[tied, None]
            equal = prior[tied] == threshold[tied, None]
            room = k[tied] - above.sum(axis=1)
            members[tied] = above | (equal & (equal.cumsum(axis=1) <= room[:, None]))
        return members

    def _release_block(
        self,
        labels: NDArray[np.int64],
        prior: NDArray[np.float64],
        generator: np.random.Generator,
    ) -> NDArray[np.int64]:
        """RRTop-k* of a block of labels [B]: a label's place among the outputs, moved or not."""
        members = self._members(prior)
        place = members.cumsum(axis=1, dtype=np.int32)  # 1..k at the possible outputs
        k = place[:, -1]
        index = np.arange(len(labels))
        own = place[index, labels] - 1
        # Every label takes the same three draws, so the time taken reveals nothing about it.
        uniform = generator.random(len(labels))
        shift = generator.integers(1, np.maximum(k, 2))
        anywhere = generator.integers(0, k)
        flip = wrong_probability(epsilon=self.epsilon, others=k - 1)
        moved = np.where(happens(uniform, flip, generator=generator), (own + shift) % k, own)
        chosen = np.where(members[index, labels], moved, anywhere)
        released: NDArray[np.int64] = (place > chosen[:, None]).argmax(axis=1)
        return released


def labels_for(
    prior: NDArray[np.float64], labels: object, *, name: str = "labels", secret: bool = False
) -> NDArray[np.int64]:
    """Return labels, one for each row of a prior [N, K]."""
    exact = _validate.labels(labels, num_classes=prior.shape[1], name=name, secret=secret)
    _validate.same_length(prior=len(prior), **{name: len(exact)})
    return exact


@dataclass(frozen=True, kw_only=True)
class ClusterHistograms(PureMechanism, DrawnExactly):
    """Class counts of every cluster plus discrete Laplace noise of scale 2 / epsilon: pure DP.

    A substituted label moves two counts of its cluster by 1 each, an L1 sensitivity of 2. Every
    label lies in one cluster, so that all histograms together cost epsilon. Epsilon spent
    here and the rest of a budget in `RRWithPrior` are two charges to the same label. The paper
    takes 0.025 to 0.05 of a total of 1 or more.
    """

    num_classes: int  # K, at least 2

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole(num_classes=self.num_classes, minimum=2)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in a count."""
        return _std_of_laplace(2 / self.epsilon)

    def _noise(self, clusters: int, generator: AnyGenerator) -> NDArray[np.int64]:
        shape = (clusters, self.num_classes)
        return discrete_laplace(generator, scale=2 / self.epsilon, shape=shape)

    def release(self, labels: AnyArray, clusters: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy counts [C, K], once: int64, some below 0.

        `clusters` [N] of every example are numbered from 0 and made without labels; C is the
        largest plus 1.
        """
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        groups = _validate.labels(clusters, num_classes=np.iinfo(np.int64).max, name="clusters")
        _validate.same_length(clusters=len(groups), labels=len(exact))
        num_clusters = int(groups.max()) + 1
        if num_clusters > len(exact):
            raise ValueError(
                f"clusters holds {num_clusters - 1}, so there are {num_clusters} clusters of "
                f"{len(exact)} labels; number at most {len(exact)} clusters from 0 without gaps"
            )
        counts: NDArray[np.int64] = np.zeros((num_clusters, self.num_classes), dtype=np.int64)
        np.add.at(counts, (groups, exact), 1)
        return like(counts + self._noise(num_clusters, generator), labels)


@dataclass(frozen=True, kw_only=True)
class TwoClassHistograms(ClusterHistograms):
    """Counts of both classes of every cluster, with one noise for both, of scale 1 / epsilon.

    The sizes of clusters are public, so that a count of one class says that of the other. A
    substituted label moves the one count by 1: an L1 sensitivity of 1, pure DP with half the noise.
    """

    num_classes: int = 2

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_classes != 2:
            raise ValueError(
                f"num_classes is {self.num_classes}, and these counts are of two classes; take "
                "ClusterHistograms"
            )

    @property
    def noise_std(self) -> float:
        """Standard deviation of noise that, drawn for each class on its own, would hide as much."""
        return math.sqrt(2) * _std_of_laplace(1 / self.epsilon)

    def _noise(self, clusters: int, generator: AnyGenerator) -> NDArray[np.int64]:
        of_second = discrete_laplace(generator, scale=1 / self.epsilon, shape=(clusters, 1))
        return np.hstack([-of_second, of_second])


def class_counts(*, epsilon: float, num_classes: int) -> ClusterHistograms:
    """Return the mechanism with the least noise that counts K classes in clusters."""
    if num_classes == 2:
        return TwoClassHistograms(epsilon=epsilon)
    return ClusterHistograms(epsilon=epsilon, num_classes=num_classes)


def _std_of_laplace(scale: float) -> float:
    ratio = math.exp(-1 / scale)
    return math.sqrt(2 * ratio) / (1 - ratio)

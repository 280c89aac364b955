"""A prior from clusters: noisy class histograms of groups that were found without labels.

Algorithm 4 of Ghazi et al., "Deep Learning with Label Differential Privacy", NeurIPS 2021. The
features are grouped (k-means on self-supervised features); the classes of each group are counted
with a small budget of their own; the noisy counts become the prior of `RRWithPrior`.

>>> mechanism = ClusterHistograms(epsilon=4.0, num_classes=2)
>>> clusters = np.array([0, 0, 0, 1, 1, 1])
>>> labels = np.array([0, 0, 0, 1, 1, 0])
>>> counts = mechanism.release(labels, clusters, generator=np.random.default_rng(7))
>>> counts.shape
(2, 2)
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.randomness import AnyGenerator, DrawnExactly, discrete_laplace


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
        ratio = math.exp(-self.epsilon / 2)
        return math.sqrt(2 * ratio) / (1 - ratio)

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
        noise = discrete_laplace(generator, scale=2 / self.epsilon, shape=counts.shape)
        return like(counts + noise, labels)

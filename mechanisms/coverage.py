"""A threshold of prediction sets, chosen by secret calibration labels: sets that cover enough.

Candidates are ordered, and each covers what those before it cover. Wanted is the first one that
covers m of n labels; one that misses this by d labels has the utility -d, which a substituted label
moves by 1. Exponential noise of scale 2 / epsilon on all utilities, of which the largest wins, is
permute-and-flip (McKenna and Sheldon, NeurIPS 2020; Ding et al., NeurIPS 2021): pure, and never
worse than the exponential mechanism.

>>> choice = CoverageChoice(epsilon=1.0, coverage=0.9, candidates=101)
>>> choice.wanted(700)
639
>>> labels = np.arange(700) % 100  # the first candidate that covers each label
>>> int(choice.release(labels, generator=np.random.default_rng(7))[0])
90
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    DrawnExactly,
    SecureGenerator,
    as_noise_generator,
    exponential,
    largest,
)


@dataclass(frozen=True, kw_only=True)
class CoverageChoice(PureMechanism, DrawnExactly):
    """The number of a candidate that covers a further label with probability `coverage` at least.

    The probability is over calibration labels, the further one, and noise, if all labels are
    exchangeable.
    """

    coverage: float
    candidates: int

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.between(0, 1, coverage=self.coverage)
        _validate.whole(candidates=self.candidates, minimum=2)

    def wanted(self, count: int) -> int:
        """Return m, the number of N calibration labels that the ideal candidate covers.

        Remove one of N + 1 exchangeable labels. The noise picks a candidate that misses it with
        probability 1 at most for those above rank m + 1, and for the one at rank m + 1 - k with the
        probability that one of all candidates, each k labels short, beats one that is not short.

        Raises:
            ValueError: The labels are too few for this coverage and epsilon.
        """
        _validate.whole(count=count, minimum=1)
        short = np.maximum(np.exp(-self.epsilon / 2 * np.arange(count + 1)), 1e-15)
        with np.errstate(divide="ignore"):
            none = np.log1p(-short)
        missed = 1 + np.expm1(self.candidates * none) / (self.candidates * short)
        covered = np.arange(1, count + 2) - np.cumsum(missed)
        enough = np.flatnonzero(covered >= self.coverage * (count + 1) + 1e-9)
        if not enough.size:
            raise ValueError(
                f"{count} calibration labels at epsilon {self.epsilon:g} are too few for coverage "
                f"{self.coverage:g}: noise may miss {missed.sum():.0f} of them; give more labels, "
                "or raise epsilon, or lower the coverage"
            )
        return int(enough[0])

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the number of a candidate, once: int64 [1].

        `labels` [N] are numbers of the first candidate that covers each label; the last one covers
        all.
        """
        exact = _validate.labels(labels, num_classes=self.candidates, secret=True)
        covered = np.bincount(exact, minlength=self.candidates).cumsum()
        before = np.append(0, covered[:-1])
        wanted = self.wanted(len(exact))
        utilities = -np.maximum(np.maximum(wanted - covered, before - wanted), 0)
        scale = math.nextafter(2 / self.epsilon, math.inf)
        rng = as_noise_generator(generator)
        if isinstance(rng, SecureGenerator):
            noise = exponential(self.candidates, generator=rng)
            return like(largest(utilities[None], noise, scale=scale), labels)
        noisy = utilities + rng.exponential(scale, size=self.candidates)
        return like(noisy.argmax(keepdims=True).astype(np.int64), labels)

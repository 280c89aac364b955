"""How accurate a trial is without public test labels, as part of its configuration."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from labeldp.mechanisms import _validate

#: Of the training examples, where there is no public test split and nobody says.
DEFAULT_SHARE = 0.1
#: Of each count where nobody says: at least so much,
LEAST_EPSILON = 0.05
#: at most so much,
MOST_EPSILON = 1.0
#: and between them what makes the standard deviation of the count's noise this share of the
#: held-out labels. With that of sampling, 3 points at 90% of a hundred labels, that is 5 points.
AIMED_NOISE = 0.04


class Estimate(StrEnum):
    """Where an estimate of accuracy comes from.

    COUNT asks the vault for a noisy number of right answers: charged for each trial. RELEASE reads
    it off a release of the held-out labels by the trial's own mechanism: one for all trials that
    share their noise, but hundreds of times as noisy.
    """

    COUNT = "count"
    RELEASE = "release"


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """Which labels are held out, and how accuracy is estimated on them.

    Attributes:
        held_out_share: Share of the training examples that no trial trains on; None for a tenth
            where there is no public test split, and for none where there is one.
        held_out_seed: Which ones; public.
        estimate: Where the estimate comes from.
        epsilon: Of each trial's COUNT. Only held-out labels pay it, which pay for nothing else: a
            trial costs the larger of it and the training's epsilon, not the sum. Not given: by
            their number, from 0.05 to 1, and no more than makes neither a trial nor the sweep
            dearer than its training is (docs/epsilon.md).
    """

    held_out_share: float | None = None
    held_out_seed: int = 0
    estimate: Estimate = Estimate.COUNT
    epsilon: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.members(self)
        if self.held_out_share is not None:
            _validate.between(0, 1, held_out_share=self.held_out_share)
        _validate.whole(held_out_seed=self.held_out_seed)
        if self.epsilon is not None:
            _validate.positive(epsilon=self.epsilon)
            # A whole number is the same setting, and so the same trial.
            object.__setattr__(self, "epsilon", float(self.epsilon))

    @property
    def count_epsilon(self) -> float:
        """What a COUNT costs; the least where nobody says and nothing is settled."""
        return LEAST_EPSILON if self.epsilon is None else self.epsilon

    def share(self, *, has_test_split: bool) -> float | None:
        """Return the share of training examples to hold out; None for none."""
        if self.held_out_share is None and not has_test_split:
            return DEFAULT_SHARE
        return self.held_out_share


def default_epsilon(*, held_out: int, free: float) -> float:
    """Return what a count costs where nobody says: enough to be of use, if that is free.

    Args:
        held_out: H, labels that are counted.
        free: The most that makes neither a trial nor the sweep dearer.

    >>> default_epsilon(held_out=6000, free=1.0), default_epsilon(held_out=100, free=2.0)
    (0.05, 0.36)
    >>> default_epsilon(held_out=100, free=0.1), default_epsilon(held_out=10, free=2.0)
    (0.1, 1.0)
    """
    _validate.whole(minimum=1, held_out=held_out)
    aimed = two_digits(math.sqrt(2) / (AIMED_NOISE * held_out), math.ceil)
    most = MOST_EPSILON if free >= MOST_EPSILON else two_digits(free, math.floor)
    return max(LEAST_EPSILON, min(aimed, most))


def two_digits(value: float, rounding: Callable[[float], int]) -> float:
    """A number with two significant digits, rounded up or down."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    # The tolerance keeps 0.1 / 0.01 at ten.
    return float(f"{rounding(round(value / unit, 6)) * unit:.2g}")

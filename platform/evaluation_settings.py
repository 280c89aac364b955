"""How accurate a trial is without public test labels, as part of its configuration."""

from dataclasses import dataclass
from enum import StrEnum

from labeldp.mechanisms import _validate

#: Of the training examples, where there is no public test split and nobody says.
DEFAULT_SHARE = 0.1


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
            trial costs the larger of it and the training's epsilon, not the sum.
    """

    held_out_share: float | None = None
    held_out_seed: int = 0
    estimate: Estimate = Estimate.COUNT
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.members(self)
        if self.held_out_share is not None:
            _validate.between(0, 1, held_out_share=self.held_out_share)
        _validate.whole(held_out_seed=self.held_out_seed)
        _validate.positive(epsilon=self.epsilon)

    def share(self, *, has_test_split: bool) -> float | None:
        """Return the share of training examples to hold out; None for none."""
        if self.held_out_share is None and not has_test_split:
            return DEFAULT_SHARE
        return self.held_out_share

"""Settings of a random forest (`pate.forests`)."""

from dataclasses import dataclass

from labeldp.mechanisms import _validate


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    """Settings of a forest.

    Attributes:
        trees: How many.
        min_samples_leaf: Examples that a leaf needs at least.
    """

    trees: int = 100
    min_samples_leaf: int = 1

    def __post_init__(self) -> None:
        """Check the counts."""
        _validate.whole(minimum=1, trees=self.trees, min_samples_leaf=self.min_samples_leaf)

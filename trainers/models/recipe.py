"""How the fast network is trained, beyond what every network is: flips, crops, rates, averages.

Each piece is a setting of its own, off by default, and any network may have it; `fast_training`
has all of them together, as the fast network wants them.

>>> Recipe(average_decay=1.0)
Traceback (most recent call last):
    ...
ValueError: average_decay is 1.0; it must be below 1
"""

from dataclasses import dataclass
from enum import StrEnum

from labeldp.mechanisms import _validate


class Flip(StrEnum):
    """Which images are mirrored, where images are augmented.

    RANDOM: half of them, drawn anew in every epoch. ALTERNATING: each image in every other epoch,
    half of them in the first: two epochs see every image both ways, instead of half of them twice
    the same way. NONE: digits and letters.
    """

    RANDOM = "random"
    ALTERNATING = "alternating"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Pieces of training that a network may have; by default none of them.

    Attributes:
        flip: Which images are mirrored, where `augment` is set.
        crop: Pixels that a random crop may move an image, where `augment` is set.
        bias_rate: Times the learning rate, for biases and other parameters of one dimension.
        decoupled_decay: Take weight decay off the weights themselves, rate x weight_decay of them
            in every step, instead of adding it to the gradient, where momentum multiplies it.
        label_smoothing: Share of each label that is spread over all classes; for labels that are
            right, as without noise or of a teacher's shard.
        average_decay: Of the moving average of weights, which makes the predictions; 0 for the
            last weights.
        mirrored: Judge an image by itself and its mirror image, the mean of both logits.
    """

    flip: Flip = Flip.RANDOM
    crop: int = 4
    bias_rate: float = 1.0
    decoupled_decay: bool = False
    label_smoothing: float = 0.0
    average_decay: float = 0.0
    mirrored: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.members(self)
        _validate.whole(crop=self.crop)
        _validate.positive(bias_rate=self.bias_rate)
        for name in ("label_smoothing", "average_decay"):
            _validate.non_negative(**{name: getattr(self, name)})
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be below 1")

    def refuse_smoothing(self, why: str) -> None:
        """Refuse smoothing of labels that are not right as they are.

        Args:
            why: What the labels are.

        Raises:
            ValueError: There is smoothing.
        """
        if self.label_smoothing:
            raise ValueError(
                f"recipe.label_smoothing is {self.label_smoothing}, but {why}: what is unsure of "
                "them is known, and smoothing would count it twice; set recipe.label_smoothing=0"
            )

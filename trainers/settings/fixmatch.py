"""Settings of FixMatch (`fixmatch`), as published and as a labeled variant.

>>> FixMatchConfig(threshold=1.0)
Traceback (most recent call last):
    ...
ValueError: threshold is 1.0; it must be below 1
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.trainers.models.own_models import OwnModel, chosen_model
from labeldp.trainers.settings.model_name import ModelName

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.methods.fixmatch.views import TableViews


class WeakBranch(StrEnum):
    """How weak views go through the network.

    JOINT: in one batch with all others, as published; gradients reach them through the statistics
    of batch normalization. WITHOUT_GRADIENT: on their own, with their own batch statistics, a third
    less arithmetic; a variant, whose accuracies are not those of FixMatch.
    """

    JOINT = "joint"
    WITHOUT_GRADIENT = "without_gradient"


@dataclass(frozen=True, kw_only=True)
class FixMatchConfig:
    """Settings of FixMatch; the defaults are those of PATE-FM's teachers on CIFAR-10.

    Attributes:
        model: Which network; `module:Name` for one of the user's own (`own_models`).
        width: Its width, see `ModelName`; None takes the network's own.
        epochs: How many.
        steps_per_epoch: None for (unlabeled examples) / batch_size, as published.
        batch_size: Labeled examples in a step.
        unlabeled_ratio: Unlabeled examples for each labeled one (mu).
        threshold: Probability that a pseudo-label needs.
        unlabeled_weight: Of the loss on pseudo-labels (lambda_u).
        temperature: Divides weak logits before the threshold is applied.
        learning_rate: At the start; it falls along 7/16 of half a period of a cosine.
        momentum: In [0, 1), with Nesterov's look ahead.
        weight_decay: Pull of weights, but not of biases and normalization, to 0.
        average_decay: Of the moving average of the weights, which makes the predictions.
        weak_branch: JOINT as published, or a cheaper variant.
        padding: Pixels that a random crop may move an image.
        flip: Mirror half of the images; wrong for digits and letters.
        box: Nominal side of RandAugment's grey box; None for half of the image, 16 on CIFAR.
        weak_noise_std: Of weak views of tables, see `TableViews`.
        strong_noise_std: Of strong views of tables.
        masked_share: Of strong views of tables.
    """

    model: ModelName | str = ModelName.WIDE_RESNET28
    width: int | None = None
    epochs: int = 40
    steps_per_epoch: int | None = None
    batch_size: int = 64
    unlabeled_ratio: int = 7
    threshold: float = 0.95
    unlabeled_weight: float = 1.0
    temperature: float = 1.0
    learning_rate: float = 0.03
    momentum: float = 0.9
    weight_decay: float = 5e-4
    average_decay: float = 0.999
    weak_branch: WeakBranch = WeakBranch.JOINT
    padding: int = 4
    flip: bool = True
    box: int | None = None
    weak_noise_std: float = 0.05
    strong_noise_std: float = 0.2
    masked_share: float = 0.2

    def __post_init__(self) -> None:
        """Check every field."""
        object.__setattr__(self, "model", chosen_model(self.model))
        _validate.members(self, model=OwnModel)
        for name in ("width", "steps_per_epoch"):
            if getattr(self, name) is not None:
                _validate.whole(minimum=1, **{name: getattr(self, name)})
        if self.box is not None:
            _validate.whole(box=self.box)
        _validate.whole(
            minimum=1,
            epochs=self.epochs,
            batch_size=self.batch_size,
            unlabeled_ratio=self.unlabeled_ratio,
        )
        _validate.whole(padding=self.padding)
        _validate.positive(temperature=self.temperature, learning_rate=self.learning_rate)
        _validate.non_negative(
            unlabeled_weight=self.unlabeled_weight, weight_decay=self.weight_decay
        )
        for name in ("threshold", "momentum", "average_decay"):
            _validate.non_negative(**{name: getattr(self, name)})
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be below 1")
        check_table_views(
            weak_noise_std=self.weak_noise_std,
            strong_noise_std=self.strong_noise_std,
            masked_share=self.masked_share,
        )

    def table_views(self) -> "TableViews":
        """Return the views of examples that are no images."""
        from labeldp.trainers.methods.fixmatch.views import TableViews

        return TableViews(
            weak_noise_std=self.weak_noise_std,
            strong_noise_std=self.strong_noise_std,
            masked_share=self.masked_share,
        )


def check_table_views(
    *, weak_noise_std: float, strong_noise_std: float, masked_share: float
) -> None:
    """Refuse settings of `TableViews` that no view can have.

    Raises:
        ValueError: Noise below 0, or a share that leaves nothing.
    """
    _validate.non_negative(
        weak_noise_std=weak_noise_std,
        strong_noise_std=strong_noise_std,
        masked_share=masked_share,
    )
    if masked_share >= 1:
        raise ValueError(f"masked_share is {masked_share}; it must be below 1, or nothing is left")

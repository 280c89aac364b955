"""How networks are trained: with labels, by FixMatch on few of them, and without any."""

from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, PlainValidator

from labeldp.trainers.models.own_models import OwnModel, chosen_model
from labeldp.trainers.models.schedules import WARMUP_FRACTION, Recipe, Schedule
from labeldp.trainers.settings.base import (
    Count,
    Flag,
    Fraction,
    ModelName,
    NonNegative,
    Positive,
    Two,
    Weight,
    Whole,
    key,
    settings,
)

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData

#: One of our networks, or `module:Name` of the user's.
Model = Annotated[ModelName | str, PlainValidator(chosen_model)]
_MODEL = "The network; `module:Name` for one of the user's own."
_WIDTH = "Its width; null for the network's own."


class _Trained:
    model: Model

    def check_data(self, data: "PublicData") -> None:
        """Refuse a network of the user's that cannot be built for these data."""
        if isinstance(self.model, OwnModel):
            shape = tuple(data.train_features.shape[1:])
            self.model.build(input_shape=shape, num_classes=data.num_classes, seed=0)


@settings
class LearnerConfig(_Trained):
    """How a network is trained: plain fields, for methods to inherit."""

    model: Model = key(ModelName.MLP, _MODEL)
    width: Count | None = key(None, _WIDTH)
    epochs: Count = key(30, "Passes over the training examples.")
    batch_size: Count = key(128, "Examples in a step.")
    learning_rate: Positive = key(0.05, "Highest rate of SGD.")
    momentum: Fraction = key(0.9, "Momentum of SGD.")
    nesterov: Flag = key(True, "Look ahead along the momentum.")
    weight_decay: NonNegative = key(1e-4, "Pull of all parameters to 0.")
    schedule: Schedule = key(Schedule.STEPS, "How the rate moves after its warm-up.")
    warmup: Fraction = key(WARMUP_FRACTION, "Fraction of the epochs in which the rate rises.")
    augment: Flag = key(
        False, "Random crops and flips; for photographs, not for digits, and not for tables."
    )
    mixup: NonNegative = key(
        0.0,
        "Alpha of mixup (Zhang et al. 2018), with one share per batch; 0 for none.",
    )
    dropout: Fraction = key(0.0, "Share of hidden units that each step leaves out; for the MLP.")
    recipe: Recipe = key(Recipe(), "Further ways to train, which the fast network uses.")

    def learner(self, **changes: Any) -> "LearnerConfig":
        """Return how a network is trained, less what a method adds to it, with some changes."""
        own = {each.name: getattr(self, each.name) for each in fields(LearnerConfig)}
        return LearnerConfig(**{**own, **changes})


class WeakBranch(StrEnum):
    """How weak views go through the network.

    JOINT: in one batch with all others, as published; gradients reach them through the statistics
    of batch normalization. WITHOUT_GRADIENT: on their own, with their own batch statistics, a third
    less arithmetic; a variant, whose accuracies are not those of FixMatch.
    """

    JOINT = "joint"
    WITHOUT_GRADIENT = "without_gradient"


@settings
class FewLabelsConfig(_Trained):
    """How a network is trained on few labels and all examples; the defaults are FixMatch's."""

    model: Model = key(ModelName.WIDE_RESNET28, _MODEL)
    width: Count | None = key(None, _WIDTH)
    epochs: Count = key(40, "Passes over the unlabeled examples.")
    steps_per_epoch: Count | None = key(
        None, "Null for (unlabeled examples) / batch_size, as published."
    )
    batch_size: Count = key(64, "Labeled examples in a step.")
    unlabeled_ratio: Count = key(7, "Unlabeled examples for each labeled one (mu).")
    unlabeled_weight: NonNegative = key(1.0, "Of the loss on examples without a label.")
    learning_rate: Positive = key(
        0.03, "At the start; it falls along 7/16 of half a period of a cosine."
    )
    momentum: Fraction = key(0.9, "Momentum of SGD, with Nesterov's look ahead.")
    weight_decay: NonNegative = key(
        5e-4, "Pull of weights, but not of biases and normalization, to 0."
    )
    average_decay: Fraction = key(
        0.999, "Of the moving average of the weights, which makes the predictions."
    )


@settings
class VatConfig(FewLabelsConfig):
    """Settings of virtual adversarial training with entropy minimization."""

    model: Model = key(ModelName.MLP, _MODEL)
    radius: Positive = key(
        0.2,
        "Root mean square of the perturbation, over the numbers of an example, in standard "
        "deviations of a pixel or column; the published lengths are about 0.2.",
    )


@settings
class FixMatchConfig(FewLabelsConfig):
    """Settings of FixMatch; the defaults are those of PATE-FM's teachers on CIFAR-10."""

    threshold: Fraction = key(0.95, "Probability that a pseudo-label needs.")
    temperature: Positive = key(1.0, "Divides weak logits before the threshold is applied.")
    weak_branch: WeakBranch = key(WeakBranch.JOINT, "JOINT as published, or a cheaper variant.")
    padding: Whole = key(4, "Pixels that a random crop may move an image.")
    flip: Flag = key(True, "Mirror half of the images; wrong for digits and letters.")
    box: Whole | None = key(
        None,
        "Nominal side of RandAugment's gray box; null for half of the image, 16 on CIFAR.",
    )
    weak_noise_std: NonNegative = key(
        0.05, "Noise in weak views of tables, whose features are standardized."
    )
    strong_noise_std: NonNegative = key(0.2, "Noise in strong views of tables.")
    masked_share: Fraction = key(0.2, "Share of the features that strong views of tables hide.")


_ENCODERS = (ModelName.FAST_CNN, ModelName.RESNET18, ModelName.WIDE_RESNET28, ModelName.SMALL_CNN)


class PretrainingLoss(StrEnum):
    """What vectors of an image's views are trained for, without labels.

    VICREG: agree, vary and do not repeat each other. CODING_RATE: agree, and need many nats to code
    (EMP-SSL). SIMCLR: tell their image from the others of the batch.
    """

    VICREG = "vicreg"
    CODING_RATE = "coding_rate"
    SIMCLR = "simclr"


@settings
class SelfSupervisedConfig:
    """How an encoder is trained without labels, on distorted views of each image.

    The losses weigh as published; distortions are customary for photographs of 32 x 32 pixels. No
    label was looked at to choose any of it: the rate was chosen by the loss.
    """

    model: ModelName = key(ModelName.FAST_CNN, "The convolutional network; its head is removed.")
    width: Count | None = key(None, _WIDTH)
    projection: Count = key(
        1024,
        "Units of each of the two layers between encoder and loss, which are left out afterwards.",
    )
    loss: PretrainingLoss = key(PretrainingLoss.VICREG, "What the views are trained for.")
    views: Two = key(2, "Views of each image in a step.")
    crop: Count | None = key(
        None,
        "Side of a view that is a crop at the image's own resolution; the encoder then averages "
        "over crops. Null for windows that are enlarged to the image's size.",
    )
    epochs: Count = key(100, "Passes over the images; the rate falls to 0 over them all.")
    # Variance and covariance are of the images in a step.
    batch_size: Two = key(512, "Images in a step, each in all its views.")
    learning_rate: Positive = key(0.03, "Highest rate of SGD.")
    smallest_area: Annotated[float, Field(strict=True, gt=0, le=1)] = key(
        0.25, "Of the window that a view shows, as a share of the image; crops have their side."
    )
    jitter: Weight = key(
        0.4,
        "How far brightness, contrast and saturation are changed, and half as much of a quarter "
        "turn of the hue; 0 for not at all.",
    )
    grey: Weight = key(0.2, "Share of the views without color.")
    flip: Flag = key(True, "Whether views may be mirrored: wrong for digits and letters.")

    def __post_init__(self) -> None:
        if self.model not in _ENCODERS:
            raise ValueError(
                f"model is {self.model}; views are of images, which {', '.join(_ENCODERS)} look at"
            )

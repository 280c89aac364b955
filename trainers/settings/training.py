"""How networks are trained: with labels, by FixMatch on few of them, and without any."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from labeldp.trainers.base import (
    Count,
    FileOrPretrained,
    Flag,
    Fraction,
    ModelName,
    NonNegative,
    Positive,
    Two,
    Whole,
    key,
    settings,
)
from labeldp.trainers.settings.own_models import chosen_model
from labeldp.trainers.settings.schedules import WARMUP_FRACTION, Recipe, Schedule

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData

#: One of our networks, or `module:Name` of the user's.
Model = Annotated[ModelName | str, PlainValidator(chosen_model)]
SCHEDULE = (
    "Learning rate after the warm-up: `steps` (divided by 5 after each 0.3 of the "
    "epochs), `tenths` (divided by 10), `linear` or `cosine` (to 0), `triangle` (linear, "
    "updated every step) or `constant`."
)
_MODEL = "Network, or `module:Name` of your own."
_WIDTH = "Width of the network: its units, channels or factor. Null: the network's default."


@dataclass(frozen=True, kw_only=True)
class Work:
    """What networks of these settings learn from: examples with repeats, and epochs of them all."""

    network: "LearnerConfig | FewLabelsConfig"
    examples: float
    epochs: int

    def times(self, networks: int) -> "Work":
        """Return the work of so many networks."""
        return replace(self, examples=networks * self.examples, epochs=networks * self.epochs)


class _Trained:
    model: Model
    width: int | None
    dropout = 0.0

    def check_data(self, data: "PublicData") -> None:
        """Refuse a network that cannot be built for these data."""
        from labeldp.trainers.models.learner import check_network

        check_network(self, data)


@settings
class LearnerConfig(_Trained):
    """How a network is trained: plain fields, for methods to inherit."""

    model: Model = key(ModelName.MLP, _MODEL)
    width: Count | None = key(None, _WIDTH)
    epochs: Count = key(30, "Passes over the training examples.")
    batch_size: Count = key(128, "Examples per step.")
    learning_rate: Positive = key(0.05, "Peak learning rate of SGD.")
    momentum: Fraction = key(0.9, "Momentum of SGD.")
    nesterov: Flag = key(True, "Use Nesterov momentum.")
    weight_decay: NonNegative = key(1e-4, "Weight decay of all parameters.")
    schedule: Schedule = key(Schedule.STEPS, SCHEDULE)
    warmup: Fraction = key(
        WARMUP_FRACTION, "Share of the epochs in which the learning rate rises to its peak."
    )
    augment: Flag = key(
        False,
        "Augment images by random crops and flips. For photographs; not for digits or tables.",
    )
    mixup: NonNegative = key(
        0.0,
        "Alpha of mixup (Zhang et al. 2018), with one mixing weight per batch; 0 disables it.",
    )
    dropout: Fraction = key(0.0, "Dropout rate of the hidden units. For `mlp` only.")
    recipe: Recipe = key(Recipe(), "Further ways to train, which the fast network uses.")
    encoder: FileOrPretrained | None = key(
        None,
        "File that `labeldp self-supervise` wrote for the same images, model and width, or "
        "`pretrained:NAME` for the fast network at width 32, trained here on a data set whose "
        "labels you call public. The network starts from its weights. Null: from random weights.",
    )

    def check_data(self, data: "PublicData") -> None:
        """Refuse an encoder of other images or another network, and augmentation, as well."""
        from labeldp.trainers.models.learner import check_fit

        super().check_data(data)
        check_fit(self, data)

    def fits_all(self, *, images: bool) -> bool:
        """Whether `check_data` accepts all images, or all tables of numbers."""
        views = self.augment or self.recipe.mirrored
        return self.model is ModelName.MLP and not views and self.encoder is None

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what a network learns from where there are N training examples."""
        seen = self.epochs * examples
        return (Work(network=self.learner(), examples=seen, epochs=self.epochs),)

    def learner(self, **changes: Any) -> "LearnerConfig":
        """Return how a network is trained, less what a method adds to it, with some changes."""
        own = {each.name: getattr(self, each.name) for each in fields(LearnerConfig)}
        return LearnerConfig(**{**own, **changes})


class WeakBranch(StrEnum):
    """How weak views go through the network.

    JOINT: gradients reach them through the statistics of batch normalization. WITHOUT_GRADIENT is a
    variant, whose accuracies are not those of FixMatch.
    """

    JOINT = "joint"
    WITHOUT_GRADIENT = "without_gradient"


@settings
class FewLabelsConfig(_Trained):
    """How a network is trained on few labels and all examples; the defaults are FixMatch's."""

    model: Model = key(ModelName.WIDE_RESNET28, _MODEL)
    width: Count | None = key(None, _WIDTH)
    epochs: Count = key(40, "Number of epochs, of `steps_per_epoch` steps each.")
    steps_per_epoch: Count | None = key(
        None, "Steps per epoch. Null: (training examples) / batch_size, as published."
    )
    batch_size: Count = key(64, "Labeled examples per step.")
    unlabeled_ratio: Count = key(7, "Unlabeled examples for each labeled one in a step (mu).")
    unlabeled_weight: NonNegative = key(1.0, "Weight of the loss on unlabeled examples.")
    learning_rate: Positive = key(
        0.03, "Initial learning rate of SGD. It falls as cos(7 pi t / 16), with t from 0 to 1."
    )
    momentum: Fraction = key(0.9, "Nesterov momentum of SGD.")
    weight_decay: NonNegative = key(5e-4, "Weight decay. Biases and normalization have none.")
    average_decay: Fraction = key(
        0.999, "Decay of the moving average of weights, which makes the predictions."
    )

    threshold: Fraction = key(0.95, "Predicted probability above which a pseudo-label is used.")
    padding: Whole = key(4, "Largest shift of a random crop, in pixels.")
    flip: Flag = key(True, "Mirror half of the images; wrong for digits and letters.")
    box: Whole | None = key(
        None,
        "Nominal side of RandAugment's gray box, in pixels. Null: half of the image.",
    )
    weak_noise_std: NonNegative = key(
        0.05, "Standard deviation of the noise in weak views of tables. Columns are standardized."
    )
    strong_noise_std: NonNegative = key(
        0.2, "Standard deviation of the noise in strong views of tables."
    )
    masked_share: Fraction = key(0.2, "Share of the columns that strong views of tables hide.")

    @property
    def examples_a_step(self) -> int:
        """Labeled and unlabeled examples of a step, each as often as a network sees it."""
        return self.batch_size * (1 + 2 * self.unlabeled_ratio)

    def steps(self, examples: int) -> int:
        """Return the steps of an epoch where there are N training examples."""
        return self.steps_per_epoch or max(1, examples // self.batch_size)

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what a network learns from where there are N training examples."""
        seen = self.epochs * self.steps(examples) * self.examples_a_step
        return (Work(network=self, examples=seen, epochs=self.epochs),)


@settings
class FixMatchConfig(FewLabelsConfig):
    """Settings of FixMatch; the defaults are those of PATE-FM's teachers on CIFAR-10."""

    temperature: Positive = key(
        1.0, "Divisor of the logits of weak views, before `threshold` applies."
    )
    weak_branch: WeakBranch = key(
        WeakBranch.JOINT,
        "Batch of the weak views: `joint` with the others, as published, or "
        "`without_gradient` on their own, a third less work.",
    )


@settings
class SemiSupervisedConfig(FewLabelsConfig):
    """Settings of a student of a release; its authors tuned the defaults on MNIST."""

    model: Model = key(ModelName.FAST_CNN, _MODEL)
    width: Count | None = key(16, _WIDTH)
    epochs: Count = key(4, "Passes over all examples.")
    unlabeled_ratio: Count = key(8, "Other examples for each labeled one in a step.")
    learning_rate: Positive = key(
        0.2, "Peak learning rate of SGD; it rises for a fifth of the steps, and falls to 0."
    )
    average_decay: Fraction = key(
        0.99, "Decay of the moving average of weights, which makes the predictions."
    )
    last_threshold: Fraction = key(0.6, "Value to which `threshold` falls in the end.")
    power: NonNegative = key(
        0.5,
        "Power of the released probabilities, by which predictions are multiplied. Below 1, since "
        "errors of like examples are not independent.",
    )
    labeled_weight: NonNegative = key(
        0.3, "Weight of the loss on labeled examples at first; it falls to 0."
    )
    labeled: Count = key(
        1000, "Examples of each class that count as labeled, the most probable by the release."
    )

    def steps(self, examples: int) -> int:
        """Return the steps of an epoch, which is a pass over all N training examples."""
        return self.steps_per_epoch or max(1, examples // (self.batch_size * self.unlabeled_ratio))


@settings
class SelfSupervisedConfig:
    """How an encoder, the fast network, is trained without labels, on distorted crops of images.

    Crop and rate are those whose vectors were best on CIFAR-10 (docs/encoders.md).
    """

    width: Count | None = key(None, _WIDTH)
    projection: Count = key(
        1024,
        "Units of each of the two layers between network and loss. Vectors keep the first; the "
        "second is removed after training.",
    )
    views: Two = key(8, "Views of each image per step.")
    crop: Count | None = key(
        None,
        "Side in pixels of views, which are crops at the image's resolution. Null: five eighths of "
        "the image's shorter side.",
    )
    epochs: Count = key(
        40, "Passes over the images. The learning rate falls to 0 over all of them."
    )
    # The coding rate is of the images in a step.
    batch_size: Two = key(512, "Images per step, each in all its views.")
    learning_rate: Positive = key(0.003, "Peak learning rate of AdamW.")
    flip: Flag = key(True, "Mirror views at random. Wrong for digits and letters.")

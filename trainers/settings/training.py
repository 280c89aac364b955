"""How networks are trained: with labels, by FixMatch on few of them, and without any.

Nothing here loads torch, so that settings are read without it.

A recipe holds ways to train beyond learning rate and schedule. Each is a setting of its own, off by
default, for any network. `fast_training` sets all of them for the fast network in ten epochs. Its
constants were chosen with the true labels of CIFAR-10, without noise, on some thousands of images
of its training split, and judged by other images of that split (docs/fast_network.md). They are the
same for every method, every epsilon and every other data set.

A network of the user's is a `torch.nn.Module` of a module of theirs, named `module:Name`. It is
constructed as `Name(input_shape=..., num_classes=...)`: the shape of one example's features, (D,)
or (C, H, W), and K. It maps a batch [B, *input_shape] in single precision (images with their pixels
standardized) to logits [B, K]. Weights come from torch's own generator, which is seeded. The module
is in the folder where labeldp is started, beside the sweep's file, or installed.

>>> [round(rate_factor(epoch, epochs=200, schedule=Schedule.STEPS), 3) for epoch in (0, 30, 60)]
[0.033, 1.0, 0.2]
>>> as_changes("trainer", fast_training(epochs=5))["trainer.recipe.crop"]
2
"""

import contextlib
import hashlib
import importlib
import importlib.util
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PlainValidator

from labeldp.trainers.base import (
    Count,
    File,
    Flag,
    Fraction,
    ModelName,
    NonNegative,
    Positive,
    Two,
    Whole,
    key,
    near_miss,
    settings,
)

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from torch import nn

    from labeldp.trainers.data.labelled_data import PublicData


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """Figures of one epoch, counted from 1; none is computed from true training labels.

    `loss` is the mean training loss against released labels, `val_accuracy` that on the public test
    split in [0, 1], NaN where there is none, `seconds` the wall time with the evaluation.
    """

    epoch: int
    loss: float
    val_accuracy: float
    seconds: float


class TrainingDiverged(RuntimeError):
    """The loss is not finite any more."""

    @classmethod
    def at(
        cls, *, epoch: int, learning_rate: float, what: str = "the loss is"
    ) -> "TrainingDiverged":
        """Return the error for an epoch (counted from 1) and the learning rate in force."""
        return cls(
            f"{what} not finite in epoch {epoch}, at learning rate {learning_rate:.3g}; "
            "lower learning_rate (a tenth of it is a good next try), or let it warm up longer"
        )


class Schedule(StrEnum):
    """How the learning rate moves after its warm-up.

    STEPS is ALIBI's, TENTHS LP-MST's on CIFAR, and LINEAR LP-MST's on MNIST and its kin.
    """

    STEPS = "steps"
    TENTHS = "tenths"
    LINEAR = "linear"
    COSINE = "cosine"
    TRIANGLE = "triangle"
    CONSTANT = "constant"


#: ALIBI warms up for 30 of its 200 epochs, and multiplies by 0.2 at epochs 60, 120 and 180.
WARMUP_FRACTION = 0.15
_STEP_FRACTION = 0.3
#: Where the triangle begins.
_FOOT = 0.2
_STEP_FACTORS = {Schedule.STEPS: 0.2, Schedule.TENTHS: 0.1}


def rate_factor(
    epoch: float, *, epochs: int, schedule: Schedule, warmup: float = WARMUP_FRACTION
) -> float:
    """Factor on the learning rate in an epoch.

    `epoch` counts from 0, with a fraction within an epoch for schedules that move there; `warmup`
    is the fraction of all epochs in which the rate rises linearly, 0 for none.
    """
    # Rounding keeps 0.3 * 10 from being a little more than 3, and a step from being late.
    rising = round(warmup * epochs, 9)
    if epoch < rising:
        if schedule is Schedule.TRIANGLE:
            return _FOOT + (1 - _FOOT) * epoch / rising
        return min(1.0, (epoch + 1) / rising)
    progress = (epoch - rising) / (epochs - rising)
    match schedule:
        case Schedule.STEPS | Schedule.TENTHS:
            steps = math.floor(round(epoch / (_STEP_FRACTION * epochs), 9))
            return math.pow(_STEP_FACTORS[schedule], steps)
        case Schedule.LINEAR | Schedule.TRIANGLE:
            return 1 - progress
        case Schedule.COSINE:
            return 0.5 * (1 + math.cos(math.pi * progress))
        case Schedule.CONSTANT:
            return 1.0


class Flip(StrEnum):
    """Choice of the images that are mirrored; with ALTERNATING two epochs see each both ways."""

    RANDOM = "random"
    ALTERNATING = "alternating"
    NONE = "none"


@settings
class Recipe:
    """Pieces of training that a network may have; by default none of them."""

    flip: Flip = key(
        Flip.RANDOM,
        "Images to mirror, with `augment`: a `random` half, `alternating` (each in every "
        "other epoch) or `none` (digits, letters).",
    )
    crop: Whole = key(4, "Largest shift of a random crop, in pixels, with `augment`.")
    cutout: Whole = key(
        0,
        "Side in pixels of a square at a random place of each image that is hidden (set to the "
        "mean), with `augment`; 0 hides nothing.",
    )
    bias_rate: Positive = key(
        1.0, "Factor on the learning rate of biases and other one-dimensional parameters."
    )
    decoupled_decay: Flag = key(
        False,
        "Subtract weight decay (learning rate x weight_decay) from the weights directly, "
        "instead of adding it to the gradient.",
    )
    label_smoothing: Fraction = key(
        0.0,
        "Share of each label that is spread over all classes. Only for true labels: no noise, "
        "or a teacher's shard.",
    )
    average_decay: Fraction = key(
        0.0,
        "Decay of the moving average of weights, which makes the predictions; 0 for the last "
        "weights.",
    )
    mirrored: Flag = key(False, "Predict by the mean logits of an image and its mirror image.")
    even_gradient: Flag = key(
        False,
        "Scale the loss so that the first gradient is as long as with true labels. For losses "
        "that are the likelihood of a release.",
    )
    start_at_shares: Flag = key(
        False,
        "Let the classes' shares, which a release shows, be the prior at first, and the network's "
        "own prediction later. For ALIBI on rare classes.",
    )

    def refuse_smoothing(self, why: str) -> None:
        """Refuse smoothing of labels that are not right as they are; `why` describes them."""
        if self.label_smoothing:
            raise ValueError(
                f"recipe.label_smoothing is {self.label_smoothing}, but {why}: what is unsure of "
                "them is known, and smoothing would count it twice; set recipe.label_smoothing=0"
            )


#: Width of the network at which one core trains ten epochs of CIFAR-10 in minutes.
HALF_WIDTH = 32
#: Width at which it was published; two and a half times the work.
FULL_WIDTH = 64
#: Share of each label that is spread over all classes, where labels are right.
LABEL_SMOOTHING = 0.2


def fast_training(
    *, epochs: int = 10, width: int = HALF_WIDTH, label_smoothing: float = 0.0
) -> dict[str, Any]:
    """Return settings by name, for a `LearnerConfig` and settings that inherit from it.

    The width is `HALF_WIDTH` or `FULL_WIDTH`; `label_smoothing` is `LABEL_SMOOTHING` where labels
    are right and 0 where noise is on them.
    """
    return {
        "model": ModelName.FAST_CNN,
        "width": width,
        "epochs": epochs,
        "batch_size": 500,
        "learning_rate": 1.0,
        "momentum": 0.85,
        "nesterov": True,
        "weight_decay": 0.009,
        "schedule": Schedule.TRIANGLE,
        "warmup": 0.2,
        "augment": True,
        "recipe": Recipe(
            flip=Flip.ALTERNATING,
            crop=2,
            bias_rate=64.0,
            decoupled_decay=True,
            label_smoothing=label_smoothing,
            average_decay=0.99,
            mirrored=True,
            even_gradient=True,
        ),
    }


def as_changes(section: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of `fast_training` as dotted keys of a section such as `trainer`."""
    plain = {name: value for name, value in chosen.items() if name != "recipe"}
    recipe: Recipe = chosen["recipe"]
    pieces = {f"recipe.{entry.name}": getattr(recipe, entry.name) for entry in fields(recipe)}
    return {f"{section}.{name}": value for name, value in {**plain, **pieces}.items()}


_ADDRESS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
#: The source of a module that was sent along, in the module.
_SENT = "__labeldp_source__"


class OwnModuleMissing(ValueError):
    """A module or network of the user's that is missing; the message names cause and fix."""


class OwnModel(str):
    """Address of a network of the user's: `module:Name`.

    Sent to another process, it takes the source of its module along, for machines that don't have
    it; what the module itself imports must be there.
    """

    __slots__ = ()

    def __new__(cls, address: str) -> "OwnModel":
        """Check the form."""
        if not is_address(address):
            raise ValueError(f"model is {address!r}; a network of your own is named module:Name")
        return super().__new__(cls, address)

    @property
    def module(self) -> str:
        """The module's full name."""
        return self.partition(":")[0]

    @property
    def name(self) -> str:
        """The class's."""
        return self.partition(":")[2]

    def kind(self) -> "type[nn.Module]":
        """Import the class; `OwnModuleMissing` if it is not a `torch.nn.Module` there."""
        from torch import nn

        try:
            module = own_module(self.module)
        except OwnModuleMissing as error:
            raise OwnModuleMissing(f"model is {self}, but {error}") from error
        kind = getattr(module, self.name, None)
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise OwnModuleMissing(
                f"model is {self}, but {self.module} ({getattr(module, '__file__', None)}) has no "
                "subclass of torch.nn.Module with that name"
            )
        return kind

    def build(self, *, input_shape: tuple[int, ...], num_classes: int, seed: int) -> "nn.Module":
        """Return the network with weights that depend on `seed` alone.

        A ValueError means that it can't be constructed, or does not map features to logits.
        """
        import torch

        kind = self.kind()
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.default_generator.manual_seed(seed)
            try:
                network = kind(input_shape=input_shape, num_classes=num_classes)
                network.eval()
                shape = tuple(network(torch.zeros(2, *input_shape)).shape)
            except Exception as error:  # any error of the user's module
                raise ValueError(
                    f"model is {self}, and {kind.__name__}(input_shape={input_shape}, "
                    f"num_classes={num_classes}) of a batch of two raises {type(error).__name__}: "
                    f"{error}"
                ) from error
        if shape != (2, num_classes):
            raise ValueError(
                f"model is {self}, but it returns {shape} for a batch of two examples; it must "
                f"return logits, (2, {num_classes})"
            )
        network.train()
        return network

    @property
    def source(self) -> str | None:
        """Source of its module, without what that imports; None where it can't be read."""
        with contextlib.suppress(OSError, UnicodeDecodeError):  # built in, or compiled
            return source_of(self.module)
        return getattr(sys.modules.get(self.module), _SENT, None)

    def __reduce__(self) -> tuple[Any, ...]:
        """Take the module's source along."""
        return _arrived, (str(self), self.source)


def is_address(text: str) -> bool:
    """Whether a text names code, `module:Name`, which is imported where it is used."""
    return _ADDRESS.fullmatch(text) is not None


def with_source(setting: Any) -> Any:
    """Return an address of code with a digest of its module's source; all else as it is."""
    source = OwnModel(setting).source if isinstance(setting, str) and is_address(setting) else None
    return setting if source is None else f"{setting} {hashlib.sha256(source.encode()).hexdigest()}"


def chosen_model(given: str) -> ModelName | OwnModel:
    """Return the network of a name: one of ours, or one of the user's."""
    if isinstance(given, (ModelName, OwnModel)):
        return given
    if isinstance(given, str):
        if ":" in given:
            return OwnModel(given)
        with contextlib.suppress(ValueError):
            return ModelName(given.lower())
    hint = near_miss(str(given), ModelName)
    raise ValueError(f"model is {given!r}; {hint} (a network of your own is named module:Name)")


def _arrived(address: str, source: str | None) -> OwnModel:
    """Unpack a network's address; where its module is not there, make it of the source."""
    model = OwnModel(address)
    if model.module not in sys.modules and not _found(model.module) and source is not None:
        module = ModuleType(model.module)
        module.__file__ = f"<{model.module}, sent along>"
        vars(module)[_SENT] = source
        sys.modules[model.module] = module
        try:
            exec(compile(source, module.__file__, "exec"), vars(module))
        except Exception:
            del sys.modules[model.module]  # its user gets an error that it is missing
    return model


@cache  # while a sweep runs; a new plan reads anew
def source_of(module: str) -> str:
    """Return the source of a module, or raise OSError or UnicodeDecodeError."""
    spec = _found(module)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(module)
    return Path(spec.origin).read_text()


def _found(module: str) -> ModuleSpec | None:
    try:
        with here_too():
            return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def own_module(name: str) -> ModuleType:
    """Import a module of the user's."""
    try:
        with here_too():
            return importlib.import_module(name)
    except Exception as error:  # any error of the user's module
        raise OwnModuleMissing(
            f"module {name} can't be imported here ({type(error).__name__}: {error}); put it "
            "beside the sweep's file or into the folder where labeldp is started, or install it"
        ) from error


#: Folders of the sweep files that were named, the latest first.
BESIDE: list[str] = []


@contextlib.contextmanager
def here_too() -> Iterator[None]:
    """Look for modules here and beside sweep files too, which a console script does not."""
    here = [os.getcwd(), *BESIDE]
    sys.path.extend(here)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in here:
            with contextlib.suppress(ValueError):
                # The last: the first may be a script's own, or of another thread.
                del sys.path[-1 - sys.path[::-1].index(folder)]


#: One of our networks, or `module:Name` of the user's.
Model = Annotated[ModelName | str, PlainValidator(chosen_model)]
SCHEDULE = (
    "Learning rate after the warm-up: `steps` (divided by 5 after each 0.3 of the "
    "epochs), `tenths` (divided by 10), `linear` or `cosine` (to 0), `triangle` (linear, "
    "updated every step) or `constant`."
)
_MODEL = "Network, or `module:Name` of your own."
_WIDTH = "Width of the network: its units, channels or factor. Null: the network's default."
_ENCODER = (
    "File that `labeldp self-supervise` wrote for the same images, model and width, or "
    "`pretrained:NAME` for the fast network at width 32, trained here on a data set whose "
    "labels you call public. The network starts from its weights. Null: from random weights."
)


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
    encoder: str | None
    dropout = 0.0

    def check_data(self, data: "PublicData") -> None:
        """Refuse a network or an encoder that does not fit these data."""
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
    encoder: File | None = key(None, _ENCODER)

    def check_data(self, data: "PublicData") -> None:
        """Refuse augmentation that the data do not have, as well."""
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
    encoder: File | None = key(None, _ENCODER)
    epochs: Count = key(40, "Number of epochs, of `steps_per_epoch` steps each.")
    steps_per_epoch: Count | None = key(
        None,
        "Steps per epoch. Null: (training examples) / batch_size, as published; a "
        "semi-supervised student sees all examples in an epoch.",
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

    def check_data(self, data: "PublicData") -> None:
        """Refuse a crop that images are too small for, as well."""
        super().check_data(data)
        side = min(data.train_features.shape[2:], default=0)
        if self.padding >= side > 0:
            raise ValueError(
                f"padding is {self.padding}, but images of {data.name} have {side} rows or "
                "columns; take a smaller one"
            )

    def steps(self, examples: int) -> int:
        """Return the steps of an epoch where there are N training examples."""
        return self.steps_per_epoch or max(1, examples // self.batch_size)

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what a network learns from where there are N training examples."""
        a_step = self.batch_size * (1 + 2 * self.unlabeled_ratio)  # unlabeled ones in two views
        seen = self.epochs * self.steps(examples) * a_step
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

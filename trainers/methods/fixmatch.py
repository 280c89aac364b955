"""FixMatch: a few labels, many examples without (Sohn et al. 2020, arXiv:2001.07685).

A confident prediction on a slightly changed example becomes the label of a greatly changed
one. PATE-FM (Malek et al. 2021, section 3) trains its teachers and its student like this: labels
are the private part, and everything that is learned from unlabeled examples costs nothing.

A weak view keeps what a person would need to name the class; a strong one makes it hard. For
images these are crops and flips, and on top of them `RandAugment`. For tables with standardized
columns: a little noise, and on top of more noise columns that are blanked, that is, set to their
mean.
"""

import enum
import functools
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.data.labelled_data import FeatureKind, PublicData, normalize
from labeldp.trainers.models.learner import Classifying, CropAndFlip
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import (
    FewLabelsConfig,
    FixMatchConfig,
    WeakBranch,
)


def fixmatch_loss(
    *,
    logits_labeled: Tensor,
    labels: Tensor,
    logits_weak: Tensor,
    logits_strong: Tensor,
    threshold: float,
    temperature: float = 1.0,
    unlabeled_weight: float = 1.0,
) -> Tensor:
    """Return the loss of labels, and of strong views against what weak views are sure of.

    Args:
        logits_labeled: Logits [B, K] of examples with labels.
        labels: int64 [B].
        logits_weak: Logits [U, K] of weak views of other examples; no gradient flows through them.
        logits_strong: Logits [U, K] of strong views of the same examples.
        threshold: Least probability of a weak view's class that makes it a label.
        temperature: Divides the weak views' logits.
        unlabeled_weight: Weight of the second part of the loss.
    """
    labeled = functional.cross_entropy(logits_labeled, labels)
    probability, pseudo_labels = (logits_weak.detach() / temperature).softmax(1).max(1)
    confident = (probability >= threshold).float()
    distances = functional.cross_entropy(logits_strong, pseudo_labels, reduction="none")
    return labeled + unlabeled_weight * (distances * confident).mean()


def cosine_factor(step: int, *, steps: int) -> float:
    """Return the factor of the learning rate: cos(7 pi step / (16 steps)), 1 down to 0.195."""
    return math.cos(7 * math.pi * step / (16 * steps))


class ShuffledStream:
    """Positions 0..count-1, over and over."""

    def __init__(self, count: int, *, seed: int) -> None:
        self._count = count
        self._generator = torch.Generator().manual_seed(seed)
        self._rest = torch.empty(0, dtype=torch.int64)

    def take(self, size: int) -> Tensor:
        """Return the next positions, int64 [size]."""
        parts = [self._rest]
        missing = size - len(self._rest)
        while missing > 0:
            parts.append(torch.randperm(self._count, generator=self._generator))
            missing -= self._count
        positions = torch.cat(parts)
        self._rest = positions[size:]
        return positions[:size]

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of the stream's state, to continue from."""
        return {"generator": self._generator.get_state(), "rest": self._rest.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken."""
        self._generator.set_state(state["generator"].cpu())
        self._rest = state["rest"].cpu().clone()


class FewLabels(Classifying):
    """A network in training on some labels and all examples; a subclass has views and a loss."""

    #: Whether the average of weights judges examples from the first steps on. It soon forgets the
    #: initial weights then, and judges mirror images beside images, where views are mirrored.
    _judges = False

    def __init__(
        self,
        config: FewLabelsConfig,
        *,
        data: PublicData,
        examples: NDArray[np.integer[Any]],
        labels: NDArray[np.integer[Any]],
        seed: int,
        performance: Performance,
    ) -> None:
        super().__init__(performance=performance)
        rows, classes = (torch.from_numpy(part.astype(np.int64)) for part in (examples, labels))
        self.config = config
        self._features = data.train_features.to(self.device)
        self._rows = rows.to(self.device)
        self._labels = classes.to(self.device)
        initial, *streams = np.random.SeedSequence(seed).generate_state(4).tolist()
        average = {"decay": config.average_decay, "young": self._judges}
        both = self._judges and config.flip and data.kind is FeatureKind.IMAGE
        self._build(config, data, initial, average=average, mirrored=both, decay_all=False)
        self._labeled = ShuffledStream(len(rows), seed=streams[0])
        self._unlabeled = ShuffledStream(len(self._features), seed=streams[1])
        self._generator = torch.Generator().manual_seed(streams[2])
        self._views = views_of(config, data, self.device)
        self.steps_per_epoch = config.steps(len(self._features))

    @abstractmethod
    def _views_of(self, chosen: Tensor, others: Tensor) -> tuple[Tensor, ...]:
        """Return a batch of places among the labels, and of examples without."""

    def _batches(self) -> Iterator[tuple[Tensor, ...]]:
        config = self.config
        first = (self.epoch_number - 1) * self.steps_per_epoch
        for step in range(first, first + self.steps_per_epoch):
            self._optimizer.learning_rate = self._rate(step)
            chosen = self._take(self._labeled, config.batch_size)
            others = self._take(self._unlabeled, config.batch_size * config.unlabeled_ratio)
            yield self._views_of(chosen, others)

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "labeled": self._labeled, "unlabeled": self._unlabeled}

    def _rate(self, step: int) -> float:
        steps = self.config.epochs * self.steps_per_epoch
        return self.config.learning_rate * cosine_factor(step, steps=steps)

    def _take(self, stream: ShuffledStream, size: int) -> Tensor:
        return stream.take(size).to(self.device, non_blocking=True)


class FixMatch(FewLabels):
    """A network that is trained on some labels and all examples, by views of these."""

    config: FixMatchConfig

    def _views_of(self, chosen: Tensor, others: Tensor) -> tuple[Tensor, ...]:
        # RandAugment sorts a batch by operations, in numbers that differ: no part of a recording.
        generator = self._generator
        unlabeled = self._features[others]
        labeled = self._views.weak(self._features[self._rows[chosen]], generator)
        weak = self._views.weak(unlabeled, generator)
        strong = self._views.strong(unlabeled, generator)
        return labeled, self._labels[chosen], weak, strong

    def _loss_of_batch(self, *batch: Tensor) -> Tensor:
        config = self.config
        labeled, labels, weak, strong = batch
        if config.weak_branch is WeakBranch.JOINT:
            logits = self._logits(torch.cat((labeled, weak, strong)))
            logits_weak = logits[len(labeled) : -len(strong)]
        else:
            with torch.no_grad():
                logits_weak = self._logits(weak)
            logits = self._logits(torch.cat((labeled, strong)))
        return fixmatch_loss(
            logits_labeled=logits[: len(labeled)],
            labels=labels,
            logits_weak=logits_weak,
            logits_strong=logits[-len(strong) :],
            threshold=config.threshold,
            temperature=config.temperature,
            unlabeled_weight=config.unlabeled_weight,
        )


# RandAugment, the strong augmentation of images, on whole batches (arXiv:2001.07685).
#
# Each image draws two of 14 operations, each with a magnitude of its own and skipped half of the
# time, then always gets a gray box (Cutout). Every pixel is what Pillow makes of each image. Pixels
# are touched on the images' device without waiting for it in between.
#
# Images are uint8 [B, C, H, W] with C = 1 (gray) or 3 (RGB); magnitudes are whole numbers 1..9 on
# FixMatch's scale of ten (table 12). Three families cover the 14 operations: tables of 256 entries,
# blends with a milder copy, and moves of pixels.

#: Operations drawn for each image, with replacement, and how often one is carried out.
_LAYERS = 2
_PROBABILITY = 0.5
#: Value of the box.
_GRAY = 127
# Pillow moves pixels by fixed-point arithmetic with this many bits behind the point.
_FIXED_POINT_BITS = 16


class Operation(enum.Enum):
    """Operations on an image; the values are the names in the paper."""

    AUTO_CONTRAST = "AutoContrast"
    BRIGHTNESS = "Brightness"
    COLOR = "Color"
    CONTRAST = "Contrast"
    EQUALIZE = "Equalize"
    IDENTITY = "Identity"
    POSTERIZE = "Posterize"
    ROTATE = "Rotate"
    SHARPNESS = "Sharpness"
    SHEAR_X = "ShearX"
    SHEAR_Y = "ShearY"
    SOLARIZE = "Solarize"
    TRANSLATE_X = "TranslateX"
    TRANSLATE_Y = "TranslateY"


_OPERATIONS = tuple(Operation)


def apply(operation: Operation, images: Tensor, magnitudes: Tensor, signs: Tensor) -> Tensor:
    """Return what `operation` makes of each image, uint8 [B, C, H, W].

    `magnitudes` int64 [B] are 1..9, `signs` int64 [B] 1 or -1: the direction of a move.
    """
    match operation:
        case Operation.IDENTITY:
            return images
        case Operation.AUTO_CONTRAST:
            return _auto_contrast(images)
        case Operation.EQUALIZE:
            return _equalize(images)
        case Operation.POSTERIZE:
            # Keeps 4 to 7 of the 8 bits.
            dropped = 4 - magnitudes * 4 // 10
            return images & (-(1 << dropped)).to(torch.uint8).view(-1, 1, 1, 1)
        case Operation.SOLARIZE:
            threshold = (256 - magnitudes * 256 // 10).to(torch.uint8).view(-1, 1, 1, 1)
            return torch.where(images < threshold, images, 255 - images)
        case Operation.BRIGHTNESS:
            milder = torch.zeros((), dtype=torch.float32, device=images.device)
        case Operation.CONTRAST:
            mean = _gray(images).double().mean((1, 2, 3), keepdim=True)
            milder = (mean + 0.5).floor().float()
        case Operation.COLOR:
            milder = _gray(images).float()
        case Operation.SHARPNESS:
            milder = _smooth(images)
        case _:
            return _move(operation, images, magnitudes, signs)
    # A blend with the milder image, cut to whole numbers as Pillow cuts them.
    strength = (magnitudes.double() * 0.9 / 10 + 0.05).float().view(-1, 1, 1, 1)
    return (images.float().sub_(milder).mul_(strength).add_(milder)).to(torch.uint8)


def _gray(images: Tensor) -> Tensor:
    """Luma of ITU-R 601 in Pillow's whole numbers, int32 [B, 1, H, W]; gray images stay."""
    if images.shape[1] == 1:
        return images.int()
    red, green, blue = images.int().unbind(1)
    return ((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16).unsqueeze(1)


def _smooth(images: Tensor) -> Tensor:
    """Mean over 3 x 3 pixels with weight 5 in the middle; the border stays as it is."""
    values = images.float()
    rows = values[:, :, :-2] + values[:, :, 1:-1] + values[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * values[:, :, 1:-1, 1:-1]
    # Sums of small whole numbers are exact, and a thirteenth of one is never halfway.
    values[:, :, 1:-1, 1:-1] = (total / 13 + 0.5).floor_()
    return values


def _look_up(images: Tensor, table: Tensor) -> Tensor:
    """Replace each value by its entry in the table [B, C, 256] of its channel."""
    entries = table.clamp(0, 255).to(torch.uint8)
    return entries.gather(2, images.flatten(2).long()).view_as(images)


def _auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel so that its darkest value becomes 0 and its brightest 255."""
    low, high = images.flatten(2).aminmax(dim=2, keepdim=True)
    low = low.double()
    high = high.double()
    levels = torch.arange(256, dtype=torch.float64, device=images.device)
    # One true division: torch would write 255 / x as 255 * (1 / x), which rounds twice.
    scale = torch.full_like(high, 255.0) / (high - low)
    stretched = (levels * scale + -low * scale).trunc()
    return _look_up(images, torch.where(high > low, stretched, levels))


def _equalize(images: Tensor) -> Tensor:
    """Spread each channel's values so that all levels are about equally frequent."""
    flat = images.flatten(2).long()
    counts = torch.zeros((*flat.shape[:2], 256), dtype=torch.int64, device=images.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    levels = torch.arange(256, device=images.device)
    # Of bytes: of numbers of eight bytes it takes four times as long.
    brightest = images.flatten(2).amax(2, keepdim=True).long()
    step = (counts.sum(2, keepdim=True) - counts.gather(2, brightest)) // 255
    below = counts.cumsum(2) - counts
    spread = (step // 2 + below) // step.clamp(min=1)
    return _look_up(images, torch.where(step > 0, spread, levels))


def _move(operation: Operation, images: Tensor, magnitudes: Tensor, signs: Tensor) -> Tensor:
    """Fetch each pixel from where an affine map points to (nearest; black beyond the border)."""
    height, width = images.shape[2:]
    sources = _sources(operation, height, width, images.device)
    source = sources.index_select(0, magnitudes * signs + 9).unsqueeze(1)
    padded = functional.pad(images.flatten(2), (0, 1))
    return padded.gather(2, source.expand(-1, images.shape[1], -1)).view_as(images)


@functools.lru_cache(maxsize=64)
def _sources(operation: Operation, height: int, width: int, device: torch.device) -> Tensor:
    """Where each pixel comes from, for signed magnitudes -9..9, int64 [19, H * W].

    H * W stands for everything outside: one more pixel, black, that is put behind each channel.
    """
    y = torch.arange(height).view(-1, 1)
    x = torch.arange(width).view(1, -1)
    places = []
    for signed in range(-9, 10):
        a, b, c, d, e, f = _affine(operation, signed, height, width)
        # Pixels are looked up at their centers.
        exact = (a, b, c + a / 2 + b / 2, d, e, f + d / 2 + e / 2)
        a, b, c, d, e, f = (math.floor(value * 2**_FIXED_POINT_BITS + 0.5) for value in exact)
        from_x = (a * x + b * y + c) >> _FIXED_POINT_BITS
        from_y = (d * x + e * y + f) >> _FIXED_POINT_BITS
        inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
        places.append(torch.where(inside, from_y * width + from_x, height * width).flatten())
    return torch.stack(places).to(device)


def _affine(operation: Operation, signed: int, height: int, width: int) -> tuple[float, ...]:
    """Coefficients (a, b, c, d, e, f): the pixel at (x, y) comes from (ax+by+c, dx+ey+f)."""
    fraction = signed * 0.3 / 10
    match operation:
        case Operation.SHEAR_X:
            return 1.0, fraction, 0.0, 0.0, 1.0, 0.0
        case Operation.SHEAR_Y:
            return 1.0, 0.0, 0.0, fraction, 1.0, 0.0
        case Operation.TRANSLATE_X:
            return 1.0, 0.0, float(int(fraction * width)), 0.0, 1.0, 0.0
        case Operation.TRANSLATE_Y:
            return 1.0, 0.0, 0.0, 0.0, 1.0, float(int(fraction * height))
        case Operation.ROTATE:
            angle = -math.radians(signed * 30 // 10)
            cos = round(math.cos(angle), 15)
            sin = round(math.sin(angle), 15)
            x = width / 2
            y = height / 2
            return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y
        case _:
            raise AssertionError(operation)


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """The strong augmentation of FixMatch for uint8 images.

    `box` is the nominal side of the gray box in pixels, 0 for none: its left and upper edges start
    half of that before a uniform point, and Pillow draws both edges, 17 pixels for 16.
    """

    box: int = 16

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a strongly augmented copy of each image, uint8 [B, C, H, W]."""
        if images.shape[1] not in (1, 3):
            raise ValueError(f"images have {images.shape[1]} channels; RandAugment needs 1 or 3")
        operations, magnitudes, signs, corners = self.draw(len(images), generator)
        device = images.device
        # Images lie in the order of their operations, so that those of one operation are a slice;
        # from layer to layer, and back at the end, they are moved once.
        places = torch.arange(len(images))
        result = images
        for layer in range(_LAYERS):
            order = operations[layer].argsort(stable=True)
            before = torch.empty_like(places)
            before[places] = torch.arange(len(images))
            plan = torch.stack((before[order], magnitudes[layer][order], signs[layer][order])).to(
                device, non_blocking=True
            )
            result = result.index_select(0, plan[0])
            places = order
            _operate(result, operations[layer], plan[1], plan[2])
        back = torch.empty_like(places)
        back[places] = torch.arange(len(images))
        result = result.index_select(0, back.to(device, non_blocking=True))
        if self.box:
            _cut_out(result, corners, side=self.box)
        return result

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Draw operations, magnitudes, signs and corners for B images, on the CPU.

        Operations int64 [layers, B] are places in the list of them, -1 where skipped; corners
        float64 [2, B] are uniform numbers in [0, 1) that place the gray box: x, then y.
        """
        shape = (_LAYERS, count)
        drawn: dict[str, Any] = {"generator": generator, "device": generator.device}
        operations = torch.randint(len(_OPERATIONS), shape, **drawn).cpu()
        magnitudes = torch.randint(1, 10, shape, **drawn).cpu()
        signs = torch.randint(2, shape, **drawn).cpu() * 2 - 1
        kept = torch.rand(shape, **drawn).cpu() < _PROBABILITY
        corners = torch.rand((2, count), **drawn, dtype=torch.float64).cpu()
        return torch.where(kept, operations, -1), magnitudes, signs, corners


def _operate(images: Tensor, operations: Tensor, magnitudes: Tensor, signs: Tensor) -> None:
    """Carry out one operation on each image, in place; all are sorted by `operations`."""
    end, *sizes = torch.bincount(operations + 1, minlength=len(_OPERATIONS) + 1).tolist()
    for operation, size in zip(_OPERATIONS, sizes, strict=True):
        start = end
        end = end + size
        if size and operation is not Operation.IDENTITY:
            some = slice(start, end)
            images[some] = apply(operation, images[some], magnitudes[some], signs[some])


def _cut_out(images: Tensor, corners: Tensor, *, side: int) -> None:
    """Paint a box on each image in place; the right and lower edges of the image cut it."""
    height, width = images.shape[2:]

    def edges(uniform: Tensor, length: int) -> Tensor:
        """All bits set where the box is, none elsewhere [B, length]."""
        start = (uniform * length - side / 2).clamp(min=0).floor()
        end = (start + side).clamp(max=length)
        # Pillow paints the last row and column too.
        places = torch.arange(length)
        inside = (places >= start[:, None]) & (places <= end[:, None])
        return (inside.to(torch.uint8) * 255).to(images.device, non_blocking=True)

    columns = edges(corners[0], width)
    rows = edges(corners[1], height)
    box = (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)
    # On a CPU operations on bits are many times as fast as masked_fill_.
    images.bitwise_and_(~box).bitwise_or_(box & _GRAY)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageViews:
    """Views of uint8 images [B, C, H, W]; `pixels` are mean and deviation of each channel [C]."""

    pixels: tuple[Tensor, Tensor]
    crop: CropAndFlip
    augment: RandAugment

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, standardized."""
        return normalize(self.crop(examples, generator), *self.pixels)

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, RandAugment, a gray box, standardized."""
        return normalize(self.augment(self.crop(examples, generator), generator), *self.pixels)


@dataclass(frozen=True, kw_only=True)
class TableViews:
    """Views of standardized columns [B, D]; noise is in standard deviations of a column."""

    config: FewLabelsConfig

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With a little noise."""
        noise = torch.randn(examples.shape, generator=generator, device=generator.device)
        return examples + self.config.weak_noise_std * noise.to(examples.device)

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With noise, and some entries blanked."""
        device = generator.device
        noise = torch.randn(examples.shape, generator=generator, device=device)
        drawn = torch.rand(examples.shape, generator=generator, device=device)
        kept = (drawn >= self.config.masked_share).to(examples.device)
        noisy = examples + self.config.strong_noise_std * noise.to(examples.device)
        return noisy * kept


def views_of(
    config: FewLabelsConfig, data: PublicData, device: torch.device
) -> ImageViews | TableViews:
    """Return the views of these data, on the device."""
    if data.pixels is None:
        return TableViews(config=config)
    side = min(data.train_features.shape[2:])
    return ImageViews(
        pixels=data.pixels.on(device),
        crop=CropAndFlip(padding=config.padding, flip=config.flip),
        augment=RandAugment(box=side // 2 if config.box is None else config.box),
    )

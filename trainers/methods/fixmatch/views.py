"""Weak and strong views of examples, as FixMatch compares them: for images and for tables.

A weak view keeps what a person would need to name the class; a strong one makes it hard. For
images these are crops and flips, and on top of them RandAugment (Sohn et al. 2020,
arXiv:2001.07685): each image draws two of 14 operations, each with a magnitude of its own and
skipped half of the time, then always gets a grey box (Cutout). Pixels are touched on the images'
device without waiting for it in between. For tables with standardized columns: a little noise, and
on top of more noise columns that are blanked, that is, set to their mean.

>>> images = torch.zeros(8, 1, 28, 28, dtype=torch.uint8)
>>> strong = RandAugment()(images, torch.Generator().manual_seed(0))
>>> strong.shape, strong.dtype, bool((strong == 127).flatten(1).any(1).all())
(torch.Size([8, 1, 28, 28]), torch.uint8, True)
>>> views = TableViews(masked_share=0.5)
>>> table = views.strong(torch.ones(4, 1000), torch.Generator().manual_seed(0))
>>> round(float((table == 0).float().mean()), 1)
0.5
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.methods.fixmatch.image_operations import Operation, apply
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.predictors import normalize
from labeldp.trainers.settings.training import FixMatchConfig

_OPERATIONS = tuple(Operation)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """What was drawn for B images, all on the CPU.

    Attributes:
        operations: Place in the list of operations, int64 [layers, B]; -1 where skipped.
        magnitudes: int64 [layers, B], 1..9.
        signs: int64 [layers, B], 1 or -1.
        corners: Uniform numbers in [0, 1) that place the grey box, float64 [2, B]: x, then y.
    """

    operations: Tensor
    magnitudes: Tensor
    signs: Tensor
    corners: Tensor


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """The strong augmentation of FixMatch for uint8 images.

    Attributes:
        layers: Operations drawn for each image, with replacement.
        magnitude: One more than the largest magnitude drawn (the paper's m), 2 to 10.
        probability: Chance that a drawn operation is carried out.
        box: Nominal side of the grey box in pixels; 0 for none. Its left and upper edges start
            half of that before a uniform point, and Pillow draws both edges: 17 pixels for 16.
        grey: Value of the box.
    """

    layers: int = 2
    magnitude: int = 10
    probability: float = 0.5
    box: int = 16
    grey: int = 127

    def __post_init__(self) -> None:
        """Check the settings."""
        _validate.whole(layers=self.layers, box=self.box, grey=self.grey)
        _validate.whole(magnitude=self.magnitude, minimum=2)
        _validate.number(probability=self.probability)
        if self.magnitude > 10:
            raise ValueError(f"magnitude is {self.magnitude}; the scale ends at 10")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability is {self.probability}; it must lie in 0..1")
        if self.grey > 255:
            raise ValueError(f"grey is {self.grey}; a pixel holds 0..255")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a strongly augmented copy of each image, uint8 [B, C, H, W].

        Args:
            images: uint8 [B, C, H, W], C = 1 or 3.
            generator: Where the draws come from. A generator of the CPU gives the same draws
                whatever the images' device.
        """
        return self.carry_out(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Draws:
        """Draw what happens to `count` images."""
        shape, device = (self.layers, count), generator.device

        def whole(low: int, high: int) -> Tensor:
            return torch.randint(low, high, shape, generator=generator, device=device).cpu()

        operations = whole(0, len(_OPERATIONS))
        magnitudes = whole(1, self.magnitude)
        signs = whole(0, 2) * 2 - 1
        kept = torch.rand(shape, generator=generator, device=device).cpu() < self.probability
        corners = torch.rand(
            (2, count), generator=generator, device=device, dtype=torch.float64
        ).cpu()
        return Draws(
            operations=torch.where(kept, operations, -1),
            magnitudes=magnitudes,
            signs=signs,
            corners=corners,
        )

    def carry_out(self, images: Tensor, draws: Draws) -> Tensor:
        """Return what the draws make of the images, uint8 [B, C, H, W]."""
        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                f"images are {images.dtype} of shape {tuple(images.shape)}; RandAugment works on "
                "uint8 [B, C, H, W] with 1 or 3 channels, before they are normalized"
            )
        device = images.device
        # Images lie in the order of their operations, so that those of one operation are a slice;
        # from layer to layer, and back at the end, they are moved once.
        places = torch.arange(len(images))
        result = images.clone() if not self.layers else images
        for layer in range(self.layers):
            order = draws.operations[layer].argsort(stable=True)
            before = torch.empty_like(places)
            before[places] = torch.arange(len(images))
            plan = torch.stack(
                (before[order], draws.magnitudes[layer][order], draws.signs[layer][order])
            ).to(device, non_blocking=True)
            result = result.index_select(0, plan[0])
            places = order
            _operate(result, draws.operations[layer], plan[1], plan[2])
        if self.layers:
            back = torch.empty_like(places)
            back[places] = torch.arange(len(images))
            result = result.index_select(0, back.to(device, non_blocking=True))
        if self.box:
            _cut_out(result, draws.corners, side=self.box, grey=self.grey)
        return result


def _operate(images: Tensor, operations: Tensor, magnitudes: Tensor, signs: Tensor) -> None:
    """Carry out one operation on each image, in place.

    Args:
        images: Sorted by their operations, those without one first.
        operations: In any order.
        magnitudes: In the order of the images, on their device.
        signs: Likewise.
    """
    end, *sizes = torch.bincount(operations + 1, minlength=len(_OPERATIONS) + 1).tolist()
    for operation, size in zip(_OPERATIONS, sizes, strict=True):
        start, end = end, end + size
        if size and operation is not Operation.IDENTITY:
            some = slice(start, end)
            images[some] = apply(operation, images[some], magnitudes[some], signs[some])


def _cut_out(images: Tensor, corners: Tensor, *, side: int, grey: int) -> None:
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

    columns, rows = edges(corners[0], width), edges(corners[1], height)
    box = (rows[:, :, None] & columns[:, None, :]).unsqueeze(1)
    # On a CPU operations on bits are many times as fast as masked_fill_.
    images.bitwise_and_(~box).bitwise_or_(box & grey)


class Views(Protocol):
    """Examples as they are stored in, inputs of a network out, on the examples' device."""

    def plain(self, examples: Tensor) -> Tensor:
        """Unaugmented, float32 [B, ...]."""

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Slightly changed, float32 [B, ...]."""

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Greatly changed, float32 [B, ...]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageViews:
    """Views of uint8 images [B, C, H, W].

    Attributes:
        mean: Of each channel [C], of pixels in [0, 1]; on the images' device.
        std: Likewise.
        crop: The weak augmentation.
        augment: What the strong one does on top.
    """

    mean: Tensor
    std: Tensor
    crop: CropAndFlip
    augment: RandAugment

    def plain(self, examples: Tensor) -> Tensor:
        """Standardized."""
        return normalize(examples, self.mean, self.std)

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, standardized."""
        return self.plain(self.crop(examples, generator))

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, perhaps mirrored, RandAugment, a grey box, standardized."""
        return self.plain(self.augment(self.crop(examples, generator), generator))


@dataclass(frozen=True, kw_only=True)
class TableViews:
    """Views of standardized columns [B, D].

    Attributes:
        weak_noise_std: Standard deviation of Gaussian noise, in standard deviations of a column.
        strong_noise_std: Likewise, of the strong view.
        masked_share: Chance that the strong view blanks an entry.
    """

    weak_noise_std: float = FixMatchConfig.weak_noise_std
    strong_noise_std: float = FixMatchConfig.strong_noise_std
    masked_share: float = FixMatchConfig.masked_share

    def plain(self, examples: Tensor) -> Tensor:
        """As they are."""
        return examples.float()

    def weak(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With a little noise."""
        noise = torch.randn(examples.shape, generator=generator, device=generator.device)
        return examples + self.weak_noise_std * noise.to(examples.device)

    def strong(self, examples: Tensor, generator: torch.Generator) -> Tensor:
        """With noise, and some entries blanked."""
        device = generator.device
        noise = torch.randn(examples.shape, generator=generator, device=device)
        kept = torch.rand(examples.shape, generator=generator, device=device) >= self.masked_share
        noisy = examples + self.strong_noise_std * noise.to(examples.device)
        return noisy * kept.to(examples.device)

"""Weak and strong views of examples, as FixMatch compares them: for images and for tables.

A weak view keeps what a person would need to name the class; a strong one makes it hard. For
images these are crops and flips, and on top of them RandAugment (Sohn et al. 2020,
arXiv:2001.07685). For tables with standardized columns: a little noise, and on top of more noise
columns that are blanked, that is, set to their mean.

>>> views = TableViews(masked_share=0.5)
>>> table = torch.ones(4, 1000)
>>> strong = views.strong(table, torch.Generator().manual_seed(0))
>>> round(float((strong == 0).float().mean()), 1)
0.5
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from labeldp.trainers.methods.fixmatch.rand_augment import RandAugment
from labeldp.trainers.models.augmentation import CropAndFlip, normalize
from labeldp.trainers.settings.fixmatch import FixMatchConfig, check_table_views


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

    def __post_init__(self) -> None:
        """Check every field."""
        check_table_views(
            weak_noise_std=self.weak_noise_std,
            strong_noise_std=self.strong_noise_std,
            masked_share=self.masked_share,
        )

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

"""Random crops and flips in batches on the device, each image with a draw of its own.

The same law as padding by reflection, cutting out a window and mirroring half of the images, one at
a time; here every pixel is fetched from where it comes from, which needs no padded copy.

>>> images = torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4)
>>> CropAndFlip(padding=1)(images, torch.Generator().manual_seed(0)).shape
torch.Size([1, 1, 4, 4])
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from labeldp.mechanisms import _validate


@dataclass(frozen=True, kw_only=True)
class CropAndFlip:
    """The weak augmentation: a window of the reflected image, mirrored half of the time.

    Attributes:
        padding: Pixels reflected at each border; 0 for no crop.
        flip: Whether left and right may be swapped: wrong for digits and letters.
    """

    padding: int = 4
    flip: bool = True

    def __post_init__(self) -> None:
        """Check the padding."""
        _validate.whole(padding=self.padding)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return an augmented copy of each image [B, C, H, W], of the same type.

        Args:
            images: Of any type, on any device.
            generator: Where the draws come from. A generator of the CPU gives the same draws
                whatever the images' device.
        """
        return self.carry_out(images, self.draw(len(images), generator))

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw for `count` images: row and column of the window, and 1 to mirror; int64 [3, B]."""
        window = torch.randint(
            2 * self.padding + 1, (2, count), generator=generator, device=generator.device
        )
        mirror = torch.randint(2, (1, count), generator=generator, device=generator.device)
        return torch.cat((window, mirror if self.flip else torch.zeros_like(mirror)))

    def carry_out(self, images: Tensor, draws: Tensor) -> Tensor:
        """Return what the draws [3, B] make of the images [B, C, H, W]."""
        if images.ndim != 4 or min(images.shape[2:]) <= self.padding:
            raise ValueError(
                f"images have shape {tuple(images.shape)}; they must be [B, C, H, W], with more "
                f"than padding = {self.padding} rows and columns to reflect"
            )
        height, width = images.shape[2:]
        top, left, mirror = draws.to(images.device, non_blocking=True).unsqueeze(2)
        rows = self._reflected(top, height)
        columns = self._reflected(left, width)
        columns = torch.where(mirror == 1, columns.flip(1), columns)
        source = (rows[:, :, None] * width + columns[:, None, :]).flatten(1).unsqueeze(1)
        pixels = images.flatten(2)
        return pixels.gather(2, source.expand_as(pixels)).view(images.shape)

    def _reflected(self, start: Tensor, length: int) -> Tensor:
        """Where each place of a window comes from [B, length]; borders are not repeated."""
        places = start - self.padding + torch.arange(length, device=start.device)
        return (length - 1) - (places.abs() - (length - 1)).abs()


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return uint8 images [B, C, H, W] as float32: divided by 255, each channel standardized.

    Args:
        images: uint8 [B, C, H, W].
        mean: Of each channel [C], of pixels in [0, 1]; on the images' device.
        std: Likewise, above 0.
    """
    center, spread = (255.0 * statistic.view(1, -1, 1, 1) for statistic in (mean, std))
    return images.float().sub_(center).div_(spread)

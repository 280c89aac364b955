"""Distorted views of images, in batches on the device, each image with draws of its own.

A window of the image, enlarged to its size and mirrored half of the time; brightness, contrast,
saturation and hue changed a little; some views without color. All of it is arithmetic on whole
batches: windows by interpolation, colors by a matrix for each image.

>>> images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
>>> Distortions()(images, torch.Generator().manual_seed(0)).shape
torch.Size([4, 3, 8, 8])
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms import _validate

#: The longest and the flattest window, as width over height.
_STRETCH = 4 / 3
#: Share of the views whose colors are changed.
_CHANGED = 0.8
#: From red, green and blue to lightness and two axes of color (YIQ); the hue is an angle there.
_TO_LIGHT = (
    (0.299, 0.587, 0.114),
    (0.5959, -0.2746, -0.3213),
    (0.2115, -0.5227, 0.3112),
)
#: Numbers drawn for an image: window (4), mirror, colors (4), whether changed, whether grey.
_DRAWS = 11


@dataclass(frozen=True, kw_only=True)
class Distortions:
    """What may happen to an image; see `SelfSupervisedConfig`.

    Attributes:
        smallest_area: Of a window, as a share of the image.
        jitter: How far colors are changed.
        grey: Share of the views without color.
        flip: Whether views may be mirrored.
    """

    smallest_area: float = 0.25
    jitter: float = 0.4
    grey: float = 0.2
    flip: bool = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.positive(smallest_area=self.smallest_area)
        _validate.non_negative(jitter=self.jitter, grey=self.grey)
        if max(self.smallest_area, self.jitter, self.grey) > 1:
            raise ValueError(
                f"smallest_area is {self.smallest_area}, jitter {self.jitter} and grey "
                f"{self.grey}; they must be 1 at most"
            )

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Return a view of each image, single precision in 0..255 [B, C, H, W].

        Args:
            images: uint8 [B, C, H, W] with 1 or 3 channels, on any device.
            generator: Of the CPU: one seed draws the same on every device.
        """
        draws = torch.rand(_DRAWS, len(images), generator=generator)
        windows, colors = self._windows(draws[:5]), self._colors(draws[5:])
        # Worked out on the CPU and sent at once: to send numbers one by one is to wait for each.
        sent = torch.cat((windows.flatten(1), colors), dim=1)
        sent = sent.to(images.device, non_blocking=True)
        pixels = _shown(images.float(), sent[:, :6].view(-1, 2, 3))
        return _tinted(pixels, sent[:, 6:]).clamp_(0, 255)

    def _windows(self, draws: Tensor) -> Tensor:
        """From a place in the view to the one in the image, both in -1..1 [B, 2, 3]."""
        area, stretch, left, top, mirror = draws
        root = (self.smallest_area + (1 - self.smallest_area) * area).sqrt()
        ratio = (math.log(_STRETCH) * (2 * stretch - 1)).exp().sqrt()
        width, height = (root * ratio).clamp(max=1), (root / ratio).clamp(max=1)
        sign = torch.where(mirror < 0.5, -1.0, 1.0) if self.flip else torch.ones_like(mirror)
        none = torch.zeros_like(width)
        across = torch.stack((width * sign, none, (1 - width) * (2 * left - 1)), dim=1)
        down = torch.stack((none, height, (1 - height) * (2 * top - 1)), dim=1)
        return torch.stack((across, down), dim=1)

    def _colors(self, draws: Tensor) -> Tensor:
        """Brightness, contrast and a matrix of colors, row by row [B, 11]."""
        brightness, contrast, saturation, hue, changed, grey = draws
        most = torch.where(changed < _CHANGED, self.jitter, 0.0)
        brightness, contrast, saturation = (
            1 + most * (2 * draw - 1) for draw in (brightness, contrast, saturation)
        )
        angle = math.pi / 4 * most * (2 * hue - 1)
        strength = torch.where(grey < self.grey, 0.0, saturation)
        cosine, sine = strength * angle.cos(), strength * angle.sin()
        one, none = torch.ones_like(angle), torch.zeros_like(angle)
        turned = torch.stack((one, none, none, none, cosine, -sine, none, sine, cosine), dim=1)
        to_light = torch.tensor(_TO_LIGHT)
        matrix = torch.linalg.inv(to_light) @ turned.view(-1, 3, 3) @ to_light
        return torch.cat((brightness[:, None], contrast[:, None], matrix.flatten(1)), dim=1)


def _shown(pixels: Tensor, windows: Tensor) -> Tensor:
    """What windows [B, 2, 3] show of images [B, C, H, W], enlarged to their size."""
    grid = functional.affine_grid(windows, list(pixels.shape), align_corners=False)
    return functional.grid_sample(
        pixels, grid, mode="bilinear", padding_mode="border", align_corners=False
    )


def _tinted(pixels: Tensor, colors: Tensor) -> Tensor:
    """Images [B, C, H, W] with their colors changed as drawn [B, 11]."""
    brightness, contrast = (colors[:, n].view(-1, 1, 1, 1) for n in (0, 1))
    bright = pixels * brightness
    mean = bright.mean((1, 2, 3), keepdim=True)
    pixels = mean + (bright - mean) * contrast
    if pixels.shape[1] != 3:
        return pixels
    tinted: Tensor = colors[:, 2:].view(-1, 3, 3) @ pixels.flatten(2)
    return tinted.view(pixels.shape)

"""What is done to an image before an encoder sees it: size, crop, scale; by torch alone.

Libraries have transforms of their own, which differ among versions. Their numbers are read off, and
these few steps carry them out, so that the same words always mean the same pixels.

>>> Preparation(resize=8, crop=6)(torch.zeros(2, 1, 10, 12, dtype=torch.uint8)).shape
torch.Size([2, 3, 6, 6])
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms import _validate

#: Means and deviations of ImageNet's channels, which most encoders were trained with.
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_KINDS = ("bilinear", "bicubic")


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """From bytes to what an encoder takes.

    Attributes:
        resize: Length that the shorter side gets; None leaves images as they are.
        crop: Side of the square in the middle that is kept; None keeps all.
        square: Whether both sides get the length `resize`, whatever they were.
        interpolation: How sizes change: `bilinear` or `bicubic`, both without aliasing.
        mean: Of each channel, of pixels in 0..1.
        std: Likewise, which is divided by.
        raw: Whether the encoder takes bytes, and does all of this but the sizes itself.
    """

    resize: int | None = None
    crop: int | None = None
    square: bool = False
    interpolation: str = "bilinear"
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    raw: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        for name in ("resize", "crop"):
            if getattr(self, name) is not None:
                _validate.whole(minimum=1, **{name: getattr(self, name)})
        if self.interpolation not in _KINDS:
            raise ValueError(
                f"interpolation is {self.interpolation!r}; it must be one of {', '.join(_KINDS)}"
            )
        if len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise ValueError(
                f"mean is {self.mean} and std {self.std}; both have three numbers, std above 0"
            )

    def __call__(self, images: Tensor | Sequence[Tensor]) -> Tensor:
        """Return a batch [B, C, H, W]: single precision with C = 3, or bytes where it is `raw`.

        Args:
            images: Bytes [B, C, H, W] with 1 or 3 channels, or B of [C, H, W] of any sizes.

        Raises:
            ValueError: Images of several sizes that nothing brings to one.
        """
        if isinstance(images, Tensor):
            return self._prepared(images)
        if len({tuple(image.shape) for image in images}) == 1:
            return self._prepared(torch.stack([*images]))
        done = [self._prepared(image[None])[0] for image in images]
        shapes = {tuple(image.shape) for image in done}
        if len(shapes) > 1:
            first, second = sorted(shapes)[:2]
            raise ValueError(
                f"images have several sizes ({first} and {second} among them), and nothing brings "
                "them to one; say --image-size N"
            )
        return torch.stack(done)

    def described(self) -> dict[str, Any]:
        """Return all of it, as JSON has it."""
        return asdict(self)

    @property
    def words(self) -> str:
        """All of it in a line."""
        sides = "both sides" if self.square else "shorter side"
        steps = [
            *([f"{sides} to {self.resize} ({self.interpolation})"] if self.resize else []),
            *([f"middle {self.crop}"] if self.crop else []),
        ]
        if not self.raw:
            numbers = (", ".join(f"{n:.4g}" for n in each) for each in (self.mean, self.std))
            steps.append("mean {}, std {}".format(*numbers))
        return "; ".join(steps) or "none"

    def _prepared(self, images: Tensor) -> Tensor:
        images = self._sized(images)
        if self.raw:
            return images
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        pixels = images.float() / 255
        mean, std = (
            torch.tensor(each, device=pixels.device).view(1, 3, 1, 1)
            for each in (self.mean, self.std)
        )
        return (pixels - mean) / std

    def _sized(self, images: Tensor) -> Tensor:
        if self.resize is not None:
            images = self._resized(images, self.resize)
        if self.crop is not None:
            height, width = images.shape[2:]
            if min(height, width) < self.crop:
                return self._resized(images, self.crop)
            top, left = (height - self.crop) // 2, (width - self.crop) // 2
            images = images[:, :, top : top + self.crop, left : left + self.crop]
        return images

    def _resized(self, images: Tensor, length: int) -> Tensor:
        height, width = images.shape[2:]
        factor = length / min(height, width)
        size = (length, length) if self.square else (round(height * factor), round(width * factor))
        if size == (height, width):
            return images
        # On bytes, and so on the CPU, as the libraries do it: through single precision and back
        # would give other pixels.
        return functional.interpolate(images, size=size, mode=self.interpolation, antialias=True)

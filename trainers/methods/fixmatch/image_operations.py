"""The image operations of RandAugment on whole batches, pixel for pixel what Pillow makes of each.

Images are uint8 [B, C, H, W] with C = 1 (grey) or 3 (RGB); magnitudes are whole numbers 1..9 on
FixMatch's scale of ten (Sohn et al. 2020, arXiv:2001.07685, table 12). Three families cover the 14
operations: tables of 256 entries, blends with a milder copy, and moves of pixels.

>>> images = torch.full((2, 1, 4, 4), 200, dtype=torch.uint8)
>>> magnitudes, signs = torch.tensor([1, 9]), torch.tensor([1, 1])
>>> apply(Operation.SOLARIZE, images, magnitudes, signs)[:, 0, 0, 0]
tensor([200,  55], dtype=torch.uint8)
"""

import enum
import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

# Pillow moves pixels by fixed-point arithmetic with this many bits behind the point.
_FIXED_POINT_BITS = 16


class Operation(enum.Enum):
    """What may happen to an image; the values are the names in the paper."""

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


_MOVES = {
    Operation.ROTATE,
    Operation.SHEAR_X,
    Operation.SHEAR_Y,
    Operation.TRANSLATE_X,
    Operation.TRANSLATE_Y,
}


def apply(operation: Operation, images: Tensor, magnitudes: Tensor, signs: Tensor) -> Tensor:
    """Return what `operation` makes of each image.

    Args:
        operation: One for all of the images.
        images: uint8 [B, C, H, W].
        magnitudes: int64 [B], 1..9; operations without a strength do not look at them.
        signs: int64 [B], 1 or -1: the direction of a move.

    Returns:
        uint8 [B, C, H, W].
    """
    if operation in _MOVES:
        return _move(operation, images, magnitudes, signs)
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
            mean = _grey(images).double().mean((1, 2, 3), keepdim=True)
            milder = (mean + 0.5).floor().float()
        case Operation.COLOR:
            milder = _grey(images).float()
        case Operation.SHARPNESS:
            milder = _smooth(images)
        case _:
            raise AssertionError(operation)
    return _blend(milder, images, magnitudes)


def _blend(milder: Tensor, images: Tensor, magnitudes: Tensor) -> Tensor:
    """Return `milder` + strength * (images - milder), cut to whole numbers as Pillow cuts them."""
    strength = (magnitudes.double() * 0.9 / 10 + 0.05).float().view(-1, 1, 1, 1)
    return (images.float().sub_(milder).mul_(strength).add_(milder)).to(torch.uint8)


def _grey(images: Tensor) -> Tensor:
    """Luma of ITU-R 601 in Pillow's whole numbers, int32 [B, 1, H, W]; grey images stay."""
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


def _histogram(images: Tensor) -> Tensor:
    """Count of each value in each channel, int64 [B, C, 256]."""
    flat = images.flatten(2).long()
    counts = torch.zeros((*flat.shape[:2], 256), dtype=torch.int64, device=images.device)
    return counts.scatter_add_(2, flat, torch.ones_like(flat))


def _look_up(images: Tensor, table: Tensor) -> Tensor:
    """Replace each value by its entry in the table [B, C, 256] of its channel."""
    entries = table.clamp(0, 255).to(torch.uint8)
    return entries.gather(2, images.flatten(2).long()).view_as(images)


def _auto_contrast(images: Tensor) -> Tensor:
    """Stretch each channel so that its darkest value becomes 0 and its brightest 255."""
    low, high = images.flatten(2).aminmax(dim=2, keepdim=True)
    low, high = low.double(), high.double()
    levels = torch.arange(256, dtype=torch.float64, device=images.device)
    # One true division: torch would write 255 / x as 255 * (1 / x), which rounds twice.
    scale = torch.full_like(high, 255.0) / (high - low)
    stretched = (levels * scale + -low * scale).trunc()
    return _look_up(images, torch.where(high > low, stretched, levels))


def _equalize(images: Tensor) -> Tensor:
    """Spread each channel's values so that all levels are about equally frequent."""
    counts = _histogram(images)
    levels = torch.arange(256, device=images.device)
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
    y, x = torch.arange(height).view(-1, 1), torch.arange(width).view(1, -1)
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
            cos, sin = round(math.cos(angle), 15), round(math.sin(angle), 15)
            x, y = width / 2, height / 2
            return cos, sin, x - cos * x - sin * y, -sin, cos, y + sin * x - cos * y
        case _:
            raise AssertionError(operation)

"""RandAugment one image at a time with Pillow: slow and obvious, to compare with."""

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageOps
from sklearn.datasets import load_sample_images

from labeldp.trainers.methods.fixmatch import Operation


def sample_tiles(*, side: int = 32, channels: int = 3, count: int = 400) -> torch.Tensor:
    """Tiles of the two photographs that come with scikit-learn, uint8 [count, C, side, side]."""
    tiles: list[NDArray[np.uint8]] = []
    for photograph in load_sample_images().images:
        image = Image.fromarray(photograph)
        pixels = np.asarray(image if channels == 3 else image.convert("L"))
        height, width = (length // side * side for length in pixels.shape[:2])
        grid = pixels[:height, :width].reshape(height // side, side, width // side, side, channels)
        tiles.append(grid.transpose(0, 2, 4, 1, 3).reshape(-1, channels, side, side))
    every = np.concatenate(tiles)
    return torch.from_numpy(every[np.linspace(0, len(every) - 1, count).astype(int)].copy())


def to_pillow(image: torch.Tensor) -> Image.Image:
    pixels = image.numpy()
    return Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0).copy())


def from_pillow(image: Image.Image) -> torch.Tensor:
    pixels = np.array(image)
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())


def operate(operation: Operation, image: Image.Image, magnitude: int, sign: int) -> Image.Image:
    strength = magnitude * 0.9 / 10 + 0.05
    fraction = magnitude * 0.3 / 10 * sign
    width, height = image.size

    def affine(*coefficients: float) -> Image.Image:
        return image.transform(image.size, Image.Transform.AFFINE, coefficients)

    match operation:
        case Operation.AUTO_CONTRAST:
            return ImageOps.autocontrast(image)
        case Operation.BRIGHTNESS:
            return ImageEnhance.Brightness(image).enhance(strength)
        case Operation.COLOR:
            return ImageEnhance.Color(image).enhance(strength)
        case Operation.CONTRAST:
            return ImageEnhance.Contrast(image).enhance(strength)
        case Operation.EQUALIZE:
            return ImageOps.equalize(image)
        case Operation.IDENTITY:
            return image
        case Operation.POSTERIZE:
            return ImageOps.posterize(image, int(magnitude * 4 / 10) + 4)
        case Operation.ROTATE:
            return image.rotate(sign * int(magnitude * 30 / 10))
        case Operation.SHARPNESS:
            return ImageEnhance.Sharpness(image).enhance(strength)
        case Operation.SHEAR_X:
            return affine(1, fraction, 0, 0, 1, 0)
        case Operation.SHEAR_Y:
            return affine(1, 0, 0, fraction, 1, 0)
        case Operation.SOLARIZE:
            return ImageOps.solarize(image, 256 - int(magnitude * 256 / 10))
        case Operation.TRANSLATE_X:
            return affine(1, 0, int(fraction * width), 0, 1, 0)
        case Operation.TRANSLATE_Y:
            return affine(1, 0, 0, 0, 1, int(fraction * height))


def cut_out(image: Image.Image, side: int, x: float, y: float) -> Image.Image:
    """A grey box whose upper left corner lies half a side before (x, y), within the image."""
    left, top = int(max(0.0, x - side / 2)), int(max(0.0, y - side / 2))
    box = (left, top, min(image.width, left + side), min(image.height, top + side))
    image = image.copy()
    ImageDraw.Draw(image).rectangle(box, 127 if image.mode == "L" else (127, 127, 127))
    return image

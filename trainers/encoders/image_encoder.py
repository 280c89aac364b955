"""The encoder of self-supervised training, and its file of tensors and plain values, without code.

Use: `labeldp embed ... --encoder labeldp.trainers.encoders.image_encoder:build --weights FILE`.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labeldp.trainers.data.files import first_line, open_regular, whole_file
from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.models.predictors import Pixels, fitting_images, normalize
from labeldp.trainers.settings.base import ModelName

#: Of the file.
FORMAT = 1
#: Of the head, which is taken off at once.
_HEAD_CLASSES = 2
_MOST_BYTES = 1 << 32


class EncoderFileRefused(ValueError):
    """A file that holds no encoder; the message says what is wrong with it."""


class ImageEncoder(nn.Module):
    """A network without its head, and how pixels become numbers.

    Attributes:
        width: See `ModelName`.
        shape: Of an image, (C, H, W).
        mirrored: Whether an image is described by itself and its mirror image.
        network: Normalized images [B, C, H, W] -> vectors [B, D].
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: ModelName,
        *,
        shape: tuple[int, ...],
        pixels: Pixels,
        width: int | None = None,
        mirrored: bool = True,
        seed: int = 0,
    ) -> None:
        """Build it with weights that depend on the seed alone."""
        super().__init__()
        self.model, self.shape, self.width, self.mirrored = model, shape, width, mirrored
        network = build_model(
            model, input_shape=shape, num_classes=_HEAD_CLASSES, seed=seed, width=width
        )
        head = network.get_submodule("head")
        assert isinstance(head, nn.Linear)
        self.dimensions = head.in_features
        network.add_module("head", nn.Identity())
        self.network = network
        self.register_buffer("mean", torch.tensor(pixels.mean))
        self.register_buffer("std", torch.tensor(pixels.std))

    def fit_first(self, images: Tensor) -> None:
        """Let a first layer that is fitted to images see these, uint8 [N, C, H, W]."""
        if isinstance(self.network, FastCnn):
            self.network.fit_first(self.normalized(fitting_images(images)))

    def normalized(self, images: Tensor) -> Tensor:
        """Return images [B, C, H, W] of pixels in 0..255 as the network takes them."""
        return normalize(images, self.mean, self.std)

    def forward(self, images: Tensor) -> Tensor:
        """Map images, uint8 [B, C, H, W], to vectors [B, D]."""
        if tuple(images.shape[1:]) != self.shape:
            raise ValueError(
                f"images have shape {tuple(images.shape[1:])}, and this encoder was trained on "
                f"{self.shape}; bring them to that size (--image-size), or train one on these"
            )
        inputs = self.normalized(images)
        vectors: Tensor = self.network(inputs)
        if not self.mirrored:
            return vectors
        mirrored: Tensor = self.network(inputs.flip(3))
        return (vectors + mirrored) / 2


def write_encoder(file: Path, encoder: ImageEncoder) -> None:
    """Write an encoder, whole or not at all."""
    said = {
        "format": FORMAT,
        "model": encoder.model.value,
        "width": encoder.width,
        "shape": list(encoder.shape),
        "mirrored": encoder.mirrored,
        "weights": {name: value.cpu() for name, value in encoder.state_dict().items()},
    }
    write_whole(file, said)


def write_whole(file: Path, content: Mapping[str, Any]) -> None:
    """Write tensors and plain values."""
    with whole_file(file) as opened:
        torch.save(dict(content), opened)


def read_whole(file: Path) -> dict[str, Any]:
    """Return what `write_whole` wrote, on the CPU; no code in the file is run."""
    try:
        with open_regular(file, most_bytes=_MOST_BYTES) as opened:
            found = torch.load(opened, map_location="cpu", weights_only=True)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"it is of no format that this labeldp reads ({FORMAT})")
    except (
        *(EOFError, KeyError, MemoryError, OSError, RuntimeError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        raise EncoderFileRefused(
            f"{file} can't be read ({first_line(error)}); name a file that "
            "`labeldp self-supervise` wrote"
        ) from error
    return found


def read_encoder(file: Path) -> ImageEncoder:
    """Return the encoder that `write_encoder` wrote, on the CPU."""
    found = read_whole(file)
    try:
        shape = tuple(int(length) for length in found["shape"])
        channels = (0.0,) * shape[0]
        encoder = ImageEncoder(
            ModelName(found["model"]),
            shape=shape,
            width=found["width"],
            mirrored=bool(found["mirrored"]),
            pixels=Pixels(mean=channels, std=channels),
        )
        encoder.load_state_dict(found["weights"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise EncoderFileRefused(
            f"{file} holds no encoder ({first_line(error)}); name a file that "
            "`labeldp self-supervise` wrote"
        ) from error
    return encoder.eval()


def build(weights: Path | None) -> ImageEncoder:
    """Return the encoder in a file, for `labeldp embed --encoder ...:build --weights FILE`."""
    if weights is None:
        raise ValueError("no file is named; say --weights FILE, as `labeldp self-supervise` wrote")
    return read_encoder(Path(weights))

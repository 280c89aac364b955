"""The encoder of images that is trained here, and its file of tensors and plain values.

Use: `labeldp embed ... --encoder labeldp.trainers.encoders.image_encoder:build --weights FILE`.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from labeldp.trainers.data.files import first_line, whole_file
from labeldp.trainers.data.labelled_data import Pixels, normalize
from labeldp.trainers.encoders.encoder import WeightsRefused, read_saved
from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.models.predictors import fitting_images
from labeldp.trainers.settings.base import ModelName

#: Of the file.
FORMAT = 1
#: Of the head, which is taken off at once.
_HEAD_CLASSES = 2


class ImageEncoder(nn.Module):
    """A network without its head, and how pixels become numbers.

    `shape` is (C, H, W) of an image, which with `mirrored` is described by itself and its mirror
    image. `network` maps normalized images [B, C, H, W] to vectors [B, D], or with `crop` their
    crops [B, C, crop, crop], half a crop apart; an image's vector is then the mean over its crops.
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
        crop: int | None = None,
        mirrored: bool = True,
        seed: int = 0,
    ) -> None:
        """Build it with weights that depend on the seed alone."""
        super().__init__()
        if crop is not None and crop > min(shape[1:]):
            raise ValueError(
                f"crop is {crop}, and images have {shape[1]} x {shape[2]} pixels; a crop lies "
                "within the image: half of its side is a good one"
            )
        self.model, self.shape, self.width, self.mirrored = model, shape, width, mirrored
        self.crop = crop
        seen = shape if crop is None else (shape[0], crop, crop)
        network = build_model(
            model, input_shape=seen, num_classes=_HEAD_CLASSES, seed=seed, width=width
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
        """Map images, uint8 [B, C, H, W], to vectors [B, D]; colors and grey become each other."""
        if tuple(images.shape[2:]) != self.shape[1:]:
            raise ValueError(
                f"images have shape {tuple(images.shape[1:])}, and this encoder was trained on "
                f"{self.shape}; bring them to that size (--image-size), or train one on these"
            )
        if self.shape[0] == 1:
            images = images.float().mean(1, keepdim=True)
        inputs = self.normalized(images.expand(-1, *self.shape))
        both = (inputs, inputs.flip(3)) if self.mirrored else (inputs,)
        found = [self.network(part) for each in both for part in self._crops(each)]
        return torch.stack(found).mean(0)

    def _crops(self, images: Tensor) -> Iterator[Tensor]:
        if self.crop is None:
            yield images
            return
        side = self.crop
        tops, lefts = (
            sorted({*range(0, length - side, max(1, side // 2)), length - side})
            for length in self.shape[1:]
        )
        for top, left in itertools.product(tops, lefts):
            yield images[:, :, top : top + side, left : left + side]


def write_encoder(file: Path, encoder: ImageEncoder, **facts: str) -> None:
    """Write an encoder and plain facts about it, whole or not at all."""
    content = {
        "model": encoder.model.value,
        "width": encoder.width,
        "crop": encoder.crop,
        "shape": list(encoder.shape),
        "mirrored": encoder.mirrored,
        "weights": {name: value.cpu() for name, value in encoder.state_dict().items()},
    }
    write_whole(file, {**content, **facts})


def write_whole(file: Path, content: Mapping[str, Any]) -> None:
    """Write tensors and plain values, whole or not at all."""
    with whole_file(file) as opened:
        torch.save({"format": FORMAT, **content}, opened)


def read_whole(file: Path) -> dict[str, Any]:
    """Return what `write_whole` wrote, on the CPU."""
    found = read_saved(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise WeightsRefused(
            f"{file} is of no format that this labeldp reads ({FORMAT}); name a file that "
            "`labeldp self-supervise` wrote"
        )
    return found


def encoder_of(found: Mapping[str, Any], file: Path) -> ImageEncoder:
    """Return the encoder among the content of a file, on the CPU."""
    try:
        shape = tuple(int(length) for length in found["shape"])
        channels = (0.0,) * shape[0]
        encoder = ImageEncoder(
            ModelName(found["model"]),
            shape=shape,
            width=found["width"],
            crop=found["crop"],
            mirrored=bool(found["mirrored"]),
            pixels=Pixels(mean=channels, std=channels),
        )
        encoder.load_state_dict(found["weights"])
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise WeightsRefused(
            f"{file} holds no encoder ({first_line(error)}); name a file that "
            "`labeldp self-supervise` wrote"
        ) from error
    return encoder.eval()


def build(weights: Path | None) -> ImageEncoder:
    """Return the encoder in a file, for `labeldp embed --encoder ...:build --weights FILE`."""
    if weights is None:
        raise ValueError("no file is named; pass --weights FILE, as `labeldp self-supervise` wrote")
    return encoder_of(read_whole(Path(weights)), weights)

"""The encoder of images that is trained here, and its file of tensors and plain values.

Use: `labeldp embed ... --encoder labeldp.trainers.encoders.image_encoder:build --weights FILE`.
"""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from labeldp.trainers.data.files import first_line, whole_file
from labeldp.trainers.data.labelled_data import Pixels, PublicData, normalize
from labeldp.trainers.data.own_files import existing
from labeldp.trainers.encoders.encoder import WeightsRefused, read_saved
from labeldp.trainers.models.networks import FastCnn, build_model, seeded
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
    crops [B, C, crop, crop], at most half a crop apart. An image's vector is then the mean over the
    crops of each of its quarters [B, 4 D]. With `hidden` units, the mean of what this layer makes
    of all crops stands beside it, which is worth points to a linear model.
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
        hidden: int | None = None,
        mirrored: bool = True,
        seed: int = 0,
    ) -> None:
        """Build it with weights that depend on the seed alone."""
        super().__init__()
        if crop is not None and crop > min(shape[1:]):
            raise ValueError(
                f"crop is {crop}, and images have {shape[1]} x {shape[2]} pixels; a crop lies "
                "within the image: five eighths of its side is a good one"
            )
        self.model, self.shape, self.width, self.mirrored = model, shape, width, mirrored
        self.crop, self.units = crop, hidden
        seen = shape if crop is None else (shape[0], crop, crop)
        network = build_model(
            model, input_shape=seen, num_classes=_HEAD_CLASSES, seed=seed, width=width
        )
        head = network.get_submodule("head")
        assert isinstance(head, nn.Linear)
        network.add_module("head", nn.Identity())
        self.network = network
        self.hidden = None if hidden is None else _hidden_layer(head.in_features, hidden, seed)
        rows, columns = self._places()
        quarters = 4 if len(rows) > 1 and len(columns) > 1 else 1
        self.dimensions = quarters * head.in_features + (hidden or 0)
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
        found, expanded = self._grid(inputs)
        if self.mirrored:
            others, more = self._grid(inputs.flip(3))
            found, expanded = (found + others.flip(1)) / 2, (expanded + more) / 2
        return torch.cat((*_quarters(found), expanded), dim=1)

    def _grid(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of all crops, by row and column [R, C, B, D], and the mean of the hidden layer's.

        The latter has no columns without a hidden layer.
        """
        rows, columns = self._places()
        side_down, side_across = self._side()
        vectors = [
            self.network(inputs[:, :, top : top + side_down, left : left + side_across])
            for top in rows
            for left in columns
        ]
        if self.hidden is None:
            expanded = inputs.new_empty(len(inputs), 0)
        else:
            expanded = torch.stack([self.hidden(each) for each in vectors]).mean(0)
        grid = torch.stack(vectors)
        return grid.view(len(rows), len(columns), *grid.shape[1:]), expanded

    def _side(self) -> tuple[int, int]:
        height, width = self.shape[1:]
        return (height, width) if self.crop is None else (self.crop, self.crop)

    def _places(self) -> tuple[list[int], list[int]]:
        """Top rows and left columns of the crops, at even distances."""
        rows, columns = (
            [round(at) for at in np.linspace(0, gap, 1 + -(-gap // max(1, side // 2)))]
            for gap, side in (
                (length - side, side)
                for length, side in zip(self.shape[1:], self._side(), strict=True)
            )
        )
        return rows, columns


def _quarters(grid: Tensor) -> tuple[Tensor, ...]:
    """Means [B, D] over the quarters of a grid [R, C, B, D]; quarters share a middle row.

    One mean where the grid has a single row or column.
    """
    rows, columns = grid.shape[:2]
    if rows == 1 or columns == 1:
        return (grid.mean((0, 1)),)
    down, across = rows // 2, columns // 2
    halves = (grid[: rows - down], grid[down:])
    pairs = ((half[:, : columns - across], half[:, across:]) for half in halves)
    return tuple(part.mean((0, 1)) for pair in pairs for part in pair)


def _hidden_layer(inputs: int, units: int, seed: int) -> nn.Module:
    """A layer whose weights depend on the seed alone."""
    with seeded(seed):
        return nn.Sequential(
            OrderedDict(
                linear=nn.Linear(inputs, units, bias=False),
                norm=nn.BatchNorm1d(units),
                activation=nn.ReLU(),
            )
        )


def write_encoder(file: Path, encoder: ImageEncoder, **facts: str) -> None:
    """Write an encoder and plain facts about it, whole or not at all."""
    content = {
        "model": encoder.model.value,
        "width": encoder.width,
        "crop": encoder.crop,
        "hidden": encoder.units,
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
            hidden=found["hidden"],
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


def of_same_images(file: str, data: PublicData, *, key: str) -> ImageEncoder:
    """Return the encoder in a file that a setting names, if it learned of these images alone.

    A result that uses it then stays in the league of its data: same images, no labels.
    """
    path = existing(file, key=key)
    found = read_whole(path)
    if found.get("images") != data.digest_of_training_images:
        raise WeightsRefused(
            f"{file} was not trained on exactly the training images of {data.name}, and no record "
            "would name the outside data; train an encoder on these (`labeldp self-supervise`), or "
            "use its vectors as features (`labeldp embed`, data.embeddings)"
        )
    return encoder_of(found, path)


def starting_encoder(
    file: str, data: PublicData, *, model: ModelName | str, width: int | None
) -> ImageEncoder:
    """Return the encoder that a network starts from; refuse one of other images or sizes."""
    encoder = of_same_images(file, data, key="trainer.encoder")
    theirs, ours = (
        (name, name.default_width if units is None and isinstance(name, ModelName) else units)
        for name, units in ((encoder.model, encoder.width), (model, width))
    )
    if theirs != ours:
        raise WeightsRefused(
            f"{file} holds the network {theirs[0]} of width {theirs[1]}, and the trial's is "
            f"{ours[0]} of width {ours[1]}; set trainer.model and trainer.width to the encoder's"
        )
    return encoder


def build(weights: Path | None) -> ImageEncoder:
    """Return the encoder in a file, for `labeldp embed --encoder ...:build --weights FILE`."""
    if weights is None:
        raise ValueError("no file is named; pass --weights FILE, as `labeldp self-supervise` wrote")
    return encoder_of(read_whole(Path(weights)), weights)

"""The encoder of images that is trained here, and its file of tensors and plain values.

Use: `labeldp embed ... --encoder labeldp.trainers.encoders.image_encoder:build --weights FILE`.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.base import PRETRAINED, ModelName
from labeldp.trainers.data.files import first_line, whole_file
from labeldp.trainers.data.labelled_data import FeatureKind, Pixels, PublicData, normalize
from labeldp.trainers.data.own_files import existing
from labeldp.trainers.encoders.encoder import WeightsRefused, read_saved
from labeldp.trainers.models.networks import FastCnn, build_model, seeded
from labeldp.trainers.models.predictors import fitting_images

#: Of the file.
FORMAT = 1
#: Of the head, which is taken off at once.
_HEAD_CLASSES = 2
#: Rows and columns of the grid in which earlier blocks describe an image.
_CELLS = 3


class ImageEncoder(nn.Module):
    """A network without its head, and how pixels become numbers.

    `network` maps normalized images [B, C, H, W], whole or cropped, to vectors [B, D]. What the
    network finds before each change of resolution stands beside them, as means over the cells of a
    grid: the last block has lost some of it, and to a linear model it is worth several points
    (docs/encoders.md).

    Args:
        model: Architecture.
        shape: (C, H, W) of an image.
        pixels: Mean and standard deviation of the channels.
        width: Width of the network; None for its own.
        hidden: Number of units of a layer behind the network, whose outputs stand beside its
            vectors; None for no such layer.
        mirrored: Whether an image is described by itself and its mirror image.
        seed: Seed of the weights.
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
        hidden: int | None = None,
        mirrored: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.shape = shape
        self.width = width
        self.mirrored = mirrored
        self.units = hidden
        network = build_model(
            model, input_shape=shape, num_classes=_HEAD_CLASSES, seed=seed, width=width
        )
        head = network.get_submodule("head")
        assert isinstance(head, nn.Linear)
        network.add_module("head", nn.Identity())
        self.network = network
        self.hidden: nn.Module | None = None
        if hidden is not None:
            with seeded(seed):
                linear = nn.Linear(head.in_features, hidden, bias=False)
            layers = OrderedDict(linear=linear, norm=nn.BatchNorm1d(hidden), activation=nn.ReLU())
            self.hidden = nn.Sequential(layers)
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
        kinds = self._kinds(inputs)
        if self.mirrored:
            both = zip(kinds, self._kinds(inputs.flip(3)), strict=True)
            # The right of a grid is the left of the mirror image's.
            left = math.ceil(_CELLS / 2)
            kinds = [(one + other)[..., :left] / 2 for one, other in both]
        return torch.cat([kind.flatten(1) for kind in kinds], dim=1)

    @property
    def dimensions(self) -> int:
        """Numbers of a vector; of an encoder that does not learn."""
        with torch.inference_mode():
            vectors: Tensor = self(torch.zeros(1, *self.shape, dtype=torch.uint8))
        return vectors.shape[1]

    def _kinds(self, inputs: Tensor) -> list[Tensor]:
        """Grids of earlier blocks, the network's vectors and the hidden layer's [B, D, R, C]."""
        maps: list[Tensor] = []
        blocks = self.network.get_submodule("blocks").children()
        hooks = [
            block.register_forward_hook(lambda *seen: maps.append(seen[-1])) for block in blocks
        ]
        try:
            vectors = self.network(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        earlier = [one for one, after in pairwise(maps) if one.shape[2:] != after.shape[2:]]
        grids = [functional.adaptive_avg_pool2d(each.float(), _CELLS) for each in earlier]
        found = [vectors] if self.hidden is None else [vectors, self.hidden(vectors)]
        return [*grids, *(each.float()[:, :, None, None] for each in found)]


def write_encoder(file: Path, encoder: ImageEncoder, **facts: str) -> None:
    """Write an encoder and plain facts about it, whole or not at all."""
    content = {
        "model": encoder.model.value,
        "width": encoder.width,
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


def encoder_of(kept: Mapping[str, Any], file: Path) -> ImageEncoder:
    """Return the encoder among the content of a file, on the CPU."""
    try:
        shape = tuple(int(length) for length in kept["shape"])
        channels = (0.0,) * shape[0]
        encoder = ImageEncoder(
            ModelName(kept["model"]),
            shape=shape,
            width=kept["width"],
            hidden=kept["hidden"],
            mirrored=bool(kept["mirrored"]),
            pixels=Pixels(mean=channels, std=channels),
        )
        encoder.load_state_dict(kept["weights"])
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
    if data.kind is not FeatureKind.IMAGE:
        raise ValueError(
            f"{key} is {file}, which learned of images, but {data.name} is {data.kind.value} here; "
            f"set data.features=as_they_are, leave data.embeddings out, or leave {key} out"
        )
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
    """Return the encoder that a network starts from; refuse one of another model or width.

    `file` is one that `of_same_images` accepts, or `pretrained:NAME`.
    """
    if file.startswith(PRETRAINED):
        from labeldp.trainers.encoders.embedding import pretrained_on_others

        encoder = pretrained_on_others(file, data)
    else:
        encoder = of_same_images(file, data, key="trainer.encoder")
    theirs = encoder.width or encoder.model.default_width
    ours = width or (model.default_width if isinstance(model, ModelName) else None)
    if (encoder.model, theirs) != (model, ours):
        raise WeightsRefused(
            f"{file} holds the network {encoder.model} of width {theirs}, and the trial's is "
            f"{model} of width {ours}; set trainer.model and trainer.width to the encoder's"
        )
    return encoder


def build(weights: Path | None) -> ImageEncoder:
    """Return the encoder in a file, for `labeldp embed --encoder ...:build --weights FILE`."""
    if weights is None:
        raise ValueError("no file is named; pass --weights FILE, as `labeldp self-supervise` wrote")
    return encoder_of(read_whole(Path(weights)), weights)

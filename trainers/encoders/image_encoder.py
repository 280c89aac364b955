"""The encoder of images that is trained here: its network, its file, and training without labels.

Use: `labeldp embed ... --encoder labeldp.trainers.encoders.image_encoder:build --weights FILE`.

Distorted views of an image should get similar vectors, and other images other ones (`coding_rate`).
A view is a crop at the image's own resolution, which costs its share of the pixels; many crops of
an image in each step learn more in the same time than two (EMP-SSL; Tong, Chen, Ma and LeCun,
arXiv:2304.03977). No argument of `pretrain` could carry a label. It writes two files: while it
trains, the state, from which the next call resumes bit for bit, and at the end of a call the
encoder.
"""

import copy
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.trainers.base import PRETRAINED, ModelName
from labeldp.trainers.data.files import first_line, whole_file
from labeldp.trainers.data.labelled_data import FeatureKind, Pixels, PublicData, normalize
from labeldp.trainers.data.own_files import existing
from labeldp.trainers.data.splits import digest_of_images
from labeldp.trainers.encoders.encoder import WeightsRefused, image_source, of_one_size, read_saved
from labeldp.trainers.models.learner import Training, seeds_of
from labeldp.trainers.models.networks import FastCnn, build_model, seeded, smallest_view
from labeldp.trainers.models.optimization import AdamW, batches
from labeldp.trainers.models.predictors import fitting_images, logits_of
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import (
    EpochMetrics,
    Schedule,
    SelfSupervisedConfig,
    rate_factor,
)

#: Of the file.
FORMAT = 1
_MODEL = ModelName.FAST_CNN
#: Of the head, which is taken off at once.
_HEAD_CLASSES = 2
#: Rows and columns of the grid in which earlier blocks describe an image.
_CELLS = 3


class ImageEncoder(nn.Module):
    """The fast network without its head, and how pixels become numbers.

    `network` maps normalized images [B, C, H, W], whole or cropped, to vectors [B, D]. What the
    network finds before each change of resolution stands beside them, as means over the cells of a
    grid: the last block has lost some of it, and to a linear model it is worth several points
    (docs/encoders.md).

    Args:
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
        *,
        shape: tuple[int, ...],
        pixels: Pixels,
        width: int | None = None,
        hidden: int | None = None,
        mirrored: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.shape = shape
        self.width = width
        self.mirrored = mirrored
        self.units = hidden
        network = build_model(
            _MODEL, input_shape=shape, num_classes=_HEAD_CLASSES, seed=seed, width=width
        )
        assert isinstance(network, FastCnn)
        inputs = network.head.in_features
        network.add_module("head", nn.Identity())
        self.network = network
        self.hidden: nn.Module | None = None
        if hidden is not None:
            with seeded(seed):
                linear = nn.Linear(inputs, hidden, bias=False)
            layers = OrderedDict(linear=linear, norm=nn.BatchNorm1d(hidden), activation=nn.ReLU())
            self.hidden = nn.Sequential(layers)
        self.register_buffer("mean", torch.tensor(pixels.mean))
        self.register_buffer("std", torch.tensor(pixels.std))

    def fit_first(self, images: Tensor) -> None:
        """Let the first layer, which is fitted to images, see these, uint8 [N, C, H, W]."""
        self.network.fit_first(fitting_images(images), self.normalized)

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
        maps = self.network.maps(inputs)
        vectors = self.network.logits(maps[-1])
        earlier = [one for one, after in pairwise(maps) if one.shape[2:] != after.shape[2:]]
        grids = [functional.adaptive_avg_pool2d(each.float(), _CELLS) for each in earlier]
        found = [vectors] if self.hidden is None else [vectors, self.hidden(vectors)]
        return [*grids, *(each.float()[:, :, None, None] for each in found)]


def write_encoder(file: Path, encoder: ImageEncoder, **facts: str) -> None:
    """Write an encoder and plain facts about it, whole or not at all."""
    content = {
        "model": _MODEL.value,
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
    if found.get("images") not in data.digests_of_images:
        raise WeightsRefused(
            f"{file} was not trained on exactly the training images of {data.name}, and no record "
            "would name the outside data; train an encoder on these (`labeldp self-supervise`), "
            "without data.limit and data.hold_out=public, or use its vectors as features "
            "(`labeldp embed`; data.embeddings, or data.path of your own data)"
        )
    return encoder_of(found, path)


def check_start(file: str, data: PublicData, *, model: ModelName | str, width: int | None) -> None:
    """Refuse an encoder that a network of this model and width can't start from; train nothing.

    `file` is one that `of_same_images` accepts, or `pretrained:NAME`.
    """
    if file.startswith(PRETRAINED):
        from labeldp.trainers.encoders.embedding import RECIPE, public_labels_of

        public_labels_of(file, data)
        theirs = RECIPE.width
    else:
        theirs = of_same_images(file, data, key="trainer.encoder").width
    theirs = theirs or _MODEL.default_width
    ours = width or (model.default_width if isinstance(model, ModelName) else None)
    if (_MODEL, theirs) != (model, ours):
        raise WeightsRefused(
            f"{file} holds the network {_MODEL} of width {theirs}, and the trial's is "
            f"{model} of width {ours}; set trainer.model and trainer.width to the encoder's"
        )


def starting_encoder(file: str, data: PublicData) -> ImageEncoder:
    """Return the encoder of `check_start`; `pretrained:NAME` is trained now, if never before."""
    if not file.startswith(PRETRAINED):
        return of_same_images(file, data, key="trainer.encoder")
    from labeldp.trainers.encoders.embedding import public_labels_of, trained_to_start

    return trained_to_start(public_labels_of(file, data))


def build(weights: Path | None) -> ImageEncoder:
    """Return the encoder in a file, for `labeldp embed --encoder ...:build --weights FILE`."""
    if weights is None:
        raise ValueError("no file is named; pass --weights FILE, as `labeldp self-supervise` wrote")
    return encoder_of(read_whole(Path(weights)), weights)


# Training without labels.

#: Pull of weights to 0, and the fraction of the epochs in which the rate rises.
_WEIGHT_DECAY = 1e-4
_WARMUP = 0.1
#: Images that are described at once when nothing is learned.
_AT_ONCE = 1024
#: A state is kept after an epoch, but not more often than this.
_KEEP_SECONDS = 20.0
#: Share of the views whose colors are changed, and of those in grayscale.
_CHANGED = 0.8
_GREY = 0.2
#: Largest relative change of brightness, contrast and saturation; the hue turns by up to this times
#: 45 degrees.
_JITTER = 0.4
#: From red, green and blue to lightness and two axes of color (YIQ); the hue is an angle there.
_TO_LIGHT = (
    (0.299, 0.587, 0.114),
    (0.5959, -0.2746, -0.3213),
    (0.2115, -0.5227, 0.3112),
)
#: Numbers drawn for a view: place (2), mirror, colors (4), whether changed, whether grey.
_DRAWS = 9


class Pretraining(Training):
    """An encoder, what follows it in training, and an optimizer."""

    def __init__(
        self,
        config: SelfSupervisedConfig,
        *,
        images: Tensor,
        seed: int,
        performance: Performance,
    ) -> None:
        """Set up the first step on images uint8 [N, C, H, W].

        The seed decides initial weights, order and views.
        """
        super().__init__(performance=performance)
        if len(images) < 2:
            raise ValueError("there is one image; an encoder is trained on two at least")
        self.config = config
        self._crop = _crop_of(config, images.shape[2:])
        initial, order = seeds_of(seed)
        self._encoder = ImageEncoder(
            shape=tuple(images.shape[1:]),
            pixels=Pixels.of(images),
            width=config.width,
            hidden=config.projection,
            mirrored=config.flip,
            seed=initial,
        )
        self._encoder.fit_first(images)
        with seeded(initial):
            projection = nn.Linear(config.projection, config.projection, bias=False)
        both = nn.ModuleDict({"encoder": self._encoder, "projection": projection})
        self.network = both.to(self.device).to(memory_format=performance.memory_format())
        assert self._encoder.hidden is not None
        self._whole = nn.Sequential(self._encoder.network, self._encoder.hidden, projection)
        self._optimizer = AdamW(
            self.network, learning_rate=config.learning_rate, weight_decay=_WEIGHT_DECAY
        )
        self._images = images.to(self.device)
        self._generator = torch.Generator().manual_seed(order)

    def _batches(self) -> Iterator[tuple[Tensor, ...]]:
        order = batches(len(self._images), self.config.batch_size, self._generator)
        for step, places in enumerate(order):
            self._optimizer.learning_rate = self._rate(self.epoch_number - 1, step)
            rows = places.to(self.device, non_blocking=True)
            yield (self._images[rows],)

    def evaluate(self) -> float:
        """Return NaN, for there are no classes; refuse weights that are not finite."""
        # The last step of all is followed by no loss that would show what it did.
        if not all(bool(each.isfinite().all()) for each in self.network.state_dict().values()):
            raise self._diverged("weights are")
        return math.nan

    def encoder(self) -> ImageEncoder:
        """Return the encoder as it is now, a copy on the CPU that does not learn."""
        encoder = copy.deepcopy(self._encoder).to("cpu")
        encoder.to(memory_format=torch.contiguous_format)
        return encoder.eval().requires_grad_(False)

    def _loss_of_batch(self, *batch: Tensor) -> Tensor:
        (images,) = batch
        every = images.repeat(self.config.views, 1, 1, 1)
        drawn = view(every, self._generator, crop=self._crop, mirrors=self.config.flip)
        views = self._encoder.normalized(drawn)
        vectors = logits_of(self._whole, views, self.performance)
        return coding_rate(vectors.view(self.config.views, len(images), -1))

    def _rate(self, epoch: int, step: int) -> float:
        config = self.config
        done = epoch + step / max(1, len(self._images) // config.batch_size)
        factor = rate_factor(done, epochs=config.epochs, schedule=Schedule.COSINE, warmup=_WARMUP)
        return config.learning_rate * factor


@torch.inference_mode()
def described(encoder: ImageEncoder, images: Tensor, *, performance: Performance) -> Tensor:
    """Return an encoder's vectors of images, single precision [N, D], on the CPU.

    Images are uint8 [N, C, H, W], on any device; the encoder goes to the device of `performance`
    and is left judging.
    """
    device = performance.torch_device()
    encoder.to(device).eval()
    blocks = []
    for part in torch.split(images, _AT_ONCE):
        with performance.autocast():
            blocks.append(encoder(part.to(device)).float().cpu())
    # A copy outside inference mode can be learned from.
    return torch.cat(blocks).clone()


def _crop_of(config: SelfSupervisedConfig, sides: Sequence[int]) -> int:
    """Side in pixels of a crop of images of these sides."""
    side = min(sides)
    least = smallest_view(side)
    crop = max(least, 5 * side // 8) if config.crop is None else config.crop
    if not least <= crop <= side:
        raise ValueError(
            f"crop is {crop} for images of {sides[0]} x {sides[1]} pixels; it must be "
            f"{least} to {side}: five eighths of the shorter side is a good one"
        )
    return crop


def view(images: Tensor, generator: torch.Generator, *, crop: int, mirrors: bool) -> Tensor:
    """Return a random view of each image uint8 [B, C, H, W]: a crop, in 0..255, single precision.

    Crops [B, C, crop, crop] have other colors; with `mirrors` half of them are mirrored. The
    generator is of the CPU: one seed draws the same on every device.
    """
    draws = torch.rand(_DRAWS, len(images), generator=generator)
    # Worked out on the CPU and sent at once: to send numbers one by one is to wait for each.
    places = _pixels(draws[:3], crop, images.shape[2:], mirrors=mirrors)
    places, colors = (
        part.to(images.device, non_blocking=True) for part in (places, _colors(draws[3:]))
    )
    rows = places[0, :, None, :, None]
    columns = places[1, :, None, None, :]
    channels = torch.arange(images.shape[1], device=images.device).view(1, -1, 1, 1)
    every = torch.arange(len(images), device=images.device).view(-1, 1, 1, 1)
    return _tinted(images[every, channels, rows, columns].float(), colors).clamp_(0, 255)


def _pixels(draws: Tensor, crop: int, sides: torch.Size, *, mirrors: bool) -> Tensor:
    """Rows and columns of the pixels of each crop [2, B, crop]."""
    top, left, mirror = draws
    first = torch.stack(
        [(draw * (side - crop + 1)).long() for draw, side in zip((top, left), sides, strict=True)]
    )
    steps = torch.arange(crop)
    across = steps.expand(len(mirror), -1)
    if mirrors:
        across = torch.where(mirror[:, None] < 0.5, steps.flip(0), across)
    return first[:, :, None] + torch.stack((steps.expand_as(across), across))


def _colors(draws: Tensor) -> Tensor:
    """Brightness, contrast and a matrix of colors, row by row [B, 11]."""
    brightness, contrast, saturation, hue, changed, grey = draws
    most = torch.where(changed < _CHANGED, _JITTER, 0.0)
    brightness, contrast, saturation = (
        1 + most * (2 * draw - 1) for draw in (brightness, contrast, saturation)
    )
    angle = math.pi / 4 * most * (2 * hue - 1)
    strength = torch.where(grey < _GREY, 0.0, saturation)
    cosine = strength * angle.cos()
    sine = strength * angle.sin()
    one = torch.ones_like(angle)
    none = torch.zeros_like(angle)
    turned = torch.stack((one, none, none, none, cosine, -sine, none, sine, cosine), dim=1)
    to_light = torch.tensor(_TO_LIGHT)
    matrix = torch.linalg.inv(to_light) @ turned.view(-1, 3, 3) @ to_light
    return torch.cat((brightness[:, None], contrast[:, None], matrix.flatten(1)), dim=1)


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


def concern(losses: Sequence[float]) -> str | None:
    """Return what is wrong with the losses of all epochs, and the way out; None if nothing is."""
    if len(losses) < 2:
        return None
    first = losses[0]
    last = losses[-1]
    lowest = min(losses)
    # Half of what it had fallen by is lost again, or it has never fallen.
    if last < (first + lowest) / 2:
        return None
    return (
        f"the loss does not fall: it was {first:.6g} in epoch 1, {lowest:.6g} at its lowest in "
        f"epoch {losses.index(lowest) + 1}, and is {last:.6g} in epoch {len(losses)}; the learning "
        "rate may be too high or the batch too small: lower --learning-rate (to a third) or "
        "raise --batch-size, and start anew with --replace"
    )


def training_images(named: str) -> Tensor:
    """Return an `image_source` as uint8 [N, C, H, W]; of a data set the training images."""
    source = image_source(named)
    if source.parts:
        # Testing images come second, and nothing is to have seen them.
        return torch.from_numpy(np.array(source.parts[0]))
    found = [image for batch in source.batches(_AT_ONCE) for image in batch]
    return of_one_size(found, fix="an encoder is trained on one; bring them to it first")


def pretrain(
    images: Tensor,
    out: Path,
    config: SelfSupervisedConfig,
    *,
    seed: int = 0,
    seconds: float | None = None,
    performance: Performance,
    replace: bool = False,
    probe: Callable[[ImageEncoder], float] | None = None,
    report: Callable[[EpochMetrics, float | None], None] = lambda *_: None,
) -> dict[str, Any]:
    """Train an encoder, one epoch at least; resume where the last call stopped.

    Returns facts: `loss` is of the last epoch of this call, `warning` of all epochs so far, `views`
    of each image and epoch, `seconds` of this call, `probe` of the last epoch.

    Args:
        images: uint8 [N, C, H, W].
        out: File of the encoder; the state of training lies beside it.
        config: Settings.
        seed: Seed of weights and augmentation.
        seconds: Time to stop at; None trains to the end.
        performance: Device and precision.
        replace: Whether to start anew where the file exists.
        probe: Measures the encoder after each epoch.
        report: Gets each epoch's metrics and the value of `probe`.
    """
    if seconds is not None:
        _validate.positive(seconds=seconds)
    if not out.parent.is_dir():
        raise ValueError(f"the folder {out.parent.absolute()} does not exist; make it first")
    began = saved = time.monotonic()
    seen = digest_of_images(images.numpy())
    text = repr((FORMAT, asdict(config), seed, seen))
    key = hashlib.sha256(text.encode()).hexdigest()
    state = out.with_name(out.name + ".state")
    kept = None if replace else _kept(out, state, key)
    losses: list[float] = [] if kept is None else list(kept["losses"])
    before = len(losses)
    found = None

    def keep(training: dict[str, Any] | None) -> None:
        write_whole(state, {"key": key, "training": training, "losses": losses})

    if kept is not None and kept["training"] is None:
        encoder = build(out)
        found = None if probe is None else probe(encoder)
    else:
        training = Pretraining(config, images=images, seed=seed, performance=performance)
        if kept is not None:
            training.load_state_dict(kept["training"])
        while len(losses) < config.epochs:
            over = seconds is not None and time.monotonic() - began >= seconds
            if over and len(losses) > before:
                break
            metrics = training.epoch()
            losses.append(metrics.loss)
            if time.monotonic() - saved >= _KEEP_SECONDS:
                keep(training.state_dict())
                saved = time.monotonic()
            if probe is not None:
                found = probe(training.encoder())
            report(metrics, found)
        encoder = training.encoder()
        # The state first, since an encoder without one is of unknown origin; the end of training
        # is recorded when the last encoder is written.
        keep(training.state_dict())
        write_encoder(out, encoder, images=seen)
        if len(losses) >= config.epochs:
            keep(None)
    return {
        "file": str(out),
        "epochs": len(losses),
        "of": config.epochs,
        "views": config.views,
        "dimensions": encoder.dimensions,
        "loss": losses[-1] if len(losses) > before else None,
        "seconds": time.monotonic() - began,
        "probe": found,
        "finished": len(losses) >= config.epochs,
        "warning": concern(losses),
    }


def _kept(out: Path, state: Path, key: str) -> dict[str, Any] | None:
    if not state.exists():
        if out.exists():
            raise WeightsRefused(
                f"{out} is there, and no state beside it describes its training; choose another "
                "name, or add --replace"
            )
        return None
    kept = read_whole(state)
    if kept.get("key") != key:
        raise WeightsRefused(
            f"{state} is of an encoder of other images, with other settings or another seed; call "
            "it as before, choose another name, or add --replace to start anew"
        )
    return kept


#: The weight of agreement beside nats of a number (published: 200 beside those of 1024 numbers),
#: and the squared precision of the code.
_AGREEMENT = 200.0 / 1024
_PRECISION = 0.2


def coding_rate(views: Tensor) -> Tensor:
    """Return EMP-SSL's loss of vectors [V, B, D]: V of each of B images, V and B >= 2.

    Each view's vectors of unit length should need many nats to code (Yu et al., "Learning Diverse
    and Discriminative Representations", NeurIPS 2020), and each vector should point to the mean of
    its image's (Tong, Chen, Ma and LeCun, arXiv:2304.03977, section 2). It weighs both as
    published, up to a common factor that lets one learning rate fit.
    """
    _, images, dimensions = views.shape
    units = functional.normalize(views, dim=2)
    # Both products have the same nonzero eigenvalues.
    gram = units @ units.mT if images < dimensions else units.mT @ units
    identity = torch.eye(gram.shape[1], device=views.device)
    # Half the logarithm of the determinant; NaN, which ends training, where vectors are.
    matrix = identity + dimensions / images / _PRECISION * gram
    factor: Tensor = torch.linalg.cholesky_ex(matrix).L
    nats = factor.diagonal(dim1=1, dim2=2).log().sum(1).mean()
    agreement = functional.cosine_similarity(units, units.mean(0, keepdim=True), dim=2).mean()
    return 25 * (1 - agreement - nats / dimensions / _AGREEMENT)

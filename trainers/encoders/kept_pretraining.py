"""From images to a file with an encoder, some minutes at a time.

Two files are written, each whole or not at all: while it trains, the state that the next call goes
on from, and at the end of a call the encoder as it is by then. After the last epoch the state says
that it is done, and a further call computes nothing.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.encoders.image_encoder import (
    FORMAT,
    EncoderFileRefused,
    ImageEncoder,
    read_encoder,
    read_whole,
    write_encoder,
    write_whole,
)
from labeldp.trainers.encoders.image_sources import (
    ArraySource,
    digest_of_images,
    image_source,
)
from labeldp.trainers.encoders.loss_course import concern
from labeldp.trainers.encoders.pretraining import Pretraining, PretrainingMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.self_supervised import SelfSupervisedConfig

#: Of the state's file, after the encoder's name.
_ENDING = ".state"
_AT_ONCE = 1024
#: A state is kept after an epoch, but not more often than this.
_KEEP_SECONDS = 20.0
#: Told after each epoch.
Told = Callable[[PretrainingMetrics], None]


def training_images(named: str, *, root: Path | None = None) -> Tensor:
    """Return images to train an encoder on, uint8 [N, C, H, W]; of a data set, those for training.

    Args:
        named: A folder, an `.npz` or `.npy`, or the name of a data set.
        root: Folder of the data sets; LABELDP_DATA if not given.

    Raises:
        ValueError: It is no such source, is not there, or holds no images, or images of several
            sizes.
    """
    source = image_source(named, root=root)
    if isinstance(source, ArraySource):
        # Testing images come second, and nothing is to have seen them.
        return torch.from_numpy(np.array(source.parts[0]))
    found = [image for batch in source.batches(_AT_ONCE) for image in batch]
    shapes = sorted({tuple(image.shape) for image in found})
    if len(shapes) > 1:
        raise ValueError(
            f"images have several sizes ({shapes[0]} and {shapes[1]} among them), and an encoder "
            "is trained on one; bring them to it first"
        )
    return torch.stack(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class PretrainRequest:
    """Which encoder is wanted, of which images, and where.

    Attributes:
        images: uint8 [N, C, H, W].
        out: Where the encoder is written.
        config: How it is trained.
        seed: Of initial weights, order and views.
        seconds: After which no further epoch begins; None to go on to the end.
        performance: Where and how fast.
        replace: Whether what lies there may be replaced, and training starts anew.
    """

    images: Tensor
    out: Path
    config: SelfSupervisedConfig = field(default_factory=SelfSupervisedConfig)
    seed: int = 0
    seconds: float | None = None
    performance: Performance = field(default_factory=Performance)
    replace: bool = False

    def __post_init__(self) -> None:
        """Check the time and the folder."""
        if self.seconds is not None:
            _validate.positive(seconds=self.seconds)
        if not self.out.parent.is_dir():
            raise ValueError(f"there is no folder {self.out.parent.absolute()}; make it first")

    @property
    def state(self) -> Path:
        """Where the state is kept while there is something left to do."""
        return self.out.with_name(self.out.name + _ENDING)

    def key(self) -> str:
        """Hash of all that decides the encoder: settings, seed and images."""
        images = digest_of_images(self.images.numpy())
        text = repr((FORMAT, asdict(self.config), self.seed, images))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """How far it is.

    Attributes:
        file: The encoder.
        epochs: Done so far.
        of: There are.
        dimensions: Numbers in a vector, D.
        loss: Of the last epoch that this call trained; None if it trained none.
        finished: Whether all are done.
        warning: What is wrong with the losses of all epochs so far; None if nothing is.
    """

    file: str
    epochs: int
    of: int
    dimensions: int
    loss: float | None
    finished: bool
    warning: str | None = None


def pretrain(request: PretrainRequest, *, told: Told) -> Pretrained:
    """Train for the time that there is, one epoch at least; go on where the last call stopped.

    Args:
        request: What is wanted.
        told: After each epoch.

    Raises:
        EncoderFileRefused: The files that lie there are of other images, settings or another seed.
        TrainingDiverged: The loss or a weight is not finite any more; the encoder is left as the
            last call wrote it.
        OSError: The disk is full.
    """
    began = time.monotonic()
    key = request.key()
    kept = None if request.replace else _kept(request, key)
    # An older version's state has none: the course then begins with this call.
    losses: list[float] = [] if kept is None else list(kept.get("losses", ()))
    if kept is not None and kept["training"] is None:
        done = request.config.epochs
        return _said(request, read_encoder(request.out), epochs=done, loss=None, losses=losses)
    training = Pretraining(
        request.config,
        images=request.images,
        seed=request.seed,
        performance=request.performance,
    )
    if kept is not None:
        training.load_state_dict(kept["training"])
    loss, saved = None, began
    while training.epoch_number < request.config.epochs:
        if loss is not None and _over(request, began):
            break
        metrics = training.epoch()
        loss = metrics.loss
        losses.append(loss)
        if time.monotonic() - saved >= _KEEP_SECONDS:
            _keep(request, key, training.state_dict(), losses)
            saved = time.monotonic()
        told(metrics)
    finished = training.epoch_number >= request.config.epochs
    encoder = training.encoder()
    # An encoder without a state would be one of nobody knows what: the state first, and that it is
    # done only when the last encoder is there.
    _keep(request, key, training.state_dict(), losses)
    write_encoder(request.out, encoder)
    if finished:
        _keep(request, key, None, losses)
    return _said(request, encoder, epochs=training.epoch_number, loss=loss, losses=losses)


def _kept(request: PretrainRequest, key: str) -> dict[str, Any] | None:
    """What the last call left; None where nothing lies."""
    if not request.state.exists():
        if request.out.exists():
            raise EncoderFileRefused(
                f"{request.out} is there, and nothing beside it says how it was trained; choose "
                "another name, or say --replace"
            )
        return None
    kept = read_whole(request.state)
    if kept.get("key") != key:
        raise EncoderFileRefused(
            f"{request.state} is of an encoder of other images, with other settings or another "
            "seed; call it as before, choose another name, or say --replace to start anew"
        )
    return kept


def _keep(
    request: PretrainRequest, key: str, training: dict[str, Any] | None, losses: list[float]
) -> None:
    content = {"format": FORMAT, "key": key, "training": training, "losses": losses}
    write_whole(request.state, content)


def _over(request: PretrainRequest, began: float) -> bool:
    return request.seconds is not None and time.monotonic() - began >= request.seconds


def _said(
    request: PretrainRequest,
    encoder: ImageEncoder,
    *,
    epochs: int,
    loss: float | None,
    losses: Sequence[float],
) -> Pretrained:
    return Pretrained(
        file=str(request.out),
        epochs=epochs,
        of=request.config.epochs,
        dimensions=encoder.dimensions,
        loss=loss,
        finished=epochs >= request.config.epochs,
        warning=concern(losses, variance=request.config.variance),
    )

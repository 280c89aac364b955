"""`labeldp embed` and `labeldp self-supervise`: features of images, and an encoder for them."""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from labeldp.platform.cli.command import plain_text
from labeldp.platform.sweep.sweep import Unfinished
from labeldp.trainers.encoders import embedding
from labeldp.trainers.encoders.encoder import EncoderRequest, Pool
from labeldp.trainers.encoders.pretraining import (
    Pretrained,
    PretrainingMetrics,
    PretrainRequest,
    pretrain,
    training_images,
)
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import SelfSupervisedConfig

#: Seconds between two lines of progress.
_PAUSE = 5.0


class Progress:
    """Prints the progress on standard error every few seconds.

    Its clock starts with the first images: an encoder that is trained here takes minutes before.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._printed = 0.0

    def __call__(self, done: int, rows: int) -> None:
        """Print after each batch, if it is time."""
        now = self._clock()
        if self._first is None:
            self._first, self._printed = (now, done), now
            return
        if now - self._printed < _PAUSE or done == rows:
            return
        self._printed = now
        began, before = self._first
        rate = (done - before) / (now - began)
        _note(
            f"embedded {done:,} of {rows:,} images, {rate:.0f} a second, about "
            f"{(rows - done) / rate:.0f} s left"
        )


def embed(
    *,
    source: str,
    encoder: str,
    out: str,
    pool: str | None,
    device: str,
    root: str | None,
    batch_size: int,
    half: bool,
    replace: bool,
    **more: Any,
) -> embedding.Embedded:
    """Write the features of images by an encoder; `more` is of its request."""
    request = embedding.EmbedRequest(
        source=source,
        out=Path(out).expanduser(),
        encoder=EncoderRequest(
            address=encoder,
            pool=None if pool is None else Pool(pool),
            device=Device(device),
            **more,
        ),
        root=None if root is None else Path(root),
        batch_size=batch_size,
        half=half,
        replace=replace,
    )
    return embedding.embed(request, told=Progress(), told_in_words=_note)


def self_supervise(
    *,
    source: str,
    out: str,
    model: str,
    learning_rate: float | None,
    no_flip: bool,
    minutes: float | None,
    seed: int,
    device: str,
    precision: str,
    replace: bool,
    root: str | None,
    **more: Any,
) -> Pretrained:
    """Train an encoder on images alone; `more` is of its settings.

    Raises:
        Unfinished: The loss is not finite.
    """
    if learning_rate is not None:
        more["learning_rate"] = learning_rate
    request = PretrainRequest(
        images=training_images(source, root=None if root is None else Path(root)),
        out=Path(out).expanduser(),
        config=SelfSupervisedConfig(model=ModelName(model), flip=not no_flip, **more),
        seed=seed,
        seconds=None if minutes is None else 60 * minutes,
        performance=Performance(
            device=Device(device), precision=Precision(precision), channels_last=True
        ),
        replace=replace,
    )

    def progress(metrics: PretrainingMetrics) -> None:
        _note(f"epoch {metrics.epoch}: loss {metrics.loss:.4f}, {metrics.seconds:.0f} s")

    try:
        return pretrain(request, told=progress)
    except TrainingDiverged as error:
        raise Unfinished(
            f"{error}; nothing is written to {request.out}: set --learning-rate R, and --replace "
            "if an earlier call has left files there"
        ) from error


def pretrained_words(pretrained: Pretrained) -> str:
    """Return the trained encoder for a person."""
    facts = asdict(pretrained)
    return plain_text({name: value for name, value in facts.items() if value is not None})


def _note(words: str) -> None:
    print(words, file=sys.stderr, flush=True)

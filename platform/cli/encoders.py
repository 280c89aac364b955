"""`labeldp embed` and `labeldp self-supervise`: features of images, and an encoder for them."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.platform.cli.command import Answer, plain_text
from labeldp.platform.settings.sweep import Unfinished
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.encoders import embedding
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.image_encoder import ImageEncoder
from labeldp.trainers.encoders.pretraining import described, pretrain, training_images
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.training import EpochMetrics, SelfSupervisedConfig, TrainingDiverged

#: Penalty of the probe, on standardized vectors.
_RIDGE = 1000.0


def embed(*, source: str, encoder: str, out: str, device: str, **more: Any) -> dict[str, Any]:
    """Write the features of images by an encoder; `more` is of the call and of its request."""
    how = {name: more.pop(name) for name in ("batch_size", "replace")}
    request = EncoderRequest(address=encoder, device=Device(device), **more)
    return embedding.embed(source, Path(out).expanduser(), request, **how, report=_note)


def self_supervise(
    *,
    source: str,
    out: str,
    no_flip: bool,
    probe: bool,
    minutes: float | None,
    seed: int,
    device: Device,
    precision: Precision,
    replace: bool,
    **more: Any,
) -> Answer:
    """Train an encoder on images alone.

    Args:
        source: Name of a data set, or a file of images.
        out: File to write.
        no_flip: Whether a mirror image shows something else.
        probe: Whether to measure the encoder on public test labels as it trains.
        minutes: Time to stop at; None trains to the end.
        seed: Seed of weights and augmentation.
        device: Where to train.
        precision: Precision of the network.
        replace: Whether to start anew where the file exists.
        **more: Fields of `SelfSupervisedConfig`.

    Raises:
        Unfinished: The loss is not finite.
    """
    config = SelfSupervisedConfig(flip=not no_flip, **more)
    performance = Performance(device=device, precision=precision, channels_last=True)
    test = _public_test(source) if probe else None

    def probe_of(encoder: ImageEncoder) -> float:
        assert test is not None
        vectors = described(encoder, test.test_features, performance=performance)
        return probed(vectors.numpy(), test.test_labels)

    def progress(metrics: EpochMetrics, found: float | None) -> None:
        known = "" if found is None else f", probe {found:.1%}"
        left = metrics.seconds * (config.epochs - metrics.epoch) / 60
        _note(
            f"epoch {metrics.epoch} of {config.epochs}: loss {metrics.loss:.4f}{known}, "
            f"{metrics.seconds:.0f} s; about {left:.0f} min left for all"
        )

    try:
        done = pretrain(
            training_images(source),
            Path(out).expanduser(),
            config,
            seed=seed,
            seconds=None if minutes is None else 60 * minutes,
            performance=performance,
            replace=replace,
            probe=None if test is None else probe_of,
            report=progress,
        )
    except TrainingDiverged as error:
        raise Unfinished(
            f"{error}; nothing is written to {out}: set --learning-rate R, and --replace if an "
            "earlier call has left files there"
        ) from error
    known = {name: value for name, value in asdict(done).items() if value is not None}
    return Answer(facts=done, words=plain_text(known))


def _public_test(source: str) -> PublicData:
    """The test split of a data set, whose labels are public."""
    if source not in DATASETS:
        raise ValueError(
            f"--probe reads public labels, and {source} may have secret ones; name a data set "
            "(`labeldp data list`), whose test labels are public, or leave --probe out"
        )
    return load(source).public


def probed(vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the accuracy of ridge regression on vectors [N, D], whose labels [N] are public.

    It learns from one random half of the rows and is tested on the other, and the other way round.
    """
    halves = KFold(2, shuffle=True, random_state=0)
    return float(cross_val_score(ridge(), vectors, labels, cv=halves).mean())


def ridge() -> Pipeline:
    """Return ridge regression on standardized vectors, not fitted."""
    return make_pipeline(StandardScaler(), RidgeClassifier(_RIDGE))


def _note(words: str) -> None:
    print(words, file=sys.stderr, flush=True)

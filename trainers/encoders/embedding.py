"""Images through an encoder into a file of vectors, with a record of how they were made beside it.

Vectors of the same encoder, weights, preparation and images are not computed again. Another file
under that name is replaced only if the user requests it.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import nn

from labeldp.mechanisms import _validate
from labeldp.trainers.base import PRETRAINED
from labeldp.trainers.data.files import DataFileError, file_digest, whole_file
from labeldp.trainers.data.labelled_data import FeatureKind, LabelledData, PublicData, load
from labeldp.trainers.data.splits import EmbeddingRecord, checked_record, digest_of_images
from labeldp.trainers.encoders.encoder import (
    LOADERS,
    Encoder,
    EncoderRequest,
    ImageSource,
    Preparation,
    WeightsRefused,
    digest_of,
    finished,
    image_source,
    own_encoder,
)
from labeldp.trainers.encoders.image_encoder import (
    ImageEncoder,
    encoder_of,
    read_whole,
    write_encoder,
)
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.training import (
    HALF_WIDTH,
    LABEL_SMOOTHING,
    LearnerConfig,
    fast_training,
)

#: Seconds between two lines of progress.
_PAUSE = 5.0


def load_encoder(
    request: EncoderRequest,
    *,
    images: ImageSource | None = None,
    source: str = "",
    report: Callable[[str], None] = lambda _: None,
) -> Encoder:
    """Return an encoder with its weights; refuses what can't be loaded, or may not be trained.

    An encoder that is trained here must not learn the labels of `images`, which `source` names.
    """
    if request.library == "pretrained":
        return pretrained_encoder(request, images=images, source=source, report=report)
    return LOADERS.get(request.library, own_encoder)(request)


def embed(
    source: str,
    out: Path,
    request: EncoderRequest,
    *,
    batch_size: int = 256,
    replace: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write the vectors of images, single precision [N, D], unless they are there.

    Returns facts about the file; `names` is a list of the images' files in order, if they were
    files.
    """
    _validate.whole(minimum=1, batch_size=batch_size)
    if out.suffix != ".npy":
        raise ValueError(f"the file to write is {out}; name one that ends in .npy")
    if not out.parent.is_dir():
        raise ValueError(f"the folder {out.parent.absolute()} does not exist; make it first")
    images = image_source(source)
    encoder = load_encoder(request, images=images, source=source, report=report)
    inputs = images.digest()
    prepared = asdict(encoder.preparation)
    made_by = encoder.provenance.encoder, encoder.provenance.weights
    # A network's weights tell what its seed did. The type of numbers is what every file has had.
    seed = None if isinstance(encoder.forward, nn.Module) else request.seed or None
    parts = [*made_by, seed, prepared, inputs, "float32"]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    record = None if replace else _existing(out, key, encoder)
    cached = record is not None
    if record is None:
        with whole_file(out) as file:
            dimensions = _write(file, images, encoder, batch_size, report)
            file.flush()
            record = EmbeddingRecord(
                provenance=encoder.provenance,
                inputs=inputs,
                rows=images.rows,
                dimensions=dimensions,
                key=key,
                sha256=file_digest(Path(file.name)),
            )
            # Before the features, which without it would count as of unknown origin.
            record.write(out)
    names = None
    if images.files:
        names = out.with_name(out.name + ".files.txt")
        folder = Path(source).expanduser()
        with whole_file(names) as file:
            for image in images.files:
                file.write(f"{image.relative_to(folder).as_posix()}\n".encode())
    return {
        "file": str(out),
        "rows": record.rows,
        "dimensions": record.dimensions,
        "hash": record.key,
        "league": record.provenance.league.value,
        "sha256": record.sha256,
        "provenance": record.provenance.words,
        "cached": cached,
        "names": None if names is None else str(names),
    }


def _existing(out: Path, key: str, encoder: Encoder) -> EmbeddingRecord | None:
    """The record of an existing file of the same vectors, as stated now; None without a file."""
    if not out.exists():
        return None
    record = checked_record(out)
    other = "choose another name, or add --replace"
    if record is None:
        raise DataFileError(f"{out} is there, and no record beside it describes it; {other}")
    if record.key != key:
        raise DataFileError(
            f"{out} holds other features ({record.provenance.words}; {record.rows} rows): of other "
            f"images, another encoder, other weights, preparation or seed; {other}"
        )
    if record.provenance != encoder.provenance:
        record = replace(record, provenance=encoder.provenance)
        record.write(out)
    return record


def _write(
    file: IO[bytes],
    images: ImageSource,
    encoder: Encoder,
    batch_size: int,
    report: Callable[[str], None],
) -> int:
    """Write all vectors; return of how many numbers each is."""
    rows = images.rows
    done = 0
    width = 0
    reported = time.monotonic()
    for batch in images.batches(batch_size):
        found = encoder(batch).numpy()
        if not done:
            width = found.shape[1]
            header = {"descr": found.dtype.str, "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
        if found.shape[1] != width:
            raise ValueError(
                f"{encoder.provenance.encoder} makes {found.shape[1]} numbers of image {done}, and "
                f"{width} of image 0; bring images of several sizes to one with --image-size N"
            )
        for row in np.flatnonzero(~np.isfinite(found).all(axis=1))[:1]:
            raise ValueError(
                f"{encoder.provenance.encoder} makes of image {done + row} a vector with NaN or "
                "infinity; look at that image and at the encoder's weights"
            )
        file.write(np.ascontiguousarray(found).data)
        done += len(found)
        if done < rows and time.monotonic() - reported >= _PAUSE:
            reported = time.monotonic()
            report(f"embedded {done:,} of {rows:,} images")
    return width


# `pretrained:NAME`: the fast network, trained here on the public labels of another data set. No
# mechanism protects those labels: the user states that they are public, and they must not be those
# to protect. Results are in the league of public encoders. Weights are kept in a cache, by images,
# labels and settings.

#: Names the folder of what labeldp keeps for a user; below XDG's folder of caches if not set.
CACHE = "LABELDP_CACHE"
#: Increase it when the same settings give other weights.
_VERSION = 3
#: How the network of `pretrained:NAME` is trained.
RECIPE = LearnerConfig(
    **fast_training(epochs=10, width=HALF_WIDTH, label_smoothing=LABEL_SMOOTHING)
)
#: Share of the images that may be in both sets. Collections from the web have a few images twice.
_MOST_SHARED = 0.01
#: Images whose bytes are compared at a time.
_COMPARED = 1024


def pretrained_encoder(
    request: EncoderRequest,
    *,
    images: ImageSource | None,
    source: str,
    report: Callable[[str], None],
) -> Encoder:
    """Return the fast network, trained on a data set that the user calls public."""
    if source == request.name:
        raise ValueError(
            f"{request.address} would be trained on the labels of {request.name}, and its vectors "
            "would reveal those that are to be protected; train it on another data set"
        )
    if not request.public_labels:
        raise ValueError(
            f"{request.address} is trained on the labels of {request.name} as they are, and "
            "its vectors reveal them: no epsilon covers it. If these labels are public, add "
            "--public-labels"
        )
    if request.weights is not None or request.no_outside_data or request.trained_on:
        raise ValueError(
            f"{request.address} trains its own weights on {request.name} with its labels, and "
            "states so beside every result; leave --weights, --no-outside-data and --trained-on out"
        )
    data = load(request.name)
    if images is not None:
        refuse_shared(images, data, report=report)
    fast = Performance(device=request.device, precision=Precision.AUTO, channels_last=True)
    network = publicly_trained(data, seed=request.seed, performance=fast, report=report)
    made = replace(
        request,
        trained_on=f"{request.name} with its labels, public by the user's word",
        trained_by=request.trained_by or "the user, by labeldp",
    )
    return finished(
        made,
        network.to(memory_format=torch.channels_last),
        preparation=Preparation(resize=network.shape[1], square=True, raw=True),
    )


def refuse_shared(
    images: ImageSource, data: LabelledData, *, report: Callable[[str], None] = lambda _: None
) -> None:
    """Refuse to train on public labels of the very images whose labels are to be protected."""
    name = data.public.name
    known = set(_marks(ImageSource(parts=(data.public.train_features.numpy(),))))
    shared = sum(mark in known for mark in _marks(images))
    if shared > _MOST_SHARED * images.rows:
        raise ValueError(
            f"{shared:,} of the {images.rows:,} images are in {name} too, byte for byte, and "
            f"pretrained:{name} would be trained on their labels: it would reveal what is to be "
            "protected; train it on another data set"
        )
    if shared:
        report(f"{shared:,} of the images are in {name} too, with a label")


@lru_cache(maxsize=1)
def public_labels_of(address: str, data: PublicData) -> LabelledData:
    """Return the data set of `pretrained:NAME`, on which a network may start for these images.

    Whoever names it as `trainer.encoder` calls its labels public; trials state it as their league.
    """
    name = address.removeprefix(PRETRAINED)
    shape = tuple(data.train_features.shape[1:])
    if name == data.name or data.kind is not FeatureKind.IMAGE:
        raise ValueError(
            f"trainer.encoder is {address} for {data.name}; it takes another data set of images, "
            "whose labels are public"
        )
    source = load(name)
    if tuple(source.public.train_features.shape[1:]) != shape:
        raise ValueError(f"trainer.encoder is {address}, whose images are not {shape} as here")
    refuse_shared(ImageSource(parts=(data.train_features.numpy(),)), source)
    return source


@lru_cache(maxsize=2)
def trained_to_start(source: LabelledData) -> ImageEncoder:
    """Return the network that learned of these public labels, to start another training from."""
    fast = Performance(precision=Precision.AUTO, channels_last=True)
    return publicly_trained(source, seed=0, performance=fast)


def _marks(images: ImageSource) -> Iterable[bytes]:
    """Yield a mark of each image; one without color has that of its copy in three channels."""
    for batch in images.batches(_COMPARED):
        for image in batch:
            content = image.expand(3, -1, -1).numpy()
            shape = str(content.shape).encode()
            yield hashlib.blake2b(shape + content.tobytes(), digest_size=16).digest()


def cache_folder() -> Path:
    """Return where weights are kept: LABELDP_CACHE, else a folder among the user's caches."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get(CACHE) or f"{caches}/labeldp").expanduser()


def publicly_trained(
    data: LabelledData,
    recipe: LearnerConfig = RECIPE,
    *,
    seed: int,
    performance: Performance,
    report: Callable[[str], None] = lambda _: None,
) -> ImageEncoder:
    """Return the network, trained on public training labels, or as the cache keeps it."""
    if data.public.kind is not FeatureKind.IMAGE:
        raise ValueError(f"{data.public.name} holds no images; an encoder of images learns of some")
    # All that the weights depend on, but for the machine's last bits.
    parts: dict[str, Any] = {
        "version": _VERSION,
        "images": digest_of_images(data.public.train_features.numpy()),
        "labels": hashlib.sha256(data.train_labels.tobytes()).hexdigest(),
        "classes": data.public.num_classes,
        "recipe": asdict(recipe),
        "seed": seed,
        "precision": performance.precision_here().value,
    }
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    file = cache_folder() / f"pretrained-{data.public.name}-{key[:32]}.pt"
    if os.path.lexists(file):
        encoder = _kept(file, key)
        report(f"weights of an earlier call: {file}")
        return encoder
    file.parent.mkdir(parents=True, exist_ok=True)
    learner = OnLabels(
        recipe, labels=data.train_labels, data=data.public, seed=seed, performance=performance
    )
    report(f"training the fast network on {data.public.name} and its labels")
    for epoch in range(1, recipe.epochs + 1):
        figures = learner.epoch()
        report(
            f"epoch {epoch} of {recipe.epochs}: loss {figures.loss:.4f}, {figures.seconds:.0f} s"
        )
    assert data.public.pixels is not None
    encoder = ImageEncoder(
        shape=tuple(data.public.train_features.shape[1:]),
        pixels=data.public.pixels,
        width=recipe.width,
    )
    network = learner.predictor().network.to("cpu").to(memory_format=torch.contiguous_format)
    network.add_module("head", nn.Identity())
    encoder.network.load_state_dict(network.state_dict())
    write_encoder(file, encoder.eval(), key=key, sha256=digest_of(encoder))
    report(f"weights are kept for the next time: {file}")
    return encoder


def _kept(file: Path, key: str) -> ImageEncoder:
    """The network of a file of weights, which itself states its images, labels and settings.

    A file's name proves nothing: its weights could have learned secret labels.
    """
    way_out = f"take {file} away, and it is trained again"
    try:
        found = read_whole(file)
        encoder = encoder_of(found, file)
    except WeightsRefused as error:
        raise WeightsRefused(f"kept weights can't be used ({error}); {way_out}") from error
    if (found.get("key"), found.get("sha256")) != (key, digest_of(encoder)):
        raise WeightsRefused(
            "kept weights can't be used: another file lies under their name, or it is damaged; "
            f"{way_out}"
        )
    return encoder

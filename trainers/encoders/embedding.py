"""Images through an encoder into a file of vectors, with what made it beside; whole or not at all.

What is there already, of the same encoder, weights, preparation and images, is not made again. The
file under that name is held against its hash, and one that is of anything else is never replaced
without a word of the user's.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.encoders.embedding_record import (
    EmbeddingRecord,
    EmbeddingRefused,
    record_beside,
    record_place,
    sha256_of,
)
from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    Surroundings,
    load_encoder,
)
from labeldp.trainers.encoders.image_sources import FolderSource, ImageSource, image_source

#: The largest number that half precision has.
_LARGEST_HALF = 65_504
#: Told: how many images are done, and of how many.
Told = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class EmbedRequest:
    """What is to be embedded, by what, and where to.

    Attributes:
        source: A folder, an `.npz` or `.npy`, or the name of a data set.
        out: The `.npy` to write.
        encoder: Which encoder.
        root: Folder of the data sets; LABELDP_DATA if not given.
        batch_size: Images at a time.
        half: Whether numbers are written in half precision.
        replace: Whether what lies there may be replaced.
    """

    source: str
    out: Path
    encoder: EncoderRequest
    root: Path | None = None
    batch_size: int = 256
    half: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        """Check the file's name and the numbers."""
        _validate.whole(minimum=1, batch_size=self.batch_size)
        if self.out.suffix != ".npy":
            raise ValueError(f"the file to write is {self.out}; name one that ends in .npy")
        if not self.out.parent.is_dir():
            raise ValueError(f"there is no folder {self.out.parent.absolute()}; make it first")


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """What was written.

    Attributes:
        file: The features.
        rows: How many, N.
        dimensions: Numbers in each, D.
        hash: Of encoder, weights, preparation, images and type of numbers.
        league: That results with them are in.
        sha256: Of the file.
        record: What lies beside, and says what made them.
        provenance: That, in words.
        cached: Whether all was there already.
        names: The list of the images' files, in order; None where they were no files.
    """

    file: str
    rows: int
    dimensions: int
    hash: str
    league: str
    sha256: str
    record: str
    provenance: str
    cached: bool
    names: str | None = None


def embed(
    request: EmbedRequest, *, told: Told, told_in_words: Callable[[str], None] = lambda said: None
) -> Embedded:
    """Write the vectors of images, single or half precision [N, D], unless they are there.

    Args:
        request: What, by what, and where to.
        told: After each batch.
        told_in_words: How far an encoder is that is trained before.

    Raises:
        EmbeddingRefused: Another file lies there.
        ValueError: Images or an encoder that can't be used; vectors that are not finite.
        OSError: The disk is full.
    """
    source = image_source(request.source, root=request.root)
    around = Surroundings(images=source, name=request.source, root=request.root, told=told_in_words)
    encoder = load_encoder(request.encoder, around)
    inputs = source.digest()
    key = _key(encoder, inputs, half=request.half)
    there = None if request.replace else _there(request.out, key)
    if there is not None:
        return _done(request, source, there, cached=True)
    draft = request.out.with_name(f".{request.out.name}.{secrets.token_hex(4)}.part")
    try:
        shape = _write(draft, source, encoder, request, told=told)
        record = EmbeddingRecord(
            provenance=encoder.provenance,
            preparation=encoder.preparation.described(),
            inputs=inputs,
            rows=shape[0],
            dimensions=shape[1],
            dtype="float16" if request.half else "float32",
            key=key,
            sha256=sha256_of(draft),
        )
        # Before the features: one without them is nothing, and they without it would be taken for
        # features of nobody knows what.
        record.write(request.out)
        draft.replace(request.out)
    finally:
        draft.unlink(missing_ok=True)
    return _done(request, source, record, cached=False)


def _key(encoder: Encoder, inputs: str, *, half: bool) -> str:
    parts = [
        *(encoder.name, encoder.weights, encoder.pool, encoder.preparation.described()),
        *(inputs, "float16" if half else "float32"),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _there(out: Path, key: str) -> EmbeddingRecord | None:
    """The record of what lies there and would be made; None where nothing lies."""
    record = record_beside(out)
    if not out.exists():
        return None
    other = "choose another name, or say --replace"
    if record is None:
        raise EmbeddingRefused(f"{out} is there, and nothing beside it says what it is; {other}")
    if record.key != key:
        raise EmbeddingRefused(
            f"{out} holds other features ({record.provenance.words}; {record.rows} rows, "
            f"{record.dtype}): of other images, another encoder, other weights or another "
            f"preparation; {other}"
        )
    record.check(out)
    return record


def _write(
    draft: Path, source: ImageSource, encoder: Encoder, request: EmbedRequest, *, told: Told
) -> tuple[int, int]:
    """Write all vectors, and return how many of how many numbers."""
    dtype = np.float16 if request.half else np.float32
    rows, done, width = source.rows, 0, 0
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for images in source.batches(request.batch_size):
            found = encoder(images).numpy()
            if not done:
                width = found.shape[1]
                header = {"descr": np.dtype(dtype).str, "fortran_order": False}
                np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, width)})
            _check(found, encoder, first=done, half=request.half)
            file.write(np.ascontiguousarray(found.astype(dtype)).data)
            done += len(found)
            told(done, rows)
        file.flush()
        os.fsync(file.fileno())
    return rows, width


def _check(found: NDArray[np.float32], encoder: Encoder, *, first: int, half: bool) -> None:
    """Refuse numbers that nothing can be learned of."""
    for row in np.flatnonzero(~np.isfinite(found).all(axis=1))[:1]:
        raise ValueError(
            f"{encoder.name} makes of image {first + row} a vector with NaN or infinity; look at "
            "that image, and at the encoder's weights"
        )
    if half:
        for row in np.flatnonzero((np.abs(found) > _LARGEST_HALF).any(axis=1))[:1]:
            raise ValueError(
                f"{encoder.name} makes of image {first + row} a vector with "
                f"{float(np.abs(found[row]).max()):.6g}, and half precision ends at "
                f"{_LARGEST_HALF:,}: it would become infinite; leave --half out"
            )


def _done(
    request: EmbedRequest, source: ImageSource, record: EmbeddingRecord, *, cached: bool
) -> Embedded:
    names = None
    if isinstance(source, FolderSource):
        names = request.out.with_name(request.out.name + ".files.txt")
        with suppress(FileExistsError):
            os.close(os.open(names, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        names.write_text("".join(f"{name}\n" for name in source.names))
    return Embedded(
        file=str(request.out),
        rows=record.rows,
        dimensions=record.dimensions,
        hash=record.key,
        league=record.provenance.league.value,
        sha256=record.sha256,
        record=str(record_place(request.out)),
        provenance=record.provenance.words,
        cached=cached,
        names=None if names is None else str(names),
    )

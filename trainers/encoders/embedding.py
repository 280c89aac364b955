"""Images through an encoder into a file of vectors, with a record of their making beside it.

Vectors of the same encoder, weights, preparation and images are not computed again. Another file
under that name is replaced only if the user asks for it.
"""

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.files import whole_file
from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    FolderSource,
    ImageSource,
    Surroundings,
    image_source,
)
from labeldp.trainers.encoders.libraries import LOADERS, own_encoder
from labeldp.trainers.encoders.pretrained import pretrained_encoder
from labeldp.trainers.encoders.provenance import (
    EmbeddingRecord,
    EmbeddingRefused,
    record_beside,
    record_place,
    sha256_of,
)

#: The largest number of half precision.
_LARGEST_HALF = 65_504


@dataclass(frozen=True, kw_only=True)
class EmbedRequest:
    """Images, an encoder and a file for the vectors."""

    source: str
    out: Path
    encoder: EncoderRequest
    root: Path | None = None
    batch_size: int = 256
    half: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        _validate.whole(minimum=1, batch_size=self.batch_size)
        if self.out.suffix != ".npy":
            raise ValueError(f"the file to write is {self.out}; name one that ends in .npy")
        if not self.out.parent.is_dir():
            raise ValueError(f"there is no folder {self.out.parent.absolute()}; make it first")

    @property
    def dtype(self) -> str:
        """Of the numbers in the file."""
        return "float16" if self.half else "float32"


@dataclass(frozen=True, kw_only=True)
class Embedded:
    """The files that were written.

    Attributes:
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


def load_encoder(request: EncoderRequest, around: Surroundings | None = None) -> Encoder:
    """Return an encoder with its weights; refuses what can't be loaded, or may not be trained."""
    if request.library == "pretrained":
        return pretrained_encoder(request, around or Surroundings())
    return LOADERS.get(request.library, own_encoder)(request)


def embed(
    request: EmbedRequest,
    *,
    told: Callable[[int, int], None],
    told_in_words: Callable[[str], None] = lambda said: None,
) -> Embedded:
    """Write the vectors of images, single or half precision [N, D], unless they are there."""
    source = image_source(request.source, root=request.root)
    around = Surroundings(images=source, name=request.source, root=request.root, told=told_in_words)
    encoder = load_encoder(request.encoder, around)
    preparation, inputs = asdict(encoder.preparation), source.digest()
    parts = [encoder.name, encoder.weights, encoder.pool, preparation, inputs, request.dtype]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    record = None if request.replace else _there(request.out, key)
    cached = record is not None
    if record is None:
        with whole_file(request.out) as file:
            rows, dimensions = _write(file, source, encoder, request, told=told)
            file.flush()
            record = EmbeddingRecord(
                provenance=encoder.provenance,
                preparation=preparation,
                inputs=inputs,
                rows=rows,
                dimensions=dimensions,
                dtype=request.dtype,
                key=key,
                sha256=sha256_of(Path(file.name)),
            )
            # Before the features, which without it would count as of unknown origin.
            record.write(request.out)
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


def _there(out: Path, key: str) -> EmbeddingRecord | None:
    """The record of an existing file of the same vectors; None where there is no file."""
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
    file: IO[bytes],
    source: ImageSource,
    encoder: Encoder,
    request: EmbedRequest,
    *,
    told: Callable[[int, int], None],
) -> tuple[int, int]:
    """Write all vectors; return how many of how many numbers."""
    rows, done, width = source.rows, 0, 0
    for images in source.batches(request.batch_size):
        found = encoder(images).numpy()
        if not done:
            width = found.shape[1]
            header = {"descr": np.dtype(request.dtype).str, "fortran_order": False}
            np.lib.format.write_array_header_1_0(file, {**header, "shape": (rows, width)})
        _check(found, encoder, first=done, half=request.half)
        file.write(np.ascontiguousarray(found.astype(request.dtype)).data)
        done += len(found)
        told(done, rows)
    return rows, width


def _check(found: NDArray[np.float32], encoder: Encoder, *, first: int, half: bool) -> None:
    for row in np.flatnonzero(~np.isfinite(found).all(axis=1))[:1]:
        raise ValueError(
            f"{encoder.name} makes of image {first + row} a vector with NaN or infinity; look at "
            "that image, and at the encoder's weights"
        )
    for row in np.flatnonzero((np.abs(found) > _LARGEST_HALF).any(axis=1))[:1] if half else ():
        raise ValueError(
            f"{encoder.name} makes of image {first + row} a vector with "
            f"{float(np.abs(found[row]).max()):.6g}, and half precision ends at "
            f"{_LARGEST_HALF:,}: it would become infinite; leave --half out"
        )

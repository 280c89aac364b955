"""Images through an encoder into a file of vectors, with a record of how they were made beside it.

Vectors of the same encoder, weights, preparation and images are not computed again. Another file
under that name is replaced only if the user requests it.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.trainers.data.files import whole_file
from labeldp.trainers.data.splits import (
    EmbeddingRecord,
    EmbeddingRefused,
    checked_record,
    sha256_of,
)
from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    ImageSource,
    image_source,
)
from labeldp.trainers.encoders.libraries import LOADERS, own_encoder
from labeldp.trainers.encoders.pretrained import pretrained_encoder

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
    half: bool = False,
    replace: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write the vectors of images, single or half precision [N, D], unless they are there.

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
    dtype, inputs = np.dtype(np.float16 if half else np.float32), images.digest()
    prepared = asdict(encoder.preparation)
    made_by = encoder.provenance.encoder, encoder.provenance.weights
    parts = [*made_by, encoder.pool, prepared, inputs, dtype.name]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    record = None if replace else _existing(out, key)
    cached = record is not None
    if record is None:
        with whole_file(out) as file:
            dimensions = _write(file, images, encoder, batch_size, dtype, report)
            file.flush()
            record = EmbeddingRecord(
                provenance=encoder.provenance,
                inputs=inputs,
                rows=images.rows,
                dimensions=dimensions,
                key=key,
                sha256=sha256_of(Path(file.name)),
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


def _existing(out: Path, key: str) -> EmbeddingRecord | None:
    """The record of an existing file of the same vectors; None without a file."""
    if not out.exists():
        return None
    record = checked_record(out)
    other = "choose another name, or add --replace"
    if record is None:
        raise EmbeddingRefused(f"{out} is there, and no record beside it describes it; {other}")
    if record.key != key:
        raise EmbeddingRefused(
            f"{out} holds other features ({record.provenance.words}; {record.rows} rows): of other "
            "images, another encoder, other weights, another preparation or precision; "
            f"{other}"
        )
    return record


def _write(
    file: IO[bytes],
    images: ImageSource,
    encoder: Encoder,
    batch_size: int,
    dtype: np.dtype[Any],
    report: Callable[[str], None],
) -> int:
    """Write all vectors; return of how many numbers each is."""
    rows, done, width, reported = images.rows, 0, 0, time.monotonic()
    for batch in images.batches(batch_size):
        found = encoder(batch).numpy()
        if not done:
            width = found.shape[1]
            header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, width)}
            np.lib.format.write_array_header_1_0(file, header)
        with np.errstate(over="ignore"):
            written = np.ascontiguousarray(found.astype(dtype))
        for row in np.flatnonzero(~np.isfinite(written).all(axis=1))[:1]:
            raise ValueError(
                f"{encoder.provenance.encoder} makes of image {done + row} a vector with NaN, "
                f"infinity or a number above {np.finfo(dtype).max:,.0f}; look at that image and at "
                "the encoder's weights, or leave --half out"
            )
        file.write(written.data)
        done += len(found)
        if done < rows and time.monotonic() - reported >= _PAUSE:
            reported = time.monotonic()
            report(f"embedded {done:,} of {rows:,} images")
    return width

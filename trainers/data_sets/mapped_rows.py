"""Matrices that stay on disk: standardized in chunks into a file that is mapped, never held whole.

What is made lies beside the other features that were computed, under a name that changes when the
user's file does.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.own_rows import MappedRows
from labeldp.trainers.data_sets.tables import Numbers, refuse_not_finite

#: Numbers in a chunk: 128 MB in double precision.
_CHUNK_NUMBERS = 1 << 24


def fit_mapped(rows: MappedRows, *, what: str) -> Numbers:
    """Return mean and deviation of a matrix's rows, in one pass.

    Args:
        rows: Which rows of which matrix.
        what: What they are, for messages.

    Raises:
        ValueError: A number that is not finite, named by its row in the file, or so large that its
            square is not.
    """
    width = rows.matrix.shape[1]
    shift: NDArray[np.float64] | None = None
    total, squares = np.zeros(width), np.zeros(width)
    with np.errstate(over="ignore", invalid="ignore"):
        for _, chunk in _chunks(rows):
            # Less what is about the mean, so that squares of large numbers do not swallow the rest.
            shift = chunk.mean(axis=0) if shift is None else shift
            chunk -= shift
            total += chunk.sum(axis=0)
            squares += np.einsum("nd,nd->d", chunk, chunk)
        assert shift is not None, "there are rows"
        count = len(rows)
        mean = shift + total / count
        std = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0))
    for place in np.flatnonzero(~np.isfinite(std) | ~np.isfinite(mean)):
        refuse_not_finite(rows.matrix, what=what)
        raise ValueError(f"column {place} holds numbers too large to standardize; rescale it")
    std[std <= 1e-7 * np.abs(mean)] = np.inf  # rounding, of single precision at best
    return Numbers(mean=mean, std=std)


def standardized_file(
    rows: MappedRows, fitted: Numbers, *, folder: Path | None, what: str
) -> "np.memmap[Any, np.dtype[np.float32]]":
    """Return features [M, D] of a matrix's rows, in a file that is mapped.

    Args:
        rows: Which rows of which matrix.
        fitted: What is taken off and divided by.
        folder: Where the file goes; a temporary one of this process if not given.
        what: What the rows are, for messages.

    Raises:
        ValueError: A number that is not finite, named by its row in the file.
    """
    shape = (len(rows), rows.matrix.shape[1])
    folder = scratch() if folder is None else folder
    file = folder / f"rows-{_key(rows, fitted)}.f32"

    def chunks() -> Iterator[NDArray[np.float32]]:
        for start, chunk in _chunks(rows):
            if not np.isfinite(chunk).all():
                refuse_not_finite(rows.matrix, what=what)
                raise AssertionError(f"chunk {start} is not finite, but the matrix is")
            chunk -= fitted.mean
            chunk /= fitted.std
            yield chunk.astype(np.float32)

    write_once(file, chunks, size=4 * shape[0] * shape[1])
    return np.memmap(file, dtype=np.float32, mode="r+", shape=shape)


def write_once(file: Path, chunks: Any, *, size: int) -> None:
    """Write arrays one after the other, unless the file is there in full.

    Args:
        file: Written under another name first: nobody ever reads half of it.
        chunks: Returns the arrays, one by one.
        size: Bytes of all of them.
    """
    if file.exists() and file.stat().st_size == size:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            for chunk in chunks():
                opened.write(np.ascontiguousarray(chunk).data)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def scratch() -> Path:
    """Return a folder that goes when this process ends."""
    return Path(_temporary().name)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="labeldp-rows-")


def _chunks(rows: MappedRows) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Places and numbers, in double precision, of some rows at a time."""
    step = max(1, _CHUNK_NUMBERS // rows.matrix.shape[1])
    for start in range(0, len(rows), step):
        some = rows.rows[start : start + step]
        if some[-1] - some[0] + 1 == len(some):  # one after the other, and so no copy in between
            yield start, rows.matrix[some[0] : some[-1] + 1].astype(np.float64)
        else:
            yield start, rows.matrix[some].astype(np.float64)


def _key(rows: MappedRows, fitted: Numbers) -> str:
    """Name of what comes out: of the file as it is now, its rows, and what is done to them."""
    path = Path(str(rows.matrix.filename)).resolve()
    found = path.stat()
    digest = hashlib.sha256(f"{path} {found.st_size} {found.st_mtime_ns}".encode())
    for part in (rows.rows, fitted.mean, fitted.std):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:32]

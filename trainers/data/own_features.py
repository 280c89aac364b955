"""Features of a user's rows: tables standardized or one-hot, images as they are.

A table's numbers have mean 0 and standard deviation 1 over the training rows. Whatever their scale
was, a row of D of them then has a squared norm of D on average, and the steps of gradient descent
grow with it; so the numbers of wide rows are scaled down until it is `LARGEST_SQUARED_NORM`, at
which every rate of learning trains that does on rows of norm 1, and the defaults do.

A matrix that stays on disk is standardized in chunks into a file that is mapped. That file lies
beside the other features that were computed, under a name that changes when the user's file does.
"""

import hashlib
import math
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import (
    Columns,
    Number,
    Numbers,
    identifier,
    refuse_not_finite,
)
from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.own_files import MappedRows, RawFeatures

if TYPE_CHECKING:  # it knows of readers, which import this
    from labeldp.trainers.data.preprocessing import Step

#: Of a row on average.
LARGEST_SQUARED_NORM = 64
#: Numbers in a chunk: 128 MB in double precision.
_CHUNK_NUMBERS = 1 << 24


class ColumnsLeftOut(UserWarning):
    """Columns that look like identifiers and are no features; the message names them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Features, and what made them.

    Attributes:
        train: uint8 [N, C, H, W] or float32 [N, D].
        test: Likewise [M, ...].
        preprocessing: What makes the same of other rows; None for images.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    preprocessing: "Step | None"


def prepared(
    train: RawFeatures,
    test: RawFeatures,
    *,
    where: Path | str,
    keep: Sequence[str] = (),
    folder: Path | None = None,
) -> Prepared:
    """Return the features of both parts, as the training rows have it.

    Args:
        train: Of the rows for training.
        test: Of the rows for testing; there may be none.
        where: What holds them, for messages.
        keep: Columns that are features although they look like identifiers.
        folder: Where features go that are too large for memory; a temporary one if not given.

    Raises:
        DataFileError: Rows of different shapes or of another kind.
        ValueError: Numbers that are not finite, or a column of too many categories.
    """
    if isinstance(train, dict) and isinstance(test, dict):
        train = _without_identifiers(train, keep, where)
        test = {name: test[name] for name in train if name in test}
        columns = _narrowed_columns(Columns.fit(train))
        return Prepared(
            train=columns(train, what="training features"),
            test=columns(test, what="testing features"),
            preprocessing=columns,
        )
    if isinstance(train, MappedRows):
        return _of_files(train, test, where=where, folder=folder)
    if isinstance(test, MappedRows):  # of a second file, the larger one
        test = np.asarray(test.matrix[test.rows])
    assert isinstance(train, np.ndarray) and isinstance(test, np.ndarray)
    return _of_arrays(train, test, where)


def identifiers(columns: Mapping[str, NDArray[Any]], *, keep: Sequence[str] = ()) -> dict[str, str]:
    """Return which columns of training rows look like identifiers, and why, by name."""
    found = {name: identifier(name, each) for name, each in columns.items() if name not in keep}
    return {name: why for name, why in found.items() if why is not None}


def _without_identifiers(
    train: dict[str, NDArray[Any]], keep: Sequence[str], where: Path | str
) -> dict[str, NDArray[Any]]:
    found = identifiers(train, keep=keep)
    if not found:
        return train
    named = "; ".join(f"{name} ({why})" for name, why in found.items())
    if len(found) == len(train):
        raise DataFileError(
            f"{where}: every column looks like an identifier: {named}. Name those that are "
            f"features: data.keep={','.join(found)} (keep= in Python)"
        )
    warnings.warn(
        f"{where}: left out {len(found)} column(s) that look like identifiers: {named}. To keep "
        f"them as features: data.keep={','.join(found)} (keep= in Python)",
        ColumnsLeftOut,
        stacklevel=2,
    )
    return {name: column for name, column in train.items() if name not in found}


def _of_files(
    train: MappedRows, test: RawFeatures, *, where: Path | str, folder: Path | None
) -> Prepared:
    width = train.matrix.shape[1]
    fitted = narrowed(fit_mapped(train, what=f"{where}: features"))
    if isinstance(test, np.ndarray):
        if test.ndim != 2 or test.shape[1] != width:
            raise DataFileError(
                f"{where}: a training row has shape {(width,)} and a testing row "
                f"{test.shape[1:]}; they must agree"
            )
        tested = fitted(_as_floats(test), what="testing features")
    else:
        assert isinstance(test, MappedRows)
        if test.matrix.shape[1] != width:
            raise DataFileError(
                f"{where}: a training row has {width} numbers and a testing row "
                f"{test.matrix.shape[1]}; they must agree"
            )
        tested = standardized_file(test, fitted, folder=folder, what="testing features")
    return Prepared(
        train=standardized_file(train, fitted, folder=folder, what=f"{where}: features"),
        test=tested,
        preprocessing=fitted,
    )


def narrowed(fitted: Numbers) -> Numbers:
    """Return the same with wide rows scaled down; see the module's first lines."""
    factor = _factor(int(np.isfinite(fitted.std).sum()))
    return replace(fitted, std=fitted.std * factor) if factor > 1 else fitted


def _narrowed_columns(fitted: Columns) -> Columns:
    """The same for the numbers among a table's columns."""
    numbers = {
        name: column for name, column in fitted.columns.items() if isinstance(column, Number)
    }
    factor = _factor(sum(math.isfinite(column.std) for column in numbers.values()))
    scaled = {name: replace(column, std=column.std * factor) for name, column in numbers.items()}
    return replace(fitted, columns={**fitted.columns, **scaled}) if factor > 1 else fitted


def _factor(columns: int) -> float:
    """How much so many columns that vary are scaled down, 1 or more."""
    return max(1.0, math.sqrt(columns / LARGEST_SQUARED_NORM))


def _of_arrays(train: NDArray[Any], test: NDArray[Any], where: Path | str) -> Prepared:
    if train.shape[1:] != test.shape[1:]:
        raise DataFileError(
            f"{where}: a training row has shape {train.shape[1:]} and a testing row "
            f"{test.shape[1:]}; they must agree"
        )
    numbers = all(
        np.issubdtype(part.dtype, np.number) or part.dtype == bool for part in (train, test)
    )
    if train.ndim == 2 and numbers and not np.iscomplexobj(train) and train.shape[1]:
        train, test = _as_floats(train), _as_floats(test)
        fitted = narrowed(Numbers.fit(train))
        return Prepared(
            train=fitted(train, what="training features"),
            test=fitted(test, what="testing features"),
            preprocessing=fitted,
        )
    if train.ndim in (3, 4) and train.dtype == test.dtype == np.uint8:
        return Prepared(
            train=channels_first(where, train),
            test=channels_first(where, test),
            preprocessing=None,
        )
    if train.ndim in (3, 4):
        raise DataFileError(
            f"{where}: images are {train.dtype} and {test.dtype}; they must be uint8, 0 to 255 "
            "(for images in 0..1: (255 * images).round().astype(numpy.uint8))"
        )
    raise DataFileError(
        f"{where}: features are {train.dtype} of shape {train.shape}; tables must be real numbers "
        "[N, D], images uint8 [N, H, W] or [N, C, H, W]"
    )


def _as_floats(matrix: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers and truth values as floating-point ones; the others as they are."""
    return matrix if np.issubdtype(matrix.dtype, np.floating) else matrix.astype(np.float64)


def channels_first(where: Path | str, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [N, C, H, W] of [N, H, W], [N, C, H, W] or [N, H, W, C], with C = 1 or 3.

    Raises:
        DataFileError: Another shape.
    """
    if images.ndim == 3:
        return np.ascontiguousarray(images[:, None])
    if images.shape[1] in (1, 3):
        return np.ascontiguousarray(images)
    if images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    raise DataFileError(
        f"{where}: images have shape {images.shape}; with 1 or 3 channels that is [N, C, H, W] or "
        "[N, H, W, C]"
    )


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
    return Numbers(
        mean=mean, std=std, median=mean
    )  # no number is missing, and a median takes two passes


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

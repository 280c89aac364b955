"""Features of a user's rows: tables standardized or one-hot, images as they are.

A table's numbers have mean 0 and standard deviation 1 over the training rows. Whatever their scale
was, a row of D of them then has a squared norm of D on average, and the steps of gradient descent
grow with it; so the numbers of wide rows are scaled down until it is `LARGEST_SQUARED_NORM`, at
which every rate of learning trains that does on rows of norm 1, and the defaults do.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.mapped_rows import fit_mapped, standardized_file
from labeldp.trainers.data_sets.own_rows import MappedRows, RawFeatures
from labeldp.trainers.data_sets.tables import Columns, Number, Numbers, refuse_not_finite

if TYPE_CHECKING:  # it knows of readers, which import this
    from labeldp.trainers.preprocessing import Step

#: Of a row on average.
LARGEST_SQUARED_NORM = 64


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
    beside: tuple[str, ...] = (),
    folder: Path | None = None,
) -> Prepared:
    """Return the features of both parts, as the training rows have it.

    Args:
        train: Of the rows for training.
        test: Of the rows for testing; there may be none.
        where: What holds them, for messages.
        beside: Names of the table's columns that are no features.
        folder: Where features go that are too large for memory; a temporary one if not given.

    Raises:
        DataFileError: Rows of different shapes or of another kind.
        ValueError: Numbers that are not finite, or a column of too many categories.
    """
    if isinstance(train, dict) and isinstance(test, dict):
        columns = _narrowed_columns(Columns.fit(train, beside=beside))
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


def refuse_not_finite_numbers(features: NDArray[Any], *, what: str) -> None:
    """Refuse NaN and infinity in a matrix of floating-point numbers, by row and column."""
    if np.issubdtype(features.dtype, np.floating):
        refuse_not_finite(features, what=what)


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

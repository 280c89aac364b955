"""Rows as people have them, as public data to learn from; what prepares them stays with the model.

Arrays are checked as scikit-learn checks them; NaN is a missing number. DataFrames may hold text,
which becomes categories, and dates, which become days; images are bytes. Tables are standardized
and scaled to a mean squared norm of 1, large images are described by their patches; no label has a
part in it.
"""

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.platform.api.fit_settings import SMALLEST_PATCHED

if TYPE_CHECKING:
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.models.trained_model import TrainedModel


class RowKind(Enum):
    """What X is: numbers [N, D], a table of named columns, or images of bytes."""

    NUMBERS = "numbers"
    NAMED = "named"
    IMAGES = "images"


def kind_of(rows: Any) -> RowKind:
    """Return what X is, by its form alone."""
    if hasattr(rows, "columns") and hasattr(rows, "iloc"):
        return RowKind.NAMED
    shape = getattr(rows, "shape", None)
    return RowKind.IMAGES if shape is not None and len(shape) in (3, 4) else RowKind.NUMBERS


def all_numbers(table: Any) -> bool:
    """Whether every column of a DataFrame holds numbers, so that it may be checked as an array."""
    return all(getattr(dtype, "kind", "O") in "iuf" for dtype in table.dtypes)


def public_rows(rows: Any, *, num_classes: int, keep: Sequence[str] = ()) -> "PublicData":
    """Return X as public data without a test split, ready to be learned from.

    Args:
        rows: X.
        num_classes: K, as stated.
        keep: Columns that are features although they look like identifiers.

    Raises:
        ValueError: Infinite values, columns of several types, or images that are not bytes; row and
            column are named.
    """
    from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
    from labeldp.trainers.data.own_data import read_arrays
    from labeldp.trainers.data.preprocessing import Preprocessing
    from labeldp.trainers.models.features import described_by_features
    from labeldp.trainers.models.shared_arrays import as_tensor

    # The reader wants labels beside; none of the true ones has a part in preparing rows.
    nobodys = np.zeros(np.shape(rows)[0], dtype=np.int64)
    splits = read_arrays(rows, nobodys, classes=num_classes, keep=keep)
    fitted = splits.preprocessing
    data = PublicData(
        name="own",
        num_classes=num_classes,
        train_features=as_tensor(splits.train_features),
        test_features=as_tensor(splits.test_features),
        test_labels=splits.test_labels,
        preprocessing=Preprocessing(steps=() if fitted is None else (fitted,)),
    )
    small = data.kind is FeatureKind.IMAGE and (
        min(data.train_features.shape[2:]) < SMALLEST_PATCHED
    )
    return data if small else described_by_features(data)


def digest_of(data: "PublicData", rows: Any) -> str:
    """Return a digest of X: of the very rows where they are an array, else of their features."""
    if isinstance(rows, np.ndarray):
        head = f"{rows.dtype.str}{rows.shape}".encode()
        return hashlib.sha256(head + np.ascontiguousarray(rows).tobytes()).hexdigest()
    return data.fingerprint


def names_of(rows: Any) -> NDArray[Any] | None:
    """Return which label each row is, as `PublicSide` takes it; columns of objects hold texts.

    Args:
        rows: Numbers or texts [N]; None if nobody says.
    """
    if rows is None:
        return None
    names = np.asarray(rows)
    if names.dtype.kind == "O" and all(type(name) is str for name in names.flat):
        return names.astype(str)
    return names


def used_columns(rows: Any, model: "TrainedModel") -> Any:
    """Return rows without the columns that the fit left out; rows without names as they are."""
    from labeldp.trainers.data.columns import Columns, by_name

    step, named = model.preprocessing.steps[0], by_name(rows)
    if named is None or not isinstance(step, Columns):
        return rows
    return {name: column for name, column in named.items() if name in step.columns}


def columns_of(rows: NDArray[Any], names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return an array's columns [N, D] under the names that a DataFrame had in the fit."""
    return {name: rows[:, place] for place, name in enumerate(names)}

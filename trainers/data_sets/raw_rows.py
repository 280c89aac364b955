"""Rows as people have them: a DataFrame, columns by name, or a matrix; refused where none fits.

Whoever trained on a table wants predictions for rows of the same table, unprepared. What the rows
hold is checked here by the names and the number of columns that the training rows had.

>>> columns = named_columns({"age": [20, 40], "city": ["Bern", "Rome"]}, names=("city", "age"))
>>> columns["city"]
array(['Bern', 'Rome'], dtype='<U4')
"""

import difflib
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Kinds of NumPy's types that are numbers: truth values, whole and real ones.
_NUMBERS = "biuf"
_AS_IN_TRAINING = "turn it into numbers or text first, as for the training rows"


class RowsRefused(ValueError):
    """Rows that are not of the kind that the training rows were; the message says what differs."""


def named_columns(
    rows: Any, *, names: Sequence[str], beside: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """Return columns of rows by name, in the order of `names`: numbers, or strings [N].

    Args:
        rows: A DataFrame, or a mapping of names to columns.
        names: The columns that are wanted; all of them must be there.
        beside: Further ones that may be there, and are passed over.

    Raises:
        RowsRefused: No names, a column too few or too many, of different lengths, without a value
            somewhere, or of dates or other things.
    """
    found = _by_name(rows)
    if found is None:
        raise RowsRefused(
            f"rows are a {type(rows).__name__} without names of columns; the training rows had "
            f"columns {_listed(names)}: give a DataFrame, or a mapping of names to columns"
        )
    missing = [name for name in names if name not in found]
    if missing:
        close = difflib.get_close_matches(missing[0], found, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {_listed(list(found))}"
        raise RowsRefused(f"rows have no column {missing[0]!r}, which the training had; {hint}")
    further = [name for name in found if name not in names and name not in beside]
    if further:
        raise RowsRefused(
            f"rows have a column {further[0]!r} that the training rows had not ({len(further)} "
            f"such); leave it out: the training had {_listed(names)}"
        )
    columns = {name: plain_column(name, found[name]) for name in names}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise RowsRefused(f"columns have {_listed(sorted(lengths))} rows; they must have as many")
    return columns


def matrix_of(rows: Any, *, width: int, names: Sequence[str] | None = None) -> NDArray[Any]:
    """Return rows as a matrix of numbers [N, width].

    Args:
        rows: An array, nested lists, or a DataFrame or mapping of columns of numbers.
        width: How many columns there must be.
        names: Of the columns; where the training rows had none, those of a DataFrame are not asked.

    Raises:
        RowsRefused: Another number of columns, or anything but real numbers.
    """
    found = _by_name(rows)
    if found is not None:
        columns = named_columns(rows, names=list(found) if names is None else names)
        for name, column in columns.items():
            if column.dtype.kind not in _NUMBERS:
                raise RowsRefused(f"column {name!r} holds text; the training had numbers there")
        matrix = np.column_stack([*columns.values()]) if columns else np.empty((0, 0))
    else:
        matrix = _array(rows)
        if matrix.dtype == object:
            matrix = _matrix_of_objects(matrix)
    if matrix.dtype.kind not in _NUMBERS:
        raise RowsRefused(
            f"rows are {matrix.dtype}; they must be real numbers [N, {width}]: {_AS_IN_TRAINING}"
        )
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise RowsRefused(
            f"rows have shape {matrix.shape}; the training rows had {width} columns, so that they "
            f"must be [N, {width}]"
        )
    return matrix


def plain_column(name: str, column: Any) -> NDArray[Any]:
    """Return a column as numbers or as strings [N].

    Raises:
        RowsRefused: A value is missing, or it holds dates or other things.
    """
    array = _array(column)
    if array.ndim != 1:
        raise RowsRefused(f"column {name!r} has shape {array.shape}; it must be one value per row")
    kind = array.dtype.kind
    if kind in _NUMBERS or kind == "U":
        return array
    if kind != "O":
        what = "dates or times" if kind in "mM" else str(array.dtype)
        raise RowsRefused(f"column {name!r} holds {what}; {_AS_IN_TRAINING}")
    for row, value in enumerate(array):
        if _is_missing(value):
            raise RowsRefused(
                f"row {row}, column {name!r} has no value; drop such rows or fill them in"
            )
    if all(isinstance(value, str) for value in array):
        return array.astype(str)
    if all(isinstance(value, bool | np.bool_) for value in array):
        return array.astype(bool)
    for row, value in enumerate(array):
        if not isinstance(value, numbers.Real):
            raise RowsRefused(
                f"row {row}, column {name!r} holds a {type(value).__name__} among other things; "
                f"{_AS_IN_TRAINING}"
            )
    return array.astype(np.float64)


def _by_name(rows: Any) -> dict[str, Any] | None:
    """Columns of what has names; None for what has none."""
    if isinstance(rows, Mapping):
        return {str(name): column for name, column in rows.items()}
    if not hasattr(rows, "columns") or not hasattr(rows, "iloc"):
        return None
    names = [str(name) for name in rows.columns]
    if len(set(names)) < len(names):
        raise RowsRefused(f"rows have two columns of one name: {_listed(names)}")
    return {name: rows.iloc[:, place] for place, name in enumerate(names)}


def _array(values: Any) -> NDArray[Any]:
    if hasattr(values, "toarray"):
        raise RowsRefused("rows are a sparse matrix; give a dense one: rows.toarray()")
    if hasattr(values, "detach"):  # torch's
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        raise RowsRefused(f"rows can't be read as an array ({error}); {_AS_IN_TRAINING}") from error


def _matrix_of_objects(matrix: NDArray[Any]) -> NDArray[Any]:
    """A matrix of Python's objects, as a DataFrame of several types makes one, as numbers."""
    if matrix.ndim != 2:
        return matrix
    columns = [plain_column(str(place), column) for place, column in enumerate(matrix.T)]
    text = [place for place, column in enumerate(columns) if column.dtype.kind == "U"]
    if text:
        raise RowsRefused(f"column {text[0]} holds text; the training had numbers there")
    return np.column_stack(columns) if columns else matrix.astype(float)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _listed(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value) for value in values[:8])
    return f"{shown}, ... ({len(values)} in all)" if len(values) > 8 else shown or "none"

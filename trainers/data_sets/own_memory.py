"""The user's own data in memory: arrays, DataFrames, lists or images, with any kind of labels.

>>> splits = read_arrays([[1.0], [3.0]], ["no", "yes"], classes=["no", "yes"])
>>> splits.train_features.tolist(), splits.train_labels.tolist(), splits.class_names
([[-1.0], [1.0]], [0, 1], ('no', 'yes'))
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.files import Splits
from labeldp.trainers.data_sets.own_data import splits_of
from labeldp.trainers.data_sets.own_labels import places_among
from labeldp.trainers.data_sets.own_rows import HoldOut, OwnRows, RawFeatures
from labeldp.trainers.data_sets.own_source import OwnSource
from labeldp.trainers.data_sets.raw_rows import RowsRefused, plain_column


def read_arrays(
    features: Any,
    labels: Any,
    *,
    classes: int | Sequence[Hashable],
    test: tuple[Any, Any] | None = None,
    drop: Sequence[str] = (),
    hold_out: HoldOut = HoldOut.NONE,
    hold_out_seed: int = 0,
) -> Splits:
    """Return what is in memory as a data set's arrays, with the preprocessing that made them.

    Args:
        features: X. Numbers [N, D] as an array, a tensor or lists; a DataFrame or a mapping of
            names to columns, whose text becomes categories; uint8 images [N, H, W], [N, C, H, W]
            or [N, H, W, C].
        labels: y [N], each of them one of the classes; secret.
        classes: The set of classes, which is public: how many, for labels 0..K-1; or all of them
            in order, values of any kind that can be compared.
        test: X and y for testing; **their labels are public**.
        drop: Columns of a DataFrame that are left out.
        hold_out: Where there is no `test`: NONE trains on all rows, PUBLIC holds one in five out
            and **publishes its label**.
        hold_out_seed: Which rows PUBLIC holds out; public.

    Raises:
        ValueError: X and y of different lengths, a label that is none of the classes, a value that
            is missing, not finite, or of another kind; row and column are named, a label never is.
    """
    names = None if isinstance(classes, int | np.integer) else [str(each) for each in classes]
    rows = _rows(features, labels, classes, drop, what="")
    if test is not None:
        rows = OwnRows(
            features=rows.features,
            labels=rows.labels,
            beside=rows.beside,
            test=_rows(*test, classes, drop, what="test "),
        )
    source = OwnSource(
        hold_out=None if test is not None else hold_out,
        hold_out_seed=hold_out_seed,
        classes=int(classes) if names is None else names,  # type: ignore[arg-type]
    )
    return splits_of(rows, source, where="X")


def _rows(
    features: Any, labels: Any, classes: int | Sequence[Hashable], drop: Sequence[str], *, what: str
) -> OwnRows:
    raw, beside = _features(features, drop, what)
    places = _places(labels, classes, what)
    rows = OwnRows(features=raw, labels=places, beside=beside)
    if len(rows) != len(places):
        raise ValueError(
            f"{what}X has {len(rows)} rows and {what}y {len(places)}; there must be one label per "
            "row"
        )
    return rows


def _features(features: Any, drop: Sequence[str], what: str) -> tuple[RawFeatures, tuple[str, ...]]:
    named = _by_name(features)
    if named is None:
        if drop:
            raise ValueError(
                f"drop is {', '.join(drop)}, but {what}X is a {type(features).__name__} without "
                "names of columns; give a DataFrame, or leave the columns out yourself"
            )
        return _array(features, f"{what}X"), ()
    missing = [name for name in drop if name not in named]
    if missing:
        raise ValueError(
            f"drop names {missing[0]!r}, but {what}X has no such column (it has {', '.join(named)})"
        )
    columns = {name: plain_column(name, each) for name, each in named.items() if name not in drop}
    if not columns:
        raise ValueError(f"{what}X has no column; there must be one at least")
    # As in files, where truth values are categories of two.
    return {
        name: column.astype(str) if column.dtype == bool else column
        for name, column in columns.items()
    }, tuple(drop)


def _by_name(features: Any) -> dict[str, Any] | None:
    """Columns of what has names; None for what has none."""
    if isinstance(features, Mapping):
        return {str(name): column for name, column in features.items()}
    if not hasattr(features, "columns") or not hasattr(features, "iloc"):
        return None
    names = [str(name) for name in features.columns]
    if len(set(names)) < len(names):
        raise RowsRefused(f"X has two columns of one name: {', '.join(names)}")
    return {name: features.iloc[:, place] for place, name in enumerate(names)}


def _array(values: Any, name: str) -> NDArray[Any]:
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is a sparse matrix; give a dense one: {name}.toarray()")
    if hasattr(values, "detach"):  # torch's
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} holds what is no number, or rows of different lengths; give numbers [N, D], "
            "or a DataFrame, whose columns of text become categories"
        ) from error
    if array.dtype.kind in "mM":
        raise ValueError(f"{name} holds dates or times; turn them into numbers first")
    if array.ndim < 2:
        raise ValueError(
            f"{name} has shape {array.shape}; it must be [N, D], a row per label ({name}.reshape("
            "-1, 1) if there is one feature)"
        )
    return array


def _places(labels: Any, classes: int | Sequence[Hashable], what: str) -> NDArray[np.int64]:
    """Labels as whole numbers [N]; no message shows one."""
    if hasattr(labels, "detach"):  # torch's
        labels = labels.detach().cpu().numpy()
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{what}y has shape {array.shape}; it must be [N], one label per row")
    if isinstance(classes, int | np.integer):
        return _validate.labels(array, num_classes=int(classes), name=f"{what}y", secret=not what)
    return places_among(array.tolist(), list(classes), name=f"{what}y")

"""The user's own data, from files or memory: read, split, and made features and labels.

**Labels of testing rows count as public**, as the set of classes does. So neither is made up here:
without a split the user states what to hold out (`HoldOut`), and the classes are stated in the file
or by the user, never read off the labels. To hold rows out in silence would publish their labels,
and to count the classes would publish which there are.

>>> splits = read_arrays([[1.0], [3.0]], ["no", "yes"], classes=["no", "yes"])
>>> splits.train_features.tolist(), splits.train_labels.tolist(), splits.class_names
([[-1.0], [1.0]], [0, 1], ('no', 'yes'))
>>> label_numbers(np.array(["b", "a"]), ("a", "b"), where="mine.csv", column="column 'y'").tolist()
[1, 0]
"""

import hashlib
import math
import os
import tempfile
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.columns import (
    Columns,
    Number,
    Numbers,
    Step,
    by_name,
    column_values,
    dense,
    identifier,
    refuse_infinite,
    refuse_not_finite,
)
from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.own_files import (
    LABEL,
    SPLIT,
    HoldOut,
    MappedRows,
    OwnRows,
    OwnSource,
    RawFeatures,
    StatedClasses,
    is_whole,
    npy_array,
    read_rows,
)
from labeldp.trainers.data.splits import (
    HELD_OUT,
    Splits,
    channels_first,
    digest_of_images,
    held_out,
    images_of,
)
from labeldp.trainers.encoders.provenance import (
    NO_OUTSIDE_DATA,
    EmbeddingRecord,
    EmbeddingRefused,
    FeatureProvenance,
    League,
    checked_record,
)


def read_own(source: OwnSource, *, folder: Path | None = None, table: Any = None) -> Splits:
    """Return the arrays of a user's files."""
    if source.path is None:
        raise ValueError(
            "name=own needs a path: data.path=FILE.csv (or .parquet, .npz; or .npy with "
            "data.labels=FILE.npy)"
        )
    file = Path(source.path).expanduser()
    rows = read_rows(source, table=table)
    if source.test_path is not None:
        rows = _with_second_file(rows, source, file)
    splits = splits_of(rows, source, where=file, folder=folder)
    return replace(splits, provenance=own_provenance(source, splits.train_features))


def splits_of(
    rows: OwnRows, source: OwnSource, *, where: Path | str, folder: Path | None = None
) -> Splits:
    """Return rows as features and labels, for training and for testing."""
    num_classes, names = stated_classes(where, in_file=rows.stated, said=source.classes)
    rows = _numbered(rows, names, source, where=where)
    if rows.test is None:
        # Before the rows are split: here a message can name the row that the file has it in.
        matrix = rows.features
        if isinstance(matrix, dict):
            for name, column in matrix.items():
                refuse_infinite(column[:, None], what=f"{where}", names=[name])
        elif isinstance(matrix, np.ndarray) and type(matrix) is not np.memmap and matrix.ndim == 2:
            refuse_infinite(matrix, what=f"{where}: features")
        assert rows.labels is not None
        _validate.labels(rows.labels, num_classes=num_classes, name=f"{where}: labels", secret=True)
        chosen = rows_for_testing(
            where, rows.split, len(rows), hold_out=source.hold_out, seed=source.hold_out_seed
        )
        train, test = rows.only(~chosen), rows.only(chosen)
    else:
        refuse_hold_out(where, source.hold_out)
        train, test = (
            part.mapped()
            for part in (rows, _numbered(rows.test, names, source, where=source.test_path or where))
        )
    features = prepared(train.features, test.features, where=where, keep=source.keep, folder=folder)
    assert train.labels is not None and test.labels is not None
    return Splits(
        train_features=features.train,
        train_labels=train.labels,
        test_features=features.test,
        test_labels=test.labels,
        num_classes=num_classes,
        class_names=names,
        preprocessing=features.preprocessing,
    )


def _numbered(
    rows: OwnRows, names: tuple[str, ...] | None, source: OwnSource, *, where: Any
) -> OwnRows:
    """The same rows with whole numbers for labels."""
    assert rows.labels is not None
    table = isinstance(rows.features, dict)
    column = f"column {source.label_column or LABEL!r}" if table else "array 'labels'"
    labels = label_numbers(rows.labels, names, where=where, column=column)
    return replace(rows, labels=labels)


def _with_second_file(rows: OwnRows, source: OwnSource, file: Path) -> OwnRows:
    if rows.split is not None or rows.test is not None:
        raise DataFileError(
            f"{file} brings a test split of its own, and data.test_path={source.test_path} "
            "another; leave one of them out"
        )
    other = read_rows(source, testing=True)
    if other.split is not None or other.test is not None:
        raise DataFileError(
            f"{source.test_path} brings a split of its own, but all of its rows are for testing "
            "(data.test_path); take the split out of it"
        )
    if rows.stated is not None and other.stated is not None and rows.stated != other.stated:
        raise DataFileError(
            f"{file} states the classes as {rows.stated!r} and {source.test_path} as "
            f"{other.stated!r}; they must agree"
        )
    return replace(rows, test=other, stated=rows.stated if other.stated is None else other.stated)


def rows_for_testing(
    file: Path | str,
    split: NDArray[Any] | None,
    count: int,
    *,
    hold_out: HoldOut | None,
    seed: int = 0,
) -> NDArray[np.bool_]:
    """Return which rows are a public test split [N].

    `split` is `train` or `test` for each row [N], None if the file brings none; `hold_out` is the
    rule for such a file, and its seed is public.
    """
    if split is None:
        if hold_out is None:
            raise DataFileError(
                f"{file} brings no test split, and labels stay secret unless you decide "
                f"otherwise: mark rows as train or test in the file ({SPLIT}, or "
                "data.split_column=NAME), name a second file (data.test_path=FILE), or set "
                f"data.hold_out=public (one row in {HELD_OUT} is held out and its label published) "
                "or data.hold_out=none (no label is; accuracy is estimated from what is released)"
            )
        if hold_out is HoldOut.PUBLIC:
            return held_out(count, seed=seed)
        return np.zeros(count, dtype=bool)
    refuse_hold_out(file, hold_out)
    if split.shape != (count,):
        raise DataFileError(f"{file}: {SPLIT} has shape {split.shape}; it must be [{count}]")
    unknown = np.flatnonzero(~np.isin(split, ["train", "test"]))
    if len(unknown):
        raise DataFileError(
            f"{file}: {SPLIT} row {unknown[0]} is {str(split[unknown[0]])!r}; it must be 'train' "
            "or 'test'"
        )
    test: NDArray[np.bool_] = split == "test"
    if test.all() or not test.any():
        raise DataFileError(
            f"{file}: all rows of {SPLIT} are {str(split[0])!r}; both kinds are needed"
        )
    return test


def refuse_hold_out(file: Path | str, hold_out: HoldOut | None) -> None:
    """Refuse `hold_out` where the file brings a public test split."""
    if hold_out is not None:
        raise DataFileError(
            f"data.hold_out is {hold_out}, but {file} brings a public test split of its own; leave "
            "data.hold_out out, or take the split out of the file"
        )


def stated_classes(
    file: Path | str, *, in_file: StatedClasses | None, said: StatedClasses | None
) -> tuple[int, tuple[str, ...] | None]:
    """Return K and the classes' names, as the file and the user state them."""
    found = [_one_statement(each) for each in (in_file, said) if each is not None]
    if not found:
        raise DataFileError(
            f"{file} does not say how many classes there are, and that is not read from secret "
            "labels: add num_classes or class_names to the file, or set data.classes=K (or "
            "data.classes=NAME,NAME,... in the order of the classes)"
        )
    names = [each for _, each in found if each is not None]
    if len({count for count, _ in found}) > 1 or len(set(names)) > 1:
        raise DataFileError(
            f"{file} states the classes as {in_file!r} and data.classes as {said!r}; they must "
            "agree: leave one of them out"
        )
    return found[0][0], names[0] if names else None


def _one_statement(stated: StatedClasses) -> tuple[int, tuple[str, ...] | None]:
    if not isinstance(stated, Sequence):
        _validate.whole(minimum=2, num_classes=stated)
        return int(stated), None
    names = tuple(stated)
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(
            f"class_names are {', '.join(names) or 'none'}; there must be at least two, each once"
        )
    return len(names), names


def label_numbers(
    labels: NDArray[Any], names: tuple[str, ...] | None, *, where: Path | str, column: str
) -> NDArray[Any]:
    """Return labels as whole numbers: those that are text by their place among the stated names.

    Labels [N] are secret. Text that is whole numbers throughout counts as numbers, unless names say
    otherwise. Labels of other types come back unchanged.
    """
    if labels.dtype.kind != "U":
        return labels
    if names is not None:
        unknown = np.flatnonzero(~np.isin(labels, names))
        if not len(unknown):
            order = np.argsort(names)
            places: NDArray[Any] = order[np.searchsorted(names, labels, sorter=order)]
            return places
    numbers, no_number = _whole_numbers(labels)
    if numbers is not None:
        return numbers
    if names is None:
        raise DataFileError(
            f"{where} {column} holds names of classes, which are not read from secret "
            f"labels (row {no_number} is the first that is not a whole number): set "
            "data.classes=NAME,NAME,... in the order of the classes (or class_names in the file)"
        )
    raise DataFileError(
        f"{where} row {unknown[0]}, {column} holds none of the stated classes {', '.join(names)} "
        f"({len(unknown)} of {len(labels)} rows; labels are secret, so what is there is not "
        "shown): correct the rows, or state all classes in data.classes"
    )


def places_among(
    labels: Sequence[Any], classes: Sequence[Hashable], *, name: str = "y"
) -> NDArray[np.int64]:
    """Return secret labels of any kind as their places among the ordered classes [N]."""
    place = {value: number for number, value in enumerate(classes)}
    if len(place) < len(classes) or len(place) < 2:
        raise ValueError(
            f"classes are {', '.join(map(str, classes)) or 'none'}; there must be at least two, "
            "each once"
        )
    places = np.fromiter((_place(place, label) for label in labels), np.int64, len(labels))
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        raise ValueError(
            f"{name} row {unknown[0]} is none of the stated classes {', '.join(map(str, classes))} "
            f"({len(unknown)} of {len(places)} rows; labels are secret, so what is there is not "
            "shown): correct the rows, or state all classes"
        )
    return places


def _place(places: dict[Hashable, int], label: Any) -> int:
    try:
        return places.get(label, -1)
    except TypeError:  # not hashable, and so none of them
        return -1


def _whole_numbers(text: NDArray[Any]) -> tuple[NDArray[np.int64] | None, int]:
    """Text as whole numbers, or the first row that is not one."""
    for row, label in enumerate(text.tolist()):
        if not is_whole(label):
            return None, row
    return np.char.strip(text).astype(np.int64), -1


def read_arrays(
    features: Any,
    labels: Any,
    *,
    classes: int | Sequence[Hashable],
    test: tuple[Any, Any] | None = None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    hold_out: HoldOut = HoldOut.NONE,
    hold_out_seed: int = 0,
) -> Splits:
    """Return what is in memory as a data set's arrays, with the preprocessing that made them.

    Args:
        features: X. Numbers [N, D] as an array, a sparse matrix, a tensor or lists, NaN where one
            is missing; a DataFrame or a mapping of names to columns, whose text becomes categories
            and whose dates become days; uint8 images [N, H, W], [N, C, H, W]
            or [N, H, W, C].
        labels: y [N], each of them one of the classes; secret.
        classes: The set of classes, which is public: how many, for labels 0..K-1; or all of them
            in order, values of any kind that can be compared.
        test: X and y for testing; **their labels are public**.
        drop: Columns of a DataFrame that are left out.
        keep: Columns of a DataFrame that are features although they look like identifiers.
        hold_out: Where there is no `test`: NONE trains on all rows, PUBLIC holds one in five out
            and **publishes its label**.
        hold_out_seed: Public, chooses the rows that PUBLIC holds out.
    """
    names = None if isinstance(classes, int | np.integer) else [str(each) for each in classes]
    rows = _rows(features, labels, classes, drop, what="")
    for name in keep:
        if not isinstance(rows.features, dict) or name not in rows.features:
            raise ValueError(f"keep names {name!r}, but X has no such column; leave it out of keep")
    if test is not None:
        rows = replace(rows, test=_rows(*test, classes, drop, what="test "))
    source = OwnSource(
        keep=tuple(keep),
        hold_out=None if test is not None else hold_out,
        hold_out_seed=hold_out_seed,
        classes=int(classes) if names is None else names,  # type: ignore[arg-type]
    )
    return splits_of(rows, source, where="X")


def _rows(
    features: Any, labels: Any, classes: int | Sequence[Hashable], drop: Sequence[str], *, what: str
) -> OwnRows:
    places = _places(labels, classes, what)
    rows = OwnRows(features=_features(features, drop, what), labels=places)
    if len(rows) != len(places):
        raise ValueError(
            f"{what}X has {len(rows)} rows and {what}y {len(places)}; there must be one label per "
            "row"
        )
    return rows


def _features(features: Any, drop: Sequence[str], what: str) -> RawFeatures:
    named = by_name(features)
    if named is None:
        if drop:
            raise ValueError(
                f"drop is {', '.join(drop)}, but {what}X is a {type(features).__name__} without "
                "names of columns; give a DataFrame, or leave the columns out yourself"
            )
        return _array(features, f"{what}X")
    missing = [name for name in drop if name not in named]
    if missing:
        raise ValueError(
            f"drop names {missing[0]!r}, but {what}X has no such column (it has {', '.join(named)})"
        )
    columns = {name: column_values(name, each) for name, each in named.items() if name not in drop}
    if not columns:
        raise ValueError(f"{what}X has no column; there must be one at least")
    return columns


def _array(values: Any, name: str) -> NDArray[Any]:
    if hasattr(values, "toarray"):
        return dense(values, what=name)
    if hasattr(values, "detach"):  # torch's
        values = values.detach().cpu()
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} holds values that are not numbers, or rows of different lengths; give "
            "numbers [N, D], or a DataFrame, whose columns of text become categories"
        ) from error
    if array.dtype.kind in "mM":
        raise ValueError(f"{name} holds dates; give a DataFrame, whose dates become days")
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


#: Of a row on average.
LARGEST_SQUARED_NORM = 64
#: Numbers in a chunk: 128 MB in double precision.
_CHUNK_NUMBERS = 1 << 24


class ColumnsLeftOut(UserWarning):
    """Columns that look like identifiers and are not features; the message names them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Features, and what made them.

    Attributes:
        train: uint8 [N, C, H, W] or float32 [N, D].
        test: Likewise [M, ...].
        preprocessing: Prepares other rows alike; None for images.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    preprocessing: Step | None


def prepared(
    train: RawFeatures,
    test: RawFeatures,
    *,
    where: Path | str,
    keep: Sequence[str] = (),
    folder: Path | None = None,
) -> Prepared:
    """Return the features of both parts, as the training rows have it."""
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


def _without_identifiers(
    train: dict[str, NDArray[Any]], keep: Sequence[str], where: Path | str
) -> dict[str, NDArray[Any]]:
    reasons = {name: identifier(name, each) for name, each in train.items() if name not in keep}
    found = {name: why for name, why in reasons.items() if why is not None}
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
    numbers = {
        name: column for name, column in fitted.columns.items() if isinstance(column, Number)
    }
    factor = _factor(sum(math.isfinite(column.std) for column in numbers.values()))
    scaled = {name: replace(column, std=column.std * factor) for name, column in numbers.items()}
    return replace(fitted, columns={**fitted.columns, **scaled}) if factor > 1 else fitted


def _factor(columns: int) -> float:
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


def fit_mapped(rows: MappedRows, *, what: str) -> Numbers:
    """Return mean and deviation of a matrix's rows, in one pass."""
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
    """Return features [M, D] of a matrix's rows, in a file that is mapped."""
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
    """Write arrays one after the other, unless the file is there in full."""
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


#: Files of arrays, whose matrices may be anybody's embeddings.
_ARRAYS = (".npy", ".npz")


def with_embeddings(
    name: str, splits: Splits, named: str | Path, *, folder: Path | None = None
) -> Splits:
    """Return a data set whose features are embeddings from a file, standardized."""
    file = Path(named).expanduser()
    if not file.exists():
        raise DatasetMissing(
            f"{file.absolute()} is not there; check data.embeddings, or make it: labeldp embed "
            f"{name} --encoder E -o {file.name}"
        )
    if file.suffix.lower() != ".npy":
        raise DataFileError(f"data.embeddings is {named}; it must be an .npy of vectors [N, D]")
    matrix = npy_array(file, mapped=True)
    train, test = len(splits.train_labels), len(splits.test_labels)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating) or not matrix.shape[1]:
        raise EmbeddingRefused(
            f"{file} holds {matrix.dtype} of shape {matrix.shape}; embeddings are floating-point "
            "numbers [N, D], a vector for each image"
        )
    if len(matrix) != train + test:
        raise EmbeddingRefused(
            f"{file} holds {len(matrix):,} vectors, but {name} has {train:,} training and {test:,} "
            "testing rows; it must hold one for each of them, in this order, as `labeldp embed "
            f"{name}` writes them"
        )
    made_by = _checked(name, splits, file)
    parts = _cut(matrix, train, where=file)
    features = prepared(*parts, where=file, folder=folder)
    return replace(
        splits,
        train_features=features.train,
        test_features=features.test,
        preprocessing=features.preprocessing,
        provenance=made_by,
    )


def own_provenance(source: OwnSource, features: NDArray[Any]) -> FeatureProvenance:
    """Return where own features come from, as far as what lies beside their files says."""
    named = (source.path, source.test_path)
    files = [Path(each).expanduser() for each in named if each is not None]
    if features.ndim != 2 or any(file.suffix.lower() not in _ARRAYS for file in files):
        return NO_OUTSIDE_DATA
    records = {file: checked_record(file) for file in files}
    said = [record.provenance for record in records.values() if record is not None]
    if not said:
        return FeatureProvenance(league=League.NOT_STATED)
    _check_alike(records)
    return said[0]


def _checked(name: str, splits: Splits, file: Path) -> FeatureProvenance:
    record = checked_record(file)
    if record is None:
        return FeatureProvenance(league=League.NOT_STATED)
    if record.inputs != digest_of_images(*images_of(name, splits)):
        raise EmbeddingRefused(
            f"{file} holds embeddings of other images than those of {name} here (another SHA-256 "
            f"of the images); make them of these: labeldp embed {name} --encoder "
            f"{record.provenance.encoder} -o FILE.npy"
        )
    return record.provenance


def _cut(matrix: NDArray[Any], train: int, *, where: Path) -> tuple[RawFeatures, RawFeatures]:
    """Rows for training, and the others; what is mapped stays so."""
    if isinstance(matrix, np.memmap):
        every = np.arange(len(matrix))
        first = MappedRows(matrix=matrix, rows=every[:train])
        if train == len(matrix):
            return first, np.empty((0, matrix.shape[1]), dtype=np.float32)
        return first, MappedRows(matrix=matrix, rows=every[train:])
    refuse_not_finite(matrix, what=f"{where}:")
    return matrix[:train], matrix[train:]


def _check_alike(records: Mapping[Path, EmbeddingRecord | None]) -> None:
    (first, one), *others = records.items()
    for file, other in others:
        if one is None or other is None:
            silent = first if one is None else file
            raise EmbeddingRefused(
                f"{silent} has no record of the encoder that made it, and the other file of this "
                "data set has one; make both by one encoder: labeldp embed"
            )
        if not one.provenance.same_encoder(other.provenance):
            raise EmbeddingRefused(
                f"{first} was made by {one.provenance.encoder} and {file} by "
                f"{other.provenance.encoder}, or with other weights or another preparation; make "
                "both by one encoder"
            )

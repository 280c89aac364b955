"""The user's own data, from files or memory: read, split, and made features and labels.

**Labels of testing rows count as public**, as the set of classes does. So neither is made up here:
without a split the user states what to hold out (`HoldOut`), and the classes are stated in the file
or by the user, never read off the labels. To hold rows out in silence would publish their labels,
and to count the classes would publish which there are.

>>> own_rows([[1.0], [3.0]], num_classes=2, keep=()).train_features.tolist()
[[-1.0], [1.0]]
>>> label_numbers(np.array([2.0, 1.0]), ("1", "2"), what="mine.csv column 'y'").tolist()
[1, 0]
"""

import math
import warnings
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.amounts import to_levels
from labeldp.mechanisms.persons import kept_rows, numbered
from labeldp.trainers.data.columns import (
    DROPPED,
    TextColumns,
    array_of,
    by_name,
    class_name,
    class_places,
    column_values,
    learned_values,
    number_in,
    refuse_infinite,
    why_left_out,
)
from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.own_files import (
    LABEL,
    SPLIT,
    HoldOut,
    OwnRows,
    OwnSource,
    RawFeatures,
    StatedClasses,
    npy_array,
    read_rows,
)
from labeldp.trainers.data.preprocessing import Columns, Numbers, standardized
from labeldp.trainers.data.splits import (
    HELD_OUT,
    NO_OUTSIDE_DATA,
    FeatureProvenance,
    League,
    Splits,
    checked_images,
    checked_record,
    digest_of_images,
    held_out,
    images_of,
    of_amounts,
)


def read_own(source: OwnSource) -> Splits:
    """Return the arrays of a user's files."""
    if source.path is None:
        raise ValueError(
            "name=own needs a path: data.path=FILE.csv (or .parquet, .npz; or .npy with "
            "data.labels=FILE.npy)"
        )
    file = Path(source.path).expanduser()
    rows = read_rows(source)
    if source.test_path is not None:
        rows = _with_second_file(rows, source, file)
    splits = _splits_of(rows, source, where=file)
    return replace(splits, provenance=_own_provenance(source, splits.train_features))


def _splits_of(rows: OwnRows, source: OwnSource, *, where: Path | str) -> Splits:
    bounds = source.bounds
    names = None
    if bounds is None:
        in_test = None if rows.test is None else rows.test.stated
        num_classes, names = _stated_classes(where, rows.stated, in_test, source.classes)

    def numbered(part: OwnRows, file: object, *, secret: bool = True) -> OwnRows:
        table = isinstance(part.features, dict)
        what = f"{file} {f'column {source.label_column or LABEL!r}' if table else 'labels'}"
        if bounds is not None:
            return replace(part, labels=_amounts(part.labels, bounds, what=what))
        classes = num_classes if names is None else names
        return replace(part, labels=label_numbers(part.labels, classes, what=what, secret=secret))

    rows = numbered(rows, where)
    if rows.test is None and rows.split is None and rows.groups is not None:
        rows = _one_of_each(rows, where)
    if rows.test is None:
        # Before the rows are split: here a message can name the row that the file has it in.
        matrix = rows.features
        if isinstance(matrix, dict):
            for name, column in matrix.items():
                refuse_infinite(column[:, None], what=f"{where}", names=[name])
        elif matrix.ndim == 2:
            refuse_infinite(matrix, what=f"{where}: features")
        chosen = _rows_for_testing(rows, source, where)
        train = rows.only(~chosen)
        test = rows.only(chosen)
    else:
        _refuse_hold_out(where, source.hold_out)
        test = numbered(rows.test, source.test_path or where, secret=False)
        train, test = (part.only(np.ones(len(part), dtype=bool)) for part in (rows, test))
    if train.groups is not None and test.groups is not None:
        train = _one_of_each(train, where, apart_from=test)
    features = prepared(
        train.features, test.features, where=where, keep=source.keep, text=source.text
    )
    if bounds is not None:
        return Splits(**of_amounts(train.labels, test.labels, bounds=bounds), **features)
    return Splits(
        train_labels=train.labels,
        test_labels=test.labels,
        num_classes=num_classes,
        class_names=names,
        **features,
    )


def _one_of_each(rows: OwnRows, where: Path | str, *, apart_from: OwnRows | None = None) -> OwnRows:
    """Keep one row of each person, by chance: then epsilon for a label is for a person."""
    given = np.asarray(rows.groups, dtype=object)
    published = np.empty(0, object) if apart_from is None else np.asarray(apart_from.groups, object)
    try:
        every, _ = numbered(np.concatenate([given, published]))
    except ValueError as error:
        raise DataFileError(f"{where}: {error}") from None
    own, public = np.split(every, [len(given)])
    both = np.intersect1d(own, public)
    if len(both):
        raise DataFileError(
            f"{where}: {len(both)} persons have both training and test rows. Test labels are "
            "public, so epsilon would not cover all of their labels; mark all rows of a person "
            "alike"
        )
    kept = kept_rows(own, most=1, seed=0)
    if left_out := len(own) - len(kept):
        warnings.warn(
            f"{where}: one row of each of {len(kept):,} persons is kept, and {left_out:,} rows are "
            "left out, so that epsilon holds for all labels of a person; "
            "LabelPrivateClassifier.fit(groups=) uses all rows",
            stacklevel=2,
        )
    return rows.only(np.isin(np.arange(len(own)), kept))


def _amounts(
    labels: NDArray[Any], bounds: tuple[float, float], *, what: str
) -> NDArray[np.float64]:
    """Return secret labels as amounts [N]; no message shows one."""
    if labels.dtype.kind in "iuf":
        amounts = labels.astype(np.float64)
    else:
        read = [number_in(str(label)) for label in labels.tolist()]
        amounts = np.array([math.nan if found is None else found[0] for found in read])
        if None in read:
            raise DataFileError(
                f"{what} row {read.index(None)} is not a number; amounts are numbers, written as "
                "1234.5 or $1,234.50"
            )
    try:
        to_levels(amounts, bounds=bounds)
    except ValueError as error:
        raise DataFileError(f"{what}: {error}") from None
    return amounts


def _with_second_file(rows: OwnRows, source: OwnSource, file: Path) -> OwnRows:
    if rows.split is not None or rows.test is not None:
        raise DataFileError(
            f"{file} has a test split of its own, and data.test_path={source.test_path} is "
            "another; leave one of them out"
        )
    other = read_rows(source, first=rows)
    if other.split is not None or other.test is not None:
        raise DataFileError(
            f"{source.test_path} has a split of its own, but all of its rows are for testing "
            "(data.test_path); remove the split from it"
        )
    return replace(rows, test=other)


def _rows_for_testing(rows: OwnRows, source: OwnSource, file: Path | str) -> NDArray[np.bool_]:
    split = rows.split
    count = len(rows)
    if split is None:
        if source.hold_out is None:
            raise DataFileError(
                f"{file} has no test split, and labels stay secret unless you decide otherwise: "
                f"mark rows as train or test in the file ({SPLIT}, or data.split_column=NAME), "
                "name a second file (data.test_path=FILE), or set data.hold_out=public (one row "
                f"in {HELD_OUT} is held out and its label published) or data.hold_out=none (no "
                "label is; accuracy is estimated from what is released)"
            )
        if source.hold_out is HoldOut.PUBLIC:
            return held_out(count, seed=source.hold_out_seed)
        return np.zeros(count, dtype=bool)
    _refuse_hold_out(file, source.hold_out)
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


def _refuse_hold_out(file: Path | str, hold_out: HoldOut | None) -> None:
    if hold_out is not None:
        raise DataFileError(
            f"data.hold_out is {hold_out}, but {file} has a public test split of its own; leave "
            "data.hold_out out, or remove the split from the file"
        )


def _stated_classes(
    file: Path | str, *statements: StatedClasses | None
) -> tuple[int, tuple[str, ...] | None]:
    stated = [each for each in statements if each is not None]
    if not stated:
        raise DataFileError(
            f"{file} does not state the number of classes, which is not read from secret "
            "labels: add num_classes or class_names to the file, or set data.classes=K (or "
            "data.classes=NAME,NAME,... in the order of the classes)"
        )
    names = {tuple(each) for each in stated if isinstance(each, Sequence)}
    counts = {len(each) if isinstance(each, Sequence) else int(each) for each in stated}
    if len(counts) > 1 or len(names) > 1:
        raise DataFileError(
            f"the classes of {file} are stated as {' and as '.join(map(repr, stated))}; they must "
            "agree: correct data.classes, or leave it out"
        )
    listed = next(iter(names), None)
    count = counts.pop()
    if listed is None:  # names are checked with the labels, by an error that shows them
        _validate.whole(minimum=2, num_classes=count)
    return count, listed


def label_numbers(
    labels: NDArray[Any], classes: int | Sequence[Hashable], *, what: str, secret: bool = True
) -> NDArray[np.int64]:
    """Return labels [N] as places among the classes: by name, each whatever the others are.

    Numbers are names, too. K classes without names are called 0 to K-1.
    """
    names = range(classes) if isinstance(classes, int) else classes
    if len(set(map(class_name, names))) < max(2, len(names)):
        raise ValueError(
            f"classes are {', '.join(map(str, names)) or 'none'}; there must be at least two, each "
            "once"
        )
    if labels.dtype.kind in "biuf":
        distinct, inverse = np.unique(labels, return_inverse=True)
        places = class_places(distinct.tolist(), names)[inverse]
    else:
        places = class_places(labels.tolist(), names)
    unknown = np.flatnonzero(places < 0)
    if len(unknown):
        stated = f"0 to {classes - 1}" if isinstance(classes, int) else ", ".join(map(str, names))
        shown = "labels are secret and not shown" if secret else f"it is {labels[unknown[0]]}"
        raise DataFileError(
            f"{what} row {unknown[0]} is not one of the stated classes {stated} ({len(unknown)} of "
            f"{len(places)} rows; {shown}): correct the rows, or state all classes by the names "
            "that labels have (data.classes=NAME,NAME,...)"
        )
    return places


def own_rows(
    rows: Any, *, num_classes: int, keep: Sequence[str], text: TextColumns = TextColumns.TFIDF
) -> Splits:
    """Return rows in memory, all to train on, with the preprocessing that made their features.

    Their labels are zeros: none has a part in preparing rows.

    Args:
        rows: X. Numbers [N, D] as an array, a sparse matrix, a tensor or lists, NaN where one is
            missing; a DataFrame or a mapping of names to columns, whose text becomes categories and
            whose dates become days; uint8 images [N, H, W], [N, C, H, W] or [N, H, W, C].
        num_classes: K.
        keep: Columns of a DataFrame that are features although they look like identifiers.
        text: What becomes of columns of sentences.
    """
    features: RawFeatures
    named = by_name(rows)
    if named is not None:
        features = {name: column_values(name, column) for name, column in named.items()}
        if not features:
            raise ValueError("X has no column; give at least one")
    else:
        features = array_of(rows, what="X")
        if features.dtype == object:
            with suppress(TypeError, ValueError):  # what holds no numbers is refused by its type
                features = features.astype(np.float64)
    if isinstance(keep, str):
        raise ValueError(f"keep is {keep!r}; give a list of columns: keep=[{keep!r}]")
    for name in keep:
        if named is None or str(name) not in named:
            raise ValueError(f"keep names {name!r}, but X has no such column; leave it out of keep")
    kept = tuple(map(str, keep))
    source = OwnSource(keep=kept, hold_out=HoldOut.NONE, classes=num_classes, text=text)
    labels = np.zeros(np.shape(rows)[0], dtype=np.int64)
    return _splits_of(OwnRows(features=features, labels=labels), source, where="X")


Fitted = TypeVar("Fitted", Numbers, Columns)
#: Of a row on average.
LARGEST_SQUARED_NORM = 64


class ColumnsLeftOut(UserWarning):
    """Columns that look like identifiers and are not features; the message names them."""


def prepared(
    train: RawFeatures,
    test: RawFeatures,
    *,
    where: Path | str,
    keep: Sequence[str] = (),
    text: TextColumns = TextColumns.TFIDF,
) -> dict[str, Any]:
    """Return features of both parts, as the training rows have it, and what made them.

    That is `train_features`, `test_features` and `preprocessing` of `Splits`.
    """
    if isinstance(train, dict) and isinstance(test, dict):
        train = _used(train, keep, text, where)
        test = {name: test[name] for name in train if name in test}
        return standardized(_narrowed(Columns.fit(train, text=text)), train, test)
    assert isinstance(train, np.ndarray) and isinstance(test, np.ndarray)
    if train.shape[1:] != test.shape[1:]:
        raise DataFileError(
            f"{where}: a training row has shape {train.shape[1:]} and a testing row "
            f"{test.shape[1:]}; they must agree"
        )
    if train.ndim in (3, 4):
        images = checked_images(where, *(part for part in (train, test) if len(part)))
        train, *rest = (np.require(part, requirements="W") for part in images)
        test = rest[0] if rest else train[:0]
        return {"train_features": train, "test_features": test, "preprocessing": None}
    if (
        train.ndim != 2
        or not {train.dtype.kind, test.dtype.kind} <= set("biuf")
        or not train.shape[1]
    ):
        raise DataFileError(
            f"{where}: features are {train.dtype} of shape {train.shape}; tables must be real "
            "numbers [N, D] (in Python, X.reshape(-1, 1) of one feature, or a DataFrame of dates "
            "and text), images uint8 [N, H, W] or [N, C, H, W]"
        )
    return standardized(_narrowed(Numbers.fit(train)), train, test)


def _used(
    train: dict[str, NDArray[Any]], keep: Sequence[str], text: TextColumns, where: Path | str
) -> dict[str, NDArray[Any]]:
    """Return columns without identifiers, and without those of sentences if they are dropped."""
    found = dict[str, str]()
    for name, column in train.items():
        why = why_left_out(name, learned_values(name, column)[0], text=text)
        if why and name not in keep:
            found[name] = why
    named = "; ".join(f"{name} ({why})" for name, why in found.items())
    to_keep = f"data.keep={','.join(found)}, keep= of an estimator, or elsewhere divide them by 10"
    if found and len(found) == len(train):
        raise DataFileError(
            f"{where}: every column is left out: {named}. Name those that are features: {to_keep}"
        )
    if set(found.values()) - {DROPPED}:
        warnings.warn(
            f"{where}: left out {len(found)} column(s): {named}. To keep them as features: "
            f"{to_keep}",
            ColumnsLeftOut,
            stacklevel=2,
        )
    return {name: column for name, column in train.items() if name not in found}


def _narrowed(fitted: Fitted) -> Fitted:
    """The same with wide rows scaled down to the largest mean squared norm."""
    parts = fitted.parts if isinstance(fitted, Columns) else (fitted,)
    moving = sum(np.isfinite(each.std).sum() for each in parts if isinstance(each, Numbers))
    factor = max(1.0, math.sqrt(moving / LARGEST_SQUARED_NORM))
    scaled = tuple(
        replace(each, std=each.std * factor) if isinstance(each, Numbers) else each
        for each in parts
    )
    return scaled[0] if isinstance(fitted, Numbers) else replace(fitted, parts=scaled)


def with_embeddings(name: str, splits: Splits, named: str | Path) -> Splits:
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
    train = len(splits.train_labels)
    test = len(splits.test_labels)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating) or not matrix.shape[1]:
        raise DataFileError(
            f"{file} holds {matrix.dtype} of shape {matrix.shape}; embeddings are floating-point "
            "numbers [N, D], a vector for each image"
        )
    if len(matrix) != train + test:
        raise DataFileError(
            f"{file} holds {len(matrix):,} vectors, but {name} has {train:,} training and {test:,} "
            "testing rows; it must hold one for each of them, in this order, as `labeldp embed "
            f"{name}` writes them"
        )
    record = checked_record(file)
    made_by = FeatureProvenance(league=League.NOT_STATED)
    if record is not None:
        made_by = record.provenance
        if record.inputs != digest_of_images(*images_of(name, splits)):
            raise DataFileError(
                f"{file} holds embeddings of other images than those of {name} here (another "
                f"SHA-256 of the images); make them of these: labeldp embed {name} --encoder "
                f"{made_by.encoder} -o FILE.npy"
            )
    refuse_infinite(matrix, what=f"{file}:", missing=False)
    features = prepared(matrix[:train], matrix[train:], where=file)
    return replace(splits, provenance=made_by, **features)


def _own_provenance(source: OwnSource, features: NDArray[Any]) -> FeatureProvenance:
    named = (source.path, source.test_path)
    files = [Path(each).expanduser() for each in named if each is not None]
    if features.ndim != 2 or any(file.suffix.lower() not in (".npy", ".npz") for file in files):
        return NO_OUTSIDE_DATA
    records = [checked_record(file) for file in files]
    made_by = [record.provenance for record in records if record is not None]
    if not made_by:
        return FeatureProvenance(league=League.NOT_STATED)
    if len(made_by) < len(files):
        raise DataFileError(
            f"{files[records.index(None)]} has no record of the encoder that made it, and the "
            "other file of this data set has one; make both by one encoder: labeldp embed"
        )
    first = made_by[0]
    last = made_by[-1]
    if not first.same_encoder(last):
        raise DataFileError(
            f"{files[0]} was made by {first.encoder} and {files[-1]} by {last.encoder}, or with "
            "other weights or another preparation; make both by one encoder"
        )
    return first

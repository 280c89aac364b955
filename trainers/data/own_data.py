"""The user's own data, from files or memory: read, split, and made features and labels.

**Labels of testing rows count as public**, as the set of classes does. So neither is made up here:
without a split the user says what to hold out (`HoldOut`), and the classes are stated in the file
or by the user, never read off the labels. To hold rows out in silence would publish their labels,
and to count the classes would publish which there are.

>>> splits = read_arrays([[1.0], [3.0]], ["no", "yes"], classes=["no", "yes"])
>>> splits.train_features.tolist(), splits.train_labels.tolist(), splits.class_names
([[-1.0], [1.0]], [0, 1], ('no', 'yes'))
>>> label_numbers(np.array(["b", "a"]), ("a", "b"), where="mine.csv", column="column 'y'").tolist()
[1, 0]
"""

import re
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.columns import by_name, column_values, dense, refuse_infinite
from labeldp.trainers.data.embedded import own_provenance
from labeldp.trainers.data.files import HELD_OUT, DataFileError, Splits, held_out
from labeldp.trainers.data.own_features import prepared
from labeldp.trainers.data.own_files import (
    LABEL,
    SPLIT,
    HoldOut,
    OwnRows,
    OwnSource,
    RawFeatures,
    StatedClasses,
    read_rows,
)

#: As many digits as fit into 64 bits.
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*")


def read_own(source: OwnSource, *, folder: Path | None = None, table: Any = None) -> Splits:
    """Return the arrays of a user's files.

    Args:
        source: Which files, and what they leave open.
        folder: Where features go that are too large for memory; a temporary one if not given.
        table: What `read_table` has returned, not to read it again.

    Raises:
        DatasetMissing: There is no such file.
        DataFileError: It can't be read, or does not hold what it should.
        ValueError: Features or labels that can't be used.
    """
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
    """Return rows as features and labels, for training and for testing.

    Args:
        rows: As they were read.
        source: What they leave open.
        where: What holds them, for messages.
        folder: As in `read_own`.

    Raises:
        DataFileError: No classes are stated, or nothing is said of rows for testing.
        ValueError: Features or labels that can't be used.
    """
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
    """The rows of training with those that a second file has for testing."""
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

    Args:
        file: For messages.
        split: `train` or `test` for each row [N]; None if the file brings none.
        count: N.
        hold_out: What to do where the file brings none.
        seed: Which rows are held out; public.

    Raises:
        DataFileError: Another word, another length, or not both kinds; neither a split nor a word
            of the user's, or both.
    """
    if split is None:
        if hold_out is None:
            raise DataFileError(
                f"{file} brings no test split, and labels are not made public without a word: mark "
                f"rows as train or test in the file ({SPLIT}, or data.split_column=NAME), name a "
                "second file (data.test_path=FILE), or say data.hold_out=public (one "
                f"row in {HELD_OUT} is held out and its label published) or data.hold_out=none "
                "(no label is; accuracy is estimated from what is released)"
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
    """Refuse a word on holding out where the file brings a public test split."""
    if hold_out is not None:
        raise DataFileError(
            f"data.hold_out is {hold_out}, but {file} brings a public test split of its own; leave "
            "data.hold_out out, or take the split out of the file"
        )


def stated_classes(
    file: Path | str, *, in_file: StatedClasses | None, said: StatedClasses | None
) -> tuple[int, tuple[str, ...] | None]:
    """Return K and the classes' names, as the file and the user state them.

    Args:
        file: For messages.
        in_file: What the file says.
        said: What the user says beside it.

    Raises:
        DataFileError: Neither says anything, or one contradicts the other.
        ValueError: Fewer than two classes, or a name that stands twice.
    """
    found = [_one_statement(each) for each in (in_file, said) if each is not None]
    if not found:
        raise DataFileError(
            f"{file} does not say how many classes there are, and that is not read off secret "
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

    Text that is whole numbers throughout counts as numbers, unless names say otherwise. What is no
    text comes back as it is.

    Args:
        labels: Text or numbers [N]; secret.
        names: Of the classes in order, if they are stated.
        where: Which file, for messages.
        column: What holds the labels, likewise.

    Raises:
        DataFileError: Text that is neither a stated name nor a whole number.
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
            f"{where} {column} holds names of classes; which there are is not read off secret "
            f"labels (row {no_number} is the first that is no whole number): set "
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
    """Return labels of any kind as their places among the classes [N].

    Args:
        labels: Values that equal one of the classes each; secret.
        classes: All there are, in order.
        name: What to call the labels in messages.

    Raises:
        ValueError: A class that stands twice, or a label that is none of them.
    """
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


def is_whole(text: str) -> bool:
    """Whether text is a whole number."""
    return _WHOLE.fullmatch(text) is not None


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
        hold_out_seed: Which rows PUBLIC holds out; public.

    Raises:
        ValueError: X and y of different lengths, a label that is none of the classes, a value that
            is infinite or of another kind; row and column are named, a label never is.
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
            f"{name} holds what is no number, or rows of different lengths; give numbers [N, D], "
            "or a DataFrame, whose columns of text become categories"
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

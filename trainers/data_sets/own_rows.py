"""What nobody may read off a user's secret labels: which rows are for testing, and the classes.

Both are said by the file or by the user. Where neither says, the file is refused: to hold rows out
in silence would publish their labels, and to count the classes would publish which there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data_sets.files import HELD_OUT, DataFileError, held_out

#: What a file calls the rows' `train` or `test`.
SPLIT = "split"

#: How many classes there are, or their names in order.
StatedClasses = int | Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class MappedRows:
    """Rows of a matrix that stays on disk.

    Attributes:
        matrix: A file's numbers [N, D], mapped.
        rows: Which of them [M], ascending.
    """

    matrix: "np.memmap[Any, Any]"
    rows: NDArray[np.intp]

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.rows)


#: Numbers or images [N, ...], or name of a column -> numbers or text [N].
RawFeatures = NDArray[Any] | MappedRows | dict[str, NDArray[Any]]


class HoldOut(StrEnum):
    """What becomes of labels for testing where a file brings no split of its own.

    PUBLIC holds one row in five out and **publishes their true labels**: every trial sees them.
    NONE publishes none: there is no public test split.
    """

    PUBLIC = "public"
    NONE = "none"


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnRows:
    """A user's rows as they are read, before anything is decided about them.

    Attributes:
        features: See `RawFeatures`.
        labels: Whole numbers, or text [N]; never shown. None where none were asked for.
        split: `train` or `test` [N], if it is said.
        stated: The classes, if they are said.
        test: Rows for testing where they are kept apart, with public labels.
        beside: Names of the table's columns that are no features.
    """

    features: RawFeatures
    labels: NDArray[Any] | None = field(default=None, repr=False)
    split: NDArray[Any] | None = None
    stated: StatedClasses | None = None
    test: "OwnRows | None" = None
    beside: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many rows there are, those for testing not among them."""
        if isinstance(self.features, dict):
            return len(next(iter(self.features.values())))
        return len(self.features)

    def only(self, chosen: NDArray[np.bool_]) -> "OwnRows":
        """Return features and labels of the chosen rows [N]."""
        assert self.labels is not None
        if isinstance(self.features, dict):
            few: RawFeatures = {name: column[chosen] for name, column in self.features.items()}
        elif isinstance(self.features, np.memmap) and chosen.any():
            few = MappedRows(matrix=self.features, rows=np.flatnonzero(chosen))
        else:
            assert isinstance(self.features, np.ndarray)
            few = self.features[chosen]
        return replace(self, features=few, labels=self.labels[chosen], split=None)

    def mapped(self) -> "OwnRows":
        """The same, where a matrix on disk says so."""
        if not isinstance(self.features, np.memmap):
            return self
        return replace(
            self, features=MappedRows(matrix=self.features, rows=np.arange(len(self.features)))
        )


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


def one_label_each(file: Path | str, features: NDArray[Any], labels: NDArray[Any]) -> None:
    """Refuse labels that are not one for each of at least one row."""
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataFileError(
            f"{file}: features have shape {features.shape} and labels {labels.shape}; labels must "
            "be [N], one for each of N rows"
        )
    if len(labels) == 0:
        raise DataFileError(f"{file}: there are no rows; training and testing need some each")


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

"""Labels of a user's file as places among the classes; no message shows one.

>>> label_numbers(np.array(["b", "a"]), ("a", "b"), where="mine.csv", column="column 'y'").tolist()
[1, 0]
"""

import re
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data_sets.files import DataFileError

#: As many digits as fit into 64 bits.
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*")


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

"""Labels of any kind as whole numbers: which classes there are is said, and not read off them.

The set of classes is public. Who reads it off secret labels publishes which labels occur, and a
class that one person has is that person's label. So it is stated; or the fit says that labels were
published, and its epsilon is infinite.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: `classes=PUBLISH` reads the classes off the labels, which is charged as publishing them.
PUBLISH = "publish"


def refuse_unusable(labels: Any) -> None:
    """Refuse complex and missing labels, before scikit-learn does: it shows them, or can't say why.

    Raises:
        ValueError: Names the row and never the label.
    """
    try:
        plain = np.asarray(labels)
    except ValueError:
        return  # of no shape that scikit-learn takes
    if plain.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers; give texts or reals")
    if plain.dtype.kind == "O" and plain.ndim == 1:
        missing = [row for row, label in enumerate(plain) if label is None]
        if missing:
            raise ValueError(
                f"y row {missing[0]} (and {len(missing) - 1} more) has no label; leave it out"
            )


def stated_classes(classes: Any, labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes in order [K], each once.

    Args:
        classes: What the user says: all classes, how many there are of 0..K-1, or `PUBLISH`.
        labels: Secret; looked at for `PUBLISH` only.

    Raises:
        ValueError: Nothing is said, or no two classes.
    """
    if classes is None:
        raise ValueError(
            "classes is None, and which classes there are is not read off secret labels, since a "
            "rare one would tell somebody's label: state them, classes=['no', 'yes'], or how many "
            "there are of 0..K-1, classes=10. (classes='publish' reads them off y, at an infinite "
            "epsilon.)"
        )
    if isinstance(classes, str):
        if classes != PUBLISH:
            raise ValueError(
                f"classes is {classes!r}; give a list of all classes, how many there are of "
                f"0..K-1, or {PUBLISH!r}"
            )
        found = np.unique(labels)
        # scikit-learn's checks look for its own words here.
        if len(found) < 2:
            raise ValueError("y holds one class; a classifier needs two classes at least")
        return found
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        found = np.arange(int(classes))
    elif isinstance(classes, Sequence | np.ndarray | set | frozenset):
        found = np.unique(
            np.asarray(sorted(classes) if isinstance(classes, set) else list(classes))
        )
        if len(found) < len(classes):
            raise ValueError(f"classes names {len(classes)} classes, but one of them twice")
    else:
        raise ValueError(f"classes is {classes!r:.100}; give a list of all classes")
    if len(found) < 2:
        raise ValueError(f"classes is {classes!r:.100}; there must be two classes at least")
    return found


def places_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each label stands among the classes [N].

    Args:
        labels: Secret [N].
        classes: All there are, sorted [K].

    Raises:
        ValueError: A label that is none of them; the message names the row and never the label.
    """
    if labels.dtype.kind == "O":  # as columns of DataFrames have them
        labels = np.asarray(labels.tolist())
    text = ("U", "S", "O", "T")
    if (labels.dtype.kind in text) != (classes.dtype.kind in text):
        kinds = ["texts" if each.dtype.kind in text else "numbers" for each in (labels, classes)]
        raise ValueError(
            f"y holds {kinds[0]} and classes {kinds[1]}; state the classes as the labels are "
            f"(y.astype(str), or classes=[1, 2] instead of ['1', '2'])"
        )
    try:
        places = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    except TypeError as error:
        raise ValueError(
            "y holds values of several kinds that can't be compared with classes; give labels of "
            "one kind"
        ) from error
    unseen = np.flatnonzero(classes[places] != labels)
    if len(unseen):
        raise ValueError(
            f"y row {unseen[0]} (and {len(unseen) - 1} more) is none of the {len(classes)} "
            "classes that are stated; the label is not shown, since it is secret: add its class to "
            "classes=, or mend the row"
        )
    return places.astype(np.int64)

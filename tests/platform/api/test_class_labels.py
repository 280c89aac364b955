"""class_labels: what is stated, what is refused, and that no message shows a label."""

from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.randomized_response import PublishedClasses
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.api.class_labels import (
    places_of,
    refuse_unusable,
    stated_classes,
)

SECRET = np.array(["benign", "malignant", "benign"])


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["malignant", "benign"], ["benign", "malignant"]),
        ({"malignant", "benign"}, ["benign", "malignant"]),
        (np.array([3, 1, 2]), [1, 2, 3]),
        (4, [0, 1, 2, 3]),
        ("publish", ["benign", "malignant"]),
    ],
)
def test_classes_are_sorted(classes: Any, expected: list[Any]) -> None:
    assert stated_classes(classes, SECRET).tolist() == expected


@pytest.mark.parametrize(
    ("classes", "says"),
    [
        (None, "classes is None"),
        (1, "two classes at least"),
        (["a", "a", "b"], "one of them twice"),
        ("yes", "give a list of all classes"),
        (True, "give a list of all classes"),
        (["only"], "two classes at least"),
    ],
)
def test_what_names_no_classes_is_refused(classes: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        stated_classes(classes, SECRET)


def test_labels_become_places() -> None:
    assert places_of(SECRET, np.array(["benign", "malignant"])).tolist() == [0, 1, 0]
    assert places_of(np.array([True, False]), np.array([0, 1])).tolist() == [1, 0]
    assert places_of(np.array([3, 5], dtype=object), np.array([3, 4, 5])).tolist() == [0, 2]
    words = SECRET.astype(object)
    assert places_of(words, np.array(["benign", "malignant"])).tolist() == [0, 1, 0]


def test_a_label_that_is_no_class_is_not_shown() -> None:
    with pytest.raises(ValueError, match=r"y row 1 \(and 0 more\)") as refused:
        places_of(SECRET, np.array(["benign", "other"]))
    assert "malignant" not in str(refused.value)
    with pytest.raises(ValueError, match="y holds texts and classes numbers"):
        places_of(SECRET, np.array([0, 1]))


def test_published_classes_are_a_release_without_a_bound() -> None:
    vault = LabelVault(labels=np.array([0, 2, 0]), num_classes=3)
    released = vault.release(PublishedClasses(num_classes=3))
    assert released.values.tolist() == [True, False, True]
    assert np.isinf(vault.epsilon(delta=0.0))


def test_complex_and_missing_labels_are_refused_unseen() -> None:
    with pytest.raises(ValueError, match="y holds complex") as refused:
        refuse_unusable([1 + 3j])
    assert "3j" not in str(refused.value)
    with pytest.raises(ValueError, match=r"y row 1 \(and 1 more\) has no label") as refused:
        refuse_unusable(["malignant", None, None])
    assert "malignant" not in str(refused.value)
    for others in (SECRET, [1, 2], [[1], [2, 3]], None):
        refuse_unusable(others)

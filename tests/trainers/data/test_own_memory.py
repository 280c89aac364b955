"""own_memory: arrays, DataFrames, lists, images and labels in memory, and refusals."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import labelled
from labeldp.trainers.data.own_data import label_numbers, places_among, read_arrays
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from tests.trainers.data_samples import images

TABLE = np.arange(60, dtype=np.float64).reshape(20, 3) ** 2
NAMES = np.array(["no", "yes"] * 10)


def frame(**changes: Any) -> pd.DataFrame:
    columns = {"age": range(20), "color": ["red", "green"] * 10, "member": [True, False] * 10}
    return pd.DataFrame({**columns, **changes})


@pytest.mark.parametrize(
    "features", [TABLE, TABLE.tolist(), torch.from_numpy(TABLE), TABLE.astype(object)]
)
def test_numbers_in_whatever_holds_them(features: Any) -> None:
    splits = read_arrays(features, NAMES, classes=["no", "yes"])
    expected = (TABLE - TABLE.mean(0)) / TABLE.std(0)
    np.testing.assert_allclose(splits.train_features, expected, rtol=1e-5)
    assert splits.train_labels.tolist() == [0, 1] * 10
    assert splits.class_names == ("no", "yes") and len(splits.test_labels) == 0
    assert splits.preprocessing is not None
    np.testing.assert_array_equal(splits.preprocessing(TABLE), splits.train_features)


def test_a_frame_of_numbers_and_text() -> None:
    splits = read_arrays(frame(name="x"), pd.Series(NAMES), classes=("yes", "no"), drop=["name"])
    assert splits.train_features.shape == (20, 1 + 2 + 2)
    assert splits.train_labels.tolist() == [1, 0] * 10
    assert splits.preprocessing is not None
    # Rows as they were given, what was left out among them.
    again = splits.preprocessing(frame(name="y"))
    np.testing.assert_array_equal(again, splits.train_features)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, 7] * 10, [3, 7]),
        (np.array([3.0, 7.0] * 10), [3, 7]),
        ([False, True] * 10, [False, True]),
        (pd.Categorical(["a", "b"] * 10), ["a", "b"]),
        (np.array([0, 1] * 10), 2),
        (torch.tensor([0, 1] * 10), 2),
        (np.array([[0], [1]] * 10), 2),
    ],
)
def test_labels_of_any_kind(labels: Any, classes: Any) -> None:
    splits = read_arrays(TABLE, labels, classes=classes)
    assert splits.train_labels.tolist() == [0, 1] * 10 and splits.num_classes == 2


def test_images_and_public_rows_for_testing() -> None:
    pixels = images(20, 10, 12)
    splits = read_arrays(pixels, [0, 1] * 10, classes=3, test=(pixels[:4], [0, 1, 2, 1]))
    data = labelled("own", splits)
    assert data.public.train_features.shape == (20, 1, 10, 12)
    assert data.public.test_labels.tolist() == [0, 1, 2, 1] and data.public.num_classes == 3


def test_rows_are_held_out_only_when_asked_for() -> None:
    for seed in (0, 5):
        splits = read_arrays(
            TABLE, NAMES, classes=["no", "yes"], hold_out=HoldOut.PUBLIC, hold_out_seed=seed
        )
        assert (len(splits.train_labels), len(splits.test_labels)) == (16, 4)
    with pytest.raises(ValueError, match="hold_out_seed is 5, but no rows are held out"):
        read_arrays(TABLE, NAMES, classes=["no", "yes"], hold_out_seed=5)
    with pytest.raises(ValueError, match="hold_out_seed is -1"):
        OwnSource(path="a.csv", hold_out=HoldOut.PUBLIC, hold_out_seed=-1)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (TABLE[:7], "X has 7 rows and y 20; there must be one label per row"),
        (TABLE[:, 0], r"X has shape \(20,\); it must be \[N, D\]"),
        (np.where(TABLE == 1, np.inf, TABLE).astype(np.float16), "row 0, column 1 is inf"),
        ([[1.0], [2.0, 3.0]] * 10, "rows of different lengths"),
        ([["a"]] * 20, "tables must be real numbers"),
        (TABLE.astype("datetime64[s]"), "X holds dates; give a DataFrame"),
        (frame().iloc[:, :0], "X has no column"),
        (images(20, 8, 8, 4), "1 or 3 channels"),
    ],
)
def test_features_that_are_none(features: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_arrays(features, NAMES, classes=["no", "yes"])


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (["no", "HIV"] * 10, ["no", "yes"], r"y row 1 is none of .*\(10 of 20 rows"),
        ([*NAMES[:19], None], ["no", "yes"], "y row 19 is none of"),
        ([*NAMES[:19], ["HIV"]], ["no", "yes"], "y"),
        ([0, 8391] * 10, 2, r"y\[1\] is none of the classes"),
        ([0.0, 8391.5] * 10, 2, "of type float64"),
        (NAMES, ["yes"], "at least two, each once"),
        (NAMES, ["yes", "yes"], "at least two, each once"),
        (NAMES[:, None].repeat(2, 1), 2, r"y has shape \(20, 2\)"),
    ],
)
def test_labels_that_are_none_are_never_shown(labels: Any, classes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read_arrays(TABLE, labels, classes=classes)
    assert "HIV" not in str(caught.value) and "8391" not in str(caught.value)


def test_columns_without_names_can_not_be_left_out() -> None:
    with pytest.raises(ValueError, match="drop is a, but X is a ndarray without names"):
        read_arrays(TABLE, NAMES, classes=["no", "yes"], drop=["a"])
    with pytest.raises(ValueError, match="drop names 'a', but X has no such column"):
        read_arrays(frame(), NAMES, classes=["no", "yes"], drop=["a"])


def numbers(labels: list[str], names: tuple[str, ...] | None = None) -> list[int]:
    found = label_numbers(np.array(labels), names, where="mine.csv", column="column 'y'")
    return [int(place) for place in found]


def test_names_come_before_numbers() -> None:
    assert numbers(["2", "1"], ("1", "2")) == [1, 0]
    assert numbers(["1", "0"], ("no", "yes")) == [1, 0]
    assert numbers([" 1", "-3"]) == [1, -3]
    assert label_numbers(np.array([5.5]), None, where="x", column="y").tolist() == [5.5]


@pytest.mark.parametrize("text", ["1.0", "", "--1", "1-", "9" * 19, "1e3", "²"])
def test_what_is_no_whole_number(text: str) -> None:
    with pytest.raises(DataFileError, match=r"row 1 is the first that is not a whole number"):
        numbers(["0", text])


def test_values_that_can_not_be_compared_are_none_of_the_classes() -> None:
    assert places_among([2, 1.0, np.int64(2)], [1, 2]).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match=r"y row 1 is none of the stated classes 1, 2 \(2 of 3"):
        places_among([1, [2], None], [1, 2])

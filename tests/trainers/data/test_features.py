"""Rows become features: tables by hand, missing values, dates, scales, and what made them."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from labeldp.trainers.data.columns import (
    MOST_CATEGORIES,
    RowsRefused,
    column_values,
    identifier,
    matrix_of,
    named_columns,
)
from labeldp.trainers.data.labelled_data import PublicData, load_own
from labeldp.trainers.data.own_data import LARGEST_SQUARED_NORM, prepared
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from labeldp.trainers.data.preprocessing import Columns, Numbers, Places, Preprocessing, as_given
from tests.trainers.data_samples import read_back


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 2)), "ndarray without names.*columns age, city"),
        ({"age": [1], "City": ["a"]}, "no column 'city'.*did you mean 'City'"),
        ({"age": [1, 2], "city": ["a"]}, "1, 2 rows; all must have the same"),
        (pd.DataFrame([[1, "a", 2]], columns=["age", "city", "age"]), "two columns of one name"),
        ({"age": [1 + 2j], "city": ["a"]}, "column 'age' holds complex128"),
        ({"age": [[1, 2]], "city": ["a"]}, r"column 'age' has shape \(1, 2\)"),
    ],
)
def test_other_tables_are_refused_by_name(rows: object, message: str) -> None:
    with pytest.raises(RowsRefused, match=message):
        named_columns(rows, names=("age", "city"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\); the training rows had 2 columns"),
        (np.ones(2), r"shape \(2,\)"),
        ([[1, 2], [3]], "can't be read as an array"),
        (np.array([["a", "b"]]), "they must be real numbers"),
        (np.array([[1, "b"]], dtype=object), "column 1 holds text"),
        (np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "real numbers"),
    ],
)
def test_other_matrices_are_refused(rows: object, message: str) -> None:
    with pytest.raises(RowsRefused, match=message):
        matrix_of(rows, width=2)


def test_a_column_of_objects_becomes_what_all_of_them_are() -> None:
    assert column_values("x", np.array([1, 2.5], dtype=object)).dtype == np.float64
    assert column_values("x", np.array([True, False], dtype=object)).dtype == bool
    with pytest.raises(RowsRefused, match="row 1, column 'x' holds a str, which does not go with"):
        column_values("x", np.array([1, "a"], dtype=object))


def test_a_column_that_never_changes_becomes_zeros() -> None:
    train, test = np.full((10, 1), 0.1), np.array([[0.1], [5.0]])
    fitted = Numbers.fit(train)
    assert not fitted(train).any() and not fitted(test).any()


def test_invalid_numbers_are_named_by_row_and_column() -> None:
    train = np.zeros((70_000, 3), dtype=np.float32)
    train[68_001, 2] = np.inf
    with pytest.raises(ValueError, match="training features row 68001, column 2 is inf"):
        Numbers.fit(train)
    fitted = Numbers.fit(train[:5, :1], names=["b"])
    with pytest.raises(ValueError, match="testing features row 1, column 'b' is -inf"):
        fitted(np.array([[0.0], [-np.inf]]), what="testing features")
    with pytest.raises(ValueError, match="column 0 holds numbers too large"):
        Numbers.fit(np.array([[1e200], [-1e200]]))


def test_a_column_of_identifiers_is_refused() -> None:
    names = np.array([f"person {i}" for i in range(MOST_CATEGORIES + 1)])
    with pytest.raises(ValueError, match="column 'id' has 1001 categories in 1001 rows"):
        Columns.fit({"id": names})


DATES = ["2026-01-01", "2026-01-03", None, "2026-01-05"]
HOLES: dict[str, Any] = {
    "size": [1.0, None, 3.0, 8.0],
    "whole": pd.array([4, 4, pd.NA, 6], dtype="Int64"),
    "city": ["Rome", None, "Bern", "Rome"],
    "member": [True, None, False, True],
    "day": pd.to_datetime(DATES),
    "told": DATES,
    "empty": [None, None, None, None],
}
#: By hand: filled with the median 3, 4 and day 3, less the mean, over the deviation.
FILLED = {"size": [1, 3, 3, 8], "whole": [4, 4, 4, 6], "day": [1, 3, 3, 5], "told": [1, 3, 3, 5]}
AT = {"size": 1, "city": 1, "member": 1}


def test_missing_values_and_dates_become_features_by_hand() -> None:
    def number(name: str) -> list[Any]:
        values = np.array(FILLED[name], dtype=float)
        return [(values - values.mean()) / values.std(), np.arange(4) == AT.get(name, 2)]

    by_hand = [
        *number("size"),
        *number("whole"),
        *([0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]),  # Bern, Rome, missing
        *([0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]),  # False, True, missing
        *number("day"),
        *number("told"),
        np.zeros(4),
    ]
    expected = np.column_stack(by_hand)
    fitted = Columns.fit(HOLES)
    for rows in (HOLES, pd.DataFrame(HOLES), pd.DataFrame(HOLES).astype(object)):
        np.testing.assert_allclose(fitted(rows), expected, atol=1e-6)
    arrow = pa.table({name: pa.array(column, from_pandas=True) for name, column in HOLES.items()})
    by_name = {name: arrow.column(name) for name in arrow.column_names}
    np.testing.assert_allclose(Columns.fit(by_name)(by_name), expected, atol=1e-6)
    again = Columns.restored(json.loads(json.dumps(fitted.described())), fitted.arrays())
    np.testing.assert_array_equal(again(HOLES), fitted(HOLES))


def test_new_rows_may_lack_what_the_training_rows_had() -> None:
    whole = {"x": [1.0, 2.0, 6.0], "c": ["a", "b", "a"], "day": ["2026-01-01"] * 2 + ["2026-01-07"]}
    fitted = Columns.fit(whole)
    features = fitted({"x": [None, np.nan], "c": [None, "new"], "day": [None, None]})
    # The median; no category; the median day.
    std = np.std([1, 2, 6])
    np.testing.assert_allclose(features[:, 0], [(2 - 3) / std] * 2, rtol=1e-6)
    assert not features[:, 1:3].any() and (features[:, 3] == features[0, 3]).all()
    date = fitted({"x": [1], "c": ["a"], "day": [datetime.date(2026, 1, 7)]})
    assert date[0, 3] == fitted(whole)[2, 3]
    for bad, message in (
        (
            {"day": ["yesterday"]},
            "row 0, column 'day' is 'yesterday'; the training rows had dates as 2026-12-31",
        ),
        ({"day": [7]}, "column 'day' holds numbers; the training rows had dates"),
        ({"x": pd.to_datetime(["2026-01-01"])}, "column 'x' holds dates"),
        ({"c": [3]}, "column 'c' holds numbers; the training rows had text"),
    ):
        with pytest.raises(RowsRefused, match=message):
            fitted({"x": [1], "c": ["a"], "day": [None], **bad})


def test_a_matrix_with_missing_numbers_and_its_sparse_twin() -> None:
    random = np.random.default_rng(0)
    train = random.normal(3, 2, (70_000, 3))
    train[train < 1] = 0
    train[5, 1] = train[69_999, 1] = np.nan
    filled = np.where(np.isnan(train), np.nanmedian(train, axis=0), train)
    fitted = Numbers.fit(train)
    features = fitted(train)
    assert features.shape == (70_000, 4) and np.flatnonzero(features[:, 3]).tolist() == [5, 69_999]
    expected = (filled - filled.mean(0)) / filled.std(0)
    np.testing.assert_allclose(features[:, :3], expected, atol=1e-5)
    np.testing.assert_array_equal(fitted(sparse.csr_matrix(train)), features)
    # Missing where no training row lacked it: the median, and no indicator.
    median = np.median(train[:, 0])
    np.testing.assert_array_equal(fitted([[np.nan, 0, 0]]), fitted([[median, 0, 0]]))


def test_columns_that_name_rows_are_not_features() -> None:
    random, count = np.random.default_rng(0), 400
    ids = [f"p{i}" for i in range(count)]
    names = {
        "id": np.arange(count) * 7919 % 100_003,
        "customerId": random.permutation(count) * 1.0,
        "note": ids,
        "Unnamed: 0": np.arange(count),
        "user_uuid": [None, *ids[1:]],
        "nothing": [None] * count,
    }
    features = {
        "store_id": random.integers(0, 9, count),
        "income": random.integers(0, 10**6, count),
        "weight": np.arange(count) / 3,
        "day": pd.date_range("2026-01-01", periods=count),
        "written": pd.date_range("2026-01-01", periods=count).strftime("%Y-%m-%d"),
        "city": random.choice(["Bern", "Rome"], count),
        "valid": np.arange(count) % 2 > 0,
    }
    for name, column in {**names, **features}.items():
        found = identifier(name, column_values(name, column))
        assert (found is not None) == (name in names), (name, found)


RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(3, 5, (40, 4)) * [1, 10, 100, 0]


def assert_raw_rows_become(data: PublicData, raw: Any, *, train: Any = None) -> None:
    for preprocessing in (data.preprocessing, read_back(data.preprocessing)):
        assert torch.equal(preprocessing(raw), data.test_features)
        assert preprocessing(raw).dtype == data.test_features.dtype
        if train is not None:
            assert torch.equal(preprocessing(train), data.train_features)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_])
def test_an_own_matrix_bit_for_bit(tmp_path: Path, kind: type[Any]) -> None:
    table: NDArray[Any] = TABLE.astype(kind)
    np.savez(
        tmp_path / "own.npz",
        train_features=table[:30],
        test_features=table[30:],
        train_labels=np.arange(30) % 2,
        test_labels=np.arange(10) % 2,
        num_classes=2,
    )
    data = load_own(OwnSource(path=tmp_path / "own.npz")).public
    assert_raw_rows_become(data, table[30:], train=table[:30])
    assert_raw_rows_become(data, pd.DataFrame(table[30:]))


def test_an_own_table_bit_for_bit(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "size": TABLE[:, 0],
            "same": np.full(40, 0.1),
            "color": RANDOM.choice(["red", "green", "blau, und"], 40),
            "old": TABLE[:, 1] > 0,
            "label": np.arange(40) % 2,
            "split": np.where(np.arange(40) < 30, "train", "test"),
        }
    )
    frame.to_parquet(tmp_path / "own.parquet")
    data = load_own(OwnSource(path=tmp_path / "own.parquet", classes=2)).public
    assert_raw_rows_become(data, frame[30:], train=frame[:30])
    bare = frame[30:].drop(columns=["label", "split"])[["old", "color", "same", "size"]]
    assert_raw_rows_become(data, bare)
    new = data.preprocessing(bare.assign(color="never seen"))
    assert not new[:, 2:5].any() and new.shape == data.test_features.shape
    for changed, message in (
        (bare.assign(size="large"), "column 'size' holds text"),
        (bare.assign(color=1.5), "column 'color' holds numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            data.preprocessing(changed)


@pytest.mark.parametrize("hold_out", HoldOut)
def test_own_images_in_any_order_of_channels(tmp_path: Path, hold_out: HoldOut) -> None:
    images = RANDOM.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", features=images, labels=np.arange(20) % 2, num_classes=2)
    data = load_own(OwnSource(path=tmp_path / "own.npz", hold_out=hold_out)).public
    first = images.transpose(0, 3, 1, 2)
    for raw in (images, first):
        assert torch.equal(data.preprocessing(raw), torch.from_numpy(first.copy()))
    with pytest.raises(RowsRefused, match=r"shape \(20, 5, 6, 3\)"):
        data.preprocessing(images.transpose(0, 2, 1, 3))
    with pytest.raises(RowsRefused, match=r"images are float64.*must be uint8"):
        data.preprocessing(images / 255)


def test_identifiers_become_places_and_unknown_ones_zero() -> None:
    fitted = Preprocessing(steps=(Places.fit(np.array([[7, 100], [3, 200], [7, 300]])),))
    for preprocessing in (fitted, read_back(fitted)):
        assert preprocessing([[3, 300], [7, 5], [8, 100]]).tolist() == [[1, 3], [2, 0], [0, 1]]
    with pytest.raises(RowsRefused, match=r"row 1 is \[1\.5, 2\.0\]; identifiers are whole"):
        fitted([[1, 2], [1.5, 2]])
    own = as_given(torch.tensor([[1, 2]]))
    assert own([[5, 6]]).dtype == torch.int64
    with pytest.raises(RowsRefused, match="identifiers are whole numbers from 0"):
        own([[5, -6]])


@pytest.mark.parametrize("width", [3, 64, 65, 768])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e6])
def test_no_row_is_longer_on_average_than_stated(width: int, scale: float) -> None:
    random = np.random.default_rng(0)
    matrix = scale * random.normal(1, 2, (300, width))
    found = prepared(matrix, matrix[:5], where="X")
    squared = float((found["train_features"].astype(float) ** 2).sum(1).mean())
    assert squared == pytest.approx(min(width, LARGEST_SQUARED_NORM), rel=1e-4)
    np.testing.assert_array_equal(found["preprocessing"](matrix), found["train_features"])

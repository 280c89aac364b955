"""columns: rows as people have them, features by hand and by a slow way, and refusals by name."""

import datetime
import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from labeldp.trainers.data.columns import (
    MOST_CATEGORIES,
    Columns,
    ColumnsIgnored,
    Numbers,
    RowsRefused,
    column_values,
    encode,
    identifier,
    matrix_of,
    named_columns,
    standardize,
)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 2)), "ndarray without names.*columns age, city"),
        ({"age": [1]}, "no column 'city'"),
        ({"age": [1], "City": ["a"]}, "no column 'city'.*did you mean 'City'"),
        ({"age": [1, 2], "city": ["a"]}, "1, 2 rows; they must have as many"),
        (pd.DataFrame([[1, "a", 2]], columns=["age", "city", "age"]), "two columns of one name"),
        ({"age": [1 + 2j], "city": ["a"]}, "column 'age' holds complex128"),
        ({"age": [[1, 2]], "city": ["a"]}, r"column 'age' has shape \(1, 2\)"),
    ],
)
def test_other_tables_are_refused_by_name(rows: object, message: str) -> None:
    with pytest.raises(RowsRefused, match=message):
        named_columns(rows, names=("age", "city"))


def test_a_matrix_comes_of_arrays_lists_tensors_and_tables() -> None:
    numbers = [[1.0, 2.0], [3.0, 4.0]]
    frame = pd.DataFrame(numbers, columns=["a", "b"])
    forms = (np.array(numbers), torch.tensor(numbers), frame, np.array(numbers, "O"))
    for rows in (numbers, *forms, sparse.csr_matrix(numbers)):
        assert matrix_of(rows, width=2).tolist() == numbers
    assert matrix_of(frame[["b", "a"]], width=2, names=("a", "b")).tolist() == numbers


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 3)), r"shape \(2, 3\); the training rows had 2 columns"),
        (np.ones(2), r"shape \(2,\)"),
        ([[1, 2], [3]], "can't be read as an array"),
        (np.array([["a", "b"]]), "they must be real numbers"),
        (np.array([[1, "b"]], dtype=object), "column 1 holds text"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), "column 'b' holds text"),
        (np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "real numbers"),
    ],
)
def test_other_matrices_are_refused(rows: object, message: str) -> None:
    with pytest.raises(RowsRefused, match=message):
        matrix_of(rows, width=2)


def test_a_column_of_objects_becomes_what_all_of_them_are() -> None:
    assert column_values("x", np.array([1, 2.5], dtype=object)).dtype == np.float64
    assert column_values("x", np.array([True, False], dtype=object)).dtype == bool
    with pytest.raises(RowsRefused, match="row 1, column 'x' holds a str among other things"):
        column_values("x", np.array([1, "a"], dtype=object))


def test_further_columns_are_ignored_with_a_note() -> None:
    with pytest.warns(ColumnsIgnored, match=r"ignored 2 column.*: x, label"):
        found = named_columns({"x": [1], "age": [2], "label": [0]}, names=("age",))
    assert list(found) == ["age"]


def test_encoding_agrees_with_a_slow_one() -> None:
    random = np.random.default_rng(0)
    train = {"x": random.normal(5, 3, 200), "c": random.choice(["a", "bb", "c"], 200)}
    test = {"x": random.normal(5, 3, 50), "c": random.choice(["0", "bb", "c", "z"], 50)}
    slow = [
        [(x - np.mean(train["x"])) / np.std(train["x"]), c == "a", c == "bb", c == "c"]
        for x, c in zip(test["x"], test["c"], strict=True)
    ]
    np.testing.assert_allclose(encode(train, test)[1], np.array(slow, dtype=float), rtol=1e-5)


def test_standardizing_is_by_the_training_rows_in_every_chunk() -> None:
    random = np.random.default_rng(1)
    train, test = random.normal(1e4, 2, (70_000, 2)), random.normal(1e4, 2, (100, 2))
    ours, theirs = standardize(train, test)
    np.testing.assert_allclose(ours, (train - train.mean(0)) / train.std(0), atol=1e-5)
    np.testing.assert_allclose(theirs, (test - train.mean(0)) / train.std(0), atol=1e-5)
    assert ours.dtype == theirs.dtype == np.float32


def test_a_column_that_never_changes_becomes_zeros() -> None:
    train, test = np.full((10, 1), 0.1), np.array([[0.1], [5.0]])
    ours, theirs = standardize(train, test)
    assert not ours.any() and not theirs.any()


def test_numbers_that_are_none_are_named_by_row_and_column() -> None:
    train = np.zeros((70_000, 3), dtype=np.float32)
    train[68_001, 2] = np.inf
    with pytest.raises(ValueError, match="training features row 68001, column 2 is inf"):
        standardize(train, train[:5])
    with pytest.raises(ValueError, match="testing features row 1, column 'b' is -inf"):
        standardize(train[:5, :1], np.array([[0.0], [-np.inf]]), names=["b"])
    with pytest.raises(ValueError, match="column 0 holds numbers too large"):
        standardize(np.array([[1e200], [-1e200]]), np.zeros((1, 1)))


def test_a_column_of_identifiers_is_refused() -> None:
    names = np.array([f"person {i}" for i in range(MOST_CATEGORIES + 1)])
    with pytest.raises(ValueError, match="column 'id' has 1001 categories in 1001 rows"):
        encode({"id": names}, {"id": names})


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


def by_hand() -> list[Any]:
    def number(name: str) -> list[Any]:
        values = np.array(FILLED[name], dtype=float)
        return [(values - values.mean()) / values.std(), np.arange(4) == AT.get(name, 2)]

    return [
        *number("size"),
        *number("whole"),
        *([0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]),  # Bern, Rome, missing
        *([0, 0, 1, 0], [1, 0, 0, 1], [0, 1, 0, 0]),  # False, True, missing
        *number("day"),
        *number("told"),
        np.zeros(4),
    ]


def test_missing_values_and_dates_become_features_by_hand() -> None:
    expected = np.column_stack(by_hand())
    fitted = Columns.fit(HOLES)
    for rows in (HOLES, pd.DataFrame(HOLES), pd.DataFrame(HOLES).astype(object)):
        np.testing.assert_allclose(fitted(rows), expected, atol=1e-6)
    arrow = pa.table({name: pa.array(column, from_pandas=True) for name, column in HOLES.items()})
    by_name = {name: arrow.column(name) for name in arrow.column_names}
    np.testing.assert_allclose(Columns.fit(by_name)(by_name), expected, atol=1e-6)
    again = Columns.restored(json.loads(json.dumps(fitted.described())), fitted.arrays())
    assert again == fitted


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
        ({"day": ["yesterday"]}, "row 0, column 'day' is not a date"),
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
    np.testing.assert_allclose(
        features[:, :3], (filled - filled.mean(0)) / filled.std(0), atol=1e-5
    )
    np.testing.assert_array_equal(fitted(sparse.csr_matrix(train)), features)
    # Missing where no training row lacked it: the median, and no indicator.
    np.testing.assert_array_equal(
        fitted([[np.nan, 0, 0]]), fitted([[np.median(train[:, 0]), 0, 0]])
    )


def test_columns_that_name_rows_are_told_from_features() -> None:
    random, count = np.random.default_rng(0), 400
    ids = [f"p{i}" for i in range(count)]
    names = {
        "id": np.arange(count) * 7919 % 100_003,
        "customerId": random.permutation(count) * 1.0,
        "note": ids,
        "Unnamed: 0": np.arange(count),
        "phone": random.integers(10**8, 10**9, count),
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

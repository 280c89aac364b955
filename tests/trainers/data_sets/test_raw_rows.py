"""Rows as people have them: every form that is taken, and what is refused by name."""

import datetime

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from labeldp.trainers.data_sets.raw_rows import (
    RowsRefused,
    matrix_of,
    named_columns,
    plain_column,
)


def test_columns_come_in_the_wanted_order_whatever_holds_them() -> None:
    frame = pd.DataFrame({"b": ["x", "y"], "a": [1, 2], "label": [0, 1]})
    for rows in (frame, frame.to_dict("list"), frame.convert_dtypes(), frame.astype("object")):
        found = named_columns(rows, names=("a", "b"), beside=("label", "split"))
        assert list(found) == ["a", "b"]
        assert found["a"].tolist() == [1, 2] and found["b"].dtype.kind == "U"
    category = frame.astype({"b": "category"})
    assert named_columns(category, names=("b",), beside=("a", "label"))["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 2)), "ndarray without names.*columns age, city"),
        ({"age": [1]}, "no column 'city'"),
        ({"age": [1], "City": ["a"]}, "no column 'city'.*did you mean 'City'"),
        ({"age": [1], "city": ["a"], "x": [1]}, "column 'x' that the training rows had not"),
        ({"age": [1, 2], "city": ["a"]}, "1, 2 rows; they must have as many"),
        ({"age": [1], "city": [None]}, "row 0, column 'city' has no value"),
        (pd.DataFrame({"age": [1], "city": [pd.NA]}), "row 0, column 'city' has no value"),
        (pd.DataFrame([[1, "a", 2]], columns=["age", "city", "age"]), "two columns of one name"),
        (
            pd.DataFrame({"age": pd.to_datetime(["2020-01-01"]), "city": ["a"]}),
            "column 'age' holds dates or times",
        ),
        ({"age": [datetime.date(2020, 1, 1)], "city": ["a"]}, "column 'age' holds a date"),
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
    for rows in (numbers, np.array(numbers), torch.tensor(numbers), frame, np.array(numbers, "O")):
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
        (np.array([[1, None]], dtype=object), "row 0, column '1' has no value"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), "column 'b' holds text"),
        (sparse.csr_matrix(np.eye(2)), "sparse"),
        (np.array([["2020-01-01", "2020-01-02"]], dtype="datetime64[D]"), "real numbers"),
    ],
)
def test_other_matrices_are_refused(rows: object, message: str) -> None:
    with pytest.raises(RowsRefused, match=message):
        matrix_of(rows, width=2)


def test_a_column_of_objects_becomes_what_all_of_them_are() -> None:
    assert plain_column("x", np.array([1, 2.5], dtype=object)).dtype == np.float64
    assert plain_column("x", np.array([True, False], dtype=object)).dtype == bool
    with pytest.raises(RowsRefused, match="row 1, column 'x' holds a str among other things"):
        plain_column("x", np.array([1, "a"], dtype=object))

"""Checks of rows of probabilities and of votes, at their bounds."""

from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms._validate import checked_votes, probabilities


def test_rows_may_miss_by_rounding_and_become_probabilities() -> None:
    rows = probabilities([[-9e-7, 1.0000009, 0.0], [0.2, 0.3, 0.50009]], name="prior")
    assert rows.dtype == np.float64 and rows.min() == 0.0 and rows.max() == 1.0
    assert len(probabilities([[0.5, 0.5]], name="prior", num_classes=2)) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[-2e-6, 1.000002]], "row 0"),
        ([[0.5, 0.5], [0.5, 0.50011]], "row 1"),
        ([[0.5, 0.5j]], "complex"),
        (np.zeros((0, 3)), "is empty"),
        ([[0.5, 0.25, 0.25]], r"must be \[N, 2\]"),
    ],
)
def test_other_rows_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        probabilities(rows, name="prior", num_classes=None if "N" not in message else 2)


def test_votes_as_floats_count_as_far_as_they_are_exact() -> None:
    assert checked_votes(np.array([[400.0, 3.0]])).tolist() == [[400, 3]]
    with pytest.raises(ValueError, match="above 2"):
        checked_votes(np.array([[2.0**53 + 2, 0.0]]))
    votes = np.array([[200, 100]], dtype=np.uint8)  # their sum is beyond the type
    assert checked_votes(votes).sum() == 300

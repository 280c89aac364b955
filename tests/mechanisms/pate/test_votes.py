"""Counts that are votes of one ensemble, and counts that are not."""

from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.pate.votes import checked_counts, checked_votes


@pytest.mark.parametrize(
    "votes",
    [
        [[3, 1], [2, 2]],
        np.array([[3, 1], [2, 2]], dtype=np.uint8),
        np.array([[3.0, 1.0], [2.0, 2.0]], dtype=np.float32),
        torch.tensor([[3, 1], [2, 2]]),
    ],
)
def test_votes_come_in_many_kinds(votes: Any) -> None:
    checked = checked_votes(votes)
    assert np.issubdtype(checked.dtype, np.integer)
    assert checked.tolist() == [[3, 1], [2, 2]]


def test_sums_of_small_types_do_not_wrap_around() -> None:
    assert checked_votes(np.array([[200, 100]], dtype=np.uint8)).sum() == 300
    with pytest.raises(ValueError, match="row 1 sums to 44, row 0 to 300"):
        checked_votes(np.array([[200, 100], [44, 0]], dtype=np.uint8))


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[3, 1], [-1, 5]], "row 1 holds a negative count, -1"),
        ([[3, 1], [2.5, 1.5]], "row 1 holds a fractional"),
        ([[3, 1], [3, 2], [4, 2]], "row 1 sums to 5, row 0 to 4"),
        ([[0, 0]], "row 0 holds no vote"),
        ([[3, 1], [np.nan, 4]], "row 1 holds NaN"),
        ([[3, 1], [np.inf, 4]], "row 1 holds NaN or infinity"),
        (np.zeros((0, 3), dtype=int), "empty"),
        ([[4], [4]], "has 1 class"),
        ([3, 1], r"votes\[None, :\]"),
        ([[True, False]], "of type bool"),
        ([[1j, 1]], "complex"),
        ([["a", "b"]], "must hold counts"),
        ([[2.0**60, 0.0]], r"2\*\*53"),
    ],
)
def test_what_is_no_vote_is_named(votes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        checked_votes(votes)


def test_counts_less_a_guess_may_be_fractional_and_negative() -> None:
    counts = [[1.5, -1.5], [0.25, 0.5]]
    assert checked_counts(counts).tolist() == counts
    with pytest.raises(ValueError, match="row 0 holds a negative"):
        checked_counts([[3, -3]])
    with pytest.raises(ValueError, match="row 1 holds NaN"):
        checked_counts([[0.5, 0.5], [np.nan, 0.0]])

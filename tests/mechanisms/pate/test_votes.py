"""Votes: counted as a loop counts them, and refused by row where they cannot be votes."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.mechanisms._validate import checked_counts, checked_votes, probabilities, whole_maximum
from labeldp.mechanisms.pate import confident_gnmax_costs, log_q_gaussian, log_q_laplace
from labeldp.mechanisms.pate.aggregators import count_votes


@settings(deadline=None, max_examples=25)
@given(
    st.sampled_from([(1, 1), (7, 3), (300, 2000), (3, 300_000), (40_000, 1)]),
    st.sampled_from([np.uint8, np.int16, np.int64, torch.tensor]),
    st.integers(0, 2**32),
)
def test_counts_are_those_of_a_loop(shape: tuple[int, int], kind: Any, seed: int) -> None:
    votes = np.random.default_rng(seed).integers(0, 11, shape, dtype=np.uint8)
    counts = count_votes(kind(votes), num_classes=11)
    assert counts.dtype == (np.int16 if shape[0] < 2**15 else np.int32)
    expected = np.stack([(votes == label).sum(0) for label in range(11)], axis=1)
    np.testing.assert_array_equal(counts, expected)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 299), st.integers(0, 4999))
def test_a_bad_vote_anywhere_is_named(teacher: int, query: int) -> None:
    votes = np.zeros((300, 5000), dtype=np.uint8)
    votes[teacher, query] = 9
    with pytest.raises(ValueError, match=f"teacher {teacher} votes for class 9 on query {query}"):
        count_votes(votes, num_classes=9)


@pytest.mark.parametrize(
    "votes", [np.zeros((0, 3), int), np.zeros((3, 0), int), np.zeros(3, int), np.zeros((3, 3))]
)
def test_votes_of_another_shape_or_type_are_refused(votes: Any) -> None:
    with pytest.raises(ValueError, match="they must be whole numbers"):
        count_votes(votes, num_classes=2)
    with pytest.raises(ValueError, match="num_classes is 1"):
        count_votes(np.zeros((3, 3), int), num_classes=1)


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array, np.float32, np.uint8])
def test_votes_come_in_many_kinds(kind: Any) -> None:
    rows = [[3, 1], [2, 2]]
    checked = checked_votes(
        np.array(rows, dtype=kind) if kind in (np.float32, np.uint8) else kind(rows)
    )
    assert np.issubdtype(checked.dtype, np.integer)
    assert checked.tolist() == [[3, 1], [2, 2]]


def test_sums_of_small_types_do_not_wrap_around_and_floats_count_as_far_as_they_are_exact() -> None:
    assert checked_votes(np.array([[200, 100]], dtype=np.uint8)).sum() == 300
    assert checked_votes(np.array([[400.0, 3.0]])).tolist() == [[400, 3]]
    with pytest.raises(ValueError, match="row 1 sums to 44, row 0 to 300"):
        checked_votes(np.array([[200, 100], [44, 0]], dtype=np.uint8))


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        ([[3, 1], [-1, 5]], r"row 1 is \[-1.*negative"),
        ([[3, 1], [2.5, 1.5]], "row 1 is .*fractional"),
        ([[3, 1], [3, 2], [4, 2]], "row 1 sums to 5, row 0 to 4"),
        ([[0, 0]], "row 0 holds no vote"),
        ([[3, 1], [np.nan, 4]], "row 1 is .*NaN"),
        ([[3, 1], [np.inf, 4]], "row 1 is .*NaN or infinite"),
        (np.zeros((0, 3), dtype=int), "empty"),
        ([[4], [4]], "has 1 class"),
        ([3, 1], r"votes\[None, :\]"),
        ([[True, False]], "of type bool"),
        ([[1j, 1]], "of type complex"),
        ([["a", "b"]], "must hold counts"),
        ([[2.0**53 + 2, 0.0]], r"above 2\*\*53"),
    ],
)
def test_rows_that_cannot_be_votes_are_named_everywhere(votes: Any, message: str) -> None:
    for compute in (log_q_gaussian, log_q_laplace):
        with pytest.raises(ValueError, match=message):
            compute(votes, 1.0)
    with pytest.raises(ValueError, match=message):
        confident_gnmax_costs(votes, threshold=2, sigma1=1.0, sigma2=1.0)


def test_counts_less_a_guess_may_be_fractional_and_negative() -> None:
    counts = [[1.5, -1.5], [0.25, 0.5]]
    assert checked_counts(counts).tolist() == counts
    halves = np.array([[0.5, -0.5], [1.5, -1.5], [2.4, 0.0]])
    assert whole_maximum(halves).tolist() == [1, 2, 2]
    with pytest.raises(ValueError, match=r"row 0 is .*negative"):
        checked_counts([[3, -3]])


def test_rows_may_miss_by_rounding_and_become_probabilities() -> None:
    rows = probabilities([[-9e-7, 1.0000009, 0.0], [0.2, 0.3, 0.50009]], name="prior")
    assert rows.dtype == np.float64 and rows.min() == 0.0 and rows.max() == 1.0
    assert len(probabilities([[0.5, 0.5]], name="prior", num_classes=2)) == 1

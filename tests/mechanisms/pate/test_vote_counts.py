"""Counting votes: against one loop over everything, and what is refused."""

import numpy as np
import pytest
import torch

from labeldp.mechanisms.pate.votes import count_votes


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 2000), (3, 300_000)])
def test_counts_are_those_of_a_loop(shape: tuple[int, int]) -> None:
    votes = np.random.default_rng(0).integers(0, 11, shape, dtype=np.uint8)
    counts = count_votes(votes, num_classes=11)
    assert counts.dtype == np.int16 and counts.shape == (shape[1], 11)
    expected = np.stack([(votes == label).sum(0) for label in range(11)], axis=1)
    np.testing.assert_array_equal(counts, expected)
    assert (counts.sum(1) == shape[0]).all()


def test_many_teachers_do_not_overflow() -> None:
    counts = count_votes(np.ones((40_000, 1), dtype=np.uint8), num_classes=2)
    assert counts.tolist() == [[0, 40_000]]


def test_other_types_are_counted_alike() -> None:
    votes = np.array([[0, 255], [255, 3]])
    expected = count_votes(votes, num_classes=256)
    np.testing.assert_array_equal(count_votes(votes.astype(np.uint8), num_classes=256), expected)
    np.testing.assert_array_equal(count_votes(torch.from_numpy(votes), num_classes=256), expected)


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (np.zeros((2, 3)), "float64"),
        (np.zeros(3, dtype=int), r"\[T, Q\]"),
        (np.zeros((0, 3), dtype=int), "at least one"),
        (np.array([[0, 1], [0, 2]]), "teacher 1 votes for class 2 on query 1"),
        (np.array([[0, -1]]), "class -1 on query 1"),
    ],
)
def test_bad_votes_are_named(votes: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        count_votes(votes, num_classes=2)


def test_a_bad_vote_far_down_is_named() -> None:
    votes = np.zeros((300, 5000), dtype=np.uint8)
    votes[17, 4321] = 9
    with pytest.raises(ValueError, match="teacher 17 votes for class 9 on query 4321"):
        count_votes(votes, num_classes=9)

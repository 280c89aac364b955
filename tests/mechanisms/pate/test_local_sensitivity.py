"""local_sensitivity: the official program's values, and every vote moved in every way by hand."""

import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.pate.published_bounds import log_q_gaussian
from labeldp.mechanisms.pate.sensitivity import (
    AnswerPrice,
    largest_counts,
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
    threshold_changes,
    threshold_prices,
)
from tests.mechanisms.small_votes import all_votes, distances_between, golden


def test_official_local_sensitivity_of_answers() -> None:
    values, arrays = golden()
    groups: dict[tuple[int, int, float, float], list[dict[str, Any]]] = {}
    for row in values["gnmax"]:
        key = (row["num_teachers"], len(row["votes"]), row["sigma"], row["order"])
        groups.setdefault(key, []).append(row)
    compared = crashed = 0
    for (teachers, _, noise_std, order), rows in groups.items():
        batch = local_sensitivity_gnmax([row["votes"] for row in rows], teachers, noise_std, order)
        assert batch.shape == (len(rows), teachers)
        for row, ours in zip(rows, batch, strict=True):
            if "official_raised" in row:
                assert np.isfinite(ours).all() and 0 < ours.max() < order / noise_std**2
                crashed += 1
            else:
                np.testing.assert_allclose(ours, arrays[row["ls_key"]], rtol=1e-6, atol=0)
                compared += 1
    assert (compared, crashed) == (218, 3)


def test_official_local_sensitivity_of_checks() -> None:
    values, arrays = golden()
    for row in values["threshold"]:
        ours = local_sensitivity_threshold(
            row["counts"], row["num_teachers"], row["threshold"], row["sigma"], row["order"]
        )
        np.testing.assert_allclose(ours, arrays[row["ls_key"]], rtol=1e-6, atol=0)


def true_sensitivity(
    prices: np.ndarray[Any, Any], distances: np.ndarray[Any, Any], num_teachers: int
) -> np.ndarray[Any, Any]:
    """The largest change by one vote anywhere within each distance, by looking everywhere."""
    here = np.where(distances == 1, np.abs(prices[:, None] - prices), 0.0).max(axis=1)
    within = [np.where(distances <= d, here, 0.0).max(axis=1) for d in range(num_teachers)]
    return np.stack(within, axis=1)


SMALL = [
    (noise_std, order, num_teachers, num_classes)
    for noise_std, order in [(0.4, 1.5), (0.7, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]
    for num_teachers, num_classes in [(2, 2), (15, 2), (16, 2), (11, 3), (7, 4)]
]


@pytest.mark.parametrize(("noise_std", "order", "num_teachers", "num_classes"), SMALL)
def test_answers_cover_every_vote_moved_in_every_way(
    noise_std: float, order: float, num_teachers: int, num_classes: int
) -> None:
    price = AnswerPrice(noise_std=noise_std, num_classes=num_classes, order=order)
    assert price.conditions(num_teachers=num_teachers) == (True, True)
    votes = all_votes(num_teachers, num_classes)
    distances = distances_between(votes)
    prices = price.price(log_q_gaussian(votes, noise_std))
    ours = local_sensitivity_gnmax(votes, num_teachers, noise_std, order)
    truth = true_sensitivity(prices, distances, num_teachers)
    slack = 1e-12 * price.flat
    assert (truth <= ours + slack).all()
    # What makes it smooth: a neighbor's sensitivity at d is within the own one at d + 1.
    first, second = np.nonzero(distances == 1)
    assert (ours[first, :-1] <= ours[second, 1:] + slack).all()
    assert (np.diff(ours, axis=1) >= -slack).all()


@pytest.mark.parametrize("threshold", [4.0, 9.0, 20.0])
@pytest.mark.parametrize("sigma1", [0.5, 2.0, 6.0])
def test_checks_cover_every_vote_moved_in_every_way(threshold: float, sigma1: float) -> None:
    num_teachers, order = 11, 4.0
    votes = all_votes(num_teachers, 3)
    distances = distances_between(votes)
    by_count = threshold_prices(
        num_teachers=num_teachers, threshold=threshold, sigma1=sigma1, order=order
    )
    truth = true_sensitivity(by_count[votes.max(axis=1)], distances, num_teachers)
    exact = local_sensitivity_threshold(votes, num_teachers, threshold, sigma1, order)
    ours = np.maximum.accumulate(exact, axis=1)
    assert (truth <= ours + 1e-15).all()
    first, second = np.nonzero(distances == 1)
    assert (ours[first, :-1] <= ours[second, 1:]).all()


def test_changes_at_both_ends_have_one_neighbor() -> None:
    changes = threshold_changes(np.array([5.0, 4.0, 1.0, 1.0]))
    np.testing.assert_array_equal(changes, [1.0, 3.0, 3.0, 0.0])


def test_fractional_counts_round_as_the_mechanism_does() -> None:
    counts = np.array([[0.5, -0.5], [1.5, -1.5], [2.4, 0.0]])
    assert largest_counts(counts, num_teachers=5).tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    ("votes", "num_teachers", "noise_std", "order", "message"),
    [
        ([5, 5], 11, 1.0, 2.0, "votes sum to 10, but num_teachers is 11"),
        ([[5, 5], [5, 4]], 10, 1.0, 2.0, "row 1 sums to 9"),
        ([5.5, 4.5], 10, 1.0, 2.0, "row 0 holds a fractional count"),
        ([12, -2], 10, 1.0, 2.0, "negative count"),
        ([10], 10, 1.0, 2.0, "at least two"),
        ([5, 5], 10, 0.0, 2.0, "noise_std is 0.0"),
        ([5, 5], 10, 1.0, 1.0, "order is 1.0"),
        ([5, 5], 10, 1.0, math.inf, "order is inf"),
        ([5, 5], 0, 1.0, 2.0, "num_teachers is 0"),
    ],
)
def test_bad_input_of_answers(
    votes: Any, num_teachers: int, noise_std: float, order: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        local_sensitivity_gnmax(votes, num_teachers, noise_std, order)


@pytest.mark.parametrize(
    ("votes", "threshold", "sigma1", "order", "message"),
    [
        ([12.0, 0.0], 5.0, 1.0, 2.0, "votes row 0 is 12; with 10 teachers"),
        ([math.nan, 0.0], 5.0, 1.0, 2.0, "NaN"),
        ([5, 5], -1.0, 1.0, 2.0, "threshold is -1.0"),
        ([5, 5], 5.0, -1.0, 2.0, "sigma1 is -1.0"),
        ([5, 5], 5.0, 1.0, 0.5, "order is 0.5"),
    ],
)
def test_bad_input_of_checks(
    votes: Any, threshold: float, sigma1: float, order: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        local_sensitivity_threshold(votes, 10, threshold, sigma1, order)

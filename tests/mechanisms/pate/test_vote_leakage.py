"""Vote leakage: golden values, and real histograms recovered."""

import csv
import json

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.vote_leakage import (
    _answers,
    answer_log_probabilities,
    counted_answers,
    error_rate,
    queries_within_budget,
    reconstruct,
)
from tests.shared_material import shared_path

TEACHERS = 250


def real_histograms(dataset: str) -> NDArray[np.int64]:
    """Published vote histograms [8, 10] of 250 teachers."""
    with shared_path("data", "votes", "histograms.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == dataset]
    return np.array([[int(row[f"c{k}"]) for k in range(10)] for row in rows])


def test_golden_probabilities() -> None:
    golden = json.loads(shared_path("oracle", "pate", "histogram_logQ.json").read_text())
    assert len(golden) == 96
    for case in golden:
        found = answer_log_probabilities(case["histogram"], case["sigma"])
        np.testing.assert_allclose(found, case["log_Q"], rtol=1e-12, atol=1e-12)


def test_chances_of_two_classes_and_slopes_are_exact() -> None:
    np.testing.assert_allclose(
        answer_log_probabilities([7, 2], 3.0), norm.logcdf(np.array([5, -5]) / 3 / np.sqrt(2))
    )
    for votes in (np.array([9.0, 4.0, 2.5]), np.array([300.0, 1.0, 0.0])):
        slopes = _answers(votes, 3.0)[1]
        for moved in range(3):
            step = 1e-5 * np.eye(3)[moved]
            up, down = (_answers(votes + sign * step, 3.0)[0] for sign in (1, -1))
            np.testing.assert_allclose(slopes[:, moved], (up - down) / 2e-5, rtol=1e-4, atol=1e-7)


def test_no_votes_near_the_found_ones_are_likelier() -> None:
    truth = np.array([100.0, 20.0, 5.0])
    counts = np.rint(1e4 * np.exp(answer_log_probabilities(truth, 40.0)))
    found = reconstruct(counts[None], 40.0, 125)[0]

    def value(votes: NDArray[np.float64]) -> float:
        barrier = 0.001 * np.log(votes).sum()
        return float(counts @ answer_log_probabilities(votes, 40.0) + barrier)

    for step in np.array([[1, -1, 0], [0, 1, -1], [1, 0, -1]]):
        ends = [value(found + size * step) for size in (-0.02, 0.02)]
        assert value(found) > max(ends)
    np.testing.assert_allclose(found, truth, atol=0.1)


def test_errors_are_of_each_row_and_no_budget_allows_no_query() -> None:
    truth = np.array([[6, 4], [5, 5], [0, 10]])
    found = error_rate([[6.0, 4.0], [4.0, 6.0], [10.0, 0.0]], truth)
    np.testing.assert_allclose(found, [0.0, 0.1, 1.0])
    service = ConfidentGNMax(threshold=5, sigma1=10.0, sigma2=10.0)
    assert queries_within_budget([6, 4], service, epsilon=0.01, delta=1e-6) == 0


@pytest.mark.parametrize(
    ("dataset", "limits"),
    [
        ("mnist", {40: 0.07, 60: 0.035, 80: 0.035, 100: 0.035}),
        ("svhn", {40: 0.045, 60: 0.020, 80: 0.020, 100: 0.020}),
    ],
)
def test_real_histograms_are_recovered(dataset: str, limits: dict[int, float]) -> None:
    histograms = real_histograms(dataset)
    for noise_std, limit in limits.items():
        generator = np.random.default_rng([noise_std, 4])
        errors = []
        for _ in range(10):
            counts = counted_answers(
                histograms, noise_std=noise_std, answers=10_000, generator=generator
            )
            found = reconstruct(counts, noise_std, TEACHERS)
            np.testing.assert_allclose(found.sum(axis=1), TEACHERS, rtol=1e-12)
            assert (found >= 0).all()
            errors.append(error_rate(found, histograms))
        assert np.mean(errors) <= limit, noise_std


def test_queries_within_the_papers_budgets() -> None:
    golden = json.loads(shared_path("oracle", "pate", "attack_privacy_cost.json").read_text())
    orders = np.concatenate([np.arange(2, 100, 0.5), np.logspace(2, 3, 200)])
    for case in golden:
        for conversion, key in (
            (Conversion.IMPROVED, "max_queries_sigma40"),
            (Conversion.MIRONOV, "max_queries_sigma40_mironov"),
        ):
            found = queries_within_budget(
                case["histogram"],
                ConfidentGNMax(threshold=case["threshold"], sigma1=case["sigma1"], sigma2=40.0),
                epsilon=case["budget"],
                delta=case["delta"],
                conversion=conversion,
                orders=orders,
            )
            assert found == case[key]

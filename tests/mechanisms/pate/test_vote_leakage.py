"""vote_leakage: golden probabilities and costs, real histograms recovered, refusals."""

import csv
import json

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.vote_leakage import (
    answer_jacobian,
    answer_log_probabilities,
    error_rate,
    fit_concentration,
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


def simulated_counts(
    votes: NDArray[np.int64], noise_std: float, answers: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Answers of GNMax to each row, counted by class [N, K]."""
    rows = [np.exp(answer_log_probabilities(row, noise_std)) for row in votes]
    return np.stack([generator.multinomial(answers, row / row.sum()) for row in rows])


def test_golden_probabilities() -> None:
    golden = json.loads(shared_path("oracle", "pate", "histogram_logQ.json").read_text())
    assert len(golden) == 96
    for case in golden:
        found = answer_log_probabilities(case["histogram"], case["sigma"])
        np.testing.assert_allclose(found, case["log_Q"], rtol=1e-12, atol=1e-12)


def test_probabilities_against_the_integral_and_sampling() -> None:
    votes, noise_std = np.array([30.0, 25.0, 10.0, 0.0]), 12.0
    found = np.exp(answer_log_probabilities(votes, noise_std))

    def density(x: float, winner: int) -> float:
        others = np.delete(votes, winner)
        below = norm.cdf(x, others, noise_std).prod()
        return float(norm.pdf(x, votes[winner], noise_std) * below)

    for k in range(4):
        assert found[k] == pytest.approx(quad(density, -100, 150, args=(k,))[0], abs=1e-8)
    noisy = votes + noise_std * np.random.default_rng(0).standard_normal((100_000, 4))
    sampled = np.bincount(noisy.argmax(axis=1), minlength=4) / 100_000
    np.testing.assert_allclose(found, sampled, atol=0.006)


def test_jacobian_against_differences() -> None:
    votes, noise_std = np.array([90.0, 60.0, 55.0, 3.0, 0.0]), 25.0
    jacobian = answer_jacobian(votes, noise_std)
    for j in range(5):
        step = 1e-4 * np.eye(5)[j]
        difference = answer_log_probabilities(votes + step, noise_std)
        difference -= answer_log_probabilities(votes - step, noise_std)
        np.testing.assert_allclose(jacobian[:, j], difference / 2e-4, atol=1e-8)
    np.testing.assert_allclose(jacobian.sum(axis=1), 0, atol=1e-12)
    flow = np.exp(answer_log_probabilities(votes, noise_std))[:, None] * jacobian
    np.testing.assert_allclose(flow, flow.T, atol=1e-12)  # a graph's Laplacian


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
            counts = simulated_counts(histograms, noise_std, 10_000, generator)
            found = reconstruct(counts, noise_std, TEACHERS)
            np.testing.assert_allclose(found.sum(axis=1), TEACHERS, rtol=1e-12)
            assert (found >= 0).all()
            errors.append(error_rate(found, histograms))
        assert np.mean(errors) <= limit, noise_std


def test_no_other_histogram_is_likelier() -> None:
    """The optimum, against perturbations and an exact case: answers exactly as expected."""
    votes = np.array([120, 60, 40, 30])
    counts = np.round(1e7 * np.exp(answer_log_probabilities(votes, 50.0)))
    found = reconstruct(counts[None], 50.0, 250)[0]
    np.testing.assert_allclose(found, votes, atol=0.01)
    best = counts @ answer_log_probabilities(found, 50.0)
    generator = np.random.default_rng(0)
    for _ in range(50):
        shift = generator.standard_normal(4)
        other = found + (shift - shift.mean())
        assert counts @ answer_log_probabilities(other, 50.0) < best


def test_a_prior_learned_from_all_inputs_helps_where_answers_are_few() -> None:
    histograms = real_histograms("mnist")
    counts = simulated_counts(histograms, 40.0, 500, np.random.default_rng(1))
    concentration = fit_concentration(counts, 40.0, TEACHERS)
    learned = reconstruct(counts, 40.0, TEACHERS, concentration=concentration)
    alone = reconstruct(counts, 40.0, TEACHERS)
    assert error_rate(learned, histograms).mean() < 0.85 * error_rate(alone, histograms).mean()


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


@pytest.mark.parametrize("dataset", ["mnist", "svhn"])
def test_budget_limited_attack_is_as_good_as_the_papers(dataset: str) -> None:
    """Fig. 4's mean errors are .11 and .05 (all queries taken as answered, as there)."""
    histograms = real_histograms(dataset)
    limits = {"mnist": (200.0, 150.0, 1.97, 1e-5), "svhn": (300.0, 200.0, 4.96, 1e-6)}
    threshold, sigma1, epsilon, delta = limits[dataset]
    generator = np.random.default_rng(2)
    errors = []
    for votes in histograms:
        aggregator = ConfidentGNMax(threshold=threshold, sigma1=sigma1, sigma2=40.0)
        answers = queries_within_budget(votes, aggregator, epsilon=epsilon, delta=delta)
        counts = simulated_counts(np.stack([votes] * 5), 40.0, answers, generator)
        errors.append(error_rate(reconstruct(counts, 40.0, TEACHERS), np.stack([votes] * 5)))
    assert np.mean(errors) < {"mnist": 0.15, "svhn": 0.06}[dataset]


def test_extreme_answers() -> None:
    unanimous = reconstruct([[0, 5000, 0]], 20.0, 100)
    np.testing.assert_allclose(unanimous, [[0, 100, 0]], atol=25)
    assert unanimous.argmax() == 1
    single = reconstruct([[1, 0]], 100.0, 10)  # one answer of two classes
    assert single.sum() == pytest.approx(10)
    few_teachers = reconstruct([[700, 200, 100]], 3.0, 4)
    assert (few_teachers >= 0).all()
    assert np.isfinite(answer_log_probabilities([5000, 0], 20.0)).all()


def test_bad_input_is_refused() -> None:
    good = [[60, 40, 20]]
    with pytest.raises(ValueError, match=r"counts has shape \(3,\)"):
        reconstruct(good[0], 40.0, 100)
    with pytest.raises(ValueError, match=r"counts\[1, 2\] is -1"):
        reconstruct([[1, 2, 3], [1, 2, -1]], 40.0, 100)
    with pytest.raises(ValueError, match=r"counts\[0, 0\] is 0.5"):
        reconstruct([[0.5, 0.5]], 40.0, 100)
    with pytest.raises(ValueError, match="counts row 1 holds no answer"):
        reconstruct([[1, 2, 3], [0, 0, 0]], 40.0, 100)
    with pytest.raises(ValueError, match=r"num_teachers is None.*gives their sum"):
        reconstruct(good, 40.0, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_teachers is 0"):
        reconstruct(good, 40.0, 0)
    with pytest.raises(ValueError, match=r"cannot come from 5 teachers at noise_std 40.*check"):
        reconstruct([[9000, 500, 500]], 40.0, 5)
    with pytest.raises(ValueError, match="noise_std is 0"):
        reconstruct(good, 0.0, 100)
    with pytest.raises(ValueError, match="next to nothing"):
        reconstruct(good, 1e-6, 100)
    with pytest.raises(ValueError, match="concentration is -1"):
        reconstruct(good, 40.0, 100, concentration=-1.0)
    with pytest.raises(ValueError, match=r"votes has shape \(1,\)"):
        answer_log_probabilities([3], 40.0)

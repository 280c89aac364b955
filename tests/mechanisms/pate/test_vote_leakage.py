"""Vote leakage: golden values, real histograms recovered, every defense under the same attack."""

import csv
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from labeldp.mechanisms.accounting import Conversion
from labeldp.mechanisms.pate.aggregators import NO_ANSWER, ConfidentGNMax, GNMax
from labeldp.mechanisms.pate.vote_leakage import (
    AnsweringService,
    Defense,
    _answers,
    answer_log_probabilities,
    counted_answers,
    error_rate,
    measure_defenses,
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


VOTES = np.array([19, 7, 31, 7, 78, 4, 90, 10, 3, 1])  # a published histogram of low consensus
NOISE_STD = 60.0
QUESTIONS = 2000


def service(defense: Defense, **extra: Any) -> AnsweringService:
    """An ensemble that votes alike on everything near any input."""
    return AnsweringService(
        vote=lambda features: np.tile(VOTES, (len(features), 1)),
        aggregator=GNMax(noise_std=NOISE_STD),
        defense=defense,
        generator=np.random.default_rng(0),
        **extra,
    )


def attack(target: AnsweringService, features: NDArray[Any]) -> float:
    """The attack's error rate from all answers to these questions."""
    labels = target.answer(features)
    counts = np.bincount(labels[labels != NO_ANSWER], minlength=10)
    return float(error_rate(reconstruct(counts[None], NOISE_STD, 250), VOTES[None])[0])


SAME = np.ones((QUESTIONS, 4))
KEYED = Defense(key=b"sixteen or more secret bytes")


@pytest.mark.parametrize("defense", [Defense(cached=True), KEYED, Defense(limit=1)])
def test_small_changes_evade_exact_fingerprints_and_not_coarse_ones(defense: Defense) -> None:
    nearly = SAME + 1e-6 * np.arange(QUESTIONS)[:, None]
    evaded = service(defense)
    assert attack(evaded, nearly) < 0.1
    assert evaded.drawn == QUESTIONS  # and the budget is charged for every one
    coarse = service(defense, fingerprint=lambda features: np.round(features, 1).tobytes())
    assert attack(coarse, nearly) > 0.4
    assert coarse.drawn == 1


@pytest.mark.parametrize(
    ("defense", "drawn"),
    [(Defense(), 5), (Defense(cached=True), 1), (KEYED, 1), (Defense(limit=2), 2)],
)
def test_each_fresh_draw_is_counted(defense: Defense, drawn: int) -> None:
    asked = service(defense)
    labels = asked.answer(np.ones((5, 4)))
    assert asked.drawn == drawn
    assert (labels == NO_ANSWER).sum() == (3 if defense.limit else 0)
    assert asked.answer(np.zeros((1, 4))) != NO_ANSWER and asked.drawn == drawn + 1


def test_keyed_noise_differs_by_input_and_key_and_not_by_replica() -> None:
    inputs = np.arange(200.0)[:, None]
    answers = service(KEYED).answer(inputs)
    np.testing.assert_array_equal(service(KEYED).answer(inputs[::-1])[::-1], answers)
    other = service(Defense(key=b"another secret key of bytes")).answer(inputs)
    assert (other != answers).mean() > 0.3
    assert np.unique(answers).size > 3
    assert "secret" not in repr(KEYED)


HISTOGRAMS = np.array(
    [
        [19, 7, 31, 7, 78, 4, 90, 10, 3, 1],
        [4, 7, 6, 8, 4, 2, 0, 214, 4, 1],
        [6, 18, 184, 7, 10, 4, 7, 10, 3, 1],
    ]
)


def test_every_defense_stops_the_attack_that_repeats_a_question() -> None:
    rows = measure_defenses(
        HISTOGRAMS, noise_std=60.0, questions=500, generator=np.random.default_rng(0)
    )
    found = pd.DataFrame(rows).set_index("defense")
    none = found.loc["none"]
    assert none.error < 0.15
    assert (found.loc[["cached answers", "noise keyed by input"], "error"] > 2 * none.error).all()
    assert found.loc["at most 20 answers", "error"] > 1.2 * none.error
    assert found.draws.tolist() == [500, 1, 1, 20]
    # all recognize an input by its exact bytes, so a change that no teacher notices evades them
    assert (found.error_evaded < 0.15).all()

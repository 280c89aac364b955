"""memorization: published intervals, the counts rule, a lower end that keeps its promise."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.auditing.memorization import (
    MemorizationAudit,
    _log_average_capital,
    _paper_accuracy,
    memorization_interval,
    memorization_interval_from_pairs,
)
from labeldp.mechanisms.auditing.one_run import one_run_ceiling
from tests.shared_material import shared_path


def test_published_intervals() -> None:
    golden = json.loads(shared_path("oracle", "antipodes", "eps_m.json").read_text())["cases"]
    assert len(golden) == 14
    for case in golden:
        confidences = np.load(shared_path("oracle", "antipodes", *case["file"].split("/")))
        key = f"{case['set']}__{case['dataset']}"
        with np.load(shared_path("oracle", "antipodes", "canaries.npz")) as arrays:
            labels, true = arrays[f"{key}__label"], arrays[f"{key}__true"]
        audit = memorization_interval(confidences, labels, true)
        assert audit.paper.epsilon_low == pytest.approx(case["eps_m_low"], abs=5e-5)
        assert audit.paper.epsilon_high == pytest.approx(case["eps_m_high"], abs=5e-5)
        assert audit.paper.threshold == case["best_threshold"]
        assert audit.paper.guesses == case["acgr"]["n_guesses"]
        assert audit.canaries == 1000
        # what is proven never lies far above what was published, and never above the ceiling
        assert 0 <= audit.corrected.epsilon_low <= audit.paper.epsilon_low + 0.1
        assert audit.corrected.epsilon_low <= audit.ceiling
        assert audit.corrected.epsilon_low <= audit.corrected.epsilon_high


def test_synthetic_intervals() -> None:
    golden = json.loads(shared_path("oracle", "antipodes", "eps_m_synthetic.json").read_text())
    with np.load(shared_path("oracle", "antipodes", "eps_m_synthetic.npz")) as arrays:
        for case in golden:
            own, others = (arrays[f"{case['name']}__{key}"] for key in ("c1", "c2"))
            paper = memorization_interval_from_pairs(own, others).paper
            if case["official_result_is_float_artifact"]:
                continue  # all guesses right: test_all_correct_is_decided_on_counts
            for end in ("low", "high"):
                expected = float(case[f"eps_{end}"])
                tolerance = 1e-3 if 4 < expected < math.inf else 1e-4
                found = getattr(paper, f"epsilon_{end}")
                assert found == pytest.approx(expected, abs=tolerance), case["name"]
            assert paper.threshold == case["best_threshold"], case["name"]


def test_all_correct_is_decided_on_counts() -> None:
    with np.load(shared_path("oracle", "antipodes", "eps_m_synthetic.npz")) as arrays:
        own, others = arrays["all_correct_large__c1"], arrays["all_correct_large__c2"]
    audit = memorization_interval_from_pairs(own, others)
    assert audit.paper.epsilon_low == pytest.approx(math.log((1 - 3 / 200) / (3 / 200)), abs=1e-9)
    assert audit.paper.epsilon_high == math.inf
    assert audit.ceiling == one_run_ceiling(canaries=200)
    assert audit.ceiling - 0.4 < audit.corrected.epsilon_low < audit.ceiling
    surest = np.maximum(own[:, None], others)
    assert audit.corrected.threshold is not None
    assert audit.corrected.guesses == (surest >= audit.corrected.threshold).sum() > 0
    nothing = memorization_interval_from_pairs(0.1 * own, 0.1 * others)
    assert nothing.paper.threshold is nothing.corrected.threshold is None
    assert nothing.paper.guesses == nothing.corrected.guesses == 0


def randomized_response_confidences(
    canary_labels: NDArray[np.int64], epsilon: float, generator: np.random.Generator
) -> NDArray[np.float64]:
    """What a model that learned nothing but ten-class randomized response would say [N, 10]."""
    size = canary_labels.size
    kept = generator.random(size) < math.exp(epsilon) / (math.exp(epsilon) + 9)
    shown = np.where(kept, canary_labels, (canary_labels + generator.integers(1, 10, size)) % 10)
    confidences = np.full((size, 10), 0.04 / 9)
    confidences[np.arange(size), shown] = 0.96
    return confidences


@pytest.mark.parametrize(("epsilon", "canaries"), [(0.5, 100), (2.0, 100), (4.0, 300)])
def test_corrected_ends_keep_their_promise(epsilon: float, canaries: int) -> None:
    ends = []
    for seed in range(200):
        generator = np.random.default_rng([seed, canaries])
        true = generator.integers(10, size=canaries)
        planted = (true + generator.integers(1, 10, size=canaries)) % 10
        confidences = randomized_response_confidences(planted, epsilon, generator)
        found = memorization_interval(confidences, planted, true).corrected
        ends.append((found.epsilon_low, found.epsilon_high))
    low, high = np.array(ends).T
    allowed = 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)  # three standard errors of the rate itself
    assert (low > epsilon).mean() <= allowed
    assert (high < epsilon).mean() <= allowed  # canaries are independent here


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_the_mean_capital_is_at_most_one(epsilon: float) -> None:
    """Over all outcomes of five canaries at two thresholds, each with its exact probability.

    Markov's inequality turns that mean into the stated confidence: it is all that a bound rests on.
    """
    accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
    mean = 0.0
    for outcome in itertools.product((0, 1), repeat=5):
        won = np.array([outcome, (*outcome[:3], 0, 0)], dtype=float)
        lost = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]) - won
        probability = accuracy ** sum(outcome) * (1 - accuracy) ** (5 - sum(outcome))
        mean += probability * math.exp(_log_average_capital(epsilon, won, lost))
    assert 0.9 < mean <= 1 + 1e-12


@pytest.mark.parametrize(
    ("won", "lost", "confidence", "expected"),
    [
        ([0, 0], [0, 0], 0.95, (0.0, 1.0)),
        ([1, 0], [2, 0], 0.95, (2 / 3, 2 / 3)),  # one guesser: no variance
        ([1] * 50, [0] * 50, 0.95, (0.5, 1.0)),
        ([1] * 51, [0] * 51, 0.95, (1 - 3 / 51, 1.0)),
        ([2] * 60, [0] * 60, 0.99, (1 - 4.6 / 60, 1.0)),
        ([1, 1], [1, 0], 0.95, (0.5, 1.0)),
        # Weights 0.8 on accuracy 1/2 and 0.2 on 1: mean 0.6, variance 0.04 / 0.9864.
        (
            [2, 1] * 50,
            [2, 0] * 50,
            0.99,
            (0.6 - 2.58 * 0.02 / 0.9864**0.5, 0.6 + 2.58 * 0.02 / 0.9864**0.5),
        ),
    ],
)
def test_published_accuracy_at_its_edges(
    won: list[int], lost: list[int], confidence: float, expected: tuple[float, float]
) -> None:
    found = _paper_accuracy(np.array(won), np.array(lost), confidence)
    assert found == pytest.approx(expected, rel=1e-7)


def audited(*groups: tuple[int, int, float]) -> MemorizationAudit:
    own, other = np.concatenate(
        [[(sure, 0.01)] * won + [(0.01, sure)] * lost for won, lost, sure in groups]
    ).T
    return memorization_interval_from_pairs(own, other[:, None])


def test_corrected_ends_are_where_bets_earn_what_the_confidence_asks() -> None:
    audit = audited((70, 30, 0.995))
    stakes = np.array([0.1, 0.25, 0.5, 0.75, 0.95, 0.995])
    low, high = (
        math.exp(end) for end in (-audit.corrected.epsilon_low, audit.corrected.epsilon_high)
    )
    assert np.mean((1 + stakes * low) ** 70 * (1 - stakes) ** 30) == pytest.approx(20)
    assert np.mean((1 + stakes * high) ** 30 * (1 - stakes) ** 70) == pytest.approx(20 * 7)
    # Of equally good thresholds the lowest is shown.
    assert audit.paper.threshold == audit.corrected.threshold == 0.5


@pytest.mark.parametrize("unsure", [(30, 30, 0.55), (30, 20, 0.55)])
def test_the_threshold_shown_is_the_one_that_tells_most(unsure: tuple[int, int, float]) -> None:
    """That of the lower end; without one, that with the smallest upper end."""
    sure = (40, 8, 0.92) if unsure[1] == 30 else (20, 30, 0.92)
    found = audited(unsure, sure).corrected
    assert (found.epsilon_low > 0) == (sure[0] == 40)
    assert (found.threshold, found.guesses) == (0.6, sum(sure[:2]))


def test_tensors_are_welcome_and_confidence_widens() -> None:
    generator = np.random.default_rng(3)
    true = generator.integers(10, size=500)
    planted = (true + 1) % 10
    confidences = randomized_response_confidences(planted, 3.0, generator)
    usual = memorization_interval(confidences, planted, true)
    rows, own, replaced = (torch.from_numpy(array) for array in (confidences, planted, true))
    assert memorization_interval(rows, own, replaced) == usual
    surer = memorization_interval(confidences, planted, true, confidence=0.99)
    for name in ("paper", "corrected"):
        wide, narrow = getattr(surer, name), getattr(usual, name)
        assert wide.epsilon_low < narrow.epsilon_low < narrow.epsilon_high < wide.epsilon_high
    assert surer.ceiling < usual.ceiling

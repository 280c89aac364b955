"""one_run: golden bounds, the theorem's own sums, promises kept, power, refusals."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from labeldp.mechanisms.auditing.canaries import CoinCanaries
from labeldp.mechanisms.auditing.one_run import (
    canaries_needed,
    candidate_scores,
    observational_audit,
    one_run_audit,
    one_run_ceiling,
    one_run_lower_bound,
)
from labeldp.mechanisms.posterior import posterior
from labeldp.mechanisms.randomized_response import RandomizedResponse


@pytest.mark.parametrize(("canaries", "ceiling"), [(100, 3.49), (1000, 5.81), (10_000, 8.11)])
def test_ceilings(canaries: int, ceiling: float) -> None:
    assert one_run_ceiling(canaries=canaries) == pytest.approx(ceiling, abs=0.005)
    needed = canaries_needed(epsilon=one_run_ceiling(canaries=canaries))
    assert needed == canaries


def test_a_bound_is_finite_where_the_chance_of_success_rounds_to_one() -> None:
    sure: dict[str, Any] = {"guesses": 40, "correct": 40, "confidence": 1e-300}
    assert 35 < one_run_lower_bound(canaries=100, **sure) < 37
    assert 35 < one_run_ceiling(canaries=10**23) < 37


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4])
@pytest.mark.parametrize(("guesses", "correct"), [(50, 50), (400, 300), (300, 160), (200, 60)])
def test_against_the_theorem_summed_naively(guesses: int, correct: int, delta: float) -> None:
    def p_value(epsilon: float) -> float:
        success = math.exp(epsilon) / (1 + math.exp(epsilon))
        mass = [binom.pmf(k, guesses, success) for k in range(guesses + 1)]
        beta = math.fsum(mass[correct:])
        chords = [(math.fsum(mass[correct - i :]) - beta) / i for i in range(1, correct + 1)]
        return beta + 2 * 1000 * delta * max(0.0, *chords)

    bound = one_run_lower_bound(canaries=1000, guesses=guesses, correct=correct, delta=delta)
    if bound == 0:
        assert p_value(1e-9) > 0.05
    else:
        assert p_value(bound) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_bounds_keep_their_promise(epsilon: float) -> None:
    """The attacker is the best there is: it sees the output of randomized response."""
    above = 0
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=10)
    for seed in range(500):
        generator = np.random.default_rng([seed, 300, 10])
        labels = generator.integers(10, size=600)
        coin = CoinCanaries.draw(labels, num_classes=10, num_canaries=300, generator=generator)
        shown = mechanism.release(coin.labels, generator=generator)
        scores = 1.0 * (shown == coin.candidates[:, 0]) - (shown == coin.candidates[:, 1])
        above += one_run_audit(scores, coin.coins).epsilon_low > epsilon
    assert above / 500 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


def test_fractions_of_the_canaries_are_guessed_the_surest_first() -> None:
    scores = np.array([3.0, -2.0, 1.0, 0.5, 0.0, -0.1])
    truth = np.array([0, 1, 1, 0, 1, 1])
    scores, truth = np.tile(scores, 5), np.tile(truth, 5)
    # How many have a score follows the outputs, which is proven to be harmless at delta 0 alone.
    for delta, right in (
        (0.0, {25: 20, 13: 10, 7: 7, 3: 3}),
        (1e-9, {30: 20, 15: 10, 8: 8, 3: 3}),
    ):
        each: dict[str, Any] = {"canaries": 30, "delta": delta, "confidence": 1 - 0.05 / 4}
        found = one_run_audit(scores, truth, delta=delta)
        bounds = {
            guesses: one_run_lower_bound(guesses=guesses, correct=correct, **each)
            for guesses, correct in right.items()
        }
        assert found.epsilon_low == pytest.approx(max(bounds.values()), abs=1e-12)
        assert bounds[found.guesses] == max(bounds.values()) > 0
        assert (found.correct, found.canaries) == (right[found.guesses], 30)
        assert found.ceiling == one_run_ceiling(canaries=30, delta=delta)
        assert delta or one_run_audit(-scores, 1 - truth) == found
    stated: dict[str, Any] = {"delta": 1e-4, "confidence": 0.8}
    ceiling = one_run_lower_bound(canaries=30, guesses=30, correct=30, **stated)
    assert one_run_audit(scores, truth, **stated).ceiling == ceiling
    assert ceiling == one_run_ceiling(canaries=30, **stated) not in (found.ceiling, 0.0)
    none = one_run_audit(0 * scores, truth)
    assert (none.epsilon_low, none.guesses, none.correct) == (0.0, 0, 0)


def test_scores_from_confidences() -> None:
    rows = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    scores = candidate_scores(rows, np.array([[0, 1], [0, 2]]))
    assert scores[0] == pytest.approx(math.log(3.5))
    assert np.isfinite(scores[1]) and scores[1] < -100


# Without canaries: valid with its slack, not without

CLASSES = 4
EXAMPLES = 300


def labels_of(chances: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    above = generator.random((len(chances), 1)) > np.cumsum(chances, axis=1)
    return np.asarray(above.sum(axis=1))


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_500_audits_err_as_stated(tau: float) -> None:
    """The best attacker on randomized response, with a proxy as wrong as tau allows."""
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=CLASSES)
    generator = np.random.default_rng(0)
    above = 0
    for _ in range(500):
        chances = generator.dirichlet(np.full(CLASSES, 3.0), size=EXAMPLES)
        wrong = chances * np.exp(generator.choice([-tau / 2, tau / 2], size=chances.shape))
        proxy = wrong / wrong.sum(axis=1, keepdims=True)
        assert np.abs(np.log(chances / proxy)).max() <= tau + 1e-12
        labels = labels_of(chances, generator)
        noisy = mechanism.release(labels, generator=generator)
        model = posterior(mechanism.log_likelihood(noisy), np.log(chances))
        found = observational_audit(
            model, labels=labels, proxy=proxy, proxy_log_error=tau, generator=generator
        )
        above += found.epsilon_low > 1.0
    assert above <= binom.ppf(0.9999, 500, 0.05)


def test_a_wrong_proxy_without_slack_proves_what_is_not_so() -> None:
    """A model that ignores all labels: the truth is 0, and only the slack says so."""
    generator = np.random.default_rng(1)
    chances = np.tile([0.7, 0.1, 0.1, 0.1], (4_000, 1))
    proxy = np.full((4_000, CLASSES), 0.25)
    labels = labels_of(chances, generator)
    tau = math.log(0.25 / 0.1)
    blind, honest = (
        observational_audit(
            chances, labels=labels, proxy=proxy, proxy_log_error=error, generator=generator
        ).epsilon_low
        for error in (0.0, tau)
    )
    assert blind > 1.0 and honest == 0.0


@pytest.mark.parametrize(
    ("tau", "confidence", "low", "ceiling"),
    [(0.2, 0.95, 1.849123, 3.623834), (0.2, 0.99, 1.616131, 3.189063), (9.0, 0.95, 0.0, 0.0)],
)
def test_an_audit_of_given_labels_is_golden(
    tau: float, confidence: float, low: float, ceiling: float
) -> None:
    """A model that remembers every fourth label, and is sure of a wrong class at every fifth."""
    generator, index = np.random.default_rng(5), np.arange(400)
    proxy = 0.02 + generator.random((400, 3)) ** 4
    proxy /= proxy.sum(axis=1, keepdims=True)
    labels = labels_of(proxy, generator)
    sure = np.where(index % 4, 0.2, 0.7)[:, None]
    model = (1 - sure) * proxy + sure * np.eye(3)[np.where(index % 5, labels, 0)]
    model[7] = [0, 0.5, 0.5]
    found = observational_audit(
        model,
        labels=labels,
        proxy=proxy,
        proxy_log_error=tau,
        generator=np.random.default_rng(6),
        confidence=confidence,
    )
    assert (found.epsilon_low, found.ceiling) == pytest.approx((low, ceiling), abs=1e-6)
    assert found.slack == 2 * tau
    assert (found.guesses, found.correct, found.examples) == (82, 80, 169)

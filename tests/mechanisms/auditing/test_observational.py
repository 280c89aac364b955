"""The audit without canaries: valid with its slack, not without, and what it refuses."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from labeldp.mechanisms.auditing.one_run import observational_audit
from labeldp.mechanisms.randomized_response import RandomizedResponse

CLASSES, EXAMPLES = 4, 300


def labels_of(chances: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    above = generator.random((len(chances), 1)) > np.cumsum(chances, axis=1)
    return np.asarray(above.sum(axis=1))


def posterior(
    noisy: NDArray[np.int64], chances: NDArray[np.float64], mechanism: RandomizedResponse
) -> NDArray[np.float64]:
    """What the best attacker believes, who knows the law of labels and sees noisy ones."""
    keep = mechanism.keep_probability
    likelihood = np.full((len(noisy), CLASSES), (1 - keep) / (CLASSES - 1))
    likelihood[np.arange(len(noisy)), noisy] = keep
    joint = likelihood * chances
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("tau", [0.0, 0.4])
def test_500_audits_err_as_stated(tau: float) -> None:
    """The best attacker on randomized response, with a proxy as wrong as tau allows."""
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=CLASSES)
    generator = np.random.default_rng(0)
    with_slack = without = 0
    for _ in range(500):
        chances = generator.dirichlet(np.full(CLASSES, 3.0), size=EXAMPLES)
        wrong = chances * np.exp(generator.choice([-tau / 2, tau / 2], size=chances.shape))
        proxy = wrong / wrong.sum(axis=1, keepdims=True)
        assert np.abs(np.log(chances / proxy)).max() <= tau + 1e-12
        labels = labels_of(chances, generator)
        model = posterior(mechanism.release(labels, generator=generator), chances, mechanism)
        found = observational_audit(
            model, labels=labels, proxy=proxy, proxy_log_error=tau, generator=generator
        )
        with_slack += found.epsilon_low > 1.0
        without += found.epsilon_low + found.slack > 1.0
    assert with_slack <= binom.ppf(0.9999, 500, 0.05)
    assert without >= with_slack


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

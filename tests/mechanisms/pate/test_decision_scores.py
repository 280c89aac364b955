"""Probabilities and scores of a decision, against quadrature in many digits and simulation."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr

from labeldp.mechanisms.pate.decision_certificate import (
    Outcome,
    answer_outcomes,
    check_outcomes,
    excess,
    first_wins,
)

PLACES = [(0.7, 0.7), (-3.0, 2.0), (5.0, -4.0), (-8.0, -8.0), (9.0, 11.0), (-6.0, 12.0), (12.0, 0)]


def normal(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize(("u", "v"), PLACES)
def test_the_first_wins_as_often_as_adaptive_quadrature_says(u: float, v: float) -> None:
    peak = max(0.0, u if u > v else (u + v) / 2)
    exact, _ = integrate.quad(
        lambda x: normal(x - u) * float(ndtr(x - v)),
        max(0.0, peak - 12),
        peak + 12,
        points=[peak],
        epsabs=0,
        epsrel=1e-13,
        limit=500,
    )
    assert first_wins(np.array([u]), np.array([v]))[0] == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize(("u", "v"), PLACES)
def test_outcomes_are_all_there_is_and_scores_are_derivatives(u: float, v: float) -> None:
    def at(step_u: float, step_v: float) -> tuple[Outcome, ...]:
        return answer_outcomes(np.array([u + step_u]), np.array([v + step_v]))

    here = at(0.0, 0.0)
    assert sum(each.probability[0] for each in here) == pytest.approx(1, abs=1e-12)
    assert sum(each.probability[0] * each.score[0] for each in here) == pytest.approx(0, abs=1e-12)
    h = 1e-4

    def slope(i: int, du: float, dv: float) -> float:
        above, below = at(du * h, dv * h)[i], at(-du * h, -dv * h)[i]
        return (math.log(above.probability[0]) - math.log(below.probability[0])) / (2 * h)

    for i, each in enumerate(here):
        assert each.score[0] == pytest.approx(slope(i, 1, -1), rel=1e-6, abs=1e-8)
        steepness = math.hypot(slope(i, 1, 0), slope(i, 0, 1))
        assert each.steepness[0] == pytest.approx(steepness, rel=1e-6, abs=1e-8)


def test_answer_outcomes_are_those_of_a_simulated_argmax() -> None:
    rng = np.random.default_rng(0)
    noisy = rng.normal([0.7, -0.2], size=(400_000, 2))
    winner = np.where(noisy.max(axis=1) < 0, 2, noisy.argmax(axis=1))
    counted = np.bincount(winner, minlength=3) / len(winner)
    found = answer_outcomes(np.array([0.7]), np.array([-0.2]))
    assert np.abs(counted - [each.probability[0] for each in found]).max() < 5 * 0.5 / 632


def test_log_concavity_that_the_proof_rests_on() -> None:
    """Hessians between -I and 0, third derivatives within twice the variance to the power 3/2."""
    rng = np.random.default_rng(1)
    u, v = rng.uniform(-5, 6, size=(2, 2000))
    h = 1e-3
    s = np.array([1.0, -1.0])

    def score(du: float, dv: float) -> np.ndarray:
        return np.array([each.score for each in answer_outcomes(u + du, v + dv)])

    second = (score(h, -h) - score(-h, h)) / (2 * h)  # s.H.s, |s|^2 = 2
    assert second.max() < 1e-5 and second.min() > -2 - 1e-5
    third = (score(h, -h) - 2 * score(0, 0) + score(-h, h)) / h**2
    assert np.abs(third).max() < 4 * math.sqrt(2)
    assert np.all(np.abs(third) <= 2 * np.maximum(2 + second, 0) ** 1.5 + 1e-4)
    for axis in np.eye(2):
        bend = (score(*(h * axis)) - score(*(-h * axis))) / (2 * h)
        assert np.abs(bend).max() <= (axis.sum() * math.sqrt(2) + 1) / 2
        curl = (score(*(h * axis)) - 2 * score(0, 0) + score(*(-h * axis))) / h**2
        assert np.abs(curl).max() <= 2 * math.sqrt(s @ s)


def test_the_check_is_a_normal_distribution_function() -> None:
    passes, fails = check_outcomes(np.array([-2.0, 0.0, 3.0]))
    assert passes.probability + fails.probability == pytest.approx(1)
    assert passes.score == pytest.approx([normal(x) / ndtr(x) for x in (-2.0, 0.0, 3.0)])
    assert fails.score == pytest.approx([-normal(x) / ndtr(-x) for x in (-2.0, 0.0, 3.0)])


@pytest.mark.parametrize("kappa", [0.0, 1e-9, 1e-3, 0.5, 8.0])
def test_excess_loses_no_digits(kappa: float) -> None:
    score = np.array([-9.0, -0.3, -1e-3, 0.0, 1e-5, 0.02, 4.0])
    with localcontext(prec=80):
        k = Decimal(kappa)
        exact = [
            float(((k * t).exp() - 1 - k * t) / k**2 if kappa else t**2 / 2)
            for t in map(Decimal, score.tolist())
        ]
    assert excess(score, kappa) == pytest.approx(exact, rel=1e-10, abs=0)

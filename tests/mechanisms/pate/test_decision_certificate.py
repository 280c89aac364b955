"""The certificate: above what any search finds, made again, its scores against quadrature."""

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from labeldp.mechanisms.pate.decisions import TABLE
from tests.mechanisms.pate.decision_certificate import (
    Edges,
    Outcome,
    _grid,
    answer_outcomes,
    answer_sum,
    beyond_the_grid,
    certified_answers,
    certified_check,
    check_outcomes,
    excess,
    step_at,
    table_nodes,
)

KAPPAS = [0.0, 0.125, 0.5, 2.0, 8.0]


def row(kappa: float) -> Any:
    return min(TABLE, key=lambda each: abs(each[0] - kappa))


def check_sum(x: np.ndarray, kappa: float) -> np.ndarray:
    passes, fails = check_outcomes(x)
    up, down = excess(-passes.score, kappa), excess(-fails.score, kappa)
    return passes.probability * up + fails.probability * down


def best_answer(kappa: float) -> float:
    """The largest sum that a search finds: no bound, but close to the truth."""

    def loss(place: np.ndarray) -> float:
        u, v = place[:1], place[1:]
        return -math.log(answer_sum(answer_outcomes(u, v), kappa)[0])

    starts = [(0.7, 0.7 + 2 * kappa), (0.0, 2 * kappa), (0.5, 1.0), (5.0, 5.0 + 2 * kappa)]
    return max(math.exp(-minimize(loss, start, method="Nelder-Mead").fun) for start in starts)


@pytest.mark.parametrize("kappa", KAPPAS)
def test_the_table_is_above_the_best_place_and_not_far(kappa: float) -> None:
    _, check, answer = row(kappa)
    x = np.linspace(-kappa - 5, kappa + 5, 20_001)
    assert 1 <= check / check_sum(x, kappa).max() < 1.001
    found = best_answer(kappa)
    # Where C is large its logarithm is what is paid: kappa^2 C is a mean of exp(kappa t).
    assert found <= answer
    assert math.log1p(kappa**2 * answer) <= 1.002 * math.log1p(kappa**2 * found) or kappa == 0
    assert answer / found < (1.001 if kappa < 1 else 1.1)


def test_two_over_pi_and_the_place_of_the_worst_answer() -> None:
    assert TABLE[0][1] == pytest.approx(1 / math.pi, rel=1e-4)
    near = np.array([0.739, 0.66, 0.73, 0.75])
    at_worst, *others = answer_sum(answer_outcomes(near, near), 0.0)
    assert at_worst == pytest.approx(0.639971, abs=5e-7) and at_worst > max(others)
    assert 2 / math.pi < at_worst < TABLE[0][2] < 1.0005 * at_worst


def test_some_rows_of_the_table_are_certified_again() -> None:
    """At the table's own steps, away from the finest grids, whose time the command can take."""
    # Processors round powers of two differently in the last place.
    np.testing.assert_array_max_ulp(TABLE[:, 0], table_nodes(), maxulp=1)
    for kappa in (1.0, 8.0):
        assert row(kappa)[0] == kappa
        assert certified_check(kappa) == pytest.approx(row(kappa)[1], rel=3e-8)
    again = certified_answers(np.array([1.0]), step=step_at(1.0))[0]
    assert again == pytest.approx(row(1.0)[2], rel=3e-8)
    for kappa in (0.0, 0.25):  # a coarser grid claims more, never less
        coarse = certified_answers(np.array([kappa]), step=0.05)[0]
        assert row(kappa)[2] < coarse < 1.02 * row(kappa)[2]


def test_a_coarse_certificate_is_what_it_was() -> None:
    """In a fifth of a second, where the table takes minutes: any other term changes its digits."""
    kappas = np.array([0.0, 0.5, 3.0])
    answers = [0.7460844882853404, 0.8211342502092503, 747.0703699965848]
    np.testing.assert_allclose(certified_answers(kappas, step=0.2), answers, rtol=1e-9)
    checks = [0.32213402328461965, 0.33699472476624487, 3.3846393336727227]
    found = [certified_check(kappa, step=0.01) for kappa in kappas.tolist()]
    np.testing.assert_allclose(found, checks, rtol=1e-9)


@pytest.mark.parametrize("kappa", [0.0, 0.3, 2.0, 6.0])
def test_mass_beyond_the_grid_is_bounded(kappa: float) -> None:
    edges = Edges.of(kappa)
    bound = beyond_the_grid(kappa, edges)
    assert math.log1p(kappa**2 * bound) <= math.log1p(kappa**2 * row(kappa)[2]) + 0.05
    assert kappa > 1 or bound < row(kappa)[2]  # where it matters the grid decides
    rng = np.random.default_rng(2)
    u, v = rng.uniform(-edges.low - 12, edges.both + edges.apart + 12, size=(2, 40_000))
    outside = (np.minimum(u, v) <= -edges.low) | (np.minimum(u, v) >= edges.both) & (
        np.abs(u - v) <= edges.apart
    )
    outside |= (np.maximum(u, v) >= edges.high) & (np.abs(u - v) >= edges.apart)
    assert outside.mean() > 0.3
    with np.errstate(divide="ignore", invalid="ignore"):
        sums = answer_sum(answer_outcomes(u[outside], v[outside]), kappa)
    sums = sums[np.isfinite(sums)]  # outcomes whose probability underflows have no score here
    assert len(sums) > 5000 and sums.max() <= bound


def test_the_grid_and_the_comparisons_cover_the_plane() -> None:
    for kappa, step in ((0.0, 0.3), (3.0, 0.5)):
        edges = Edges.of(kappa)
        known = {
            (round(a / step, 3), round(b / step, 3))
            for u, v in _grid(edges, step)
            for a, b in zip(u + edges.low, v + edges.low, strict=True)
        }
        rng = np.random.default_rng(3)
        for u, v in rng.uniform(-edges.low - 2, edges.both + edges.apart + 8, size=(20_000, 2)):
            low, high, apart = min(u, v), max(u, v), abs(u - v)
            if low <= -edges.low or (low >= edges.both and apart <= edges.apart):
                continue
            if high >= edges.high and apart >= edges.apart:
                continue
            i, j = math.floor((u + edges.low) / step), math.floor((v + edges.low) / step)
            assert all((i + di, j + dj) in known for di in (0, 1) for dj in (0, 1))


PLACES = [(0.7, 0.7), (-3.0, 2.0), (5.0, -4.0), (-8.0, -8.0), (9.0, 11.0), (-6.0, 12.0), (12.0, 0)]


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

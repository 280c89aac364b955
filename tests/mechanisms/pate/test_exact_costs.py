"""Exact costs of the votes that were cast, against brute force and the published bounds."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate
from scipy.special import ndtr

from labeldp.mechanisms.accounting import ORDERS, Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate import exact_costs
from labeldp.mechanisms.pate.accounting import confident_gnmax_costs
from labeldp.mechanisms.pate.decisions import Accounting, decision_rdp_gnmax, decision_rdp_threshold
from labeldp.mechanisms.pate.exact_costs import (
    exact_answers,
    exact_checks,
    exact_rdp_gnmax,
    exact_rdp_threshold,
)
from labeldp.mechanisms.pate.published_bounds import (
    log_probability_answered,
    log_q_gaussian,
    rdp_gnmax,
    rdp_threshold,
)
from tests.shared_material import shared_path

FEW = np.array([1.5, 2.0, 10.0, 60.0])


def divergence(p: NDArray[Any], q: NDArray[Any], order: float) -> float:
    kept = (p > 0) & (q > 0)
    return math.log(math.fsum(p[kept] ** order * q[kept] ** (1 - order))) / (order - 1)


def winners(counts: NDArray[Any], noise_std: float) -> NDArray[Any]:
    """Probability of every class [K], by adaptive quadrature."""
    u = counts / noise_std

    def integrand(x: float, k: int) -> float:
        rest = np.prod(ndtr(x - np.delete(u, k)))
        return float(rest * math.exp(-((x - u[k]) ** 2) / 2) / math.sqrt(2 * math.pi))

    settings = {"epsabs": 1e-15, "epsrel": 1e-12, "limit": 400}
    return np.array(
        [
            integrate.quad(integrand, u.min() - 10, u.max() + 10, args=(k,), **settings)[0]
            for k in range(len(u))
        ]
    )


@pytest.mark.parametrize(
    ("votes", "noise_std"),
    [
        ([13, 12], 6.0),
        ([9, 7, 4], 5.0),
        ([20, 0, 0], 8.0),
        ([5, 5, 5, 5], 3.0),
        ([8, 6, 6, 1], 2.0),
    ],
)
def test_answers_by_brute_force(votes: list[int], noise_std: float) -> None:
    counts = np.array(votes)
    before = winners(counts, noise_std)
    expected = np.zeros(len(FEW))
    for loses, gains in itertools.permutations(range(len(votes)), 2):
        if counts[loses] == 0:
            continue
        moved = counts.copy()
        moved[loses] -= 1
        moved[gains] += 1
        after = winners(moved, noise_std)
        for a, order in enumerate(FEW):
            both = divergence(before, after, order), divergence(after, before, order)
            expected[a] = max(expected[a], *both)
    found = exact_rdp_gnmax([votes, votes[::-1]], noise_std, FEW)
    assert found[0] == pytest.approx(expected, rel=1e-7)
    assert (found[0] == found[1]).all()  # the order of classes does not matter


@pytest.mark.parametrize("peak", [10, 25, 40, 80])
def test_checks_by_brute_force(peak: int) -> None:
    sigma1, threshold = 12.0, 30.0

    def outcomes(count: int) -> NDArray[Any]:
        x = (count - threshold) / sigma1
        return np.array([ndtr(x), ndtr(-x)])

    expected = [
        max(
            divergence(outcomes(first), outcomes(second), order)
            for step in (-1, 1)
            for first, second in ((peak, peak + step), (peak + step, peak))
        )
        for order in FEW
    ]
    found = exact_rdp_threshold([[peak, 3, 2]], threshold, sigma1, FEW)
    assert found[0] == pytest.approx(expected, rel=1e-8)
    # a student's guess leaves surpluses, some below 0
    surplus = exact_rdp_threshold([[-4.0, peak + 0.2]], threshold, sigma1, FEW)
    assert (surplus == found).all()


def test_moves_that_are_not_summed_are_not_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    votes = np.concatenate(
        [
            rng.multinomial(250, rng.dirichlet(np.full(6, share)), size=5)
            for share in (0.1, 1.0, 10.0)
        ]
    )
    for noise_std in (5.0, 40.0, 1e4):
        found = exact_costs.exact_rdp_gnmax(votes, noise_std, ORDERS)
        with monkeypatch.context() as patch:
            patch.setattr(exact_costs, "_COARSE", (10_000,))
            everything = exact_costs.exact_rdp_gnmax(votes, noise_std, ORDERS)
        assert found == pytest.approx(everything, rel=1e-12, abs=1e-300)


def test_never_above_the_bounds_that_know_less() -> None:
    rng = np.random.default_rng(1)
    votes = np.concatenate(
        [rng.multinomial(250, rng.dirichlet(np.full(10, s)), size=40) for s in (0.05, 0.3, 3.0)]
    )
    for noise_std in (40.0, 150.0):
        found = exact_rdp_gnmax(votes, noise_std, ORDERS)
        published = rdp_gnmax(log_q_gaussian(votes, noise_std), noise_std, ORDERS)
        assert (found <= decision_rdp_gnmax(noise_std, ORDERS) * (1 + 1e-9)).all()
        assert (found <= published * (1 + 1e-9) + 1e-15).all()
        checks = exact_rdp_threshold(votes, 150.0, noise_std, ORDERS)
        log_p = log_probability_answered(votes, 150.0, noise_std)
        assert (checks <= decision_rdp_threshold(noise_std, ORDERS) * (1 + 1e-9)).all()
        assert (checks <= rdp_threshold(log_p, noise_std, ORDERS) * (1 + 1e-9) + 1e-15).all()


def test_theorem_6_bounds_one_direction_only() -> None:
    votes, noise_std = np.array([[171, 65, 13, 1]]), 10.0
    base, change = exact_costs._moved(votes[0], noise_std)
    one, other = (
        np.log1p(exact_costs._excess_sums(below, ratio, FEW)).max(axis=0) / (FEW - 1)
        for below, ratio in (
            (base + change, -change),
            (base, change),
        )
    )
    published = rdp_gnmax(log_q_gaussian(votes, noise_std), noise_std, FEW)[0]
    assert (one <= published).all()
    assert (other > 1.5 * published)[2]
    assert exact_rdp_gnmax(votes, noise_std, FEW)[0] == pytest.approx(np.maximum(one, other))


@pytest.mark.parametrize("noise_std", [1e-3, 0.05, 1.0, 1e5, 1e9, 1e15])
def test_any_amount_of_noise(noise_std: float) -> None:
    votes = [[250, 0, 0], [130, 120, 0], [90, 80, 80]]
    found = exact_rdp_gnmax(votes, noise_std, ORDERS)
    assert np.isfinite(found).all() and (found >= 0).all()
    assert (found <= ORDERS / noise_std**2).all()
    check = exact_rdp_threshold(votes, 130.0, noise_std, ORDERS)
    assert np.isfinite(check).all() and (check <= ORDERS / 2 / noise_std**2 * (1 + 1e-12)).all()
    if noise_std > 1e3:  # close to uniform: Fisher's information, half of it per order
        steps = np.diff(found / ORDERS, axis=1)
        assert np.abs(steps).max() < 1e-2 * (found / ORDERS).max()
        assert 0.2 < found[2, 20] * noise_std**2 / ORDERS[20] < 0.6401
        assert check[1, 20] * noise_std**2 / ORDERS[20] == pytest.approx(1 / math.pi, rel=1e-2)


def test_the_stored_adult_votes() -> None:
    with np.load(shared_path("data", "votes", "adult_votes_250.npz")) as arrays:
        votes = arrays["not_phd"][:1500]
    checks = exact_rdp_threshold(votes, 300.0, 200.0, ORDERS).sum(axis=0)
    answered = np.exp(log_probability_answered(votes, 300.0, 200.0))
    total = checks + answered @ exact_rdp_gnmax(votes, 40.0, ORDERS)
    assert epsilon_from_rdp(ORDERS, total, 1e-5, Conversion.MIRONOV)[0] == pytest.approx(
        1.267, abs=5e-4
    )
    assert epsilon_from_rdp(ORDERS, total, 1e-5)[0] == pytest.approx(1.032, abs=5e-4)
    costs = confident_gnmax_costs(
        votes, threshold=300.0, sigma1=200.0, sigma2=40.0, accounting=Accounting.DECISION
    )
    assert costs.expected_rdp() == pytest.approx(total, rel=1e-12)


def test_curves_add_up_query_by_query() -> None:
    rng = np.random.default_rng(2)
    votes = rng.multinomial(100, [0.6, 0.3, 0.1], size=30)
    costs = confident_gnmax_costs(
        votes, threshold=60.0, sigma1=30.0, sigma2=15.0, accounting=Accounting.DECISION
    )
    answered = rng.random(30) < 0.5
    rows = exact_rdp_threshold(votes, 60.0, 30.0, ORDERS)
    rows = rows + answered[:, None] * exact_rdp_gnmax(votes, 15.0, ORDERS)
    assert costs.realised_rdp(answered) == pytest.approx(rows.sum(axis=0), rel=1e-12)
    prefixes = costs.prefixes(answered, delta=1e-5)
    assert prefixes.epsilon[-1] == pytest.approx(costs.realised(answered, delta=1e-5).epsilon)
    assert prefixes.epsilon[9] == pytest.approx(
        costs.head(10).realised(answered[:10], delta=1e-5).epsilon
    )
    curves, index = exact_answers(votes, 15.0)
    assert len(curves) == len(np.unique(np.sort(votes, axis=1), axis=0)) < 31
    assert curves.take(index[:4]).rows(FEW) == pytest.approx(exact_rdp_gnmax(votes[:4], 15.0, FEW))
    checks, which = exact_checks(votes, 60.0, 30.0)
    assert checks.rows(FEW)[which] == pytest.approx(exact_rdp_threshold(votes, 60.0, 30.0, FEW))


def test_bad_input_is_refused() -> None:
    for votes in ([[1, -1]], [[3, 1], [2, 1]], [[math.nan, 1]], [1, 2], [[0.5, 0.5]]):
        with pytest.raises(ValueError, match="votes"):
            exact_rdp_gnmax(votes, 40.0, FEW)
    with pytest.raises(ValueError, match="votes"):
        exact_rdp_threshold([[math.nan, 1]], 1.0, 40.0, FEW)
    for order in (1.0, math.nan):
        with pytest.raises(ValueError, match="order"):
            exact_rdp_gnmax([[3, 1]], 40.0, [order])
        with pytest.raises(ValueError, match="order"):
            exact_rdp_threshold([[3, 1]], 1.0, 40.0, [order])
    with pytest.raises(ValueError, match="noise_std"):
        exact_rdp_gnmax([[3, 1]], 0.0, FEW)
    with pytest.raises(ValueError, match="sigma1"):
        exact_rdp_threshold([[3, 1]], 1.0, -1.0, FEW)
    with pytest.raises(ValueError, match="threshold"):
        exact_rdp_threshold([[3, 1]], -1.0, 40.0, FEW)

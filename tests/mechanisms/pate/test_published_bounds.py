"""PATE's published bounds: against exact divergences and probabilities, and hard input."""

import itertools
import json
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import norm

from labeldp.mechanisms.accounting import ORDERS
from labeldp.mechanisms.pate.published_bounds import (
    log1mexp,
    log_probability_answered,
    log_q_gaussian,
    log_q_laplace,
    log_surprise,
    rdp_gnmax,
    rdp_lnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities
from tests.shared_material import shared_path

close = np.testing.assert_allclose


def test_probability_of_the_rarer_outcome_is_exact_where_it_is_tiny() -> None:
    # 999 votes, threshold 100, sigma1 160: 1 - p is 1e-8, and 1 - exp(log p) keeps half its digits
    log_p = log_probability_answered([[999, 1]], 100, 160.0)
    close(log_surprise(log_p), [norm.logsf(899 / 160)], rtol=1e-14)


def test_the_bound_covers_exact_probabilities_of_a_surprise() -> None:
    rows = json.loads(shared_path("oracle", "pate", "histogram_logQ.json").read_text())
    for row in rows:
        votes, noise_std = [row["histogram"]], float(row["sigma"])
        bound = log_q_gaussian(votes, noise_std)[0]
        assert bound == pytest.approx(row["log_union_bound"], rel=1e-9)
        assert row["log_1m_Qmax"] <= bound + 1e-9 * abs(bound)


def test_rows_cost_alone_what_they_cost_together() -> None:
    """Those included whose sums of chances underflow, by tables of whole gaps and without."""
    shares = np.array([[53, 47, 0], [50, 50, 0], [100, 0, 0], [96, 3, 1]])
    for compute in (log_q_gaussian, log_q_laplace):
        for rows in (30 * shares, 90 * shares):
            alone = [compute(row[None], 4.0)[0] for row in rows]
            close(compute(rows, 4.0), alone, rtol=1e-14)
            assert min(alone) < math.log(1e-280)


def test_log_of_one_less_an_exponential_is_exact_at_both_ends() -> None:
    close(
        log1mexp(np.array([0.0, -1e-20, -math.log(2), -50.0])),
        [-math.inf, math.log(1e-20), -math.log(2), -math.exp(-50)],
        rtol=1e-14,
    )


def exact_divergence(
    p: NDArray[np.float64], q: NDArray[np.float64], orders: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Renyi divergence of two finite distributions, given as logs [K], at orders [A]."""
    terms = orders[:, None] * p + (1 - orders[:, None]) * q
    return np.asarray(logsumexp(terms, axis=1) / (orders - 1))


def test_costs_bound_the_exact_divergence_between_neighbors() -> None:
    """Against the true distributions of answers, by quadrature, after every move of one vote."""
    orders = np.array([1.5, 3.0, 10.0, 25.0])
    rows = np.array(
        [[30, 29, 1, 0], [40, 12, 8, 0], [52, 5, 2, 1], [60, 0, 0, 0], [15, 15, 15, 15]]
    )
    caught = 0
    for noise_std, row in itertools.product((3.0, 8.0), rows):
        bound = rdp_gnmax(log_q_gaussian([row], noise_std), noise_std, orders)[0]
        for source, target in itertools.permutations(range(4), 2):
            if row[source] == 0:
                continue
            other = row.copy()
            other[source] -= 1
            other[target] += 1
            p, q = (answer_log_probabilities(votes, noise_std) for votes in (row, other))
            assert (exact_divergence(p, q, orders) <= bound + 1e-9).all()
            p, q = (answer_log_probabilities(votes, noise_std / 2) for votes in (row, other))
            caught += bool((exact_divergence(p, q, orders) > bound).any())
    assert caught >= 4  # half the noise is noticed


def test_hard_input_gives_finite_monotone_costs() -> None:
    unanimous = [[5000, 0]]
    for noise_std in (1e-3, 0.1, 4.0, 60.0):
        log_q = log_q_gaussian(unanimous, noise_std)
        assert np.isfinite(log_q).all()
        curve = rdp_gnmax(log_q, noise_std, ORDERS)[0]
        assert np.isfinite(curve).all() and (curve >= 0).all() and (np.diff(curve) >= 0).all()
    assert log_q_gaussian(unanimous, 4.0)[0] < -10_000
    log_q = -np.logspace(-3, 6, 400)
    for curves in (rdp_gnmax(log_q, 40.0, ORDERS), rdp_lnmax(log_q, 20.0, ORDERS)):
        assert np.isfinite(curves).all() and (curves >= 0).all()
        assert (np.diff(curves, axis=1) >= -1e-15).all()  # in the order
        assert (np.diff(curves, axis=0) <= 1e-15).all()  # the surer, the cheaper
    assert (rdp_gnmax([-np.inf], 4.0, ORDERS) == 0).all()
    sure = log_probability_answered([[10**6, 0]], 10, 1.0)
    assert (sure == 0).all() and np.isfinite(rdp_threshold(sure, 1.0, ORDERS)).all()

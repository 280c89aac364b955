"""answer_price: the official program's values, and the bounds on q against every moved vote."""

import math

import numpy as np
import pytest

from labeldp.mechanisms.pate.published_bounds import log_q_gaussian, rdp_gnmax
from labeldp.mechanisms.pate.sensitivity import AnswerPrice, ConditionsFailed
from tests.mechanisms.small_votes import all_votes, distances_between, golden


def test_official_q0_and_q1() -> None:
    rows = [row for row in golden()[0]["q0"] if "logq0" in row]
    assert len(rows) == 108
    for row in rows:
        price = AnswerPrice(noise_std=row["sigma"], num_classes=row["classes"], order=row["order"])
        assert price.log_q0 == pytest.approx(row["logq0"], rel=1e-9)
        if "logq1_error" in row:
            assert -math.inf < price.log_q1 < price.log_q0  # where the official program crashed
        else:
            assert price.log_q1 == pytest.approx(row["logq1"], rel=1e-9)


def test_price_meets_the_flat_one_at_q0_and_follows_the_bound_below() -> None:
    for noise_std, order in [(2.0, 8.0), (40.0, 12.5), (100.0, 25.0)]:
        price = AnswerPrice(noise_std=noise_std, num_classes=10, order=order)
        log_q = price.log_q0 * np.linspace(1, 8, 50)
        bound = rdp_gnmax(log_q, noise_std, [order])[:, 0]
        np.testing.assert_array_equal(price.price(log_q), bound)
        assert price.price(np.array([price.log_q0 / 2]))[0] == order / noise_std**2
        assert price.price(np.array([-np.inf]))[0] == 0
        assert price.price(np.array([0.0]))[0] == price.flat


def test_official_conditions() -> None:
    rows = [row for row in golden()[0]["q0"] if "C5_C6" in row]
    assert {tuple(row["C5_C6"]) for row in rows} == {(True, True), (True, False)}
    for row in rows:
        price = AnswerPrice(noise_std=row["sigma"], num_classes=row["classes"], order=row["order"])
        assert price.conditions(num_teachers=250) == tuple(row["C5_C6"])


def test_a_bound_that_is_flat_but_for_rounding_is_no_start_of_the_search() -> None:
    # order / noise_std**2 and the bound's own ceiling differ in the last bit for some parameters
    for noise_std, order in [(15.0, 1.5), (30.0, 3.0), (60.0, 6.0), (15.0, 6.0)]:
        price = AnswerPrice(noise_std=noise_std, num_classes=3, order=order)
        between = np.linspace(price.log_q0, -1.0, 1000)[1:]
        np.testing.assert_allclose(rdp_gnmax(between, noise_std, [order])[:, 0], price.flat)
        assert price.conditions(num_teachers=250) == (True, True)


def test_a_failed_condition_is_refused_with_the_way_out() -> None:
    refused = AnswerPrice(noise_std=20.0, num_classes=10, order=25.0)
    with pytest.raises(ConditionsFailed, match=r"C6.*noise_std 20.*larger noise_std"):
        refused.require_conditions(num_teachers=250)
    accepted = AnswerPrice(noise_std=30.0, num_classes=10, order=25.0)
    accepted.require_conditions(num_teachers=250)


def test_one_vote_never_leaves_the_bounds_on_q() -> None:
    for noise_std in (0.5, 2.0, 20.0):
        votes = all_votes(9, 3)
        log_q = log_q_gaussian(votes, noise_std)
        price = AnswerPrice(noise_std=noise_std, num_classes=3, order=2.0)
        first, second = np.nonzero(distances_between(votes) == 1)
        up, down = (price.after_a_vote(log_q, direction=sign)[first] for sign in (1, -1))
        assert (log_q[second] <= up + 1e-12).all() and (down - 1e-12 <= log_q[second]).all()
        back = price.after_a_vote(price.after_a_vote(log_q, direction=-1), direction=1)
        np.testing.assert_allclose(back, log_q, rtol=1e-9)


def test_moves_of_q_are_finite_where_floats_underflow() -> None:
    price = AnswerPrice(noise_std=2.0, num_classes=10, order=8.0)
    log_q = np.array([-5000.0, -2000.0, -746.0])
    up, down = price.after_a_vote(log_q, direction=1), price.after_a_vote(log_q, direction=-1)
    assert (up > log_q).all() and (down < log_q).all() and np.isfinite([up, down]).all()
    assert price.after_a_vote(np.array([-np.inf]), direction=1)[0] == -np.inf


def test_no_vote_is_cheaper_where_noise_drowns_all_teachers() -> None:
    drowned = AnswerPrice(noise_std=40.0, num_classes=10, order=12.5)
    assert drowned.is_constant(num_teachers=20)
    assert not drowned.is_constant(num_teachers=250)
    assert drowned.price(log_q_gaussian([[20, *[0] * 9]], 40.0))[0] == drowned.flat


def test_a_lead_of_one_vote_is_always_above_q0() -> None:
    for noise_std in np.logspace(-3, 4, 150):
        for narrow in ([[6, 5]], [[5, 5]]):
            assert log_q_gaussian(narrow, noise_std)[0] > -((1 + 1 / noise_std) ** 2)
        for order in (1.5, 20.0):
            price = AnswerPrice(noise_std=noise_std, num_classes=2, order=order)
            assert price.log_q0 <= -((1 + 1 / noise_std) ** 2)

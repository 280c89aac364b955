"""accounting: golden values, closed forms, and agreement with dp-accounting."""

import json
import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
    epsilon_from_rdp,
    epsilon_of,
    gaussian_epsilon,
    log_gaussian_delta,
    pure_rdp,
)
from tests.shared_material import shared_path


def test_orders_ascend_and_hold_the_long_grid_of_pate_2018() -> None:
    assert (np.diff(ORDERS) > 0).all()
    with np.load(shared_path("oracle", "pate", "mix_c10_n250.npz")) as arrays:
        official = arrays["orders_long"]
    assert np.isin(official.round(9), ORDERS.round(9)).all()


def test_published_engine_epsilons() -> None:
    golden = json.loads(shared_path("oracle", "antipodes", "engine_eps.json").read_text())
    orders = np.arange(11, 1000) / 10  # the grid that the values were made with
    single = [row for row in golden if row["steps"] == 1]
    assert len(single) > 10
    for row in single:
        if row["mechanism"] == "Laplace":
            epsilon = 2 * math.sqrt(2) / row["sigma"]
        else:
            rdp = orders / row["sigma"] ** 2
            epsilon, order = epsilon_from_rdp(orders, rdp, row["delta"])
            assert order == pytest.approx(row["alpha"], abs=1e-9)
        assert epsilon == pytest.approx(row["eps"], rel=1e-9)


@pytest.mark.parametrize("noise_multiplier", [1e-3, 0.3, 1.0, 5.0, 100.0])
def test_exact_gaussian_inverts_its_own_delta(noise_multiplier: float) -> None:
    for delta in (1e-12, 1e-5, 0.1):
        epsilon = gaussian_epsilon(noise_multiplier=noise_multiplier, delta=delta)
        if epsilon > 0:
            log_delta = log_gaussian_delta(noise_multiplier=noise_multiplier, epsilon=epsilon)
            assert log_delta == pytest.approx(math.log(delta), rel=1e-9)
        rdp = ORDERS / (2 * noise_multiplier**2)
        assert epsilon <= epsilon_from_rdp(ORDERS, rdp, delta)[0] + 1e-12


def test_pure_rdp_is_the_divergence_of_binary_randomized_response() -> None:
    for epsilon in (0.1, 1.0, 5.0):
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        p, q = np.array([keep, 1 - keep]), np.array([1 - keep, keep])
        orders = np.array([1.05, 2.0, 10.0, 50.0])
        by_definition = [math.log((p**a * q ** (1 - a)).sum()) / (a - 1) for a in orders]
        np.testing.assert_allclose(pure_rdp(epsilon, orders), by_definition, rtol=1e-10)
        assert (pure_rdp(epsilon, ORDERS) <= epsilon).all()


def test_composition_is_exact_where_it_can_be() -> None:
    two = [GaussianEvent(noise_multiplier=2.0)] * 2
    together = gaussian_epsilon(noise_multiplier=2.0 / math.sqrt(2), delta=1e-5)
    assert epsilon_of(two, delta=1e-5) == pytest.approx(together, rel=1e-12)
    assert epsilon_of([PureEvent(epsilon=0.5)] * 3, delta=0.0) == pytest.approx(1.5)
    assert epsilon_of([], delta=0.0) == 0.0
    mixed = epsilon_of([*two, PureEvent(epsilon=0.1)], delta=1e-5)
    assert together < mixed <= together + 0.1 + 1e-12
    curve = RenyiEvent(orders=tuple(ORDERS), rdp=tuple(ORDERS / (2 * 2.0**2)))
    for conversion in Conversion:
        expected, _ = epsilon_from_rdp(ORDERS, curve.rdp, 1e-5, conversion)
        assert epsilon_of([curve], delta=1e-5, conversion=conversion) == expected
        both: list[Event] = [curve, PureEvent(epsilon=0.01)]
        assert epsilon_of(both, delta=1e-5, conversion=conversion) > expected
    assert np.isinf(pure_rdp(math.inf, ORDERS)).all()


def test_pure_events_add_to_the_exact_gaussian() -> None:
    gaussian = GaussianEvent(noise_multiplier=2.0)
    alone = gaussian_epsilon(noise_multiplier=2.0, delta=1e-5)
    for epsilon in (0.1, 3.0):  # here the sum is less than what Renyi curves make of both
        mixed = epsilon_of([gaussian, PureEvent(epsilon=epsilon)], delta=1e-5)
        assert mixed == pytest.approx(alone + epsilon, rel=1e-12)


@pytest.mark.parametrize(
    ("orders", "rdp", "delta", "message"),
    [
        ([1.0, 2.0], [0.1, 0.1], 1e-5, "above 1"),
        ([2.0], [-0.1], 1e-5, "0 or above"),
        ([2.0], [math.nan], 1e-5, "0 or above"),
        ([2.0], [0.1], 0.0, "delta is 0.0"),
        ([], [], 1e-5, "at least 1"),
        ([2.0, 3.0], [0.1], 1e-5, "shape"),
    ],
)
def test_bad_curves_are_refused(
    orders: list[float], rdp: list[float], delta: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        epsilon_from_rdp(orders, rdp, delta)


def test_bad_events_are_refused() -> None:
    wrong: list[Any] = [0.0, -1.0, math.nan, True, "1"]
    for epsilon in wrong:
        with pytest.raises(ValueError, match="epsilon is"):
            PureEvent(epsilon=epsilon)
        with pytest.raises(ValueError, match="epsilon is"):
            pure_rdp(epsilon, [2.0])
    with pytest.raises(ValueError, match="num_classes is 1"):
        RandomizedResponseEvent(epsilon=1.0, num_classes=1)
    assert RandomizedResponseEvent(epsilon=1.0, num_classes=2).num_classes == 2


def test_a_curve_is_converted_on_its_own_orders_as_asked() -> None:
    orders, rdp, delta = (3.0, 5.0), (0.3, 0.5), 1e-3
    mironov = min(rdp[i] - math.log(delta) / (orders[i] - 1) for i in (0, 1))
    found = epsilon_from_rdp(orders, rdp, delta, "mironov")
    assert found == pytest.approx((mironov, 5.0))
    assert epsilon_from_rdp(orders, rdp, delta)[0] < mironov - 0.1
    event = RenyiEvent(orders=orders, rdp=rdp)
    together = epsilon_of([event, event], delta=delta, conversion=Conversion.MIRONOV)
    assert together == pytest.approx(mironov + 0.5)

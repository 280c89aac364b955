"""accounting: golden values, closed forms, and agreement with dp-accounting."""

import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labeldp.mechanisms.accounting import (
    ORDERS,
    GaussianEvent,
    PureEvent,
    RenyiEvent,
    epsilon_from_rdp,
    epsilon_of,
    gaussian_epsilon,
    log_gaussian_delta,
    pure_rdp,
)
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.calibration import (
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_randomized_response,
    price_gaussian,
    price_laplace,
)
from labeldp.mechanisms.randomized_response import RandomizedResponse, epsilon_from_keep_probability
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


@pytest.mark.parametrize("noise_multiplier", [1e-3, 0.3, 1.0, 5.0, 100.0, 1e4])
def test_exact_gaussian_inverts_its_own_delta(noise_multiplier: float) -> None:
    for delta in (1e-12, 1e-5, 0.1):
        epsilon = gaussian_epsilon(noise_multiplier=noise_multiplier, delta=delta)
        if epsilon > 0:
            log_delta = log_gaussian_delta(noise_multiplier=noise_multiplier, epsilon=epsilon)
            assert log_delta == pytest.approx(math.log(delta), rel=1e-9)
        rdp = ORDERS / (2 * noise_multiplier**2)
        assert epsilon <= epsilon_from_rdp(ORDERS, rdp, delta)[0] + 1e-12
    for power in range(3, 15):  # where delta underflows
        log_delta = log_gaussian_delta(
            noise_multiplier=noise_multiplier, epsilon=10.0**power / noise_multiplier
        )
        assert log_delta < -1e5


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
    curve = RenyiEvent(orders=tuple(ORDERS), rdp=tuple(ORDERS / (2 * 2.0**2)))
    expected, _ = epsilon_from_rdp(ORDERS, curve.rdp, 1e-5)
    assert epsilon_of([curve], delta=1e-5) == expected
    assert epsilon_of([curve, PureEvent(epsilon=0.01)], delta=1e-5) > expected
    assert np.isinf(pure_rdp(math.inf, ORDERS)).all()


def test_pure_events_add_to_the_exact_gaussian() -> None:
    gaussian = GaussianEvent(noise_multiplier=2.0)
    alone = gaussian_epsilon(noise_multiplier=2.0, delta=1e-5)
    for epsilon in (0.1, 3.0):  # here the sum is less than what Renyi curves make of both
        mixed = epsilon_of([gaussian, PureEvent(epsilon=epsilon)], delta=1e-5)
        assert mixed == pytest.approx(alone + epsilon, rel=1e-12)


def test_a_curve_is_converted_on_its_own_orders_as_asked() -> None:
    orders, rdp, delta = (3.0, 5.0), (0.3, 0.5), 1e-3
    mironov = min(rdp[i] - math.log(delta) / (orders[i] - 1) for i in (0, 1))
    found = epsilon_from_rdp(orders, rdp, delta, "mironov")
    assert found == pytest.approx((mironov, 5.0))
    assert epsilon_from_rdp(orders, rdp, delta)[0] < mironov - 0.1
    event = RenyiEvent(orders=orders, rdp=rdp)
    doubled = epsilon_from_rdp(orders, 2 * np.array(rdp), delta)[0]
    assert epsilon_of([event, event], delta=delta) == doubled


# Every mechanism's price against Google's dp-accounting, which was written by somebody else.


@pytest.mark.parametrize("noise_std", [0.5, 2.0, 10.0])
def test_gaussian_noise(noise_std: float) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    event = GaussianNoise(noise_std=noise_std, num_classes=10).event
    expected = dp_accounting.get_epsilon_gaussian(event.noise_multiplier, 1e-5)
    assert epsilon_of([event], delta=1e-5) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 1.0, 8.0])
def test_pure_noise(epsilon: float) -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    scale = LaplaceNoise(epsilon=epsilon, num_classes=10).scale
    # It cuts tails off and counts them as leaks, hence a delta.
    found = [pld.from_laplace_mechanism(scale, sensitivity=2.0).get_epsilon_for_delta(1e-8)]
    discrete = pld.from_discrete_laplace_mechanism(epsilon / 2, sensitivity=2)
    found.append(discrete.get_epsilon_for_delta(0.0))
    for num_classes in (2, 10, 100):
        mechanism = RandomizedResponse(epsilon=epsilon, num_classes=num_classes)
        # Its parameter is the probability that the label is drawn anew, the old one included.
        resampled = (1 - mechanism.keep_probability) * num_classes / (num_classes - 1)
        response = pld.from_randomized_response(resampled, num_classes)
        found.append(response.get_epsilon_for_delta(0.0))
    assert found == pytest.approx([epsilon] * 5, abs=2e-4)  # it works on a grid of 1e-4


# Calibration: never over the target, never far below it, and the inverse of the price.

TARGETS = [1e-3, 0.1, 0.3, 1.0, 2.1, math.pi, 8.0, 30.0]


@given(target=st.floats(1e-3, 30.0), classes=st.sampled_from([2, 10]))
@example(target=math.pi, classes=2)
@example(target=2.1, classes=10)
@settings(max_examples=300, deadline=None)
def test_pure_mechanisms_are_never_over_the_target_and_never_far_below(
    target: float, classes: int
) -> None:
    kept = calibrate_randomized_response(epsilon=target, num_classes=classes)
    found = [
        price_laplace(scale=calibrate_laplace(epsilon=target)),
        epsilon_from_keep_probability(keep_probability=kept, num_classes=classes),
    ]
    assert max(found) <= target
    # A keep probability near 1 has few digits left: at epsilon = 30 about three.
    assert min(found) == pytest.approx(target, rel=1e-9 if target < 15 else 1e-3)


@pytest.mark.parametrize("delta", [1e-10, 1e-5, 1e-2])
@pytest.mark.parametrize("target", TARGETS)
def test_gaussian_noise_is_never_over_the_target_and_never_far_below(
    target: float, delta: float
) -> None:
    noise_std = calibrate_gaussian(epsilon=target, delta=delta)
    found = price_gaussian(noise_std=noise_std, delta=delta)
    assert found <= target
    assert found == pytest.approx(target, rel=1e-9)
    event = GaussianNoise(noise_std=noise_std, num_classes=10).event
    assert epsilon_of([event], delta=delta) == pytest.approx(found, rel=1e-9)
    assert price_gaussian(noise_std=noise_std * (1 - 1e-6), delta=delta) > target


def test_prices_are_those_of_the_mechanisms() -> None:
    assert price_laplace(scale=0.5) == 4.0
    laplace = LaplaceNoise(epsilon=2.1, num_classes=10)
    assert price_laplace(noise_std=laplace.noise_std) == pytest.approx(2.1)
    kept = RandomizedResponse(epsilon=2.1, num_classes=10).keep_probability
    response = epsilon_from_keep_probability(keep_probability=kept, num_classes=10)
    assert response == pytest.approx(2.1) == pytest.approx(math.log(kept * 9 / (1 - kept)))


def test_extremes_have_an_answer() -> None:
    assert calibrate_randomized_response(epsilon=500.0, num_classes=2) == 1 - 2**-53
    assert 2 / calibrate_laplace(epsilon=2e-6) <= 2e-6

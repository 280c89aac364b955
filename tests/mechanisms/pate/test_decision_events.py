"""Events of decisions: both prices, and what composes with what."""

import numpy as np
import pytest

from labeldp.mechanisms.accounting import (
    ORDERS,
    DecisionEvent,
    GaussianEvent,
    PureEvent,
    RenyiEvent,
    composed_gaussians,
    epsilon_from_rdp,
    epsilon_of,
    gaussian_rdp,
    pure_rdp,
)
from labeldp.mechanisms.pate.decisions import (
    Accounting,
    Decisions,
    decision_rdp_gnmax,
    decision_rdp_threshold,
    events_of,
)
from labeldp.mechanisms.selection import ASSUMED, Selection, TrialDistribution

CHECKS = Decisions(noise_std=800.0, count=1000, moved=1)
ANSWERS = Decisions(noise_std=240.0, count=300)


def decision(noise_std: float = 240.0, count: int = 300) -> DecisionEvent:
    (event,) = events_of([Decisions(noise_std=noise_std, count=count)])
    assert isinstance(event, DecisionEvent)
    return event


def test_a_run_is_one_event_with_two_bounds() -> None:
    (event,) = events_of([CHECKS, ANSWERS])
    assert isinstance(event, DecisionEvent)
    rdp = 1000 * decision_rdp_threshold(800.0, ORDERS) + 300 * decision_rdp_gnmax(240.0, ORDERS)
    assert event.rdp == pytest.approx(rdp, rel=1e-12)
    assert event.noise_multiplier**-2 == pytest.approx(1000 / 800**2 + 600 / 240**2)
    (counts,) = events_of([CHECKS, ANSWERS], Accounting.COUNTS)
    assert counts == GaussianEvent(noise_multiplier=event.noise_multiplier)
    assert not isinstance(counts, DecisionEvent) and counts != event
    per_class = Decisions(noise_std=800.0, count=1000)
    assert per_class.rdp() == pytest.approx(1000 * decision_rdp_gnmax(800.0, ORDERS))
    assert events_of([Decisions(noise_std=1.0, count=0)]) == ()


def test_an_epsilon_is_the_smaller_of_both() -> None:
    quiet, loud = decision(), decision(noise_std=0.5, count=2)
    for event, by_curve in ((quiet, True), (loud, False)):
        curve = epsilon_from_rdp(ORDERS, event.rdp, 1e-5)[0]
        exact = epsilon_of([GaussianEvent(noise_multiplier=event.noise_multiplier)], delta=1e-5)
        assert (curve < exact) is by_curve
        assert epsilon_of([event], delta=1e-5) == min(curve, exact)


def test_decisions_compose_with_everything_else() -> None:
    event, plain = decision(), GaussianEvent(noise_multiplier=20.0)
    total = np.asarray(event.rdp) + gaussian_rdp(20.0, ORDERS)
    curve = epsilon_from_rdp(ORDERS, total, 1e-5)[0]
    exact = (event.noise_multiplier**-2 + 20.0**-2) ** -0.5
    both = min(curve, epsilon_of([GaussianEvent(noise_multiplier=exact)], delta=1e-5))
    assert epsilon_of([event, plain], delta=1e-5) == pytest.approx(both, rel=1e-12)
    one = composed_gaussians([event, plain])
    assert isinstance(one, DecisionEvent) and one.rdp == pytest.approx(total)
    assert epsilon_of([one], delta=1e-5) == pytest.approx(both, rel=1e-12)
    twice = composed_gaussians([plain, plain])
    assert not isinstance(twice, DecisionEvent)
    assert twice.noise_multiplier == pytest.approx(20 / 2**0.5)
    renyi = RenyiEvent(orders=tuple(ORDERS.tolist()), rdp=tuple((ORDERS * 0.001).tolist()))
    with_renyi = epsilon_from_rdp(ORDERS, event.rdp + ORDERS * 0.001, 1e-5)[0]
    assert epsilon_of([event, renyi], delta=1e-5) == pytest.approx(with_renyi, rel=1e-12)
    pure = PureEvent(epsilon=0.1)
    with_pure = epsilon_from_rdp(ORDERS, event.rdp + pure_rdp(0.1, ORDERS), 1e-5)[0]
    assert epsilon_of([event, pure], delta=1e-5) <= with_pure * (1 + 1e-12)
    assert epsilon_of([event, pure], delta=1e-5) > epsilon_of([event], delta=1e-5)
    assert epsilon_of([event] * 2, delta=1e-5) > epsilon_of([event], delta=1e-5)


def test_decisions_on_other_orders_are_refused() -> None:
    other = DecisionEvent(noise_multiplier=1.0, orders=(2.0, 3.0), rdp=(0.1, 0.2))
    for refused in (
        lambda: composed_gaussians([decision(), other]),
        lambda: epsilon_of([decision(), other], delta=1e-5),
    ):
        with pytest.raises(ValueError, match="different grids of orders"):
            refused()
    with pytest.raises(ValueError, match="shape"):
        DecisionEvent(noise_multiplier=1.0, orders=(2.0,), rdp=(0.1, 0.2))
    with pytest.raises(ValueError, match="noise_multiplier is 0"):
        DecisionEvent(noise_multiplier=0.0, orders=(2.0,), rdp=(0.1,))
    with pytest.raises(ValueError, match="noise_std"):
        Decisions(noise_std=0.0, count=1)
    with pytest.raises(ValueError, match="count"):
        Decisions(noise_std=1.0, count=-1)


def test_choosing_the_best_trial_pays_for_decisions_too() -> None:
    selection = Selection(
        mean_trials=10.0, distribution=TrialDistribution.GEOMETRIC, preconditions=ASSUMED
    )
    event = decision()
    as_curve = RenyiEvent(orders=event.orders, rdp=event.rdp)
    assert selection.epsilon([event], delta=1e-5) == selection.epsilon([as_curve], delta=1e-5)
    counts = GaussianEvent(noise_multiplier=event.noise_multiplier)
    assert selection.epsilon([event], delta=1e-5) < selection.epsilon([counts], delta=1e-5)

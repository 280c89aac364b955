"""Amounts: what a draw reveals, what its mean is, and how far one amount moves a sum."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.amounts import (
    BINS,
    CENTERS,
    LEVELS,
    AmountChannel,
    AmountNoise,
    AmountSums,
    _on_bins,
    to_levels,
)
from labeldp.mechanisms.channels import exact_digits
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.privacy_loss import assert_private

RUNS = 200_000
SKEWED = np.exp(-8 * CENTERS) / np.exp(-8 * CENTERS).sum()
# Weights far below the tolerance of the solver of linear programs.
ALMOST_CERTAIN = np.full(BINS, 1e-146)
ALMOST_CERTAIN[[3, 9]] = 1.0


@given(
    epsilon=st.floats(0.05, 12),
    weights=arrays(np.float64, BINS, elements=st.floats(0, 1)).filter(lambda each: each.sum() > 0),
    kind=st.sampled_from([AmountNoise.LEAST_ERROR, AmountNoise.RANDOMIZED_RESPONSE]),
)
@example(epsilon=11.375, weights=ALMOST_CERTAIN, kind=AmountNoise.LEAST_ERROR)
@settings(max_examples=20, deadline=None)
def test_no_digits_of_a_column_differ_by_more_than_e_to_the_epsilon(
    epsilon: float, weights: NDArray[np.float64], kind: AmountNoise
) -> None:
    table = AmountChannel(epsilon=epsilon, kind=kind).table(weights / weights.sum())
    digits, total = exact_digits(table.probabilities, epsilon)
    for column in [*digits.T, total - digits.sum(axis=1)]:
        assert column.min() >= 0 and int(column.max()) <= np.exp(epsilon) * int(column.min())
    assert (digits.sum(axis=1) / total).min() > 1 - 1e-9  # too small beside reveals nothing


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("kind", AmountNoise)
def test_a_draw_leaks_no_more_than_epsilon(kind: AmountNoise, epsilon: float) -> None:
    def runs(asked: float) -> list[NDArray[np.int64]]:
        channel, generator = AmountChannel(epsilon=asked, kind=kind), np.random.default_rng(2)
        return [
            channel.release(np.full(RUNS, level), SKEWED, generator=generator)
            for level in (0, LEVELS - 1)
        ]

    assert_private(runs, epsilon=epsilon, delta=0.0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_unbiased_outputs_have_the_amount_as_their_mean(epsilon: float) -> None:
    channel = AmountChannel(epsilon=epsilon)
    table = channel.table(SKEWED)
    assert table.probabilities @ table.outputs == pytest.approx(CENTERS, abs=1e-7)
    levels = np.repeat([3, 40], RUNS)
    drawn = channel.release(levels, SKEWED, generator=np.random.default_rng(1))
    for level in (3, 40):
        outputs = table.outputs[drawn[levels == level]]
        off = outputs.mean() - CENTERS[level * BINS // LEVELS]
        assert abs(off) < 5 * outputs.std() / np.sqrt(RUNS)


def test_the_least_error_is_least() -> None:
    """Outputs that a channel of another kind stands for may not be nearer to the amount."""
    for epsilon in (0.5, 2.0, 4.0):
        errors = {}
        for kind in AmountNoise:
            table = AmountChannel(epsilon=epsilon, kind=kind).table(SKEWED)
            joint = SKEWED[:, None] * table.probabilities
            nearest = (joint * CENTERS[:, None]).sum(0) / joint.sum(0)
            errors[kind] = (joint * (nearest - CENTERS[:, None]) ** 2).sum()
        assert min(errors, key=errors.__getitem__) is AmountNoise.LEAST_ERROR


def test_of_all_bins_the_most_informative_ones_are_taken() -> None:
    def entropy(shares: NDArray[np.float64]) -> float:
        return float(-(shares * np.log(shares)).sum())

    channel = AmountChannel(epsilon=2.0, kind=AmountNoise.RANDOMIZED_RESPONSE)
    table = channel.table(SKEWED)
    found = {}
    for count in range(2, BINS + 1):
        rows = _on_bins(count, 2.0, SKEWED).probabilities
        joint = SKEWED[:, None] * rows
        found[count] = entropy(SKEWED) + entropy(joint.sum(0)) - entropy(joint)
    best = max(found, key=found.__getitem__)
    assert 2 < best < BINS and table.probabilities.shape == (BINS, best)
    assert table.information(SKEWED) == pytest.approx(found[best], rel=1e-9)
    joint = SKEWED[:, None] * table.probabilities
    squares = (table.outputs[None] - CENTERS[:, None]) ** 2
    assert table.error(SKEWED) == pytest.approx((joint * squares).sum(), rel=1e-12)
    every = _on_bins(BINS, 3.0, SKEWED)  # with an output for each bin, no mean is off
    assert every.probabilities @ every.outputs == pytest.approx(CENTERS, abs=1e-7)
    certain = np.eye(BINS)[3]
    assert table.information(certain) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("noise", [SecureEntropy(), OsEntropy()])
def test_one_amount_moves_sums_by_its_row_and_their_mean_is_right(
    noise: SecureEntropy | OsEntropy,
) -> None:
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(50, 4))
    weights /= np.linalg.norm(weights, axis=1).max()
    levels = generator.integers(0, LEVELS, 50)
    moved = levels.copy()
    longest = np.linalg.norm(weights, axis=1).argmax()
    levels[longest], moved[longest] = 0, LEVELS - 1
    mechanism = AmountSums(noise_std=1e-7)
    sums = [
        LabelVault(labels=each, num_classes=LEVELS).release(mechanism, weights, noise=noise).values
        for each in (levels, moved)
    ]
    expected = weights.T @ ((levels + 0.5) / LEVELS - 0.5)
    assert sums[0][:, 0] == pytest.approx(expected, abs=1e-4)
    assert 0.95 < np.linalg.norm(sums[1] - sums[0]) <= 1.0
    assert mechanism.event.noise_multiplier == mechanism.noise_std


@pytest.mark.parametrize("kind", AmountNoise)
def test_a_histogram_and_the_channel_whose_prior_it_is_cost_epsilon_together(
    kind: AmountNoise,
) -> None:
    counting, channel = AmountChannel.with_prior(epsilon=3.0, kind=kind)
    assert counting.num_classes == LEVELS and channel.kind is kind
    events = [counting.event, channel.event]
    assert epsilon_of(events, delta=0.0) == pytest.approx(3.0, rel=1e-12)
    assert min(epsilon_of([event], delta=0.0) for event in events) > 0.1


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (2.0, 1e-5), (2.0, 0.01)])
def test_sums_that_cost_epsilon_cost_no_more(epsilon: float, delta: float) -> None:
    found = epsilon_of([AmountSums.costing(epsilon=epsilon, delta=delta).event], delta=delta)
    assert epsilon * (1 - 1e-9) < found <= epsilon


@given(
    amounts=arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)),
    low=st.floats(-1e3, 1e3),
    width=st.floats(1e-3, 1e6),
)
def test_steps_are_as_wide_as_stated_and_bounds_hold(
    amounts: NDArray[np.float64], low: float, width: float
) -> None:
    bounds = (low, low + width)
    middles = (to_levels(amounts, bounds=bounds) + 0.5) / LEVELS
    back = low + middles * (bounds[1] - low)
    half = (bounds[1] - bounds[0]) / LEVELS / 2
    assert np.abs(back - np.clip(amounts, *bounds)).max() <= half * (1 + 1e-6) + 1e-9

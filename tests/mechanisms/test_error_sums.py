"""error_sums: intervals that hold, a sensitivity that is reached, a price that is not exceeded."""

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.amounts import LEVELS
from labeldp.mechanisms.error_sums import ErrorSums, error_estimates
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.privacy_loss import assert_private, events_of

STEPS = 1 << 20
NAMES = ("mean_squared_error", "mean_absolute_error")


def drawn(
    generator: np.random.Generator, size: int, *, heavy: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Levels, and guesses whose errors are normal or have heavy tails."""
    levels = generator.integers(LEVELS, size=size)
    noise = generator.standard_t(2.1, size=size) / 4 if heavy else generator.normal(size=size)
    return levels, (levels + 0.5) / LEVELS + 0.1 * noise


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize(("epsilon", "examples"), [(0.2, 1000), (1.0, 50), (1.0, 1000), (9.0, 200)])
def test_intervals_hold_and_errors_are_true(epsilon: float, examples: int, heavy: bool) -> None:
    generator, runs, width = np.random.default_rng(1), 1500, 250.0
    mechanism = ErrorSums(epsilon=epsilon, largest=0.8)
    levels, guesses = drawn(generator, 500_000, heavy=heavy)
    errors = np.abs(np.clip(guesses, 0, 1) - (levels + 0.5) / LEVELS).clip(0, 0.8) * width
    truth = dict(zip(NAMES, ((errors**2).mean(), errors.mean()), strict=True))
    found = []
    for _ in range(runs):
        sums = mechanism.release(*drawn(generator, examples, heavy=heavy), generator=generator)
        found.append(error_estimates(sums, mechanism, examples=examples, width=width))
    for name in NAMES:
        each = [run[name] for run in found]
        covered = np.mean([one.low <= truth[name] <= one.high for one in each])
        # Three standard errors of the simulation below 95%.
        assert covered >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / runs)
        values = np.array([one.value for one in each])
        assert abs(values.mean() - truth[name]) < 4 * values.std() / np.sqrt(runs)
        stated = np.sqrt(np.mean([one.error**2 for one in each]))
        # It is too large rather than too small, since the variance itself is noisy.
        assert 0.9 * values.std() < stated < 3.5 * values.std()


@pytest.mark.parametrize(
    ("means", "squared", "absolute"),
    [
        ((0.2, 0.06, 0.01), (1.00176, 6.67824, 1.37181), (1.24905, 1.95095, 0.169411)),
        ((-0.01, 0.001, -0.002), (0, 2.66523, 1.24348), (0, 0.234585, 0.149666)),
        ((0.97, 0.95, 0.99), (57.195, 64, 1.77989), (7.38566, 8, 0.181978)),
        ((0.3, 0.35, 0.02), (20.0034, 24.7966, 1.13137), (1.90664, 2.89336, 0.244949)),
        ((0.05, 0.04, 0.03), (0, 5.44106, 1.39485), (0.0404014, 0.759599, 0.174069)),
    ],
)
def test_intervals_of_given_sums_are_golden(
    means: tuple[float, ...], squared: tuple[float, ...], absolute: tuple[float, ...]
) -> None:
    mechanism = ErrorSums(epsilon=0.5, largest=0.8)
    found = error_estimates(np.array(means) * STEPS * 400, mechanism, examples=400, width=10.0)
    for name, power, noise, expected in zip(
        NAMES, (means[1] * 64, means[0] * 8), (1.13137, 0.141421), (squared, absolute), strict=True
    ):
        one = found[name]
        assert (one.value, one.noise) == pytest.approx((power, noise), rel=1e-5)
        assert (one.low, one.high, one.error) == pytest.approx(expected, rel=1e-5)


def exact(level: int, guess: float, largest: float) -> NDArray[np.int64]:
    """Sums of one amount; noise at this epsilon is 0."""
    mechanism = ErrorSums(epsilon=1e9, largest=largest)
    generator = np.random.default_rng(0)
    return mechanism.release(np.array([level]), np.array([guess]), generator=generator)


@pytest.mark.parametrize("largest", [0.1, 0.5, 1.0])
def test_a_substituted_amount_changes_each_sum_by_1_at_most(largest: float) -> None:
    guesses = [-3.0, 0.0, 0.3, 0.5 / LEVELS, 1.0, 7.0]
    sums = np.array(
        [[exact(level, guess, largest) for level in range(LEVELS)] for guess in guesses]
    )
    assert sums.min() >= 0 and sums.max() <= STEPS
    reach = (sums.max(1) - sums.min(1)).max(0)
    assert (reach <= STEPS).all() and reach[0] > 0.98 * STEPS
    scales = ErrorSums(epsilon=2.0, largest=largest).scales
    assert (1 / scales).sum() == pytest.approx(2.0, rel=1e-12)


def test_it_leaks_no_more_than_epsilon_and_half_its_noise_is_caught() -> None:
    """By the likelihood ratio of all three sums; the other amounts are known."""
    runs = 15_000
    near, far = exact(0, 0.0, 1.0), exact(LEVELS - 1, 0.0, 1.0)

    def draw(asked: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        mechanism, generator = ErrorSums(epsilon=asked), np.random.default_rng(3)
        scales = STEPS * mechanism.scales
        seen = []
        for level in (0, LEVELS - 1):
            levels, guesses = np.array([level]), np.zeros(1)
            outputs = np.array(
                [mechanism.release(levels, guesses, generator=generator) for _ in range(runs)]
            )
            ratio = ((np.abs(outputs - far) - np.abs(outputs - near)) / scales).sum(1)
            seen.append(events_of(ratio, edges=np.linspace(-0.99, 0.99, 12) * asked))
        return seen[0], seen[1]

    assert_private(draw, epsilon=1.0)


def test_a_vault_draws_it_once_exactly_and_charges_it() -> None:
    levels, guesses = np.arange(30), np.linspace(0, 1, 30)
    vault = LabelVault(labels=levels, num_classes=LEVELS)
    first, again = (
        vault.release(ErrorSums(epsilon=1.5), guesses, noise=OsEntropy()) for _ in range(2)
    )
    assert first.key == again.key and first.values.dtype == np.int64
    assert vault.epsilon(delta=0.0) == 1.5
    other = vault.release(ErrorSums(epsilon=1.5), guesses + 0.1, noise=OsEntropy())
    assert other.key != first.key and vault.epsilon(delta=0.0) == 3.0


def test_guesses_that_do_not_fit_are_refused() -> None:
    for guesses in (np.zeros(3), np.array([0.0, np.nan])):
        with pytest.raises(ValueError, match="a finite number for each"):
            ErrorSums(epsilon=1.0).release(
                np.array([1, 2]), guesses, generator=np.random.default_rng(0)
            )
    with pytest.raises(ValueError, match=r"\[1\] is none of the classes"):
        ErrorSums(epsilon=1.0).release(
            np.array([0, 77]), np.zeros(2), generator=np.random.default_rng(0)
        )
    with pytest.raises(ValueError, match="largest is 0"):
        ErrorSums(epsilon=1.0, largest=0.0)
    with pytest.raises(ValueError, match="epsilon is 0"):
        ErrorSums(epsilon=0.0)

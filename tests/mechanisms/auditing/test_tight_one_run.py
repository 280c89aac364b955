"""The tight one-run bound: golden rows, validity, power, and what it is against the other ones."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from labeldp.mechanisms.accounting import gaussian_epsilon
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import (
    GaussianCurve,
    PureCurve,
    RandomizedResponseCurve,
    f_dp_lower_bound,
    one_run_lower_bound,
)
from labeldp.mechanisms.auditing.one_run import best_tight_bound, tight_lower_bound
from labeldp.mechanisms.label_channels import (
    BitFlipFamily,
    Family,
    GaussianFamily,
    LaplaceFamily,
    PerLabel,
    SubsetFamily,
)
from labeldp.mechanisms.randomized_response import RandomizedResponse
from tests.mechanisms.test_label_channels import ratios

DELTA = 1e-5


@pytest.mark.parametrize(
    ("canaries", "guesses", "errors", "pure", "tight"),
    [
        (1_000, 1_000, 309, 0.690, 3.670),
        (10_000, 2_500, 364, 1.674, 4.137),
        (1_000, 500, 20, 2.793, 8.922),
    ],
)
def test_published_rows(
    canaries: int, guesses: int, errors: int, pure: float, tight: float
) -> None:
    counts = {"canaries": canaries, "guesses": guesses, "correct": guesses - errors}
    assert round(one_run_lower_bound(**counts, delta=DELTA), 3) == pure
    found = tight_lower_bound(**counts, family=GaussianFamily(), guesses_fixed=True, delta=DELTA)
    assert round(found, 3) == tight
    # The curve's audit lies between: it holds for canaries that hang together.
    assert pure < f_dp_lower_bound(**counts, curve=GaussianCurve(delta=DELTA)) < tight


@pytest.mark.parametrize(
    ("mechanism", "strength"),
    [
        (GaussianNoise(noise_std=math.sqrt(8), num_classes=10), 0.5),
        (LaplaceNoise(epsilon=1.0, num_classes=10), 1.0),
        (RandomizedResponse(epsilon=2.0, num_classes=10), 2.0),
    ],
)
def test_500_audits_err_as_stated(mechanism: PerLabel, strength: float) -> None:
    generator = np.random.default_rng(1)
    drawn_ratios, family = ratios(mechanism, seed=2), mechanism.family
    assert family is not None
    delta = DELTA if isinstance(family, GaussianFamily) else 0.0
    false = 0
    cache: dict[int, bool] = {}
    for _ in range(500):
        drawn = generator.choice(drawn_ratios, 400)
        surest = drawn[np.argsort(-np.abs(drawn), kind="stable")[:200]]
        errors = int((surest < 0).sum() + generator.binomial((surest == 0).sum(), 0.5))
        if errors not in cache:
            given: Any = {"canaries": 400, "guesses": 200, "guesses_fixed": True}
            found = tight_lower_bound(**given, correct=200 - errors, family=family, delta=delta)
            cache[errors] = found > family.epsilon(strength, delta=delta)
        false += cache[errors]
    assert false <= binom.ppf(0.9999, 500, 0.05)
    assert false > 0  # the bound errs sometimes, as its confidence allows


RUNS = 2_000
FOLLOWING = [
    *((SubsetFamily(num_classes=10, subset_size=1), 2.0, size) for size in (200, 1_000, 5_000)),
    *((SubsetFamily(num_classes=100, subset_size=1), 4.6, size) for size in (1_000, 5_000, 20_000)),
    (BitFlipFamily(), 4.0, 1_000),
]


def _shares(family: Family, epsilon: float) -> tuple[float, float, float]:
    """Chances that an output speaks for the true candidate, for the other one, and for neither."""
    if isinstance(family, SubsetFamily):
        other = 1 / (math.exp(epsilon) + family.num_classes - 1)
        return math.exp(epsilon) * other, other, (family.num_classes - 2) * other
    flip = 1 / (1 + math.exp(epsilon / 2))
    return (1 - flip) ** 2, flip**2, 2 * flip * (1 - flip)


def _overstated(family: Family, epsilon: float, canaries: int, spoken: NDArray[np.int64]) -> float:
    """How often the bound exceeds epsilon, given right and wrong guesses of each run [R, 2]."""
    different, times = np.unique(spoken, axis=0, return_counts=True)
    above = [
        tight_lower_bound(canaries=canaries, guesses=right + wrong, correct=right, family=family)
        > epsilon
        for right, wrong in different.tolist()
    ]
    return float(times @ np.array(above) / len(spoken))


@pytest.mark.parametrize(("family", "epsilon", "canaries"), FOLLOWING)
def test_guessing_wherever_the_release_speaks(
    family: Family, epsilon: float, canaries: int
) -> None:
    """The number of guesses follows the release: by the law of a fixed one, up to 15% exceed."""
    drawn = np.random.default_rng(3).multinomial(canaries, _shares(family, epsilon), size=RUNS)
    assert 0.01 < _overstated(family, epsilon, canaries, drawn[:, :2]) <= 0.06


def test_the_best_of_several_bounds_pays_for_the_choice() -> None:
    family, tries = LaplaceFamily(), [(300, 220), (150, 125), (75, 66)]
    best = best_tight_bound(tries, canaries=300, family=family)
    given: dict[str, Any] = {"canaries": 300, "family": family, "guesses_fixed": True}
    unpaid, paid = (
        max(tight_lower_bound(**given, guesses=r, correct=c, confidence=each) for r, c in tries)
        for each in (0.95, 1 - 0.05 / 3)
    )
    assert best == paid < unpaid
    assert best_tight_bound([], canaries=300, family=family) == 0.0
    noise: dict[str, Any] = {"family": GaussianFamily(), "canaries": 300, "delta": DELTA}
    alone = tight_lower_bound(**noise, guesses=150, correct=125, guesses_fixed=True)
    assert best_tight_bound([(150, 125)], **noise) == alone > 0


def test_free_guesses_err_as_the_surest_and_half_of_them_right_prove_nothing() -> None:
    response = SubsetFamily(num_classes=10, subset_size=1)
    counts: dict[str, Any] = {"canaries": 100, "guesses": 40}
    free = tight_lower_bound(**counts, correct=34, family=response)
    assert binom.cdf(6, 40, 1 / (1 + math.exp(free))) == pytest.approx(0.05)
    for fixed in (True, False):
        family = LaplaceFamily()
        assert tight_lower_bound(**counts, correct=20, family=family, guesses_fixed=fixed) == 0


# By a trade-off curve


@pytest.mark.parametrize(
    ("counts", "bounds"),
    [
        ((20, 8, 8), (0.789184, 0.850004, 1.575937)),
        ((30, 12, 11), (0.656277, 0.716082, 1.287890)),
        ((1000, 500, 480), (2.781865, 2.781865, 4.931083)),
    ],
)
def test_bounds_of_given_counts_are_golden(
    counts: tuple[int, int, int], bounds: tuple[float, float, float]
) -> None:
    canaries, guesses, correct = counts
    curves = (PureCurve(), RandomizedResponseCurve(num_classes=10), GaussianCurve(delta=DELTA))
    found = [
        f_dp_lower_bound(canaries=canaries, guesses=guesses, correct=correct, curve=curve)
        for curve in curves
    ]
    assert found == pytest.approx(bounds, abs=2e-5)


def test_curve_of_randomized_response_by_enumeration() -> None:
    epsilon, classes = 1.5, 4
    keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    other = (1 - keep) / (classes - 1)
    smallest_wrong = RandomizedResponseCurve(num_classes=classes).smallest_wrong(epsilon)
    # claiming a set of outputs for label 0: right under label 0, wrong under label 1
    for subset in range(2**classes):
        outputs = [output for output in range(classes) if subset >> output & 1]
        right = sum(keep if output == 0 else other for output in outputs)
        wrong = sum(keep if output == 1 else other for output in outputs)
        assert smallest_wrong(right) <= wrong + 1e-12
    assert smallest_wrong(keep) == pytest.approx(other)
    assert smallest_wrong(1 - other) == pytest.approx(1 - keep)
    # two classes: the worst of all epsilon-DP mechanisms
    binary = RandomizedResponseCurve(num_classes=2).smallest_wrong(epsilon)
    pure = PureCurve().smallest_wrong(epsilon)
    for likelihood in np.linspace(0, 1, 21):
        assert binary(likelihood) == pytest.approx(pure(likelihood), abs=1e-12)


def test_gaussian_curve_is_that_of_its_epsilon() -> None:
    epsilon = gaussian_epsilon(noise_multiplier=1.25, delta=1e-5)
    smallest_wrong = GaussianCurve(delta=1e-5).smallest_wrong(epsilon)
    for right in (0.01, 0.5, 0.99):
        expected = norm.cdf(norm.ppf(right) - 1 / 1.25)
        assert smallest_wrong(right) == pytest.approx(expected, rel=1e-6)


def test_guesses_by_chance_prove_nothing() -> None:
    for curve in (PureCurve(), GaussianCurve(delta=1e-5)):
        assert f_dp_lower_bound(canaries=100, guesses=50, correct=25, curve=curve) == 0.0
        assert f_dp_lower_bound(canaries=100, guesses=0, correct=0, curve=curve) == 0.0


def test_guesses_that_sets_of_several_classes_cannot_explain_refute_every_epsilon() -> None:
    counts = {"canaries": 1000, "guesses": 1000, "guesses_fixed": True}
    family = SubsetFamily(num_classes=10, subset_size=3)
    assert tight_lower_bound(**counts, correct=1000, family=family) == math.inf
    assert 0 < tight_lower_bound(**counts, correct=700, family=family) < math.inf

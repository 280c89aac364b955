"""The contract of every mechanism on labels: what it costs, what it leaks, what it refuses.

A new mechanism is a line of `MECHANISMS`. Its distribution and its own parameters are tested beside
it.
"""

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount, CoverageChoice
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.amounts import BINS, AmountChannel, AmountSums, ErrorSums
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomized_response import (
    BitFlip,
    RandomizedResponse,
    epsilon_from_keep_probability,
)
from labeldp.mechanisms.randomness import OsEntropy, SecureEntropy, cryptographic_generator
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, RRWithPrior, TwoClassHistograms
from labeldp.mechanisms.score_histogram import ScoreHistogram
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.privacy_loss import RUNS, assert_private

CLASSES, DELTA = 3, 1e-3
PRIOR = np.array([0.5, 0.3, 0.2])
LABELS = np.arange(30) % CLASSES
Outputs = NDArray[Any]


def gaussian_std(epsilon: float) -> float:
    return calibrate_gaussian(epsilon=epsilon, delta=DELTA)


def no_public(count: int) -> tuple[NDArray[Any], ...]:
    return ()


def loss_of(mechanism: Any, outputs: Outputs) -> NDArray[np.int64]:
    """How much an output speaks for class 0 against 1, in sixteen intervals."""
    loss = np.subtract(*mechanism.log_likelihood(outputs).T[:2])
    return np.asarray(np.searchsorted(np.linspace(-4, 4, 15), loss))


@dataclass(frozen=True)
class Case:
    """A mechanism that costs epsilon, and how to look at it."""

    make: Callable[[float], Any]  # of epsilon
    event_of: Callable[[Any, Outputs], NDArray[np.int64]]  # outputs for single labels -> events
    public: Callable[[int], tuple[NDArray[Any], ...]] = no_public  # public inputs of N labels
    outputs: Outputs | None = None  # all for one label, or a few of infinitely many
    delta: float = 0.0  # at which epsilon holds
    parameter: str = "epsilon"  # positive and finite, or the constructor refuses it


BITS = np.array(np.meshgrid(*[[0, 1]] * CLASSES)).reshape(CLASSES, -1).T.astype(np.uint8)
MECHANISMS = {
    "LaplaceNoise": Case(
        lambda epsilon: LaplaceNoise(epsilon=epsilon, num_classes=CLASSES),
        loss_of,
        outputs=np.vstack([10.0 * np.eye(3), -10.0 * np.eye(3), [[0.3, 0.4, 0.9]]]),
    ),
    "GaussianNoise": Case(
        lambda epsilon: GaussianNoise(noise_std=gaussian_std(epsilon), num_classes=CLASSES),
        loss_of,
        delta=DELTA,
        parameter="noise_std",
    ),
    "RandomizedResponse": Case(
        lambda epsilon: RandomizedResponse(epsilon=epsilon, num_classes=CLASSES),
        lambda _, outputs: outputs,
        outputs=np.arange(CLASSES),
    ),
    "RRWithPrior": Case(
        lambda epsilon: RRWithPrior(epsilon=epsilon),
        lambda _, outputs: outputs,
        public=lambda count: (np.tile(PRIOR, (count, 1)),),
    ),
    "SubsetSelection": Case(
        lambda epsilon: SubsetSelection(epsilon=epsilon, num_classes=CLASSES),
        lambda _, outputs: outputs @ np.array([4, 2, 1]),
        outputs=BITS.astype(bool),
    ),
    "StaircaseChannel": Case(
        lambda epsilon: StaircaseChannel(epsilon=epsilon),
        lambda _, outputs: outputs @ np.array([4, 2, 1]),
        public=lambda count: (np.tile(PRIOR, (count, 1)),),
        outputs=BITS.astype(bool),
    ),
    "BitFlip": Case(
        lambda epsilon: BitFlip(epsilon=epsilon, num_classes=CLASSES),
        lambda _, outputs: outputs @ np.array([4, 2, 1]),
        outputs=BITS,
    ),
    "ClusterHistograms": Case(
        lambda epsilon: ClusterHistograms(epsilon=epsilon, num_classes=CLASSES),
        lambda _, outputs: outputs.clip(-1, 2) @ np.array([16, 4, 1]) + 21,
        public=lambda count: (np.arange(count),),  # a cluster for each label
    ),
    "TwoClassHistograms": Case(
        lambda epsilon: TwoClassHistograms(epsilon=epsilon),
        lambda _, outputs: outputs[:, 1].clip(-3, 4) + 3,  # the other count is 1 less this one
        public=lambda count: (np.arange(count),),
    ),
    "ScoreHistogram": Case(
        lambda epsilon: ScoreHistogram(epsilon=epsilon),
        lambda _, outputs: outputs.reshape(-1, 3).clip(-1, 2) @ np.array([16, 4, 1]) + 21,
        public=lambda count: (np.arange(3 * count).reshape(count, 3),),
    ),
    "ScoreHistogram, one class counted": Case(
        lambda epsilon: ScoreHistogram(epsilon=epsilon),
        lambda _, outputs: outputs.clip(-2, 3) + 2,
        public=lambda count: (
            np.stack([np.full(count, -1), np.arange(count), np.full(count, -1)], axis=1),
        ),
    ),
    "LabelMoments": Case(
        lambda epsilon: LabelMoments(noise_std=gaussian_std(epsilon), num_classes=CLASSES),
        # Of [D, K] sums along the unit vectors, a row for each label.
        lambda mechanism, outputs: np.searchsorted(
            np.linspace(-4, 4, 15), (outputs[:, 0] - outputs[:, 1]) / mechanism.noise_std**2
        ),
        public=lambda count: (np.eye(count, dtype=np.float32),),
        delta=DELTA,
        parameter="noise_std",
    ),
}


def labels_for(mechanism: Any) -> NDArray[np.int64]:
    """Labels of as many classes as it takes."""
    return LABELS % getattr(mechanism, "num_classes", CLASSES)


WITH_LIKELIHOOD = [name for name, case in MECHANISMS.items() if case.outputs is not None]


@pytest.mark.parametrize("name", [name for name in MECHANISMS if name != "LabelMoments"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_it_leaks_no_more_than_epsilon_and_half_its_noise_is_caught(
    name: str, epsilon: float
) -> None:
    """A million labels each of two classes; LabelMoments has its sensitivity tested instead."""
    case = MECHANISMS[name]

    def runs(asked: float) -> list[NDArray[np.int64]]:
        # What a tenth of the runs catches, all of them catch.
        count = RUNS if asked == epsilon else RUNS // 10
        mechanism, generator = case.make(asked), np.random.default_rng(2)
        return [
            case.event_of(
                mechanism,
                mechanism.release(np.full(count, label), *case.public(count), generator=generator),
            )
            for label in (0, 1)
        ]

    assert_private(runs, epsilon=epsilon, delta=case.delta)


@pytest.mark.parametrize("name", MECHANISMS)
@given(epsilon=st.floats(0.01, 20.0))
@settings(max_examples=25, deadline=None)
def test_its_event_costs_epsilon(name: str, epsilon: float) -> None:
    case = MECHANISMS[name]
    mechanism = case.make(epsilon)
    assert epsilon_of([mechanism.event], delta=case.delta) == pytest.approx(epsilon, rel=1e-6)
    assert 0.0 <= mechanism.failure_probability < 1.0
    again = pickle.loads(pickle.dumps(mechanism))
    assert again == mechanism and again.event == mechanism.event


@pytest.mark.parametrize("name", WITH_LIKELIHOOD)
@given(epsilon=st.floats(0.01, 8.0))
@settings(max_examples=25, deadline=None)
def test_no_output_speaks_for_a_class_by_more_than_epsilon_and_one_does_by_epsilon(
    name: str, epsilon: float
) -> None:
    case = MECHANISMS[name]
    likelihood = case.make(epsilon).log_likelihood(case.outputs)
    apart = likelihood.max(axis=1) - likelihood.min(axis=1)
    assert apart.max() == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("name", ["RandomizedResponse", "SubsetSelection", "BitFlip"])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_outputs_come_as_often_as_their_likelihood_says(name: str, epsilon: float) -> None:
    """Up to a constant for each output, which BitFlip leaves out: compared between classes."""
    case, rows = MECHANISMS[name], 200_000
    mechanism, generator = case.make(epsilon), np.random.default_rng(3)
    events = case.event_of(mechanism, case.outputs)  # type: ignore[arg-type]
    seen = np.stack(
        [
            np.bincount(
                case.event_of(mechanism, mechanism.release(np.full(rows, c), generator=generator)),
                minlength=int(events.max()) + 1,
            )[events]
            for c in range(CLASSES)
        ],
        axis=1,
    )
    likelihood = np.exp(mechanism.log_likelihood(case.outputs))
    expected = likelihood / likelihood.sum(1, keepdims=True) * seen.sum(1, keepdims=True)
    z = (seen - expected) / np.sqrt(np.maximum(expected, 1.0))
    assert np.abs(z[expected > 20]).max() < 5


#: Mechanisms on all labels together, or on amounts, with their public inputs for 30 labels.
OTHERS: list[tuple[Any, ...]] = [
    (CorrectCount(epsilon=1.0), LABELS),
    (AmountChannel(epsilon=1.0), np.full(BINS, 1 / BINS)),
    (AmountSums(noise_std=1.0), np.eye(30)),
    (ErrorSums(epsilon=1.0), np.linspace(0, 1, 30)),
    (CorrectCount(epsilon=1.0), LABELS, np.arange(30) % 4),
    (CoverageChoice(epsilon=20.0, coverage=0.5, candidates=CLASSES),),
]


@pytest.mark.parametrize(
    ("mechanism", "public"),
    [
        *((case.make(1.0), case.public(30)) for case in MECHANISMS.values()),
        *((mechanism, public) for mechanism, *public in OTHERS),
    ],
)
def test_a_vault_draws_it_once_and_charges_its_event(mechanism: Any, public: Any) -> None:
    vault = LabelVault(labels=labels_for(mechanism), num_classes=CLASSES)
    for noise in (OsEntropy(), SecureEntropy()):
        first, again = (vault.release(mechanism, *public, noise=noise) for _ in range(2))
        assert first.key == again.key and np.array_equal(first.values, again.values)
    assert [charge.event for charge in vault.charges()] == [mechanism.event] * 2


@pytest.mark.parametrize("name", MECHANISMS)
def test_draws_repeat_and_tensors_come_back_as_tensors(name: str) -> None:
    case = MECHANISMS[name]
    mechanism, public = case.make(1.0), case.public(30)
    labels = labels_for(mechanism)
    first, again, other = (
        mechanism.release(labels, *public, generator=np.random.default_rng(seed))
        for seed in (7, 7, 8)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    tensor = mechanism.release(
        torch.from_numpy(labels),
        *map(torch.from_numpy, public),
        generator=torch.Generator().manual_seed(7),
    )
    assert isinstance(tensor, torch.Tensor) and tensor.shape == first.shape
    with pytest.raises(TypeError, match="generator"):
        mechanism.release(labels, *public, generator=None)


@pytest.mark.parametrize("name", MECHANISMS)
def test_bad_parameters_and_labels_are_named(name: str) -> None:
    case = MECHANISMS[name]
    mechanism = case.make(1.0)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"{case.parameter} is"):
            type(mechanism)(**{**vars(mechanism), case.parameter: bad})
    if "num_classes" in vars(mechanism):
        with pytest.raises(ValueError, match="num_classes is 1"):
            type(mechanism)(**{**vars(mechanism), "num_classes": 1})
    for labels in ([0, 77], [0, -77], [0.5, 1.0], [0.0, math.nan]):
        with pytest.raises(ValueError, match="label") as refused:
            mechanism.release(np.array(labels), *case.public(2), generator=np.random.default_rng(0))
        assert "77" not in str(refused.value)  # a label is a secret, a wrong one too


# Are the draws what the formulas say? A million of each, against the exact distribution.

Make = Callable[[int], np.random.Generator]

DRAWS = 1_000_000
#: A correct sampler fails a test at this level once in ten thousand seeds; the seeds are fixed.
LEVEL = 1e-4


@pytest.fixture(params=["PCG64", "AES"])
def make(request: pytest.FixtureRequest) -> Make:
    """Maps a number to a generator of its own."""
    if request.param == "PCG64":
        return np.random.default_rng
    return lambda number: cryptographic_generator(number.to_bytes(16, "little"))


def noise_of(
    mechanism: LaplaceNoise | GaussianNoise, make: Make, *, classes: int = 4
) -> NDArray[np.float64]:
    labels = np.random.default_rng(1).integers(0, classes, size=DRAWS // classes)
    noisy = mechanism.release(labels, generator=make(2))
    return np.asarray(noisy - np.eye(classes)[labels]).ravel()


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_laplace_noise_has_the_scale_of_its_epsilon(epsilon: float, make: Make) -> None:
    noise = noise_of(LaplaceNoise(epsilon=epsilon, num_classes=4), make)
    assert stats.kstest(noise, stats.laplace(scale=2 / epsilon).cdf).pvalue > LEVEL
    # The same test sees a scale that is off by one percent.
    assert stats.kstest(noise, stats.laplace(scale=2.02 / epsilon).cdf).pvalue < LEVEL


def test_gaussian_noise_has_the_requested_standard_deviation(make: Make) -> None:
    noise = noise_of(GaussianNoise(noise_std=1.7, num_classes=4), make)
    assert stats.kstest(noise, stats.norm(scale=1.7).cdf).pvalue > LEVEL
    assert stats.kstest(noise, stats.norm(scale=1.7 * 1.01).cdf).pvalue < LEVEL


def test_noise_is_independent_between_coordinates(make: Make) -> None:
    noise = noise_of(LaplaceNoise(epsilon=1.0, num_classes=4), make).reshape(-1, 4)
    correlation = np.corrcoef(noise.T) - np.eye(4)
    assert np.abs(correlation).max() < 4 / math.sqrt(len(noise))


def test_lying_more_often_than_by_chance_costs_as_well() -> None:
    low = epsilon_from_keep_probability(keep_probability=0.01, num_classes=2)
    high = epsilon_from_keep_probability(keep_probability=0.99, num_classes=2)
    assert low == pytest.approx(high)


def test_log_likelihoods_are_those_of_the_distributions() -> None:
    generator = np.random.default_rng(5)
    noisy = generator.normal(size=(50, 3))
    laplace = LaplaceNoise(epsilon=1.3, num_classes=3)
    gaussian = GaussianNoise(noise_std=0.8, num_classes=3)
    for mechanism, distribution in (
        (laplace, stats.laplace(scale=laplace.scale)),
        (gaussian, stats.norm(scale=0.8)),
    ):
        exact = np.stack(
            [distribution.logpdf(noisy - np.eye(3)[c]).sum(1) for c in range(3)], axis=1
        )
        mine = mechanism.log_likelihood(noisy)
        difference = (exact - exact[:, :1]) - (mine - mine[:, :1])
        assert np.abs(difference).max() < 1e-12

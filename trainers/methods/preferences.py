"""Rewards from secret preferences: which of two rows, a or b, somebody liked.

Only odd functions of a pair matter. A reward r gives Pr[a over b] = 1 / (1 + e^(r(b) - r(a))), and
a reward that is linear in functions phi takes of the choices y, 0 or 1, nothing but the sum of
(y - 1/2) (phi(a) - phi(b)). Three releases tell of that sum, all read in one way (`fitted`):

* **Sums** along the directions of phi(a) - phi(b), each of length 1, with Gaussian noise.
* **Counts**: a pair counts for the one function in which a and b differ most, pure.
* **Single choices** by randomized response, pure. Under an even prior, which oddness makes, no
  channel says more.

>>> generator = np.random.default_rng(0)
>>> a, b = generator.normal(size=(2, 400, 3))
>>> functions = RewardFunctions.learned(np.vstack([a, b]), epsilon=4.0)
>>> differences = functions(a) - functions(b)
>>> choices = (a > b)[:, 0].astype(int)
>>> evidence = planned_choices(epsilon=4.0).read(choices)
>>> slopes = fitted(differences, evidence)
>>> bool(np.mean((differences @ slopes > 0) == choices) > 0.95)
True
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.persons import shares_of_persons
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.trainers.methods.settings import worthwhile
from labeldp.trainers.methods.smooth_sums import LARGEST, CoarseWeights
from labeldp.trainers.models.smooth_functions import SmoothFunctions
from labeldp.trainers.models.table_models import RewardPredictor

Floats = NDArray[np.float64]

#: Functions at most, and rows of which they are learned.
_MOST_FUNCTIONS = 400
_SAMPLE = 20_000
#: Standard deviation, times epsilon, that decides how many functions are worthwhile: about that of
#: sums at a delta of 1e-6.
_NOISE_TIMES_EPSILON = 4.0
#: Of two parties: standard deviations of a direction that the largest whole number stands for.
_DEVIATIONS = 3.0
#: Of the reading: factors of the prior that are tried, rounds, and the change that ends them.
_FACTORS = np.geomspace(1e-6, 1e6, 121)[:, None]
_ROUNDS = 10
_SETTLED = 1e-3
#: Logits around which choices are read: surer ones say nothing of a reward, whose rounds would run
#: away where choices have no noise of their own.
_SUREST = 4.0


@dataclass(frozen=True, kw_only=True, eq=False)
class RewardFunctions:
    """M functions of rows [N, D]: all linear ones, or smooth ones, the strongest first.

    Attributes:
        scales: Of the columns, of variance 1 then [D].
        smooth: Functions of a kernel; None where rows themselves are turned.
        turned: Principal axes of the functions, by columns [D or M', M].
    """

    scales: Floats
    smooth: SmoothFunctions | None
    turned: Floats

    @classmethod
    def learned(cls, rows: NDArray[np.floating], *, epsilon: float) -> Self:
        """Learn of the rows of all pairs [2 N, D] alone.

        They are smooth where four for each column are worthwhile. All linear ones are taken
        otherwise: with directions of length 1, fewer would be no better.
        """
        count = worthwhile(rows=len(rows) // 2, noise_std=_NOISE_TIMES_EPSILON / epsilon)
        some = np.random.default_rng(0).permutation(len(rows))[:_SAMPLE]
        sample = np.asarray(rows[np.sort(some)], np.float64)
        deviations = sample.std(0)
        found = cls(
            scales=np.where(deviations > 0, deviations, 1),
            smooth=SmoothFunctions.learned(sample, count=count, seed=0)
            if count >= 4 * rows.shape[1]
            else None,
            turned=np.eye(1),
        )
        values = found._unturned(sample)
        _, axes = np.linalg.eigh(np.cov(values, rowvar=False).reshape(values.shape[1], -1))
        # Their signs are arbitrary, and two parties must find the same ones again.
        axes *= np.sign(axes[np.abs(axes).argmax(0), np.arange(len(axes))])
        return replace(found, turned=axes[:, ::-1][:, :_MOST_FUNCTIONS])

    def __call__(self, rows: NDArray[np.floating]) -> Floats:
        """Return the values of the functions [N, M] at rows [N, D]."""
        return np.asarray(self._unturned(rows) @ self.turned)

    def differences(self, rows: NDArray[np.floating]) -> Floats:
        """Return values [N, M] at sides a, less those at sides b, which follow them [2 N, D]."""
        of_a, of_b = np.split(self(rows), 2)
        return np.asarray(of_a - of_b)

    def reward(self, slopes: Floats) -> RewardPredictor:
        """Return the reward that has these slopes [M]."""
        own = self.turned @ slopes
        if self.smooth is None:
            return RewardPredictor(smooth=(), slopes=own / self.scales)
        return RewardPredictor(smooth=(self.smooth,), slopes=own * np.sqrt(self.smooth.strengths))

    def _unturned(self, rows: NDArray[np.floating]) -> Floats:
        if self.smooth is None:
            return np.asarray(rows / self.scales, np.float64)
        # Scaled so that the kernel's prior of their coefficients is one and the same for all.
        return np.asarray(self.smooth(rows) * np.sqrt(self.smooth.strengths), np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class OddSums:
    """Sums [S] of (y - 1/2) along weights of pairs [N, S], and the variance of their noise."""

    weights: NDArray[np.floating]
    noise_variance: float = 0.0
    sums: Floats | None = None

    def step(self, differences: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """Return the information about slopes [M, M] around `slopes` [M], and its weighted mean.

        Sums are normal around those that the slopes predict.
        """
        logits = _logits(differences, slopes)
        likely = expit(logits)
        spread = (likely * (1 - likely))[:, None]
        slope = self.weights.T @ (spread * differences)
        variance = self.weights.T @ (spread * self.weights)
        variance[np.diag_indices_from(variance)] += self.noise_variance + 1e-9 * variance.max()
        missing = self.sums - self.weights.T @ (likely - 0.5 - spread[:, 0] * logits)
        weighted = np.linalg.solve(variance, np.column_stack([slope, missing]))
        return slope.T @ weighted[:, :-1], slope.T @ weighted[:, -1]

    def expected(self, differences: Floats) -> Floats:
        """Return the information about each slope [M] around 0, without the release.

        Sums are about uncorrelated.
        """
        variance = np.square(self.weights).sum(0) / 4 + self.noise_variance
        slope = self.weights.T @ differences / 4
        return np.asarray((np.square(slope) / variance[:, None]).sum(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyChoices:
    """Choices, 0 or 1 [N], each wrong with the probability `flip_probability`."""

    flip_probability: float
    choices: NDArray[np.integer[Any]] | None = None

    def step(self, differences: Floats, slopes: Floats) -> tuple[Floats, Floats]:
        """As of sums: scores of the likelihood (Bayes' rule), not of an unbiased loss."""
        gain = 1 - 2 * self.flip_probability
        logits = _logits(differences, slopes)
        likely = expit(logits)
        seen = self.flip_probability + gain * likely
        slope = gain * likely * (1 - likely)
        weight = slope / np.maximum(seen * (1 - seen), 1e-12)
        information = differences.T @ ((slope * weight)[:, None] * differences)
        return information, differences.T @ (weight * (self.choices - seen + slope * logits))

    def expected(self, differences: Floats) -> Floats:
        """As of sums."""
        gain = 1 - 2 * self.flip_probability
        return np.asarray(gain**2 / 4 * np.square(differences).sum(0))


Evidence = OddSums | NoisyChoices


@dataclass(frozen=True, kw_only=True, eq=False)
class PairQuestion(CoarseWeights):
    """A question about choices, along coarse directions of pairs, each in a unit of its own [M].

    Functions of rows were learned for this epsilon.
    """

    units: NDArray[np.float32]
    epsilon: float

    @classmethod
    def asked(cls, differences: Floats, *, epsilon: float) -> tuple[NDArray[np.int8], Self]:
        """Return weights in -7..7 [N, M] of pairs with these differences, and their question."""
        usual = np.sqrt(np.square(directions(differences)).mean(0))
        units = np.maximum(_DEVIATIONS * usual / LARGEST, 1e-12).astype(np.float32)
        question = cls(units=units, epsilon=epsilon)
        return question.weights(differences).astype(np.int8), question

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the question that `arrays` were taken of; refuse shapes that do not fit."""
        if (units := arrays["units"]).dtype != np.float32 or units.ndim != 1:
            raise ValueError(f"units are {units.dtype}{units.shape}; they must be float32 [M]")
        return cls(units=units, epsilon=float(arrays["epsilon"]))

    def weights(self, differences: Floats) -> NDArray[np.float32]:
        """Return the weights in -7..7 [N, M] of pairs with these differences."""
        whole = np.rint(directions(differences) / self.units)
        return np.asarray(np.clip(whole, -LARGEST, LARGEST))


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """A release of choices 0 and 1 that may be requested, with its public inputs.

    `evidence` is what it says without its values, and `read` completes that, given these.
    """

    mechanism: Any
    public: tuple[NDArray[Any], ...]
    evidence: Evidence
    read: Callable[[NDArray[Any]], Evidence]

    def nats(self, differences: Floats) -> float:
        """Return what it tells of a reward that differs by 2, about, in a pair [N, M]."""
        usual = max(float(np.square(differences).sum(1).mean()), 1e-30)
        return float(np.log1p(4 * self.evidence.expected(differences) / usual).sum() / 2)


def planned_sums(
    differences: Floats, *, epsilon: float, delta: float, persons: NDArray[np.intp] | None
) -> Planned:
    """Plan sums along the directions of pairs, shortened where persons have several."""
    weights = directions(differences)
    if persons is not None:
        weights *= shares_of_persons(weights, persons)[:, None]
    return sums_along(weights, noise_std=calibrate_gaussian(epsilon=epsilon, delta=delta))


def sums_along(weights: NDArray[np.float32], *, noise_std: float) -> Planned:
    """Plan sums along weights of pairs [N, S], no row longer than 1."""
    evidence = OddSums(weights=weights, noise_variance=noise_std**2 / 2)
    return Planned(
        mechanism=LabelMoments(noise_std=noise_std, num_classes=2),
        public=(weights,),
        evidence=evidence,
        read=lambda values: replace(evidence, sums=(values[:, 1] - values[:, 0]) / 2),
    )


def planned_counts(differences: Floats, *, epsilon: float) -> Planned:
    """Plan counts: each pair is in the group of the function in which a and b differ most.

    Counted are those whose choice has more of the function.
    """
    groups = np.abs(differences).argmax(1)
    more = np.take_along_axis(differences, groups[:, None], 1)[:, 0] > 0
    sizes = np.bincount(groups)
    weights = np.zeros((len(groups), len(sizes)), np.float32)
    weights[np.arange(len(groups)), groups] = np.where(more, 1, -1)
    mechanism = CorrectCount(epsilon=epsilon)
    evidence = OddSums(weights=weights, noise_variance=mechanism.noise_std**2)
    return Planned(
        mechanism=mechanism,
        public=(more.astype(np.int64), groups),
        evidence=evidence,
        read=lambda values: replace(evidence, sums=values - sizes / 2),
    )


def planned_choices(*, epsilon: float) -> Planned:
    """Plan single choices by randomized response."""
    mechanism = RandomizedResponse(epsilon=epsilon, num_classes=2)
    evidence = NoisyChoices(flip_probability=1 - mechanism.keep_probability)
    return Planned(
        mechanism=mechanism,
        public=(),
        evidence=evidence,
        read=lambda values: replace(evidence, choices=values),
    )


def directions(differences: Floats) -> NDArray[np.float32]:
    """Return each row [N, M] with length 1, so that all of the noise is for a full share.

    Pairs that do not differ stay at 0.
    """
    lengths = np.linalg.norm(differences, axis=1, keepdims=True)
    return np.asarray(differences / np.where(lengths > 0, lengths, 1), np.float32)


def fitted(differences: Floats, evidence: Evidence) -> Floats:
    """Return the slopes [M] of a reward, by differences of its functions [N, M] and a release.

    The logistic model is made linear around the last slopes, round by round. Their prior is normal
    and even, of the width under which the release is likeliest.
    """
    slopes = np.zeros(differences.shape[1])
    for _ in range(_ROUNDS):
        before = slopes
        slopes = _posterior_mean(*evidence.step(differences, slopes))
        if np.linalg.norm(slopes - before) <= _SETTLED * np.linalg.norm(slopes):
            break
    return slopes


def _logits(differences: Floats, slopes: Floats) -> Floats:
    return np.clip(differences @ slopes, -_SUREST, _SUREST)


def _posterior_mean(information: Floats, pull: Floats) -> Floats:
    strengths, axes = np.linalg.eigh(information)
    strengths = np.maximum(strengths, 0)
    along = axes.T @ pull
    spread = 1 + _FACTORS * strengths
    evidence = (_FACTORS * along**2 / spread - np.log(spread)).sum(1)
    factor = float(_FACTORS[evidence.argmax(), 0])
    return np.asarray(axes @ (factor * along / (1 + factor * strengths)))

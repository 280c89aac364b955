"""Secret amounts between public bounds: one noisy value for each, or noisy sums of many.

A vault holds an amount as one of `LEVELS` equal steps between the bounds, so that everything that
is true of secret classes holds for amounts. Three kinds of release:

* `AmountChannel` draws one output for each amount: randomized response on bins, the channel with
  the least expected squared error under a prior (Ghazi et al., ICLR 2023, arXiv:2212.06074), or the
  best one among those whose output has the amount as its mean (Badanidiyuru et al., NeurIPS 2023,
  arXiv:2312.05659). The prior changes the gain, never the guarantee.
* `AmountSums` adds up amounts along directions of the features, which is all that least squares
  needs of them. A substituted amount moves them by 1, a class by the root of 2.
* `ErrorSums` judges a regression by held-out amounts: it adds up absolute errors of public
  predictions, and their second and fourth powers. An error is a share of a stated bound and counts
  as 1 beyond it, so that a substituted amount changes each sum by 1 at most. The fourth powers show
  how far the mean square may be off by the choice of examples.

>>> to_levels(np.array([0.0, 12.5, 100.0]), bounds=(0, 100)).tolist()
[0, 8, 63]
>>> channel = AmountChannel(epsilon=1.0)
>>> table = channel.table(np.full(BINS, 1 / BINS))
>>> bool(np.abs(table.probabilities @ table.outputs - CENTERS).max() < 1e-7)
True
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, Floats, as_numpy, like
from labeldp.mechanisms.accounting import GaussianEvent, PureMechanism
from labeldp.mechanisms.accuracy_estimate import TWO_SIDED
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.channels import LARGEST_EPSILON, exact_digits, exact_draws, optimal_channel
from labeldp.mechanisms.label_moments import noisy_sums
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    DrawnExactly,
    as_discrete_generator,
    as_noise_generator,
    discrete_laplace,
)
from labeldp.mechanisms.rr_with_prior import ClusterHistograms
from labeldp.mechanisms.score_histogram import Estimated

#: Steps between the bounds that a vault keeps, and bins of a channel: a program for more bins
#: takes minutes.
LEVELS = 64
BINS = 32
#: Middle of each bin, where the bounds are 0 and 1.
CENTERS: Floats = (np.arange(BINS) + 0.5) / BINS
#: Sums of amounts are drawn as whole numbers, this many times as large.
_WHOLE = 2.0 * LEVELS
#: An unbiased channel has outputs this much beyond the narrowest possible ones.
_ROOM = 1.02
#: Share of epsilon for the histogram that is the prior of a channel.
_PRIOR_SHARE = 0.1
#: Powers of an error that are summed, the share of epsilon for each, and the steps from 0 to 1 that
#: a power is rounded to.
_POWERS = (1, 2, 4)
_SHARES = (0.4, 0.4, 0.2)
_STEPS = 1 << 20


class AmountNoise(StrEnum):
    """How an amount is changed into an output."""

    UNBIASED = "unbiased"
    LEAST_ERROR = "least_error"
    RANDOMIZED_RESPONSE = "randomized_response"


def to_levels(amounts: Array, *, bounds: tuple[float, float]) -> NDArray[np.int64]:
    """Return the step 0..`LEVELS`-1 of each amount [N], the first or last one beyond the bounds."""
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"bounds are {low:g} and {high:g}; two finite numbers, the smaller first, that are "
            "known without the labels"
        )
    given = as_numpy(amounts).astype(np.float64)
    if not np.isfinite(given).all():
        row = int(np.flatnonzero(~np.isfinite(given))[0])
        raise ValueError(f"amount {row} is missing or infinite; leave the row out")
    # Clipping keeps the guarantee for amounts that bounds, chosen without them, leave out.
    steps = np.floor((given - low) / (high - low) * LEVELS)
    return np.clip(steps, 0, LEVELS - 1).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class AmountTable:
    """A channel from bins to outputs, for bounds 0 and 1.

    Where it allows, the mean of the outputs is the amount, for every bin; some lie beyond the
    bounds then.
    """

    probabilities: Floats  # of each output for an amount in each bin [BINS, O]
    outputs: Floats  # the amount that each output stands for [O]

    def error(self, prior: Floats) -> float:
        """Return the expected squared difference of output and amount under a prior [BINS]."""
        squares = (self.outputs - CENTERS[:, None]) ** 2
        return float(prior @ (self.probabilities * squares).sum(1))

    def information(self, prior: Floats) -> float:
        """Return the nats that an output has about the bin under a prior [BINS]."""
        joint = prior[:, None] * self.probabilities
        with np.errstate(divide="ignore", invalid="ignore"):
            nats = joint * np.log(self.probabilities / joint.sum(0))
        return float(np.where(joint > 0, nats, 0).sum())


@dataclass(frozen=True, kw_only=True)
class AmountChannel(PureMechanism):
    """One output for each amount: pure epsilon-DP, whatever the prior."""

    kind: AmountNoise = AmountNoise.UNBIASED

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        AmountNoise(self.kind)

    @classmethod
    def with_prior(
        cls, *, epsilon: float, kind: AmountNoise
    ) -> "tuple[ClusterHistograms, AmountChannel]":
        """Return a histogram of all levels, which is a prior, and a channel: together `epsilon`."""
        # Both releases touch every amount, so that their epsilons add up.
        counting = ClusterHistograms(epsilon=_PRIOR_SHARE * epsilon, num_classes=LEVELS)
        return counting, cls(epsilon=(1 - _PRIOR_SHARE) * epsilon, kind=kind)

    def table(self, prior: Array) -> AmountTable:
        """Return the channel that is best for a public prior of the bins [BINS]."""
        (exact,) = _validate.probabilities(as_numpy(prior)[None], name="prior", num_classes=BINS)
        return _table(
            min(self.epsilon, LARGEST_EPSILON), AmountNoise(self.kind), tuple(exact.tolist())
        )

    def release(self, levels: AnyArray, prior: Array, *, generator: AnyGenerator) -> AnyArray:
        """Draw a number of an output for each level [N], once; O, one more, reveals nothing."""
        exact = _validate.labels(levels, num_classes=LEVELS, secret=True)
        table = self.table(prior)
        bins = exact * BINS // LEVELS
        digits, total = exact_digits(table.probabilities, self.epsilon)
        found = exact_draws(bins, digits.cumsum(axis=1), total, as_discrete_generator(generator))
        return like(found, levels)


@lru_cache(maxsize=16)
def _table(epsilon: float, noise: AmountNoise, prior: tuple[float, ...]) -> AmountTable:
    known = np.array(prior) / math.fsum(prior)
    # Fewer bins make fewer outputs wrong, and each says less. The public prior may decide.
    if noise is AmountNoise.RANDOMIZED_RESPONSE:
        tables = [_on_bins(count, epsilon, known) for count in range(2, BINS + 1)]
        return max(tables, key=lambda table: table.information(known))
    outputs = CENTERS
    if noise is AmountNoise.UNBIASED:
        # The narrowest outputs whose mean can reach the outermost bins: (e^a + 1) / (e^a - 1) is
        # the inverse of tanh(a / 2).
        half = (CENTERS[-1] - CENTERS[0]) / 2 / math.tanh(epsilon / 2) * _ROOM
        outputs = 0.5 + np.linspace(-half, half, 2 * BINS)
    found = optimal_channel(
        known,
        epsilon,
        "squared_error",
        values=CENTERS,
        outputs=outputs,
        unbiased=noise is AmountNoise.UNBIASED,
    ).probabilities
    # The solver leaves crumbs of unused outputs. Rows are made whole without them.
    kept = found.max(0) > 1e-9
    found = found[:, kept] / found[:, kept].sum(1, keepdims=True)
    if noise is AmountNoise.UNBIASED:
        return AmountTable(probabilities=found, outputs=outputs[kept])
    return AmountTable(probabilities=found, outputs=_unbiased(found, known))


def _on_bins(count: int, epsilon: float, prior: Floats) -> AmountTable:
    """Randomized response on `count` wider bins."""
    wide = np.arange(BINS) * count // BINS
    growth = math.exp(min(epsilon, 700.0))
    rows = np.where(np.arange(count) == wide[:, None], growth, 1.0) / (growth + count - 1)
    return AmountTable(probabilities=rows, outputs=_unbiased(rows, prior))


def _unbiased(rows: Floats, prior: Floats) -> Floats:
    """Return amounts of the outputs [O] whose mean is as near to each bin's as can be.

    Of all such amounts they have the least variance under the prior.
    """
    # Least squares in units of how often outputs and bins occur: of all exact solutions it takes
    # the one of least variance.
    share = np.sqrt(np.maximum(prior @ rows, 1e-12))
    trust = np.sqrt(prior + 1e-4)[:, None]
    found, *_ = np.linalg.lstsq(trust * rows / share, trust[:, 0] * CENTERS, rcond=1e-9)
    return found / share


@dataclass(frozen=True, kw_only=True)
class AmountSums(DrawnExactly):
    """weights^T @ amounts plus Gaussian noise, for weights [N, M] public with short rows.

    Amounts are scaled to -1/2..1/2, so that a substituted one moves the sums by at most its row of
    the weights: by 1 in L2.
    """

    noise_std: float  # of every sum, in units of the distance of the bounds

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.drawable(noise_std=self.noise_std, most=_validate.LARGEST_SCALE / _WHOLE)

    @classmethod
    def costing(cls, *, epsilon: float, delta: float) -> "AmountSums":
        """Return the sums with the least noise that cost `epsilon` at `delta`."""
        # A substituted amount moves sums by 1, a substituted class by the root of 2.
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta) / math.sqrt(2)
        # Division may have rounded down, which would be too little noise.
        return cls(noise_std=math.nextafter(noise_std, math.inf))

    @property
    def event(self) -> GaussianEvent:
        """The cost of one release of all sums for each amount."""
        return GaussianEvent(noise_multiplier=self.noise_std)

    def release(self, levels: AnyArray, weights: Array, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy sums [M, 1], once; no row of the weights [N, M] is longer than 1."""
        exact = _validate.labels(levels, num_classes=LEVELS, secret=True)
        # Whole numbers, so that sums of lattice points are lattice points.
        whole = (2 * exact - (LEVELS - 1)).astype(np.float64)[:, None]
        noisy = noisy_sums(
            lambda rows: whole[rows],
            as_numpy(weights),
            num_labels=len(exact),
            noise_std=_WHOLE * self.noise_std,
            generator=generator,
        )
        return like(noisy / _WHOLE, levels)


@dataclass(frozen=True, kw_only=True)
class ErrorSums(PureMechanism, DrawnExactly):
    """Sums of powers 1, 2 and 4 of errors plus discrete Laplace noise: pure epsilon-DP."""

    largest: float = 1.0  # error that larger ones count as, as a share of the bounds' distance

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive(largest=self.largest)

    @property
    def scales(self) -> NDArray[np.float64]:
        """Scale of the noise of each sum [3]."""
        return 1 / (np.array(_SHARES) * self.epsilon)

    def release(self, levels: AnyArray, guesses: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy sums [3], once, in steps of 2^-20: int64.

        `guesses` [H] are predictions on the scale where the bounds are 0 and 1, made without these
        levels [H].
        """
        exact = _validate.labels(levels, num_classes=LEVELS, secret=True)
        made = as_numpy(guesses).astype(np.float64)
        if made.shape != exact.shape or not np.isfinite(made).all():
            raise ValueError(
                f"guesses have shape {made.shape} for {len(exact)} amounts; give a finite number "
                "for each"
            )
        # Clipped, so that one amount changes each sum by at most one unit.
        errors = np.abs(np.clip(made, 0, 1) - (exact + 0.5) / LEVELS) / self.largest
        powers = np.minimum(errors, 1) ** np.array(_POWERS)[:, None]
        # Whole numbers, on which discrete noise reveals nothing by its last digits.
        sums = np.rint(_STEPS * powers).astype(np.int64).sum(1)
        rng = as_noise_generator(generator)
        scales = (_STEPS * self.scales).tolist()
        noise = [discrete_laplace(rng, scale=scale, shape=()) for scale in scales]
        return like(sums + np.array(noise), levels)


def error_estimates(
    sums: Array, mechanism: ErrorSums, *, examples: int, width: float
) -> dict[str, Estimated]:
    """Return mean squared and mean absolute error of amounts like those held out, by released sums.

    They are in the amounts' own unit; `width` is the distance of the bounds. They refer to
    amounts as the vault stores them, clipped and rounded to its levels, and to errors clipped to
    `largest`.
    """
    means = as_numpy(sums).astype(np.float64) / _STEPS / examples
    scales = mechanism.scales / examples
    unit = mechanism.largest * width
    found = {}
    for name, place in (("mean_squared_error", 1), ("mean_absolute_error", 0)):
        value = means[place]
        scale = scales[place]
        # Noise may have made the variance small: the largest that is likely is the honest one.
        square = means[place + 1] + 2 * scales[place + 1]
        near = min(1.0, max(0.0, value + 2 * scale))
        variance = min(max(square - max(0.0, value - 2 * scale) ** 2, 0.0), near, 0.25)
        sampling = math.sqrt(variance / examples)
        # Each part by its own quantile, as in `AccuracyEstimate.interval`.
        reach = math.hypot(TWO_SIDED * sampling, -math.log(0.05) * scale)
        power = unit ** _POWERS[place]
        low, high = (min(1.0, max(0.0, value + side * reach)) for side in (-1, 1))
        found[name] = Estimated(
            value=float(value * power),
            low=float(low * power),
            high=float(high * power),
            noise=float(math.sqrt(2) * scale * power),
            std=float(math.hypot(sampling, math.sqrt(2) * scale) * power),
        )
    return found

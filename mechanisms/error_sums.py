"""Errors of a regression without public test amounts, from three noisy sums over held-out ones.

A model predicts held-out amounts, and these predictions are public. `ErrorSums` releases the sum of
absolute errors and the sums of their second and fourth powers. An error is taken as a share of a
stated bound and counts as 1 beyond it, so that each power lies in [0, 1]: a substituted amount
changes each sum by 1 at most. The fourth powers show how far the mean square may be off by the
choice of examples. Noise is discrete Laplace on a lattice.

>>> random = np.random.default_rng(7)
>>> levels = random.integers(64, size=20_000)
>>> guesses = (levels + 0.5) / 64 + random.normal(scale=0.1, size=20_000)
>>> mechanism = ErrorSums(epsilon=1.0)
>>> sums = mechanism.release(levels, guesses, generator=random)
>>> found = error_estimates(sums, mechanism, examples=20_000, width=10.0)
>>> [f"{found[name].value:.2f}" for name in ("mean_squared_error", "mean_absolute_error")]
['0.86', '0.75']
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, as_numpy, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.amounts import LEVELS
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    DrawnExactly,
    as_noise_generator,
    discrete_laplace,
)
from labeldp.mechanisms.score_histogram import Estimated

#: Powers of an error that are summed, and the share of epsilon for each.
_POWERS = (1, 2, 4)
_SHARES = (0.4, 0.4, 0.2)
#: Steps from 0 to 1 that a power is rounded to.
_STEPS = 1 << 20
#: Standard deviations of a normal distribution on either side of which 95% lie.
_TWO_SIDED = 1.959964


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
        reach = math.hypot(_TWO_SIDED * sampling, -math.log(0.05) * scale)
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

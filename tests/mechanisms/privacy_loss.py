"""An empirical test of privacy: does a mechanism leak more than it claims, over a million runs?

The largest log-ratio of probabilities over events is bounded from below: an epsilon-DP mechanism
exceeds epsilon with probability below 1 - CONFIDENCE. `assert_private` also runs the mechanism at
half its noise (twice its epsilon), which has to be caught.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

#: Runs on each of the two labels.
RUNS = 1_000_000
#: Of the lower bound, over all events together.
CONFIDENCE = 0.999

#: Maps epsilon to the events observed on the one label [R] and on the other [R].
Draw = Callable[[float], list[NDArray[np.int64]]]


def privacy_loss_lower_bound(
    first: ArrayLike, second: ArrayLike, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Lower confidence bound of the largest log((Pr[first in E] - delta) / Pr[second in E]).

    E runs over single events, over {e or more} and {less than e}, and over both directions.
    Clopper-Pearson intervals at a level divided by the number of comparisons (Bonferroni). `first`
    and `second` are events observed on one label and on a neighboring one [R], numbered from 0.
    """
    observed = [np.asarray(first), np.asarray(second)]
    assert all(np.issubdtype(sample.dtype, np.integer) and sample.size for sample in observed)
    num_events = 1 + max(int(sample.max()) for sample in observed)
    counts = np.array([np.bincount(sample, minlength=num_events) for sample in observed])
    runs = counts.sum(1, keepdims=True)
    tails = counts.cumsum(1)[:, :-1]
    counts = np.concatenate([counts, tails, runs - tails], axis=1)
    alpha = (1 - confidence) / (4 * counts.shape[1])  # two limits, two directions, all events
    low = np.where(counts > 0, betaincinv(np.maximum(counts, 1), runs - counts + 1, alpha), 0.0)
    rest = np.maximum(runs - counts, 1)
    high = np.where(counts < runs, betaincinv(counts + 1, rest, 1 - alpha), 1.0)
    numerator = np.maximum(low - delta, 0.0)
    ratio = np.maximum(numerator[0] / high[1], numerator[1] / high[0])
    return float(np.log(np.maximum(ratio, 1.0)).max())


def assert_private(draw: Draw, *, epsilon: float, delta: float = 0.0) -> None:
    """Check that runs at `epsilon` stay below it, and that runs at twice `epsilon` are caught."""
    bound = privacy_loss_lower_bound(*draw(epsilon), delta=delta)
    assert bound <= epsilon, f"observed a privacy loss above {bound:.4f}; {epsilon} is claimed"
    caught = privacy_loss_lower_bound(*draw(2 * epsilon), delta=delta)
    assert caught > epsilon, f"half the noise went unnoticed: {caught:.4f} is not above {epsilon}"

"""What many aggregator settings cost over the same votes, at once: for sweeps and calibration.

Training teachers takes hours, pricing a setting of (sigma1, sigma2, threshold) milliseconds: votes
are stored once, and every setting is tried on them. Equal histograms are merged beforehand,
settings that share sigma2 share the curves of their answers, and all weights meet all curves in one
product of matrices.

>>> cheap = expected_of_settings([[240, 10], [130, 120]], [[150.0, 40.0, 200.0]], delta=1e-5)
>>> cheap.epsilon.round(4), cheap.answered.round(3)
(array([0.1156]), array([0.926]))
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import ORDERS, Conversion, conversion_offsets
from labeldp.mechanisms.pate.probabilities import gaussian_tail, sorted_gaps, union_bound
from labeldp.mechanisms.pate.renyi_bounds import (
    Floats,
    checked_noise,
    checked_orders,
    distinct,
    gaussian_curves,
    log_surprise,
)
from labeldp.mechanisms.pate.votes import checked_votes

#: Settings that share one pass over the curves of their answers.
_SETTINGS_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class SettingCosts:
    """Expected costs of S settings.

    Attributes:
        epsilon: [S].
        order: The Renyi order that gave each [S].
        answered: Expected number of answers [S].
        correct: Expected number of answers that are the teachers' plurality, at least [S].
    """

    epsilon: Floats
    order: Floats
    answered: Floats
    correct: Floats


def _checked_settings(settings: ArrayLike) -> Floats:
    array = np.asarray(settings, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise ValueError(
            f"settings has shape {array.shape}; it must be [S, 3], rows (sigma1, sigma2, threshold)"
        )
    for s, (sigma1, sigma2, threshold) in enumerate(array.tolist()):
        try:
            checked_noise(sigma1=sigma1, sigma2=sigma2)
            _validate.non_negative(threshold=threshold)
        except ValueError as error:
            raise ValueError(f"settings row {s}: {error}") from None
    return array


@dataclass(frozen=True, kw_only=True, eq=False)
class _MergedVotes:
    """Votes with equal histograms merged into H, and these by their P largest counts.

    Attributes:
        gaps: By how much classes trail the first, see `sorted_gaps` [H, K - 1].
        times: How often each histogram stands there [H].
        peaks: Largest counts [P].
        peak_of: Which of them each histogram has [H].
        peak_times: How many votes have each of them [P].
    """

    gaps: NDArray[np.int64]
    times: NDArray[np.intp]
    peaks: NDArray[Any]
    peak_of: NDArray[np.intp]
    peak_times: NDArray[Any]

    @classmethod
    def of(cls, votes: NDArray[Any]) -> "_MergedVotes":
        histograms, times = np.unique(np.sort(votes, axis=1), axis=0, return_counts=True)
        peaks, peak_of = np.unique(histograms[:, -1], return_inverse=True)
        return cls(
            gaps=sorted_gaps(histograms),
            times=times,
            peaks=peaks,
            peak_of=peak_of,
            peak_times=np.bincount(peak_of, weights=times),
        )

    def checks(self, threshold: float, sigma1: float, orders: Floats) -> tuple[Floats, Floats]:
        """Renyi costs of all checks [A], and how many of each histogram pass on average [H]."""
        log_p = log_ndtr((self.peaks - threshold) / sigma1)
        surprise, kind = distinct(log_surprise(log_p))
        multiplicity = np.bincount(kind, weights=self.peak_times).astype(np.float64)
        check = gaussian_curves(surprise, math.sqrt(2) * sigma1)
        rdp = check.weighted_sums(multiplicity[None], orders)[0]
        return rdp, np.exp(log_p)[self.peak_of] * self.times


def expected_of_settings(
    votes: Any,
    settings: ArrayLike,
    *,
    delta: float,
    max_answers: int | None = None,
    conversion: Conversion = Conversion.IMPROVED,
    orders: ArrayLike = ORDERS,
) -> SettingCosts:
    """Expected cost of Confident-GNMax over all queries, for every setting.

    The same numbers as `confident_gnmax_costs(...).expected(...)`, setting by setting; like them
    no guarantee, and private.

    Args:
        votes: Counts [N, K], one vote per teacher.
        settings: Rows (sigma1, sigma2, threshold) [S, 3].
        delta: In (0, 1).
        max_answers: Where more answers are expected than this, price the share of the queries that
            yields so many: an estimate, as if the queries came in random order.
        conversion: From Renyi curves.
        orders: Renyi orders [A], above 1.

    Raises:
        ValueError: Not vote counts, a setting (its row is named), delta or orders out of range.
    """
    checked = _checked_settings(settings)
    ascending = np.unique(checked_orders(orders))
    offsets = conversion_offsets(ascending, delta, conversion)
    merged = _MergedVotes.of(checked_votes(votes))
    answered, correct = np.empty(len(checked)), np.empty(len(checked))
    rdp = np.empty((len(checked), len(ascending)))
    for sigma2 in np.unique(checked[:, 1]):
        values, curve_of = distinct(union_bound(merged.gaps, gaussian_tail(float(sigma2))))
        curves = gaussian_curves(values, float(sigma2))
        sharing = np.flatnonzero(checked[:, 1] == sigma2)
        for start in range(0, len(sharing), _SETTINGS_AT_ONCE):
            part = sharing[start : start + _SETTINGS_AT_ONCE]
            weights = np.empty((len(part), len(values)))
            for row, s in enumerate(part):
                sigma1, _, threshold = checked[s].tolist()
                rdp[s], given = merged.checks(threshold, sigma1, ascending)
                weights[row] = np.bincount(curve_of, weights=given, minlength=len(values))
            rdp[part] += curves.weighted_sums(weights, ascending)
            answered[part] = weights.sum(axis=1)
            correct[part] = weights @ -np.expm1(values)
    if max_answers is not None:
        _validate.whole(minimum=1, max_answers=max_answers)
        share = np.minimum(1.0, max_answers / np.maximum(answered, 1e-300))
        rdp, answered, correct = rdp * share[:, None], answered * share, correct * share
    costs = rdp + offsets
    best = costs.argmin(axis=1)
    return SettingCosts(
        epsilon=np.maximum(costs[np.arange(len(costs)), best], 0.0),
        order=ascending[best],
        answered=answered,
        correct=correct,
    )

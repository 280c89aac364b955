"""Noisy counts of labels in buckets of rows, which somebody else noised, and the way to read them.

Browsers and platforms give no labels, but histograms: how many rows of a bucket have a label of the
counted class, plus noise. A bucket is an interval of a column, one of its categories, or the rest
of it. Such counts are sums of labels along indicators of buckets, and all that a logistic model
with an effect of each bucket takes of labels. Intervals of a column have effects that change
smoothly along it. Counts of several columns need not agree.

>>> features = pd.DataFrame({"age": [20, 30, 40, 50] * 50, "town": ["A", "B", "B", "C"] * 50})
>>> asked = planned_buckets(features, epsilon=8.0, share=0.5)
>>> list(asked["column"].unique()), float(asked["scale"].iloc[0])
(['age', 'town'], 0.5)
>>> read = NoisyHistograms.read(asked.assign(count=[40, 40, 5, 5, 40, 45, 5]))
>>> (read.soft_labels(features)[:4, 1] > 0.5).tolist()
[True, True, False, False]
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import softmax

from labeldp.trainers.data.columns import by_name, identifier, is_missing, learned_values
from labeldp.trainers.data.written import class_name
from labeldp.trainers.methods.smooth_sums import fit_logistic

Floats = NDArray[np.float64]

#: Columns of a table that say what a bucket is; where the last three are empty, it is the rest.
BUCKET = ("column", "low", "high", "category")
#: Buckets of a column: their effects are smooth, so that many cost little.
_MOST_BUCKETS, _FEWEST_BUCKETS = 16, 3
#: Numbers of so few values are categories in an order.
_FEW_VALUES = 16


def planned_buckets(features: pd.DataFrame, *, epsilon: float, share: float = 0.05) -> pd.DataFrame:
    """Propose one histogram for each column that says something, by the features alone.

    A label of the counted class adds 1 to each histogram, so that all of them share epsilon. There
    are as many buckets as leave a count no smaller than its noise.

    Args:
        features: One row per label; columns that name single rows, and dates, are left out.
        epsilon: Of all histograms together, by W3C Attribution's rule: noise of scale
            2 x (number of histograms) / epsilon.
        share: Expected share of labels of the counted class.

    Returns:
        Columns `column`, `low`, `high`, `category` and `scale`, a row for each bucket.

    Raises:
        ValueError: No column is of use, or a number is out of its range.
    """
    if not (epsilon > 0 and np.isfinite(epsilon) and 0 < share < 1):
        raise ValueError(
            f"epsilon is {epsilon:g} and share {share:g}; epsilon must be above 0 and finite, and "
            "share between 0 and 1"
        )
    useful = dict[str, NDArray[Any]]()
    for name, column in (by_name(features) or {}).items():
        values, _ = learned_values(name, column)
        known = values[~is_missing(values)]
        if values.dtype.kind != "M" and len(set(known.tolist())) > 1:
            if identifier(name, values) is None:
                useful[name] = values
    if not useful:
        raise ValueError("the features have no column whose values differ and come again")
    scale = 2 * len(useful) / epsilon
    large = share * len(features) / (np.sqrt(2) * scale)
    most = int(np.clip(large, _FEWEST_BUCKETS, _MOST_BUCKETS))
    rows = [row for name, values in useful.items() for row in _buckets_of(name, values, most)]
    return pd.DataFrame(rows, columns=list(BUCKET)).assign(scale=scale)


def _buckets_of(name: str, values: NDArray[Any], most: int) -> list[tuple[Any, ...]]:
    """Return the buckets of a column: intervals of equally many rows, or frequent categories."""
    missing = is_missing(values)
    known = values[~missing]
    if values.dtype.kind in "iuf":
        cuts = np.unique(known)[1:]
        if len(cuts) >= min(most, _FEW_VALUES):
            shares = np.linspace(0, 1, most + 1)[1:-1]
            cuts = np.unique(np.quantile(known, shares, method="higher"))
        ends = [None, *cuts[cuts > known.min()].tolist(), None]
        buckets = [(name, low, high, None) for low, high in pairwise(ends)]
        rest = bool(missing.any())
    else:
        frequent = pd.Series([class_name(value) for value in known.tolist()]).value_counts()
        kept = frequent.index[: most - 1] if len(frequent) > most else frequent.index
        buckets = [(name, None, None, category) for category in kept]
        rest = bool(missing.any()) or len(frequent) > len(kept)
    return buckets + [(name, None, None, None)] * rest


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyHistograms:
    """Counts of labels of one class in buckets, with noise.

    Attributes:
        buckets: What each is, in the columns `BUCKET` [B].
        counts: Noisy counts [B].
        noise_std: Standard deviation of the noise of each [B].
    """

    buckets: pd.DataFrame
    counts: Floats
    noise_std: Floats

    @classmethod
    def read(cls, table: pd.DataFrame, *, scale: float | None = None) -> Self:
        """Read a table with a row for each bucket; one without a count was suppressed.

        Args:
            table: Columns `BUCKET`, of which those without a value may be left out; `count` or
                `value`; and the noise, `scale` of Laplace noise or `deviation` of Gaussian noise.
            scale: Of Laplace noise in all counts, in place of the columns of noise.
        """
        name = "count" if "count" in table else "value"
        if "column" not in table or name not in table:
            raise ValueError(
                f"the histograms have columns {', '.join(map(str, table.columns))}; they need "
                "column, low, high, category (`labeldp buckets` writes these) and count"
            )
        counts = _numbers(table, name)
        if scale is None:
            noise = _numbers(table, "deviation")
            noise = np.where(np.isnan(noise), np.sqrt(2) * _numbers(table, "scale"), noise)
        else:
            noise = np.full(len(table), np.sqrt(2) * scale)
        given = ~np.isnan(counts)
        wrong = given & ~((noise > 0) & np.isfinite(noise) & np.isfinite(counts))
        if wrong.any() or not given.any():
            row = int(wrong.argmax())
            what = f"row {row} has count {counts[row]:g} and noise {noise[row]:g}"
            raise ValueError(
                f"{what if wrong.any() else 'no bucket has a count'}; each count needs noise above "
                "0: give a column scale (Laplace) or deviation (Gaussian), or --noise laplace "
                "--l1 L --epsilon E"
            )
        buckets = table.reindex(columns=list(BUCKET))[given].reset_index(drop=True)
        return cls(buckets=buckets, counts=counts[given], noise_std=noise[given])

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the features that buckets are of."""
        return list(dict.fromkeys(self.buckets["column"].astype(str)))

    def soft_labels(self, features: pd.DataFrame) -> Floats:
        """Return the chances of the other class and of the counted one [N, 2] for each row."""
        inside = self._members(features)
        held = inside.sum(0, dtype=np.float64)
        full = held > 0
        lost = [c for c in self.columns if not full[self.buckets["column"] == c].any()]
        if lost:
            raise ValueError(
                f"no row of the features is in a bucket of column {lost[0]!r}; check that the "
                "histograms are of this table"
            )
        turned, strengths = self._directions(full)
        weights = (inside[:, full] @ turned).astype(np.float32)
        sums = turned.T @ self.counts[full]
        noise = np.square(turned).T @ np.square(self.noise_std[full])
        totals = weights.sum(0, dtype=np.float64)
        precise = 1 / np.square(self.noise_std[full])
        share = (precise * self.counts[full]).sum() / (precise * held[full]).sum()
        share = float(np.clip(share, 1 / len(features), 1 - 1 / len(features)))
        slopes, offsets = fit_logistic(
            weights,
            np.ones((len(weights), 1), np.float32),
            np.stack([totals - sums, sums], axis=1),
            np.array([1 - share, share]),
            strengths=strengths * np.square(weights).mean(0, dtype=np.float64),
            noise_variance=noise[:, None],
            share=1.0,
        )
        return np.asarray(softmax(weights @ slopes + offsets, axis=1))

    def _members(self, features: pd.DataFrame) -> NDArray[np.float32]:
        """Whether each row is in each bucket [N, B]."""
        known = by_name(features) or {}
        inside = np.zeros((len(features), len(self.buckets)), np.float32)
        for name in self.columns:
            if name not in known:
                raise ValueError(
                    f"the histograms are of column {name!r}, which the features lack; they have "
                    f"{', '.join(known)}"
                )
            places = np.flatnonzero(self.buckets["column"].astype(str) == name)
            values, _ = learned_values(name, known[name])
            for place in places:
                inside[:, place] = self._in_bucket(place, values)
            rest = [place for place in places if self.buckets.iloc[place, 1:].isna().all()]
            inside[:, rest] = (inside[:, places].sum(1) == 0)[:, None]
        return inside

    def _in_bucket(self, place: int, values: NDArray[Any]) -> NDArray[np.bool_]:
        bucket = self.buckets.iloc[place]
        if not pd.isna(bucket["category"]):
            wanted, own = class_name(bucket["category"]), pd.unique(pd.Series(values))
            alike = [value for value in own if not pd.isna(value) and class_name(value) == wanted]
            return np.asarray(pd.Series(values).isin(alike))
        low, high = (pd.to_numeric(bucket[end]) for end in ("low", "high"))
        if pd.isna(low) and pd.isna(high):
            return np.zeros(len(values), bool)
        if values.dtype.kind not in "iuf":
            raise ValueError(
                f"column {bucket['column']!r} holds no numbers, but a bucket of it has low or high"
            )
        above = True if pd.isna(low) else values >= low
        return np.asarray(above & (True if pd.isna(high) else values < high))

    def _directions(self, full: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return orthonormal directions of buckets [B, B] that hold rows, and their strengths [B].

        Along the intervals of a column these are waves, the longest the strongest.
        """
        buckets = self.buckets[full].reset_index(drop=True)
        low = pd.to_numeric(buckets["low"]).fillna(-np.inf)
        of_numbers = buckets["low"].notna() | buckets["high"].notna()
        order, parts, strengths = list[int](), list[Floats](), list[Floats]()
        for name in self.columns:
            own = buckets["column"].astype(str) == name
            intervals = low[own & of_numbers].sort_values(kind="stable").index
            others = buckets.index[own & ~of_numbers]
            count = len(intervals)
            waves = np.arange(count)
            parts += [np.cos(np.pi * np.outer(waves + 0.5, waves) / max(count, 1))]
            parts += [np.eye(len(others))]
            strengths += [count / (1.0 + waves**2), np.ones(len(others))]
            order += [*intervals, *others]
        turned = np.zeros((len(buckets), len(buckets)))
        turned[order] = block_diag(*[part for part in parts if part.size])
        return turned / np.linalg.norm(turned, axis=0), np.concatenate(strengths)


def _numbers(table: pd.DataFrame, name: str) -> Floats:
    """Return a column of numbers [B], NaN where there is none."""
    if name not in table:
        return np.full(len(table), np.nan)
    try:
        return np.asarray(pd.to_numeric(table[name]), np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} of the histograms holds text; give numbers") from None

"""Noisy counts of labels in buckets of rows, which somebody else noised, and the way to read them.

Browsers and platforms give no labels, but histograms: how many rows of a bucket have a label of the
counted class, plus noise. Such counts are sums of labels along indicators of buckets, and all that
a logistic model with an effect of each bucket takes of labels. Effects change smoothly along the
intervals of a column. Counts of several columns need not agree.

>>> features = pd.DataFrame({"age": [20, 30, 40, 50] * 50, "town": ["A", "B", "B", "C"] * 50})
>>> asked = planned_buckets(features, epsilon=8.0)
>>> list(asked["column"].unique()), float(asked["scale"].iloc[0])
(['age', 'town'], 0.5)
>>> found = read_histograms(asked.assign(count=[40, 40, 5, 5, 40, 45, 5]))
>>> (labels_of_counts(features, found)[:4, 1] > 0.5).tolist()
[True, True, False, False]
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.special import softmax

from labeldp.mechanisms import _validate
from labeldp.trainers.data.columns import (
    by_name,
    class_name,
    identifier,
    is_missing,
    learned_values,
)
from labeldp.trainers.methods.smooth_sums import fit_logistic

Floats = NDArray[np.float64]

#: Columns of a table that say what a bucket is; where the last three are empty, it is the rest.
BUCKET = ("column", "low", "high", "category")
#: Buckets of a column: their effects are smooth, so that many cost little.
_MOST_BUCKETS = 16
_FEWEST_BUCKETS = 3
#: Share of counted labels that a plan expects.
_SHARE = 0.05


def planned_buckets(features: pd.DataFrame, *, epsilon: float) -> pd.DataFrame:
    """Propose a histogram of each column that may say something, by the features alone.

    Each counted label adds 1 to every histogram, so that they share epsilon. Buckets
    are so large that the noise should not exceed their counts. A category has the name of its most
    frequent spelling. Its count includes rows that spell the same value in another way.

    Columns that name single rows, and dates, are left out. By W3C Attribution's rule the noise has
    a `scale` of 2 x (number of histograms) / epsilon, which the table has beside `BUCKET`.

    Raises:
        ValueError: No column is of use, or epsilon is not above 0.
    """
    _validate.positive(epsilon=epsilon)
    useful = dict[str, NDArray[Any]]()
    for name, column in (by_name(features) or {}).items():
        values, _ = learned_values(name, column)
        varies = len(set(values[~is_missing(values)].tolist())) > 1
        if varies and values.dtype.kind != "M" and identifier(name, values) is None:
            useful[name] = values
    if not useful:
        raise ValueError("the features have no column whose values differ and come again")
    scale = 2 * len(useful) / epsilon
    least = np.sqrt(2) * scale / _SHARE
    rows = [row for name, values in useful.items() for row in _buckets_of(name, values, least)]
    return pd.DataFrame(rows, columns=list(BUCKET)).assign(scale=scale)


def _buckets_of(name: str, values: NDArray[Any], least: float) -> list[tuple[Any, ...]]:
    """Return buckets of about `least` rows or more: even intervals, or frequent categories."""
    known = values[~is_missing(values)]
    most = int(np.clip(len(known) / least, _FEWEST_BUCKETS, _MOST_BUCKETS))
    if values.dtype.kind in "iuf":
        cuts = np.unique(known)[1:]
        if len(cuts) >= most:
            shares = np.linspace(0, 1, most + 1)[1:-1]
            # The least value has its own bucket where many rows have it.
            cuts = np.unique(np.maximum(cuts[0], np.quantile(known, shares, method="higher")))
        ends = [None, *cuts.tolist(), None]
        buckets = [(name, low, high, None) for low, high in pairwise(ends)]
        rest = len(known) < len(values)
    else:
        spelled = pd.Series([str(value) for value in known.tolist()])
        names = spelled.map(class_name)
        frequent = names.value_counts()
        kept = frequent.index[: max(1, min(int((frequent >= least).sum()), most))]
        # The party that counts has no names, but spellings.
        buckets = [(name, None, None, spelled[names == each].mode()[0]) for each in kept]
        rest = len(known) < len(values) or len(kept) < len(frequent)
    return buckets + [(name, None, None, None)] * rest


def read_histograms(table: pd.DataFrame, *, scale: float | None = None) -> pd.DataFrame:
    """Return `BUCKET`, `count` (NaN of a suppressed one) and `noise_std` of columns with a count.

    Args:
        table: Columns `BUCKET`, of which those without a value may be left out; `count` or `value`;
            and the noise, `scale` of Laplace noise or `deviation` of Gaussian noise.
        scale: Of Laplace noise in all counts, of a table without the columns of noise.

    Raises:
        ValueError: A column is missing or holds text. Or no bucket has a count. Or the table and
            `scale` both state the noise.
    """
    counted = "count" if "count" in table else "value"
    if not {"column", counted} <= {*table}:
        raise ValueError(
            f"the histograms have columns {', '.join(map(str, table))}; they need column, low, "
            "high, category (as `labeldp buckets` writes them) and count"
        )
    found = table.reindex(columns=list(BUCKET)).assign(column=table["column"].astype(str))
    found["low"] = _numbers(table, "low")
    found["high"] = _numbers(table, "high")
    found["count"] = _numbers(table, counted)
    laplace = _numbers(table, "scale")
    gaussian = _numbers(table, "deviation")
    if scale is not None:
        if not np.isnan([laplace, gaussian]).all():
            raise ValueError(
                f"the histograms state their noise in a column, and --l1 (l1=) gives each count a "
                f"scale of {scale:g}, too; leave out the column, or --noise and --l1"
            )
        laplace = np.full(len(table), scale)
    found["noise_std"] = np.where(np.isnan(gaussian), np.sqrt(2) * laplace, gaussian)
    given = found.dropna(subset="count")
    # Squares of the noise must stay numbers.
    usable = np.isfinite(given["count"]) & given["noise_std"].between(1e-100, 1e100)
    if not (len(given) and usable.all()):
        bad = f"row {usable.idxmin()} has no count or no noise" if len(given) else "no row has one"
        raise ValueError(
            f"{bad}: each count needs noise above 0; give a column scale (Laplace) or deviation "
            "(Gaussian), or --noise laplace --l1 L --epsilon E"
        )
    if (empty := found["low"] >= found["high"]).any():
        raise ValueError(f"row {empty.idxmax()} has a low that is not below its high: swap them")
    return found[found["column"].isin(given["column"])].reset_index(drop=True)


def labels_of_counts(features: pd.DataFrame, buckets: pd.DataFrame) -> Floats:
    """Return the chances of the other class and of the counted one [N, 2] for each row.

    `features` are the rows that were counted, `buckets` as `read_histograms` returns them.

    Raises:
        ValueError: The buckets are not of these features.
    """
    inside = _members(features, buckets)
    held = inside.sum(0, dtype=np.float64)
    # The count of a bucket without rows is noise alone. Rows of a suppressed one are not the rest.
    used = (held > 0) & buckets["count"].notna().to_numpy()
    inside = inside[:, used]
    buckets = buckets[used]
    held = held[used]
    counts = buckets["count"].to_numpy()
    variance = np.square(buckets["noise_std"].to_numpy())
    share = (counts / variance).sum() / (held / variance).sum()
    share = float(np.clip(share, 0.5 / len(features), 1 - 0.5 / len(features)))
    directions, strengths = _directions(buckets)
    weights = (inside @ directions).astype(np.float32)
    sums = directions.T @ counts
    slopes, offsets = fit_logistic(
        weights,
        np.ones((len(weights), 1), np.float32),
        np.stack([weights.sum(0, dtype=np.float64) - sums, sums], axis=1),
        np.array([1 - share, share]),
        strengths=strengths * np.square(weights).mean(0, dtype=np.float64),
        noise_variance=(np.square(directions).T @ variance)[:, None],
        share=1.0,
    )
    return np.asarray(softmax(weights @ slopes + offsets, axis=1))


def _members(features: pd.DataFrame, buckets: pd.DataFrame) -> NDArray[np.float32]:
    """Whether each row is in each bucket [N, B]."""
    known = by_name(features) or {}
    inside = np.zeros((len(features), len(buckets)), np.float32)
    for name, own in buckets.groupby("column", sort=False):
        if name not in known:
            raise ValueError(
                f"the histograms are of column {name!r}, which the features lack; they have "
                f"{', '.join(known)}"
            )
        values = pd.Series(learned_values(str(name), known[name])[0])
        names = values.map({each: class_name(each) for each in values.dropna().unique()})
        for place, bucket in own.iterrows():
            if not pd.isna(bucket["category"]):
                inside[:, place] = names == class_name(bucket["category"])
            elif not (pd.isna(bucket["low"]) and pd.isna(bucket["high"])):
                if values.dtype.kind not in "iuf":
                    raise ValueError(f"column {name!r} holds no numbers, but has a bucket with low")
                # An open end is NaN, of which every comparison is false.
                below = (values < bucket["low"]) | (values >= bucket["high"])
                inside[:, place] = values.notna() & ~below
        rest = own.index[own[["low", "high", "category"]].isna().all(axis=1)]
        inside[:, rest] = (inside[:, own.index].sum(1) == 0)[:, None]
        if not inside[:, own.index].any():
            raise ValueError(
                f"no row of the features is in a bucket of column {name!r}; check that the "
                "histograms are of this table"
            )
    return inside


def _directions(buckets: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return orthonormal directions of buckets [B, B], and their strengths [B].

    Along the intervals of a column these are waves, the longest the strongest.
    """
    order = list[int]()
    parts = list[Floats]()
    strengths = list[Floats]()
    places = pd.Series(np.arange(len(buckets)), index=buckets.index)
    for _, own in buckets.groupby("column", sort=False):
        of_numbers = own["low"].notna() | own["high"].notna()
        intervals = own[of_numbers].sort_values("low", na_position="first").index
        others = own.index[~of_numbers]
        count = len(intervals)
        waves = np.arange(count)
        if count:
            parts.append(np.cos(np.pi * np.outer(waves + 0.5, waves) / count))
        if len(others):
            parts.append(np.eye(len(others)))
        strengths += [count / (1.0 + waves**2), np.ones(len(others))]
        order += places[[*intervals, *others]].tolist()
    turned = np.zeros((len(buckets), len(buckets)))
    turned[order] = block_diag(*parts)
    return turned / np.linalg.norm(turned, axis=0), np.concatenate(strengths)


def _numbers(table: pd.DataFrame, name: str) -> Floats:
    """Return a column of numbers [B], NaN where there is none."""
    try:
        return np.asarray(
            pd.to_numeric(table.get(name, pd.Series(np.nan, table.index))), np.float64
        )
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} of the histograms holds text; give numbers") from None

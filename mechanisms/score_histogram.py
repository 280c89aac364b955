"""AUC, log loss and calibration without public test labels, from one histogram of held-out labels.

A model scores held-out examples, and these scores are public. Each example's scores for a class are
cut into bins; released is the number of labels in each bin of their own class (`ScoreHistogram`).
Two classes mirror each other, so that the second alone is counted: a substituted label then changes
one count by 1, and two counts with more classes.

`ScoreEstimates` reads figures off the noisy counts. Where in its bin a label lies is not released;
it is taken to be as likely at an example as in the model, relative to the others of the bin. The
figures are linear in the counts (log loss, Brier score, accuracy) or ratios of such sums (AUC,
average precision, lift, where the number of positives is noisy itself). A ratio's interval has the
values that the counts do not refute (Fieller, 1954): it is [0, 1] where noise swamps the positives,
and holds all the same. Sums over bins make the noise nearly normal; intervals include the choice of
held-out examples. Coverage: `tests/mechanisms/test_score_histogram.py`.

>>> random = np.random.default_rng(7)
>>> chance = random.beta(0.4, 3.6, size=20_000)
>>> labels, cells = (random.random(20_000) < chance).astype(int), ScoreCells.of(chance, epsilon=1.0)
>>> counts = ScoreHistogram(epsilon=1.0).release(labels, cells.places, generator=random)
>>> found = ScoreEstimates(cells, counts, epsilon=1.0).figures()
>>> [f"{found[name].value:.2f}" for name in ("roc_auc", "log_loss", "positive_share")]
['0.86', '0.24', '0.10']
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Array, as_numpy, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.mechanisms.randomness import AnyGenerator, DrawnExactly, discrete_laplace

Numbers = NDArray[np.float64]

#: Bins of a class.
_LEAST_BINS = 10
_MOST_BINS = 50
#: Of the examples, for the lift: positives among the top scores against positives among all.
TOP_SHARE = 0.1
#: Scores of 0 are raised to it, as scikit-learn does with float32.
LEAST_SCORE = float(np.finfo(np.float32).eps)
#: Figures that an interval is searched among; noise may take one of several classes out of [0, 1].
_GRID = np.linspace(-1.0, 2.0, 3001)
#: Powers of the odds that a model's scores may have to be taken to.
_STRETCHES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
#: Standard deviations on either side of an estimate, and above a sum of gaps: of a normal
#: distribution 1.96 and 1.64 are enough for 95%; the deviations are estimated themselves.
_TWO_SIDED = 2.0
_ONE_SIDED = 1.7


@dataclass(frozen=True, kw_only=True)
class ScoreHistogram(PureMechanism, DrawnExactly):
    """Numbers of labels per cell plus discrete Laplace noise: pure epsilon-DP."""

    failure_probability: ClassVar[float] = 0.0

    def release(self, labels: AnyArray, places: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw the noisy counts, once: int64 [C], some below 0.

        `places` [N, K] has the cell of each example for each label that it may have, -1 where that
        is not counted; made without labels. C is the largest plus 1.
        """
        where = as_numpy(places)
        if where.ndim != 2 or not np.issubdtype(where.dtype, np.integer) or where.size == 0:
            raise ValueError(
                f"places has shape {where.shape} and type {where.dtype}; it must have the whole "
                "number of a cell for each label and class, [N, K]"
            )
        truth = _validate.labels(labels, num_classes=where.shape[1], secret=True)
        _validate.same_length(places=len(where), labels=len(truth))
        cells = int(where.max()) + 1
        if not 0 < cells <= where.size or where.min() < -1:
            raise ValueError(
                f"places holds {where.min()} to {where.max()}; number cells from 0 without gaps, "
                "-1 for what is not counted"
            )
        counts = _counted(where, truth)
        scale = sensitivity(where) / self.epsilon
        noise = discrete_laplace(generator, scale=scale, shape=counts.shape)
        return like(counts + noise, labels)


def _counted(
    places: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]]
) -> NDArray[np.int64]:
    mine = places[np.arange(len(labels)), labels]
    return np.bincount(mine[mine >= 0], minlength=int(places.max()) + 1)


def sensitivity(places: NDArray[np.integer[Any]]) -> int:
    """Most that a substituted label changes all counts together: by `places` [N, K]."""
    return 1 if (np.count_nonzero(places >= 0, axis=1) < 2).all() else 2


@dataclass(frozen=True, eq=False)
class ScoreCells:
    """Cells of examples by their public scores: bins of each counted class, one after another."""

    scores: Numbers  # probabilities of the classes [H, K]
    places: NDArray[np.int64]  # cell of each example and class [H, K]; -1 for the first of two

    @classmethod
    def of(cls, scores: Array, *, epsilon: float) -> "ScoreCells":
        """Cut scores [H, K], or those of the second of two classes [H], for counts at epsilon.

        A bin has as much of the examples and of the class's expected labels as any other, half
        each: few examples where the class is likely. None has both examples that are answered with
        the class and others.
        """
        given = as_numpy(scores).astype(np.float64)
        table = np.column_stack([1 - given, given]) if given.ndim == 1 else given
        if table.ndim != 2 or table.shape[1] < 2 or not len(table) or not np.isfinite(table).all():
            raise ValueError(f"scores have shape {given.shape}; they must be finite, [H] or [H, K]")
        # A score of 0 would make the log loss of one example infinite.
        table = np.clip(table, LEAST_SCORE, 1.0)
        answers = table.argmax(axis=1)
        cells = 0
        places = np.full(table.shape, -1, dtype=np.int64)
        for each in range(table.shape[1] == 2, table.shape[1]):  # of two the second
            mine = table[:, each]
            # By answer first: a bin with both kinds would mix right answers with wrong ones.
            keys = mine + 2.0 * (answers == each)
            order = np.argsort(keys, kind="stable")
            first = np.searchsorted(keys, keys, sorter=order)[order]
            # More bins follow the scores more closely, and each adds noise.
            expected = float(np.minimum(mine, 1 - mine).sum())
            bins = min(max(round(math.sqrt(epsilon * expected)), _LEAST_BINS), _MOST_BINS)
            mass = np.cumsum(1 / len(mine) + (mine / mine.sum())[order]) / 2
            # Twice, so that the last digit separates the two kinds of examples within a bin. Equal
            # scores share a bin: their order is that of the rows, which may be one of labels.
            parts = 2 * np.floor(mass[first] * bins - 1e-9) + (answers == each)[order]
            places[order, each] = cells + np.unique(parts, return_inverse=True)[1]
            cells = int(places.max()) + 1
        return cls(table, places)

    @property
    def classes(self) -> range:
        """The classes whose labels are counted."""
        return range(self.scores.shape[1] == 2, self.scores.shape[1])

    @property
    def number(self) -> int:
        """Number of cells, C."""
        return int(self.places.max()) + 1

    @property
    def expected(self) -> Numbers:
        """Sum of the scores in each cell [C]."""
        places = self.places[:, self.classes].ravel()
        return np.bincount(places, self.scores[:, self.classes].ravel()).astype(np.float64)

    def exactly(self, labels: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Count public labels [H]: [C]."""
        return _counted(self.places, labels)


@dataclass(frozen=True, kw_only=True)
class Estimated:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float
    noise: float  # the standard error from privacy's noise alone
    std: float | None = None  # the standard error, unless it follows from the interval

    @property
    def error(self) -> float:
        """Standard error: of the choice of held-out examples and of the noise."""
        return (self.high - self.low) / (2 * _TWO_SIDED) if self.std is None else self.std


class ScoreEstimates:
    """Figures of scores by the noisy counts of a `ScoreHistogram` over their cells."""

    def __init__(self, cells: ScoreCells, counts: NDArray[Any], *, epsilon: float) -> None:
        """Take counts [C] that were released of `cells` at this epsilon."""
        scores = cells.scores
        places = cells.places
        if len(counts) != cells.number:
            raise ValueError(f"there are {len(counts)} counts for {cells.number} cells")
        self.scores = scores
        self.size = len(scores)
        unit = epsilon / sensitivity(places)
        # Of discrete Laplace noise, whose variance is 2 e^-unit / (1 - e^-unit)^2.
        self.noise_std = math.sqrt(2 * math.exp(-unit)) / -math.expm1(-unit)
        every = np.asarray(counts, dtype=np.float64)
        self._two = len(cells.classes) == 1
        if not self._two:  # together they are all labels, and that number is known
            every = every + (self.size - every.sum()) / len(every)
        self._classes = [
            _Class(
                scores[:, each], places[:, each], every[np.unique(places[:, each])], self.noise_std
            )
            for each in cells.classes
        ]

    @property
    def prior(self) -> Numbers:
        """Shares of the classes [K], none below 0."""
        shares = np.array([each.counts.sum() for each in self._classes])
        if self._two:
            shares = np.append(self.size - shares, shares)
        # Noise may make counts negative, or all of them 0.
        shares = np.clip(shares, 0, self.size) + 1e-9
        return np.asarray(shares / shares.sum())

    @property
    def threshold(self) -> float:
        """Of two classes: the score from which as many are the second as by the prior."""
        ordered = np.sort(self.scores[:, 1])[::-1]
        return float(ordered[max(0, round(self.prior[1] * self.size) - 1)])

    @property
    def accuracy(self) -> AccuracyEstimate:
        """Share of examples whose likeliest class is their label."""
        answers = self.scores.argmax(axis=1)
        found = self.mean(np.arange(self.scores.shape[1]) == answers[:, None])
        return AccuracyEstimate.from_mean(
            found.value, examples=self.size, count_scale=found.noise / math.sqrt(2)
        )

    def figures(self) -> dict[str, Estimated]:
        """Return every figure but the accuracy, by name; of several classes their means."""
        scores = self.scores
        squared = (scores**2).sum(axis=1, keepdims=True)
        found = {
            "roc_auc": _mean([each.roc_auc() for each in self._classes]),
            "average_precision": _mean([each.average_precision() for each in self._classes]),
            "log_loss": self.mean(-np.log(scores)),
            "brier_score": self.mean((squared - 2 * scores + 1) / (1 + self._two)),
            "calibration_error": _mean([each.calibration_error() for each in self._classes]),
            "lift": _mean([each.lift() for each in self._classes], 1 / TOP_SHARE),
        }
        if self._two:
            found["positive_share"] = self.mean(np.arange(2.0) * np.ones_like(scores))
        return found

    def mean(self, values: object) -> Estimated:
        """Mean over the examples of what each would add [H, K] with each label."""
        added = np.asarray(values, dtype=np.float64)
        base = added[:, 0] * self._two  # of several classes each is counted
        added = added[:, int(self._two) :]
        powers = [(base**k, added**k - base[:, None] ** k) for k in (1, 2)]
        counts = np.concatenate([each.counts for each in self._classes])
        (value, noise), (square, doubt) = (self._sum(*each, counts) for each in powers)
        # The variance is unknown by its own noise, and too large an interval is the honest one.
        variance = max(0.0, square + doubt - value**2) / self.size
        std = math.hypot(noise, math.sqrt(variance))
        low = max(0.0, value - _TWO_SIDED * std)
        high = max(0.0, value + _TWO_SIDED * std)
        return Estimated(value=value, low=low, high=high, noise=noise, std=std)

    def _sum(self, base: Numbers, change: Numbers, counts: Numbers) -> tuple[float, float]:
        """Mean of `base` and of the labels' changes [H, K or 1], and its noise."""
        pairs = zip(self._classes, change.T, strict=True)
        each = np.concatenate([mine.per_bin(column[mine.order]) for mine, column in pairs])
        value = (base.sum() + each @ counts) / self.size
        # Counts of several classes were shifted to their known sum, which removes the noise of
        # their mean.
        centered = each if self._two else each - each.mean()
        return float(value), float(self.noise_std * np.linalg.norm(centered)) / self.size


def _mean(estimates: Sequence[Estimated], most: float = 1.0) -> Estimated:
    """Mean of estimates, between 0 and `most`.

    Noise of classes is independent. The same examples decide all of them, so that errors by the
    choice of examples may add up.
    """
    value = float(np.mean([each.value for each in estimates]))
    noise = math.hypot(*(each.noise for each in estimates)) / len(estimates)

    def reach(gaps: Sequence[float]) -> float:
        if len(estimates) == 1:
            return gaps[0]
        chosen = (
            gap**2 - (_TWO_SIDED * x.noise) ** 2 for gap, x in zip(gaps, estimates, strict=True)
        )
        together = sum(math.sqrt(max(0.0, each)) for each in chosen) / len(estimates)
        return math.hypot(together, _TWO_SIDED * noise)

    low = value - reach([each.value - each.low for each in estimates])
    high = value + reach([each.high - each.value for each in estimates])
    value, low, high = (min(most, max(0.0, each)) for each in (value, low, high))
    return Estimated(value=value, low=low, high=high, noise=noise)


class _Class:
    """One class: examples by their score [H], noisy counts of its labels in bins [B]."""

    def __init__(
        self, score: Numbers, places: NDArray[np.int64], counts: Numbers, noise_std: float
    ) -> None:
        self.order = order = np.argsort(score, kind="stable")
        self.score = score[order]
        self.bins = places[order] - places.min()
        self.counts = counts
        self.total = float(counts.sum())
        self.size = len(score)
        self.variance = noise_std**2
        self.chance = self._chance()
        self.weights = self.chance / np.bincount(self.bins, self.chance)[self.bins]
        #: Few labels in a bin have a small variance, and noise may have made them few.
        self.careful = np.maximum(counts, 0.0) + noise_std
        self.likely = np.minimum(self.careful[self.bins] * self.weights, 1.0)

    def _chance(self) -> Numbers:
        """Chance of the class at each score [H]: log odds stretched, and shifted to the total.

        Models may be too sure or too unsure; the counts decide by how much, as far as they can.
        """
        odds = logit(np.clip(self.score, LEAST_SCORE, 1 - LEAST_SCORE))
        # Noise may have left no label, or more labels than examples.
        aim = min(max(self.total, math.sqrt(self.variance), 1.0), self.size - 1.0)
        best = -math.inf
        chance = self.score
        for stretch in _STRETCHES:
            low = -60.0
            high = 60.0
            for _ in range(40):
                shift = (low + high) / 2
                found = expit(stretch * odds + shift)
                if found.sum() > aim:
                    high = shift
                else:
                    low = shift
            expected = np.bincount(self.bins, found)
            misfit = (self.counts - expected) ** 2 / (self.variance + expected)
            # A log-normal prior keeps the scores as they are where the counts say little.
            score = -misfit.sum() / 2 - math.log(stretch) ** 2 / 2
            if score > best:
                best = score
                chance = found
        return chance

    def per_bin(self, values: Numbers) -> Numbers:
        """Return what a label in each bin adds, if examples add these values [H]: [B]."""
        return np.asarray(np.bincount(self.bins, self.weights * values), dtype=np.float64)

    def _ratio(
        self,
        value: Callable[[Numbers], Numbers],
        slope: Callable[[Numbers], Numbers],
        spread: Callable[[Numbers], Numbers],
    ) -> Estimated:
        """The figure that the counts refute least, and the interval of those that they do not.

        Of the right figure `value` has mean 0. `slope` [G, B] is its change with each count,
        `spread` [G] its variance by the choice of examples.
        """
        # A ratio of two noisy numbers has no standard error of its own. Each candidate is tested
        # instead (Fieller).
        distance = np.abs(value(_GRID))
        noise = self.variance * (slope(_GRID) ** 2).sum(axis=1)
        every = np.sqrt(noise + spread(_GRID)) + 1e-12
        best = int((distance / every).argmin())
        inside, alone = (
            _GRID[distance - least <= _TWO_SIDED * std]
            for std, least in ((every, 0.0), (np.sqrt(noise), distance[best]))
        )
        # Where the counts refute every value, nothing is known.
        interval = inside if len(inside) else _GRID
        low = float(interval[0])
        high = float(interval[-1])
        return Estimated(
            value=float(_GRID[best]),
            low=low,
            high=high,
            noise=min(float(np.ptp(alone)), high - low) / (2 * _TWO_SIDED),
        )

    def roc_auc(self) -> Estimated:
        """Chance that a label of the class has a higher score than another one."""
        sides = (np.searchsorted(self.score, self.score, side) for side in ("left", "right"))
        ranks = np.mean(list(sides), axis=0)
        below = self.per_bin(ranks)
        size = self.size
        total = self.total
        # The square of a noisy number is too large by its variance.
        squared = total**2 - len(self.counts) * self.variance
        positives = float(self.likely.sum())
        own = np.cumsum(self.likely) - self.likely / 2

        def spread(grid: Numbers) -> Numbers:
            of_class = _squares(self.likely, ranks - own, size - positives, grid)
            return of_class + _squares(1 - self.likely, positives - own, positives, grid)

        return self._ratio(
            lambda grid: below @ self.counts + (grid - 0.5) * squared - grid * size * total,
            lambda grid: below + (2 * (grid - 0.5) * total - grid * size)[:, None],
            spread,
        )

    def average_precision(self) -> Estimated:
        """Mean over the labels of the class of the precision at their score."""
        first = np.searchsorted(self.score, self.score)  # equal scores are passed together
        above = self.size - first
        bins = range(len(self.counts))
        pairs = np.column_stack(
            [
                self.per_bin(_from(self.weights * (self.bins == each), first) / above)
                for each in bins
            ]
        )
        alone = self.per_bin(1 / above)
        pairs[np.diag_indices(len(bins))] -= np.bincount(self.bins, self.weights**2 / above)
        total = self.total
        counts = self.counts
        value = alone @ counts + counts @ pairs @ counts - self.variance * np.trace(pairs)
        slope = alone + (pairs + pairs.T) @ self.careful
        precision = np.clip(_from(self.likely, first) / above, 0.0, 1.0)
        gain, loss = (np.cumsum(self.likely * p / above) for p in (1 - precision, precision))
        return self._ratio(
            lambda grid: value - grid * total,
            lambda grid: slope - grid[:, None],
            lambda grid: (
                _squares(self.likely, precision + gain, 1.0, grid)
                + float((1 - self.likely) @ loss**2)
            ),
        )

    def lift(self) -> Estimated:
        """Share of the class among the top scores, over its share among all."""
        top = among_top(self.score)
        reached = self.per_bin(top)
        found = self._ratio(
            lambda grid: reached @ self.counts - grid * self.total,
            lambda grid: reached - grid[:, None],
            lambda grid: _squares(self.likely, top, 1.0, grid),
        )
        names = ("value", "low", "high", "noise")
        return Estimated(**{name: getattr(found, name) / TOP_SHARE for name in names})

    def calibration_error(self) -> Estimated:
        """Distance of mean score and share of labels, over the bins by their examples."""
        gaps = np.bincount(self.bins, self.score) - self.counts
        # Noise makes every gap look larger.
        value = np.sqrt(np.maximum(gaps**2 - self.variance, 0)).sum()
        chances = np.bincount(self.bins, self.likely * (1 - self.likely))
        spread = np.sqrt(self.variance + chances)
        # Of a sum of absolute normal variables, which is how far the sum of gaps can be off.
        reach = math.sqrt(2 / math.pi) * spread.sum()
        reach += _ONE_SIDED * math.sqrt(1 - 2 / math.pi) * float(np.linalg.norm(spread))
        raw = np.abs(gaps).sum()
        return Estimated(
            value=float(value) / self.size,
            low=max(0.0, float(raw) - reach) / self.size,
            high=(float(raw) + reach) / self.size,
            noise=math.sqrt(len(gaps) * self.variance) / self.size,
        )


def among_top(scores: Numbers) -> Numbers:
    """Return how much of each example [H] is in the top `TOP_SHARE`: equal scores are in alike."""
    ordered = np.sort(scores)
    first, last = (np.searchsorted(ordered, scores, side) for side in ("left", "right"))
    return np.clip((last - (1 - TOP_SHARE) * len(scores)) / (last - first), 0.0, 1.0)


def _from(values: Numbers, first: NDArray[np.int64]) -> Numbers:
    """Sum of the values [H] from each example's first equal score upwards."""
    return np.cumsum(values[::-1])[::-1][first]


def _squares(weights: Numbers, values: Numbers, factor: float, grid: Numbers) -> Numbers:
    """Sum of weights [H] times (values [H] - factor grid)^2, for each of a grid [G]."""
    zero, one, two = (float(weights @ values**power) for power in range(3))
    squares = two - 2 * factor * grid * one + (factor * grid) ** 2 * zero
    return np.maximum(squares, 0.0)  # rounding may leave less

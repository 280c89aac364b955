"""Models of tables that one release has taught, and their mixture.

They are written without code: arrays, and trees in the format of skops (`stored`).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit, softmax

from labeldp.mechanisms.posterior import project_to_simplex
from labeldp.trainers.data.preprocessing import SparseRows, dense_of
from labeldp.trainers.data.stored import Stored
from labeldp.trainers.models.smooth_functions import (
    CLIPPED,
    KNOTS,
    SAMPLE,
    SmoothFunctions,
    of_two_values,
)
from labeldp.trainers.settings.trainer import OfAmounts, Predictor

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

#: Names of logistic models by what they see.
_NAMES = {
    "standard_columns": "linear",
    "ranked_columns": "linear",
    "sparse_view": "linear on sparse columns",
    "smooth_functions": "kernel",
}
#: Units of other columns beside sparse ones, whose rows have length 1, and length of directions.
_BESIDE = 0.2
_OF_DIRECTIONS = 0.6
_TINY = 1e-12
#: How far the sum of weights may be from 1.
_ROUNDED = 1e-6
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, kw_only=True, eq=False)
class StandardColumns(Stored):
    """Columns in standard units, clipped, by their means and deviations [D]."""

    kind: ClassVar[str] = "standard_columns"

    center: Singles
    scale: Singles

    @classmethod
    def learned(cls, rows: NDArray[np.floating]) -> "StandardColumns":
        """Measure rows [N, D]."""
        scale = rows.std(0)
        return cls(
            center=rows.mean(0).astype(np.float32),
            scale=np.where(scale > 0, scale, 1).astype(np.float32),
        )

    def __call__(self, rows: NDArray[np.floating]) -> Singles:
        """Return rows [N, D] in these units."""
        scaled = (np.asarray(rows, np.float32) - self.center) / self.scale
        return np.asarray(np.clip(scaled, -CLIPPED, CLIPPED))


@dataclass(frozen=True, kw_only=True, eq=False)
class RankedColumns(StandardColumns):
    """Columns in standard units, and beside them the ranks of those with more than two values.

    A model that is linear in both bends once, and a heavy tail or an outlier moves it little. Equal
    numbers have their mean rank.

    Attributes:
        ranked: Places of these columns [R].
        knots: Their quantiles [Q, R].
    """

    kind: ClassVar[str] = "ranked_columns"

    ranked: NDArray[np.intp]
    knots: NDArray[np.float64]

    @classmethod
    def learned(cls, rows: NDArray[np.floating]) -> "RankedColumns":
        """Measure rows [N, D]; quantiles are those of some of the rows."""
        plain = StandardColumns.learned(rows)
        chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:SAMPLE])
        sample = np.asarray(rows[chosen], np.float32)
        ranked = np.flatnonzero(~of_two_values(sample))
        return cls(
            center=plain.center,
            scale=plain.scale,
            ranked=ranked,
            knots=np.quantile(sample[:, ranked], np.linspace(0, 1, KNOTS), axis=0),
        )

    def __call__(self, rows: NDArray[np.floating]) -> Singles:
        """Return rows [N, D] in these units, with ranks of variance 1 [N, D + R]."""
        places = np.linspace(-math.sqrt(3), math.sqrt(3), len(self.knots))
        found = np.empty((len(rows), rows.shape[1] + len(self.ranked)), np.float32)
        found[:, : rows.shape[1]] = super().__call__(rows)
        for place, (column, knots) in enumerate(zip(self.ranked, self.knots.T, strict=True)):
            values = np.asarray(rows[:, column], np.float32)  # as knots, so that equals stay equal
            above = np.interp(values, knots, places)
            below = -np.interp(-values, -knots[::-1], places)
            found[:, rows.shape[1] + place] = (above + below) / 2
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseView(Stored):
    """Sparse columns, and in like units columns of numbers and categories, and directions."""

    kind: ClassVar[str] = "sparse_view"

    center: Singles
    scale: Singles

    @classmethod
    def learned(cls, rows: SparseRows) -> "SparseView":
        """Measure rows [N, D]."""
        found = StandardColumns.learned(rows.dense)
        center = np.zeros_like(found.center)
        center[rows.plain] = found.center[rows.plain]
        length = np.sqrt(np.square(np.delete(rows.dense, rows.plain, axis=1)).sum(1).mean())
        scale = np.full_like(found.scale, max(length, _TINY) / _OF_DIRECTIONS)
        scale[rows.plain] = found.scale[rows.plain] / _BESIDE
        return cls(center=center, scale=scale)

    def __call__(self, rows: SparseRows) -> Any:
        """Return rows [N, D] as sparse columns."""
        scaled = (np.asarray(rows.dense, np.float32) - self.center) / self.scale
        beside = sparse.csr_array(np.clip(scaled, -_BESIDE * CLIPPED, _BESIDE * CLIPPED))
        return sparse.hstack([beside, rows.sparse], "csr", np.float32)


View = StandardColumns | SparseView | SmoothFunctions


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Rows [N, D], and by kind what models see of them [N, M]; labels have no part in it."""

    rows: NDArray[np.floating]
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, rows: Any, views: tuple[View, ...]) -> "Table":
        """Compute each of the views of rows [N, D], or of `SparseRows`."""
        dense = dense_of(rows)
        columns = {v.kind: v(rows if isinstance(v, SparseView) else dense) for v in views}
        return cls(rows=dense, columns=columns)

    def only(self, places: NDArray[np.bool_]) -> "Table":
        """Return some of the rows."""
        columns = {kind: array[places] for kind, array in self.columns.items()}
        return Table(rows=self.rows[places], columns=columns)


class Family(Stored):
    """S models of one kind, which differ in one number."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the models [S]."""

    @abstractmethod
    def predict(self, table: Table) -> Floats:
        """Return each model's probabilities of the classes [S, N, K]."""

    @abstractmethod
    def fits(self, classes: int, kinds: set[str]) -> bool:
        """Whether it is of so many classes, and sees one of these kinds of columns or rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Constant(Family):
    """The same shares of the classes [K] for every row."""

    kind: ClassVar[str] = "constant"

    shares: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """As in `Family`."""
        return ("constant",)

    def predict(self, table: Table) -> Floats:
        """As in `Family`."""
        return np.broadcast_to(self.shares, (1, len(table.rows), len(self.shares)))

    def fits(self, classes: int, kinds: set[str]) -> bool:
        """As in `Family`."""
        return self.shares.shape == (classes,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Logistic(Family):
    """Logistic models, by the strength of the penalty.

    Attributes:
        view: Kind of what they see.
        strengths: Of the penalty on squared slopes [S].
        slopes: Weights [S, M, C], with one output C for two classes.
        offsets: Of the outputs [S, C].
    """

    kind: ClassVar[str] = "logistic"
    how: ClassVar[str] = ""

    view: str
    strengths: tuple[float, ...]
    slopes: Singles
    offsets: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """As in `Family`."""
        name = f"{_NAMES[self.view]}{self.how}"
        return tuple(f"{name}, penalty {each:g}" for each in self.strengths)

    def predict(self, table: Table) -> Floats:
        """As in `Family`."""
        columns = table.columns[self.view]
        outputs = zip(self.slopes, self.offsets, strict=True)
        return np.stack([probabilities(columns @ slopes + own) for slopes, own in outputs])

    def fits(self, classes: int, kinds: set[str]) -> bool:
        """As in `Family`."""
        shape = (len(self.strengths), 1 if classes == 2 else classes)
        return bool(
            self.view in kinds
            and self.slopes.ndim == 3
            and (len(self.slopes), self.slopes.shape[2]) == self.offsets.shape == shape
            and np.isfinite(self.slopes).all()
            and np.isfinite(self.offsets).all()
        )

    def raised(self, powers: Floats, shares: Floats) -> "Logistic":
        """Return models whose predictions are `calibrated` with these powers [S]."""
        base = np.log(shares)
        if len(base) == 2:
            base = base[1:] - base[0]
        slopes = self.slopes * powers[:, None, None]
        offsets = powers[:, None] * (self.offsets - base) + base
        return replace(self, slopes=slopes.astype(np.float32), offsets=offsets)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ordered(Logistic):
    """Logistic models whose slopes of a class are its place among ordered classes times one slope.

    So rare classes at the ends learn from all others.
    """

    kind: ClassVar[str] = "ordered"
    how: ClassVar[str] = " by order"


@dataclass(frozen=True, kw_only=True, eq=False)
class NearOrder(Logistic):
    """Logistic models whose slopes of a class differ a little from those by order."""

    kind: ClassVar[str] = "near_order"
    how: ClassVar[str] = " near the order"


def probabilities(outputs: NDArray[np.floating]) -> Floats:
    """Return probabilities [N, K] of outputs [N, K], or of the second class's [N, 1].

    They lie in memory class by class: sums over few classes of many rows are faster then.
    """
    if outputs.shape[1] > 1:
        outputs = np.asfortranarray(outputs)
        powers = np.exp(outputs - outputs.max(1, keepdims=True))
        return np.asarray(powers / powers.sum(1, keepdims=True), np.float64)
    second = expit(outputs.astype(np.float64)).T
    return np.vstack([1 - second, second]).T


@dataclass(frozen=True, kw_only=True, eq=False)
class Inverted(Family):
    """A model of which classes a release makes likelier, turned back through the channel.

    Attributes:
        estimator: A fitted classifier of scikit-learn, of those of the K classes that occur.
        rounds: Of boosting, the rounds after which it is read [S]; none for other classifiers.
        classes: K.
        size: How many classes a release makes likelier, on average.
        own, other: How often it does so for a label's own class, and for each other class.
    """

    kind: ClassVar[str] = "inverted"
    kept: ClassVar[str] = "estimator"

    estimator: Any
    rounds: tuple[int, ...]
    classes: int
    size: float
    own: float
    other: float

    @property
    def names(self) -> tuple[str, ...]:
        """As in `Family`."""
        if not self.rounds:
            return (type(self.estimator).__name__,)
        leaves = self.estimator.max_leaf_nodes
        return tuple(f"boosting, {count} rounds of {leaves} leaves" for count in self.rounds)

    def predict(self, table: Table) -> Floats:
        """As in `Family`."""
        if not self.rounds:
            return self._back(self.estimator.predict_proba(table.rows))[None]
        staged = enumerate(self.estimator.staged_decision_function(table.rows), 1)
        read = (found.reshape(len(found), -1) for count, found in staged if count in self.rounds)
        return np.stack([self._back(probabilities(found)) for found in read])

    def fits(self, classes: int, kinds: set[str]) -> bool:
        """As in `Family`."""
        return self.classes == classes and self.own >= self.other >= 0

    def _back(self, found: Floats) -> Floats:
        every = np.zeros((len(found), self.classes))
        every[:, self.estimator.classes_] = found
        back = (self.size * every - self.other) / max(self.own - self.other, _TINY)
        return np.asarray(project_to_simplex(back))


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack(Predictor):
    """Models mixed by weights, and calibrated.

    Attributes:
        views: What logistic models see of rows.
        families: Models, by kind.
        weights: Of each model; together they are 1.
        likelihoods: Log-likelihood of the release of a row by each model's held-out predictions.
        shares: Shares of the classes [K].
        power: Exponent of predictions over shares.
    """

    kind: ClassVar[str] = "stack"

    views: tuple[View, ...]
    families: tuple[Family, ...]
    weights: Floats
    likelihoods: Floats
    shares: Floats
    power: float

    def __post_init__(self) -> None:
        """Refuse what does not fit together, as in an edited file."""
        classes = len(self.shares)
        kinds = {view.kind for view in self.views}
        for family in self.families:
            if not family.fits(classes, kinds):
                raise ValueError(f"a model of kind {family.kind!r} does not fit {classes} classes")
        count = sum(len(family.names) for family in self.families)
        fits = self.weights.shape == self.likelihoods.shape == (count,) and self.shares.ndim == 1
        if not (fits and (self.weights >= 0).all() and abs(self.weights.sum() - 1) < _ROUNDED):
            raise ValueError(f"{len(self.weights)} weights do not fit {count} models")
        if not (
            (self.shares > 0).all() and np.isfinite(self.shares).all() and 0 < self.power < 100
        ):
            raise ValueError("shares of the classes or the exponent are out of range")

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Probabilities of the classes [N, K] for rows [N, ...]."""
        if len(features) == 0:  # a trial without canaries asks for them
            return np.empty((0, len(self.shares)), dtype=np.float32)
        rows = features
        if not isinstance(rows, SparseRows):
            rows = np.asarray(features).reshape(len(features), -1)
        blocks = range(0, len(rows), _ROWS_AT_ONCE)
        return np.concatenate([self._predicted(rows[at : at + _ROWS_AT_ONCE]) for at in blocks])

    def _predicted(self, rows: Any) -> NDArray[np.float32]:
        table = Table.of(rows, self.views)
        mixed = np.zeros((len(rows), len(self.shares)))
        start = 0
        for family in self.families:
            weights = self.weights[start : start + len(family.names)]
            start += len(weights)
            if weights.any():  # others would be computed for nothing
                mixed += np.tensordot(weights, family.predict(table), 1)
        return calibrated(mixed, self.shares, self.power).astype(np.float32)

    @property
    def models(self) -> list[tuple[str, float, float]]:
        """As in `Predictor`."""
        names = [name for family in self.families for name in family.names]
        return list(zip(names, self.weights.tolist(), self.likelihoods.tolist(), strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class RewardPredictor(OfAmounts):
    """A reward, by slopes [M] of the columns of rows, or of one set of smooth functions of them."""

    kind: ClassVar[str] = "reward"

    smooth: tuple[SmoothFunctions, ...]
    slopes: Floats

    def amounts(self, features: Any) -> Floats:
        """Return the rewards [N] of rows [N, D], up to a constant."""
        rows = self.smooth[0](features) if self.smooth else np.asarray(features)
        return np.asarray(rows @ self.slopes, np.float64)

    def predict(self, features: Any) -> NDArray[np.float32]:
        """Return chances [N, 2] that a row of reward 0, and that each row, is preferred."""
        return probabilities(self.amounts(features)[:, None]).astype(np.float32)


def calibrated(predicted: Floats, shares: Floats, power: float) -> Floats:
    """Return probabilities [N, K] whose ratios to the shares [K] have this exponent."""
    base = np.log(shares)
    return np.asarray(softmax(base + power * (np.log(np.maximum(predicted, _TINY)) - base), axis=1))

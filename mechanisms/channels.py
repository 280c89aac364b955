"""The best pure mechanisms for one label: subset selection, and staircase channels under a prior.

For every convex utility the best epsilon-DP channel from labels to outputs is a *staircase*: each
output is a set S of classes, and Pr[S | y] is c_S e^epsilon for y in S and c_S otherwise (Kairouz,
Oh, Viswanath, "Extremal Mechanisms for Local Differential Privacy", arXiv:1407.1338). The best one
is therefore a linear program over sets. Under a flat prior it is subset selection (Ye and Barg,
IEEE Transactions on Information Theory 2018): a set of k classes that holds the label with
probability k e^epsilon / (k e^epsilon + K - k). With k = 1 that is randomized response.

All of them are read alike: the likelihood of S is proportional to 1 + (e^epsilon - 1) [y in S], so
a model that predicts p has the loss -log(1 + (e^epsilon - 1) p(S)). The guarantee does not depend
on the prior; only the gain does.

Draws are exact: every probability is a whole number over one total, and no two of them differ by
more than the factor e^epsilon, in these very digits.

>>> mechanism = SubsetSelection(epsilon=1.0, num_classes=10)
>>> mechanism.subset_size, round(mechanism.information, 3)
(3, 0.122)
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, like
from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.randomness import AnyGenerator, as_discrete_generator

Floats = NDArray[np.float64]

#: Probabilities are multiples of about 2^-58; above this epsilon a draw is that of this epsilon.
_UNIT, _LARGEST_EPSILON = 1 << 58, 30.0
#: With more classes this many leading ones keep sets of their own, and the others are alike.
_FULL, _LEADING = 10, 7
#: Prototypes of sorted priors have this much added to each class.
_FLOOR = 1e-4
_BLOCK_ENTRIES = 1 << 20
_WORDS = ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64))


class Utility(StrEnum):
    """The goal of an optimal channel: nats, or the probability of naming the right class."""

    INFORMATION = "information"
    CORRECT = "correct"
    SQUARED_ERROR = "squared_error"


class ProgramNotSolved(RuntimeError):
    """The solver of linear programs found no optimum."""


def subset_information(*, epsilon: float, num_classes: int, sizes: NDArray[np.int64]) -> Floats:
    """Nats that a set of k classes tells about a label that is uniform among K, for each k."""
    rest = (num_classes - sizes) * math.exp(-epsilon)  # in units of e^epsilon
    nats: Floats = math.log(num_classes) - np.log(sizes + rest) - epsilon * rest / (sizes + rest)
    return nats


def best_subset_size(*, epsilon: float, num_classes: int) -> int:
    """The k in 1..K-1 that tells most under a flat prior; of equally good ones the smallest."""
    _validate.positive(epsilon=epsilon)
    _validate.whole(num_classes=num_classes, minimum=2)
    sizes = np.arange(1, num_classes)
    nats = subset_information(epsilon=epsilon, num_classes=num_classes, sizes=sizes)
    return int(sizes[nats >= nats.max() * (1 - 1e-13)][0])


@dataclass(frozen=True, kw_only=True)
class _Book:
    """Channels in digits, one for each code, ready to be drawn from.

    A channel's first classes are apart, and the other g are alike: a set is a subset of the first
    ones and r of the others at random.

    Attributes:
        leading: Members among the first classes, bool [codes, O, m].
        others: r, int64 [codes, O].
        inside: Weight of all sets of an output that hold a class, if they are counted over all
            subsets of the others; int64 [codes, O].
        outside: The same for a class that they do not hold.
        alike: g.
    """

    leading: NDArray[np.bool_]
    others: NDArray[np.int64]
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    totals: NDArray[np.int64]
    alike: int

    @property
    def cumulative(self) -> NDArray[np.int64]:
        """Ends of the outputs' intervals [codes, m + 1, O]; the last row: the classes alike."""
        inside, outside = self.inside[:, None, :], self.outside[:, None, :]
        rows = np.where(self.leading.transpose(0, 2, 1), inside, outside)
        if self.alike:
            share = self.others * (self.inside // self.alike)
            share = share + (self.alike - self.others) * (self.outside // self.alike)
            rows = np.concatenate((rows, share[:, None, :]), axis=1)
        return rows.cumsum(axis=2)

    def draw(
        self, ranks: NDArray[np.int64], codes: NDArray[np.int64], generator: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Draw sets bool [N, m + g] for labels of ranks [N]; every label takes equal draws."""
        first, ends = self.leading.shape[2], self.cumulative
        result = np.zeros((len(ranks), first + self.alike), dtype=np.bool_)
        rows = max(1, _BLOCK_ENTRIES // max(result.shape[1], ends.shape[2]))
        for start in range(0, len(ranks), rows):
            block = slice(start, start + rows)
            self._draw_block(ranks[block], codes[block], ends, result[block], generator)
        return result

    def _draw_block(
        self,
        ranks: NDArray[np.int64],
        codes: NDArray[np.int64],
        ends: NDArray[np.int64],
        result: NDArray[np.bool_],
        generator: np.random.Generator,
    ) -> None:
        first, index = self.leading.shape[2], np.arange(len(ranks))
        own = ends[codes, np.minimum(ranks, ends.shape[1] - 1)]
        high = self.totals[codes] if len(self.totals) > 1 else int(self.totals[0])
        place = generator.integers(0, high, len(ranks))
        chosen = (place[:, None] >= own).sum(axis=1)  # O stands for the empty set
        empty = chosen == own.shape[1]
        chosen[empty] = 0
        wanted = np.where(empty, 0, self.others[codes, chosen])
        result[:, :first] = self.leading[codes, chosen] & ~empty[:, None]
        if not self.alike:
            return
        is_other = ranks >= first
        begin = np.where(chosen > 0, own[index, chosen - 1], 0)
        weight = self.inside[codes, chosen] // self.alike * self.others[codes, chosen]
        held = is_other & ~empty & (place - begin < weight)
        offset = np.where(is_other, ranks - first, 0)
        result[:, first:] = _random_subsets(wanted, offset, is_other, held, self.alike, generator)


def _random_subsets(
    sizes: NDArray[np.int64],
    offset: NDArray[np.int64],
    decided: NDArray[np.bool_],
    held: NDArray[np.bool_],
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """Draw subsets of `count` elements, bool [N, count], each of a size [N].

    Where it is `decided`, element `offset` belongs to the subset as `held` says. Sampling is
    sequential from that element on, so that the number of elements left is the same for every row.
    """
    small: Any = np.uint8 if count < 256 else np.uint32
    wanted: NDArray[Any] = sizes.astype(small)
    # Up to 64 elements are bits of a number: turning them is then a shift.
    word: Any = next((kind for bits, kind in _WORDS if count <= bits), None)
    turned: NDArray[Any] | None = None if word is None else np.zeros(len(sizes), dtype=word)
    relative = np.empty((count, len(sizes)), dtype=np.bool_) if turned is None else None
    for step in range(count):
        take = generator.integers(0, count - step, len(sizes), dtype=small) < wanted
        if step == 0:
            take = np.where(decided, held, take)
        wanted -= take
        if turned is not None:
            turned |= take.astype(turned.dtype) << turned.dtype.type(step)
        else:
            assert relative is not None
            relative[step] = take
    if turned is None:
        assert relative is not None
        source = (np.arange(count) - offset[:, None]) % count
        found: NDArray[np.bool_] = relative[source, np.arange(len(sizes))[:, None]]
        return found
    shift, width = offset.astype(turned.dtype), turned.dtype.type(count)
    whole = turned.dtype.type((1 << count) - 1)
    back = np.where(shift > 0, width - shift, 0).astype(turned.dtype)
    turned = np.where(shift > 0, (turned << shift | turned >> back) & whole, turned)
    octets = turned.view(np.uint8).reshape(len(sizes), -1)
    return np.unpackbits(octets, axis=1, count=count, bitorder="little").view(np.bool_)


def _e_epsilon(epsilon: float) -> Fraction:
    """A rational number just below e^epsilon."""
    return Fraction(math.exp(min(epsilon, _LARGEST_EPSILON))) * (1 - Fraction(1, 1 << 50))


def _digits(
    weights: Floats,
    others: NDArray[np.int64],
    leading: NDArray[np.bool_],
    *,
    g: int,
    epsilon: float,
) -> tuple[list[int], list[int], int]:
    """Return the weights inside and outside [O], and the total, as whole numbers.

    Weights are rounded so that inside <= e^epsilon outside. Rows then add up to different sums; the
    empty set takes what is left, and is large enough that its probabilities obey the factor too.
    """
    factor, unit = _e_epsilon(epsilon), max(g, 1)
    outside = [int(weight * (_UNIT / unit)) * unit for weight in weights]
    inside = [math.floor(factor * weight / unit) * unit for weight in outside]
    sums = [
        sum(i if holds else o for i, o, holds in zip(inside, outside, row, strict=True))
        for row in leading.T
    ]
    if g:
        both = zip(inside, outside, others.tolist(), strict=True)
        sums.append(sum(r * (i // g) + (g - r) * (o // g) for i, o, r in both))
    spread = max(sums) - min(sums)
    empty = math.ceil(spread / (factor - 1)) if spread else 0
    return inside, outside, max(sums) + empty


@dataclass(frozen=True, kw_only=True)
class SubsetSelection:
    """A set of k classes around the label: pure epsilon-DP, the best for a flat prior.

    Attributes:
        epsilon: Privacy loss per label, finite and above 0.
        num_classes: K, at least 2.
        subset_size: k in 1..K-1; None for the best. 1 is randomized response.
    """

    epsilon: float
    num_classes: int
    subset_size: int | None = None

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check the parameters and choose k."""
        _validate.positive(epsilon=self.epsilon)
        _validate.whole(num_classes=self.num_classes, minimum=2)
        best = best_subset_size(epsilon=self.epsilon, num_classes=self.num_classes)
        if self.subset_size is None:
            object.__setattr__(self, "subset_size", best)
        _validate.whole(subset_size=self.size, minimum=1)
        if self.size >= self.num_classes:
            raise ValueError(
                f"subset_size is {self.size}; with {self.num_classes} classes it must lie in "
                f"1..{self.num_classes - 1} (the best at epsilon {self.epsilon:g} is {best})"
            )

    @property
    def size(self) -> int:
        """K, as a number."""
        assert self.subset_size is not None
        return self.subset_size

    @property
    def keep_probability(self) -> float:
        """Probability that the set holds the true label."""
        rest = (self.num_classes - self.size) * math.exp(-self.epsilon)
        return self.size / (self.size + rest)

    @property
    def information(self) -> float:
        """Nats that a set tells about a label under a flat prior."""
        sizes = np.array([self.size])
        nats = subset_information(epsilon=self.epsilon, num_classes=self.num_classes, sizes=sizes)
        return float(nats[0])

    @property
    def event(self) -> PureEvent:
        """The cost of one release of a label."""
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw a set of classes for each label [N], once: bool [N, K]."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        leading = np.zeros((1, 0), dtype=np.bool_)
        others = np.array([self.size])
        # One output; the number only has to be small enough for its sum to fit.
        inside, outside, total = _digits(
            np.array([math.exp(-min(self.epsilon, _LARGEST_EPSILON)) / 2]),
            others,
            leading,
            g=self.num_classes,
            epsilon=self.epsilon,
        )
        book = _Book(
            leading=leading[None],
            others=others[None],
            inside=np.array([inside]),
            outside=np.array([outside]),
            totals=np.array([total]),
            alike=self.num_classes,
        )
        sets = book.draw(exact, np.zeros_like(exact), as_discrete_generator(generator))
        released: AnyArray = like(sets, labels)
        return released

    def log_likelihood(self, sets: AnyArray) -> AnyArray:
        """Log-likelihood of every class given sets [N, K], up to a term that classes share."""
        return sets * self.epsilon


@dataclass(frozen=True, kw_only=True)
class Channel:
    """An optimal channel.

    Attributes:
        probabilities: Of each output given each class [K, O]; rows add up to 1. With more than ten
            classes an output is a kind of set: some leading classes and a number of others.
        utility: Nats, probability, or expected squared error.
        bound: No channel does better than this.
    """

    probabilities: Floats
    utility: float
    bound: float


@dataclass(frozen=True, kw_only=True)
class _Staircase:
    """The solution of a program over sets, for classes in falling order of their prior."""

    leading: NDArray[np.bool_]
    others: NDArray[np.int64]
    weights: Floats
    alike: int
    utility: float
    bound: float


def optimal_channel(
    prior: Sequence[float] | Floats,
    epsilon: float,
    utility: str = Utility.INFORMATION,
    *,
    values: Sequence[float] | Floats | None = None,
    outputs: Sequence[float] | Floats | None = None,
    unbiased: bool = False,
) -> Channel:
    """Return the best epsilon-DP channel for labels under a prior.

    Args:
        prior: Probability of each class [K].
        epsilon: Privacy loss per label.
        utility: "information" (nats), "correct" (probability that the likeliest class after the
            release is the true one; Ghazi et al. 2021, Theorem 3, is a case), or "squared_error".
        values: For "squared_error": the number that each class stands for [K].
        outputs: For "squared_error": the numbers that may be released, ascending [O].
        unbiased: Whether the expected output must be the value, for each class.

    Raises:
        ProgramNotSolved: For an unbiased channel that the outputs are too narrow for, or by the
            solver.
    """
    _validate.positive(epsilon=epsilon)
    (exact,) = _validate.probabilities(np.asarray(prior)[None], name="prior", tolerance=1e-6)
    exact = exact / exact.sum()
    kind = Utility(utility)
    if kind is Utility.SQUARED_ERROR:
        if values is None or outputs is None:
            raise ValueError("squared_error needs values [K] and outputs [O]")
        return _of_numbers(exact, epsilon, np.asarray(values), np.asarray(outputs), unbiased)
    order = np.argsort(-exact, kind="stable")
    found = _solve_sets(exact[order], epsilon, kind)
    growth = math.exp(epsilon)
    inside = np.zeros((len(exact), len(found.weights)))
    inside[: found.leading.shape[1]] = found.leading.T
    if found.alike:
        inside[found.leading.shape[1] :] = found.others / found.alike
    rows = found.weights * (1 + (growth - 1) * inside)
    probabilities = np.empty_like(rows)
    probabilities[order] = rows / rows.sum(axis=1, keepdims=True)
    return Channel(probabilities=probabilities, utility=found.utility, bound=found.bound)


def _solve_sets(prior: Floats, epsilon: float, utility: Utility) -> _Staircase:
    """Solve the program for a prior in falling order [K]."""
    classes = len(prior)
    first = classes if classes <= _FULL else _LEADING
    g = classes - first
    growth, mean = math.exp(epsilon), float(prior[first:].mean()) if g else 0.0
    subsets = (np.arange(1 << first)[:, None] >> np.arange(first) & 1).astype(np.bool_)
    members = np.repeat(subsets, g + 1, axis=0)
    others = np.tile(np.arange(g + 1), len(subsets))
    useful = members.any(axis=1) | (others > 0)
    members, others = members[useful], others[useful]
    held = members @ prior[:first] + others * mean
    if utility is Utility.CORRECT:
        best_in = np.where(members, prior[:first], 0.0).max(axis=1, initial=0.0)
        best_out = np.where(members, 0.0, prior[:first]).max(axis=1, initial=0.0)
        if g:
            best_in = np.maximum(best_in, np.where(others > 0, prior[first], 0.0))
            best_out = np.maximum(best_out, np.where(others < g, prior[first], 0.0))
        gains = np.maximum(growth * best_in, best_out)
    else:
        mass = 1 + (growth - 1) * held
        gains = growth * epsilon * held - mass * np.log(mass)
    rows = 1 + (growth - 1) * members.T
    if g:
        rows = np.vstack((rows, 1 + (growth - 1) * others / g))
    scaled, duals = _maximize(gains / growth, rows / growth)  # entries of at most 1
    weights = scaled / growth
    kept = weights > 0
    value = float(gains[kept] @ weights[kept])
    bound = value
    if utility is Utility.INFORMATION and g:
        prices = np.concatenate((duals[:first], np.full(g, duals[first] / g)))
        some = prior[prior > 0]
        bound = min(_upper_bound(prior, epsilon, prices), float(-(some @ np.log(some))))
        if g > 1:  # others that are not alike: what is lost by drawing them at random
            variance = others[kept] * (g - others[kept]) / (g - 1) * prior[first:].var()
            least = 1 + (growth - 1) * (members[kept] @ prior[:first])
            value -= float(weights[kept] @ ((growth - 1) ** 2 * variance / (2 * least)))
    return _Staircase(
        leading=members[kept],
        others=others[kept],
        weights=weights[kept],
        alike=g,
        utility=value,
        bound=bound,
    )


def _maximize(gains: NDArray[Any], rows: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return c >= 0 [columns] with rows @ c = 1 that maximizes gains @ c, and the duals [rows]."""
    from scipy.optimize import linprog  # half a second that planning does not need

    found = linprog(-gains, A_eq=rows, b_eq=np.full(len(rows), 1.0), method="highs")
    if not found.success:
        raise ProgramNotSolved(f"the best channel was not found: {found.message}")
    return np.where(found.x > 1e-13, found.x, 0.0), -found.eqlin.marginals


def _upper_bound(prior: Floats, epsilon: float, prices: Floats) -> float:
    """Bound the information of any channel by duality, whatever sets its outputs are.

    Sets with fractional members bound all sets. For a given mass the cheapest of them fills classes
    in the order of price per probability, and the gain less the price is concave along that way.
    """
    growth = math.exp(epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(prior > 0, prices / prior, np.where(prices < 0, -np.inf, np.inf))
    order = np.argsort(ratio, kind="stable")
    mass = np.concatenate(([0.0], prior[order].cumsum()))
    cost = np.concatenate(([0.0], prices[order].cumsum()))
    with np.errstate(over="ignore", invalid="ignore"):
        peak = np.exp(growth * epsilon / (growth - 1) - 1 - ratio[order])
    inner = np.clip((peak - 1) / (growth - 1), mass[:-1], mass[1:])
    inner = np.where(np.isfinite(inner), inner, mass[1:])
    part = np.where(prior[order] > 0, (inner - mass[:-1]) / np.maximum(prior[order], 1e-300), 1.0)
    points = np.concatenate((mass, inner))
    paid = np.concatenate((cost, cost[:-1] + part * prices[order]))
    total = 1 + (growth - 1) * points
    gain = growth * epsilon * points - total * np.log(total)
    excess = float((gain - prices.sum() - (growth - 1) * paid).max())
    return float(prices.sum()) + max(excess, 0.0)


def _of_numbers(
    prior: Floats, epsilon: float, values: Floats, outputs: Floats, unbiased: bool
) -> Channel:
    """Return the channel onto `outputs` with the least expected squared error.

    Ghazi et al. (ICLR 2023, arXiv:2212.06074); unbiased: Badanidiyuru et al. (NeurIPS 2023,
    arXiv:2312.05659).
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, hstack, identity, kron

    classes, count = len(values), len(outputs)
    if len(prior) != classes:
        raise ValueError(f"values has {classes} entries and prior {len(prior)}; one each is needed")
    growth = math.exp(epsilon)
    # Variables: Q [K, O] and the least probability of each output, n [O]; n <= Q <= e^epsilon n.
    every, least = identity(classes * count), kron(np.ones((classes, 1)), identity(count))
    bounds = [hstack((-every, least)), hstack((every, -growth * least))]
    sums = kron(identity(classes), np.ones((1, count)))
    wanted = [np.ones(classes)]
    rows = [hstack((sums, coo_array((classes, count))))]
    if unbiased:
        means = kron(identity(classes), outputs[None])
        rows.append(hstack((means, coo_array((classes, count)))))
        wanted.append(values.astype(np.float64))
    errors = prior[:, None] * (outputs[None] - values[:, None]) ** 2
    from scipy.sparse import vstack

    found = linprog(
        np.concatenate((errors.ravel(), np.zeros(count))),
        A_ub=vstack(bounds),
        b_ub=np.zeros(2 * classes * count),
        A_eq=vstack(rows),
        b_eq=np.concatenate(wanted),
        method="highs",
    )
    if not found.success:
        raise ProgramNotSolved(
            f"no channel was found from {classes} values in {values.min():g}..{values.max():g} to "
            f"outputs in {outputs.min():g}..{outputs.max():g}: {found.message}"
            + ("; an unbiased channel needs wider outputs" if unbiased else "")
        )
    table = np.clip(found.x[: classes * count].reshape(classes, count), 0.0, None)
    return Channel(
        probabilities=table / table.sum(axis=1, keepdims=True),
        utility=float(found.fun),
        bound=float(found.fun),
    )


@dataclass(frozen=True, kw_only=True)
class StaircaseChannel:
    """The best channel under each label's own prior: pure epsilon-DP, whatever the prior.

    Priors are sorted and quantized to prototypes, with one linear program each.

    Attributes:
        epsilon: Privacy loss per label, finite and above 0.
        prototypes: The most programs that are solved.
    """

    epsilon: float
    prototypes: int = 200

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        _validate.positive(epsilon=self.epsilon)
        _validate.whole(prototypes=self.prototypes, minimum=1)

    @property
    def event(self) -> PureEvent:
        """The cost of one release of a label, whatever the prior."""
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels: AnyArray, prior: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw a set of classes for each label [N], once: bool [N, K].

        The prior [N, K] must be made without these labels. If a program has no solution, all sets
        are drawn by subset selection at the same epsilon, with a warning.
        """
        checked = _validate.probabilities(prior, name="prior")
        classes = checked.shape[1]
        exact = _validate.labels(labels, num_classes=classes, secret=True)
        if len(exact) != len(checked):
            raise ValueError(
                f"labels has {len(exact)} entries and prior {len(checked)} rows; "
                "every label needs a row of its own"
            )
        order = np.argsort(-checked, axis=1, kind="stable")
        try:
            book, codes = self._book(np.take_along_axis(checked, order, axis=1))
        except ProgramNotSolved as error:
            warnings.warn(f"{error}; subset selection is used instead", stacklevel=2)
            flat = SubsetSelection(epsilon=self.epsilon, num_classes=classes)
            return flat.release(labels, generator=generator)
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(classes)[None], axis=1)
        own = ranks[np.arange(len(exact)), exact]
        sets = book.draw(own, codes, as_discrete_generator(generator))
        released: AnyArray = like(np.take_along_axis(sets, ranks, axis=1), labels)
        return released

    def log_likelihood(self, sets: AnyArray, prior: Any = None) -> AnyArray:
        """Log-likelihood of every class given sets [N, K], up to a term that classes share."""
        del prior  # the same for every channel of this kind
        return sets * self.epsilon

    def _book(self, priors: Floats) -> tuple[_Book, NDArray[np.int64]]:
        """Return a channel for each prototype of sorted priors [N, K], and each row's prototype."""
        from scipy.cluster.vq import kmeans2, vq

        roots = np.sqrt(priors)
        few = np.unique(roots, axis=0)
        if len(few) > self.prototypes:
            sample = few[:: max(1, len(few) // 10_000)]
            few, _ = kmeans2(sample, self.prototypes, iter=10, minit="++", seed=0)
        epsilon = min(self.epsilon, _LARGEST_EPSILON)
        codes = vq(roots, few)[0].astype(np.int64)
        used, codes = np.unique(codes, return_inverse=True)
        channels = []
        for root in few[used]:
            prior = -np.sort(-(root**2 + _FLOOR))
            channels.append(_solve_sets(prior / prior.sum(), epsilon, Utility.INFORMATION))
        return _bound_together(channels, epsilon), codes.astype(np.int64)


def _bound_together(channels: Sequence[_Staircase], epsilon: float) -> _Book:
    """Put channels of equal numbers of classes into one book."""
    outputs, g = max(len(each.weights) for each in channels), channels[0].alike
    shape = (len(channels), outputs)
    leading = np.zeros((*shape, channels[0].leading.shape[1]), dtype=np.bool_)
    others, inside, outside = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    totals = np.empty(len(channels), dtype=np.int64)
    for code, each in enumerate(channels):
        count = len(each.weights)
        leading[code, :count], others[code, :count] = each.leading, each.others
        found = _digits(each.weights, each.others, each.leading, g=g, epsilon=epsilon)
        inside[code, :count], outside[code, :count], totals[code] = found
    return _Book(
        leading=leading, others=others, inside=inside, outside=outside, totals=totals, alike=g
    )

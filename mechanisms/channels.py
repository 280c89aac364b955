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
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import AnyArray, Floats, like
from labeldp.mechanisms.accounting import PureMechanism
from labeldp.mechanisms.label_channels import (
    Agreement,
    PurePerLabel,
    SubsetFamily,
    best_subset_size,
    subset_information,
)
from labeldp.mechanisms.randomness import AnyGenerator, as_discrete_generator
from labeldp.mechanisms.rr_with_prior import labels_for

#: Probabilities are multiples of about 2^-58; above this epsilon a draw is that of this epsilon.
_UNIT = 1 << 58
LARGEST_EPSILON = 30.0
#: Up to this many classes all sets are columns of the program; with more, columns are generated in
#: rounds, from the windows of subset selection on, by changes of the `_LEADING` best prefixes. With
#: more than `_ROWS` classes the unlikely ones are put together in bundles.
_FULL = 10
_ROUNDS = 12
_LEADING = 7
_ROWS = 128
#: Prototypes of sorted priors have this much added to each class.
_FLOOR = 1e-4
_BLOCK_ENTRIES = 1 << 20


class Utility(StrEnum):
    """The goal of an optimal channel: nats, or the probability of naming the right class."""

    INFORMATION = "information"
    CORRECT = "correct"
    SQUARED_ERROR = "squared_error"


class ProgramNotSolved(RuntimeError):
    """The solver of linear programs found no optimum."""


def _random_subsets(
    own: NDArray[np.int64],
    held: NDArray[np.bool_],
    size: int,
    count: int,
    generator: np.random.Generator,
) -> NDArray[np.bool_]:
    """Draw subsets of `count` elements, bool [N, count], each of `size`.

    Element `own` [N] belongs to the subset where it is `held`. Sampling is sequential from that
    element on, so that the number of elements left is the same for every row.
    """
    small: Any = np.uint8 if count < 256 else np.uint32
    wanted: NDArray[Any] = np.full(len(own), size, dtype=small)
    # Twice, one after the other: the elements in order begin within the first half.
    twice = np.zeros((2 * count, len(own)), dtype=np.bool_)
    for step in range(count):
        left = count - step
        take = held if step == 0 else generator.integers(0, left, len(own), dtype=small) < wanted
        wanted -= take
        twice[[step, step + count]] = take
    turned = sliding_window_view(np.ascontiguousarray(twice.T), count, axis=1)
    members: NDArray[np.bool_] = turned[np.arange(len(own)), (count - own) % count]
    return members


def _e_epsilon(epsilon: float) -> Fraction:
    """A rational number just below e^epsilon."""
    return Fraction(math.exp(min(epsilon, LARGEST_EPSILON))) * (1 - Fraction(1, 1 << 50))


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(PurePerLabel):
    """A set of k classes around the label: pure epsilon-DP, the best for a flat prior."""

    subset_size: int | None = None  # k in 1..K-1; None for the best, 1 for randomized response

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        """Check the parameters and choose k."""
        super().__post_init__()
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
        """The number k."""
        assert self.subset_size is not None
        return self.subset_size

    @property
    def keep_probability(self) -> float:
        """Probability that the set holds the true label."""
        rest = (self.num_classes - self.size) * math.exp(-self.epsilon)
        return self.size / (self.size + rest)

    @property
    def information(self) -> float:
        """Nats that a set has about a label under a flat prior."""
        sizes = np.array([self.size])
        nats = subset_information(epsilon=self.epsilon, num_classes=self.num_classes, sizes=sizes)
        return float(nats[0])

    @property
    def agreement(self) -> Agreement:
        """Whether the set holds the predicted class."""
        # Of the other classes each is in the set with the same probability.
        wrong = (self.size - self.keep_probability) / (self.num_classes - 1)
        return Agreement(wrong=wrong, gain=self.keep_probability - wrong)

    @property
    def family(self) -> SubsetFamily:
        """Sets of this size at any epsilon."""
        return SubsetFamily(num_classes=self.num_classes, subset_size=self.size)

    def release(self, labels: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw a set of classes for each label [N], once: bool [N, K]."""
        exact = _validate.labels(labels, num_classes=self.num_classes, secret=True)
        held, rest = self.odds()
        draws = as_discrete_generator(generator)
        holds = draws.integers(0, held + rest, len(exact)) < held
        sets = _random_subsets(exact, holds, self.size, self.num_classes, draws)
        return like(sets, labels)

    def odds(self) -> tuple[int, int]:
        """Return whole numbers h and r; a set holds the label with probability h / (h + r).

        Pr[S | y] is h / C(K-1, k-1) with y in S and r / C(K-1, k) without, over h + r. So h is at
        most e^epsilon r k / (K - k).
        """
        rest = _UNIT
        factor = _e_epsilon(self.epsilon) * self.size / (self.num_classes - self.size)
        # A larger factor would overflow; a smaller rest loses only digits of the factor.
        if factor > 8:  # h + r fits into 62 bits
            rest = max(1, math.floor(8 * _UNIT / factor))
        return math.floor(factor * rest), rest

    def log_likelihood(self, sets: AnyArray) -> AnyArray:
        """Log-likelihood of every class given sets [N, K], up to a term that classes share."""
        return sets * self.epsilon


@dataclass(frozen=True, kw_only=True)
class OptimalChannel:
    """An optimal channel.

    Attributes:
        probabilities: Of each output given each class [K, O]; rows add up to 1.
        utility: Nats, probability, or expected squared error.
    """

    probabilities: Floats
    utility: float


@dataclass(frozen=True, kw_only=True)
class _Staircase:
    """The solution of a program over sets, for classes in falling order of their prior.

    Attributes:
        sets: Bool [O, K].
        weights: Probability of each set for a label outside it [O].
        utility: Of this channel.
    """

    sets: NDArray[np.bool_]
    weights: Floats
    utility: float

    def digits(self, epsilon: float) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the weights inside and outside [O], and the total, as whole numbers.

        They are rounded so that inside <= e^epsilon outside. Rows then add up to different sums;
        the empty set takes the rest, and is large enough that its probabilities obey the factor.
        """
        factor = _e_epsilon(epsilon)
        outside = [int(weight * _UNIT) for weight in self.weights]
        inside = [math.floor(factor * weight) for weight in outside]
        sums = np.where(self.sets.T, np.array(inside), np.array(outside)).sum(axis=1)
        return np.array(inside), np.array(outside), _completed(sums, factor)

    def draw(
        self, labels: NDArray[np.int64], epsilon: float, generator: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Draw a set for each label [N]: bool [N, K]; every label takes one number."""
        inside, outside, total = self.digits(epsilon)
        ends = np.where(self.sets.T, inside, outside).cumsum(axis=1)
        with_empty = np.vstack((self.sets, np.zeros_like(self.sets[:1])))
        return with_empty[exact_draws(labels, ends, total, generator)]


def exact_draws(
    labels: NDArray[np.int64], ends: NDArray[np.int64], total: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Draw an output 0..O for each label [N], by cumulated whole numbers [K, O] out of a total.

    O itself stands for the rest of the total.
    """
    drawn = generator.integers(0, total, len(labels))
    chosen = np.empty(len(labels), dtype=np.int64)
    # By blocks: one comparison for each label and output would take gigabytes.
    for block in _validate.blocks(len(labels), ends.shape[1], entries=_BLOCK_ENTRIES):
        chosen[block] = (drawn[block, None] >= ends[labels[block]]).sum(axis=1)
    return chosen


def exact_digits(probabilities: Floats, epsilon: float) -> tuple[NDArray[np.int64], int]:
    """Return a channel [K, O] as whole numbers, and the total that a row is completed to.

    No two numbers of a column differ by more than e^epsilon. Nor do the rests of the rows, which
    are a further output.
    """
    factor = _e_epsilon(epsilon)
    digits = (probabilities * _UNIT).astype(np.int64)
    # A small number is raised until the largest of its column is within the factor.
    digits = np.maximum(digits, [math.ceil(int(each) / factor) for each in digits.max(axis=0)])
    return digits, _completed(digits.sum(axis=1), factor)


def _completed(sums: NDArray[np.int64], factor: Fraction) -> int:
    """Return a total for rows of these sums [K], whose rests are within the factor of another."""
    spread = int(sums.max() - sums.min())
    return int(sums.max()) + (math.ceil(spread / (factor - 1)) if spread else 0)


def optimal_channel(
    prior: Sequence[float] | Floats,
    epsilon: float,
    utility: str = Utility.INFORMATION,
    *,
    values: Sequence[float] | Floats | None = None,
    outputs: Sequence[float] | Floats | None = None,
    unbiased: bool = False,
) -> OptimalChannel:
    """Return the best epsilon-DP channel for labels under a prior.

    With more than ten classes columns are generated until no simple set helps: the channel is then
    nearly the best.

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
    # `probabilities` allows a tolerance, which the program would take for mass of its own.
    exact = exact / exact.sum()
    kind = Utility(utility)
    if kind is Utility.SQUARED_ERROR:
        if values is None or outputs is None:
            raise ValueError("squared_error needs values [K] and outputs [O]")
        return _of_numbers(exact, epsilon, np.asarray(values), np.asarray(outputs), unbiased)
    order = np.argsort(-exact, kind="stable")
    found = _solve_sets(exact[order], epsilon, kind)
    rows = found.weights * (1 + math.expm1(epsilon) * found.sets.T)
    probabilities = np.empty_like(rows)
    probabilities[order] = rows / rows.sum(axis=1, keepdims=True)
    return OptimalChannel(probabilities=probabilities, utility=found.utility)


def _solve_sets(
    prior: Floats,
    epsilon: float,
    utility: Utility,
    known: NDArray[np.bool_] | None = None,
) -> _Staircase:
    """Solve the program for a prior in falling order [K]; `known` sets [O, K] are tried first."""
    classes = len(prior)
    starts = np.arange(classes)
    if classes > _ROWS:  # bundles of equal numbers of unlikely classes, as evenly as may be
        starts = np.concatenate(
            (starts[: _ROWS // 2], np.linspace(_ROWS // 2, classes, _ROWS // 2 + 1)[:-1])
        ).astype(np.int64)
    mass = np.add.reduceat(prior, starts)
    count = len(starts)
    if count <= _FULL:
        columns = (np.arange(1, 1 << count)[:, None] >> np.arange(count) & 1).astype(np.bool_)
    elif utility is Utility.CORRECT:  # RRWithPrior is the best: one leading class, or with the rest
        one = np.eye(count, dtype=np.bool_)
        with_rest = [one[:k] | (np.arange(count) >= k) for k in range(1, count)]
        columns = np.concatenate((one, *with_rest))
    else:
        columns = _windows(count, best_subset_size(epsilon=epsilon, num_classes=count))
        if known is not None:
            columns = np.concatenate((columns, known[:, starts]))
    weights, duals = _best_weights(columns, mass, epsilon, utility)
    if utility is Utility.INFORMATION and count > _FULL:
        for _ in range(_ROUNDS if known is None else _ROUNDS // 3):
            new = _improving(mass, duals, epsilon)
            if not len(new):
                break
            columns = np.concatenate((columns, new))
            weights, duals = _best_weights(columns, mass, epsilon, utility)
    kept = weights > 0
    return _Staircase(
        sets=np.repeat(columns[kept], np.diff([*starts, classes]), axis=1),
        weights=weights[kept],
        utility=float(_gains(columns[kept], mass, epsilon, utility) @ weights[kept]),
    )


def _windows(classes: int, size: int) -> NDArray[np.bool_]:
    """Return `classes` sets of `size`, of which every class is in equally many: bool [K, K].

    They are windows of a cyclic order, in which the golden ratio scatters likely classes, so that
    all sets are about as likely.
    """
    places = np.argsort(np.argsort(np.arange(classes) * 0.6180339887498949 % 1))
    return (places - np.arange(classes)[:, None]) % classes < size


def _gains(sets: NDArray[np.bool_], prior: Floats, epsilon: float, utility: Utility) -> Floats:
    """Return the utility of each set [O] for a weight of 1."""
    growth = math.exp(epsilon)
    if utility is Utility.CORRECT:
        inside = np.where(sets, prior, 0.0).max(axis=1)
        likeliest: Floats = np.maximum(growth * inside, np.where(sets, 0.0, prior).max(axis=1))
        return likeliest
    held = sets @ prior
    mass = 1 + (growth - 1) * held
    return growth * epsilon * held - mass * np.log(mass)


def _best_weights(
    sets: NDArray[np.bool_], prior: Floats, epsilon: float, utility: Utility
) -> tuple[Floats, Floats]:
    """Return the weights [O] with the largest utility, and the price of each class [K]."""
    from scipy.optimize import linprog  # half a second that planning does not need

    growth = math.exp(epsilon)
    gains = _gains(sets, prior, epsilon, utility) / growth  # entries of at most 1
    rows = (1 + (growth - 1) * sets.T) / growth
    found = linprog(-gains, A_eq=rows, b_eq=np.ones(len(rows)), method="highs-ds")
    if not found.success:
        raise ProgramNotSolved(f"the best channel was not found: {found.message}")
    weights: Floats = np.where(found.x > 1e-13, found.x, 0.0) / growth
    return weights, -found.eqlin.marginals


def _improving(prior: Floats, prices: Floats, epsilon: float) -> NDArray[np.bool_]:
    """Return sets [O, K] that gain more than they cost.

    Candidates are the classes in rising order of price per probability, up to each place, and the
    best of these with one class added or taken away.
    """
    classes = len(prior)
    growth = math.exp(epsilon)

    def excess(sets: NDArray[np.bool_]) -> Floats:
        cost = prices.sum() + (growth - 1) * (sets @ prices)
        excesses: Floats = _gains(sets, prior, epsilon, Utility.INFORMATION) - cost
        return excesses

    places = np.empty(classes, dtype=np.int64)
    places[np.argsort(prices / np.maximum(prior, 1e-12))] = np.arange(classes)
    prefixes = places < np.arange(1, classes)[:, None]
    best = prefixes[np.argsort(-excess(prefixes))[:_LEADING]]
    changed = (best[:, None, :] ^ np.eye(classes, dtype=np.bool_)).reshape(-1, classes)
    found = np.unique(np.concatenate((prefixes, changed)), axis=0)
    over = excess(found)
    return found[np.argsort(-over)[:classes]][np.sort(-over)[:classes] < -1e-9]


def _of_numbers(
    prior: Floats, epsilon: float, values: Floats, outputs: Floats, unbiased: bool
) -> OptimalChannel:
    """Return the channel onto `outputs` with the least expected squared error.

    Ghazi et al. (ICLR 2023, arXiv:2212.06074); unbiased: Badanidiyuru et al. (NeurIPS 2023,
    arXiv:2312.05659).
    """
    from scipy import optimize, sparse

    classes = len(values)
    count = len(outputs)
    if len(prior) != classes:
        raise ValueError(f"values has {classes} entries and prior {len(prior)}; one each is needed")
    growth = math.exp(epsilon)
    # Variables: Q [K, O] and the least probability of each output, n [O]; n <= Q <= e^epsilon n.
    every = sparse.identity(classes * count)
    least = sparse.kron(np.ones((classes, 1)), sparse.identity(count))
    bounds = [sparse.hstack((-every, least)), sparse.hstack((every, -growth * least))]
    sums = sparse.kron(sparse.identity(classes), np.ones((1, count)))
    wanted = [np.ones(classes)]
    rows = [sparse.hstack((sums, sparse.coo_array((classes, count))))]
    if unbiased:
        means = sparse.kron(sparse.identity(classes), outputs[None])
        rows.append(sparse.hstack((means, sparse.coo_array((classes, count)))))
        wanted.append(values.astype(np.float64))
    # Costs far below the solver's tolerance (1e-7) leave it without a way on.
    errors = np.maximum(prior, 1e-6)[:, None] * (outputs[None] - values[:, None]) ** 2
    found = optimize.linprog(
        np.concatenate((errors.ravel(), np.zeros(count))),
        A_ub=sparse.vstack(bounds),
        b_ub=np.zeros(2 * classes * count),
        A_eq=sparse.vstack(rows),
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
    # The solver's rounding may leave an output that some classes alone have: no epsilon holds then.
    table = np.maximum(table, table.max(axis=0) / growth)
    return OptimalChannel(
        probabilities=table / table.sum(axis=1, keepdims=True),
        utility=float(found.fun),
    )


@dataclass(frozen=True, kw_only=True)
class StaircaseChannel(PureMechanism):
    """The best channel under each label's own prior: pure epsilon-DP, whatever the prior.

    Priors are sorted and quantized to prototypes, with one linear program each.
    """

    prototypes: int = 200  # the most programs that are solved

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole(prototypes=self.prototypes, minimum=1)

    def release(self, labels: AnyArray, prior: AnyArray, *, generator: AnyGenerator) -> AnyArray:
        """Draw a set of classes for each label [N], once: bool [N, K].

        The prior [N, K] must be made without these labels. If a program has no solution, all sets
        are drawn by subset selection at the same epsilon, with a warning.
        """
        checked = _validate.probabilities(prior, name="prior")
        exact = labels_for(checked, labels, secret=True)
        # Classes that are nearly as likely change places, so that no two always share a set.
        turns = 1 + 1e-3 * np.random.default_rng(0).random(checked.shape)
        order = np.argsort(-checked * turns, axis=1, kind="stable")
        try:
            channels, codes = self._channels(np.take_along_axis(checked, order, axis=1))
        except ProgramNotSolved as error:
            warnings.warn(f"{error}; subset selection is used instead", stacklevel=2)
            flat = SubsetSelection(epsilon=self.epsilon, num_classes=checked.shape[1])
            return flat.release(labels, generator=generator)
        ranks = np.argsort(order, axis=1)
        own = ranks[np.arange(len(exact)), exact]
        sets = np.empty(checked.shape, dtype=np.bool_)
        draws = as_discrete_generator(generator)
        epsilon = min(self.epsilon, LARGEST_EPSILON)
        for code, channel in enumerate(channels):
            rows = np.flatnonzero(codes == code)
            sets[rows] = channel.draw(own[rows], epsilon, draws)
        return like(np.take_along_axis(sets, ranks, axis=1), labels)

    def log_likelihood(self, sets: AnyArray, prior: object = None) -> AnyArray:
        """Log-likelihood of every class given sets [N, K], up to a term that classes share.

        It is the same under every prior.
        """
        return sets * self.epsilon

    def _channels(self, priors: Floats) -> tuple[list[_Staircase], NDArray[np.int64]]:
        """Return the channels of the prototypes of sorted priors [N, K], and each row's [N]."""
        from scipy.cluster.vq import kmeans2, vq

        roots = np.sqrt(priors)
        few = np.unique(roots, axis=0)
        if len(few) > self.prototypes:
            sample = few[:: max(1, len(few) // 10_000)]
            few, _ = kmeans2(sample, self.prototypes, iter=10, minit="++", seed=0)
        few = few[np.argsort((few**4).sum(axis=1))]  # the next one resembles the last
        used, codes = np.unique(vq(roots, few)[0], return_inverse=True)
        channels: list[_Staircase] = []
        for root in few[used]:
            prior = -np.sort(-(root**2 + _FLOOR))
            known = channels[-1].sets if channels else None
            epsilon = min(self.epsilon, LARGEST_EPSILON)
            channels.append(
                _solve_sets(prior / prior.sum(), epsilon, Utility.INFORMATION, known=known)
            )
        return channels, codes.astype(np.int64)

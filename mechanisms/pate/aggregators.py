"""How votes are counted and become answers: LNMax, GNMax, Confident-GNMax, Interactive-GNMax.

Papernot et al., ICLR 2017 (arXiv:1610.05755) for LNMax; "Scalable Private Learning with PATE", ICLR
2018 (arXiv:1802.08908) for the others. Only the answers are released; -1 stands for no answer. The
cost of answers: `events` for any votes, fit for publication; `costs` for these votes, which is less
and private itself.

>>> import numpy as np
>>> votes = np.array([[240, 10], [130, 120], [20, 230]])
>>> aggregator = ConfidentGNMax(threshold=200.0, sigma1=20.0, sigma2=10.0)
>>> answers = aggregator.respond(votes, generator=np.random.default_rng(3))
>>> answers.labels
array([ 0, -1,  1])
>>> aggregator.events(checked=answers.checked, answered=answers.answered)
(DecisionEvent(noise_multiplier=4.58...),)
>>> def price(noise_std: float) -> float:
...     run = {"checked": 300, "answered": 300, "delta": 1e-5}
...     return price_for_any_votes(GNMax(noise_std=noise_std), **run).epsilon
>>> noise_std = least_noise(price, 1.0)
>>> round(noise_std, 1), price(noise_std) <= 1.0
(79.4, True)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Floats, as_numpy, checked_votes, like, whole_maximum
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    Event,
    PureEvent,
    brentq,
    epsilon_from_rdp,
    pure_rdp,
    renyi_curve,
)
from labeldp.mechanisms.pate.accounting import (
    CheckNoise,
    PateCost,
    QueryCosts,
    confident_gnmax_costs,
    gnmax_costs,
    lnmax_costs,
)
from labeldp.mechanisms.pate.decisions import Accounting, Decisions, events_of
from labeldp.mechanisms.randomness import (
    AnyGenerator,
    NoiseGenerator,
    SecureGenerator,
    as_noise_generator,
    laplace,
    largest,
    normal,
    reaches,
)

#: The label of a query without an answer.
NO_ANSWER = -1
#: Queries are answered in chunks of about this many counts.
_CHUNK_ENTRIES = 2**20
#: Votes that are counted at once; their counters then fit into a processor's cache.
_CHUNK = 2**18

Array = NDArray[Any]
Labels = NDArray[np.int64]
Mask = NDArray[np.bool_]


def count_votes(votes: ArrayLike, *, num_classes: int) -> NDArray[np.integer[Any]]:
    """Count votes [T, Q], a class per teacher and query: [Q, K], int16 for up to 32,767 teachers.

    Votes of another shape or type, or outside 0..K-1, raise a ValueError.

    >>> count_votes(np.array([[0, 2], [0, 1], [1, 2]], dtype=np.uint8), num_classes=3)
    array([[2, 1, 0],
           [0, 1, 2]], dtype=int16)
    """
    _validate.whole(num_classes=num_classes, minimum=2)
    array = as_numpy(votes)
    if array.ndim != 2 or 0 in array.shape or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"votes are {array.dtype} of shape {array.shape}; they must be whole numbers [T, Q], "
            "one class per teacher and query, with at least one of each"
        )
    teachers, queries = array.shape
    counts = np.empty(
        (queries, num_classes), dtype=np.int16 if teachers <= np.iinfo(np.int16).max else np.int32
    )
    for columns in _validate.blocks(queries, teachers, entries=_CHUNK):
        part = array[:, columns]
        if part.min() < 0 or part.max() >= num_classes:
            teacher, query = np.argwhere((part < 0) | (part >= num_classes))[0]
            raise ValueError(
                f"teacher {teacher} votes for class {part[teacher, query]} on query "
                f"{columns.start + query}; with {num_classes} classes votes must lie in "
                f"0..{num_classes - 1}"
            )
        width = part.shape[1]
        counters = part + np.arange(width) * num_classes
        totals = np.bincount(counters.ravel(), minlength=width * num_classes)
        counts[columns] = totals.reshape(width, num_classes)
    return counts


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """The output of an aggregator.

    Attributes:
        labels: [N], -1 where there is none.
        by_teachers: Whether the teachers answered, which costs [N]; other labels are free.
        checked: How many queries were looked at, in order; those after the last answer were not.
    """

    labels: Labels
    by_teachers: Mask
    checked: int

    @property
    def answered(self) -> int:
        """How many queries the teachers answered."""
        return int(self.by_teachers.sum())


class _Aggregator(ABC):
    """The interface of all aggregators; only Interactive-GNMax reads `student_scores`."""

    @abstractmethod
    def _events(self, checked: int, answered: int, accounting: Accounting) -> tuple[Event, ...]:
        """See `events`."""

    @abstractmethod
    def _costs(self, votes: Array, accounting: Accounting, *public: Array) -> QueryCosts:
        """Costs of checked votes [N, K]; `public` are the arrays of `_public`."""

    @abstractmethod
    def _decide(self, rng: NoiseGenerator, votes: Array, *public: Array) -> tuple[Labels, Mask]:
        """Labels [N], and which queries teachers answered [N]."""

    def _public(self, votes: Array, student_scores: ArrayLike | None) -> tuple[Array, ...]:
        """Arrays beside the votes that answers depend on, a row per query."""
        if student_scores is not None:
            raise ValueError(f"{type(self).__name__} takes no student_scores; leave them out")
        return ()

    def events(
        self, *, checked: int, answered: int, accounting: Accounting = Accounting.DECISION
    ) -> tuple[Event, ...]:
        """Events of every label, for any votes: fit for a ledger and for publication.

        `checked` are the queries looked at, all of them without a check. Laplace noise has
        one price by any accounting.
        """
        _validate.whole(checked=checked, answered=answered)
        if answered > checked:
            raise ValueError(
                f"answered is {answered}, but only {checked} queries were checked; a query is "
                "answered once at most"
            )
        return self._events(checked, answered, accounting)

    def costs(
        self,
        votes: ArrayLike,
        accounting: Accounting = Accounting.DECISION,
        *,
        student_scores: ArrayLike | None = None,
    ) -> QueryCosts:
        """Costs of these votes [N, K], query by query: private, like the votes."""
        checked = checked_votes(votes)
        return self._costs(checked, accounting, *self._public(checked, student_scores))

    def respond(
        self,
        votes: ArrayLike,
        *,
        generator: AnyGenerator,
        max_answers: int | None = None,
        student_scores: ArrayLike | None = None,
    ) -> Answers:
        """Answer queries in order, votes [N, K], until teachers have given `max_answers` answers.

        Queries after that are not looked at. `student_scores` are the student's class probabilities
        [N, K], of Interactive-GNMax alone.
        """
        rng = as_noise_generator(generator)
        counts = checked_votes(votes)
        public = self._public(counts, student_scores)
        num_queries, num_classes = counts.shape
        wanted = num_queries if max_answers is None else max_answers
        _validate.enough_queries(wanted, num_queries)
        labels = np.full(num_queries, NO_ANSWER, dtype=np.int64)
        by_teachers = np.zeros(num_queries, dtype=np.bool_)
        given = checked = 0
        height = max(1, _CHUNK_ENTRIES // num_classes)
        # In chunks, so that noise for all queries is not drawn where few answers are wanted.
        while checked < num_queries and given < wanted:
            rows = slice(checked, checked + height)
            chunk, passed = self._decide(rng, counts[rows], *(each[rows] for each in public))
            # Where the budget of answers ends within this chunk, if it does.
            reached = np.flatnonzero(given + np.cumsum(passed) == wanted)
            # Later draws of this chunk are thrown away unseen.
            size = int(reached[0]) + 1 if reached.size else len(chunk)
            labels[checked : checked + size] = chunk[:size]
            by_teachers[checked : checked + size] = passed[:size]
            given += int(passed[:size].sum())
            checked += size
        return Answers(labels=labels, by_teachers=by_teachers, checked=checked)

    def answer(
        self,
        votes: Any,
        *,
        generator: AnyGenerator,
        max_answers: int | None = None,
        student_scores: ArrayLike | None = None,
    ) -> Any:
        """Return the labels of `respond` [N], -1 for no answer, in the kind of `votes`."""
        answers = self.respond(
            votes, generator=generator, max_answers=max_answers, student_scores=student_scores
        )
        return like(answers.labels, votes)


def _checked(aggregator: _Aggregator, **scales: float) -> None:
    """Refuse noise on counts that is not drawn as it is priced."""
    _validate.plain_fields(aggregator)
    _validate.drawable(most=_validate.LARGEST_WHOLE_SCALE, **scales)


@dataclass(frozen=True, kw_only=True)
class LNMax(_Aggregator):
    """The largest count after Laplace noise of `scale` on every count: 2/scale-DP (PATE 2017)."""

    scale: float

    recorded_without_type: ClassVar[bool] = True  # see release_store

    def __post_init__(self) -> None:
        _checked(self, scale=self.scale)

    def _costs(self, votes: Array, accounting: Accounting, *public: Array) -> QueryCosts:
        return lnmax_costs(votes, scale=self.scale)

    def _events(self, checked: int, answered: int, accounting: Accounting) -> tuple[Event, ...]:
        return (PureEvent(epsilon=2 * answered / self.scale),) if answered else ()

    def _decide(self, rng: NoiseGenerator, votes: Array, *public: Array) -> tuple[Labels, Mask]:
        if isinstance(rng, SecureGenerator):
            labels = largest(votes, laplace(votes.size, generator=rng), scale=self.scale)
        else:
            labels = (votes + rng.laplace(scale=self.scale, size=votes.shape)).argmax(axis=1)
        return labels, np.ones(len(votes), dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class GNMax(_Aggregator):
    """The largest count after Gaussian noise on every count (PATE 2018, section 3.1)."""

    noise_std: float

    recorded_without_type: ClassVar[bool] = True  # see release_store

    def __post_init__(self) -> None:
        _checked(self, noise_std=self.noise_std)

    def _costs(self, votes: Array, accounting: Accounting, *public: Array) -> QueryCosts:
        return gnmax_costs(votes, noise_std=self.noise_std, accounting=accounting)

    def _events(self, checked: int, answered: int, accounting: Accounting) -> tuple[Event, ...]:
        return events_of([Decisions(noise_std=self.noise_std, count=answered)], accounting)

    def _decide(self, rng: NoiseGenerator, votes: Array, *public: Array) -> tuple[Labels, Mask]:
        labels = gaussian_argmax(votes, self.noise_std, rng)
        return labels, np.ones(len(votes), dtype=np.bool_)


def gaussian_argmax(votes: Array, noise_std: float, rng: NoiseGenerator) -> Labels:
    """Class with the largest count [N] after Gaussian noise on every count [N, K]."""
    if isinstance(rng, SecureGenerator):
        return largest(votes, normal(votes.size, generator=rng), scale=noise_std)
    noisy = votes + rng.normal(scale=noise_std, size=votes.shape)
    return np.asarray(noisy.argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ConfidentGNMax(_Aggregator):
    """GNMax for the queries whose noisy largest count reaches a threshold (PATE 2018, Algorithm 1).

    sigma1 is the standard deviation of the noise of the check, sigma2 of the answer; the threshold
    may exceed the teachers.
    """

    threshold: float
    sigma1: float
    sigma2: float
    check_noise: CheckNoise = CheckNoise.ON_MAXIMUM

    recorded_without_type: ClassVar[bool] = True  # see release_store

    def __post_init__(self) -> None:
        _checked(self, sigma1=self.sigma1, sigma2=self.sigma2)
        _validate.non_negative(threshold=self.threshold)
        object.__setattr__(self, "check_noise", CheckNoise(self.check_noise))

    def _costs(self, votes: Array, accounting: Accounting, *public: Array) -> QueryCosts:
        return confident_gnmax_costs(
            votes,
            check_counts=public[0] if public else None,
            accounting=accounting,
            **vars(self),
        )

    def _events(self, checked: int, answered: int, accounting: Accounting) -> tuple[Event, ...]:
        moved = 2 if self.check_noise is CheckNoise.PER_CLASS else 1
        checks = Decisions(noise_std=self.sigma1, count=checked, moved=moved)
        return events_of([checks, Decisions(noise_std=self.sigma2, count=answered)], accounting)

    def check(self, counts: Array, rng: NoiseGenerator) -> Mask:
        """Mask of the queries that pass, by their counts [N, K]."""
        per_class = self.check_noise is CheckNoise.PER_CLASS
        if isinstance(rng, SecureGenerator):
            looked_at = counts.astype(np.float64) if per_class else whole_maximum(counts)[:, None]
            reached = reaches(
                looked_at.ravel(),
                normal(looked_at.size, generator=rng),
                scale=self.sigma1,
                threshold=self.threshold,
            )
            return np.asarray(reached.reshape(looked_at.shape).any(axis=1))
        if per_class:
            noisy = (counts + self.sigma1 * rng.normal(size=counts.shape)).max(axis=1)
        else:
            noisy = whole_maximum(counts) + self.sigma1 * rng.normal(size=len(counts))
        return np.asarray(noisy >= self.threshold)

    def answer_passed(self, votes: Array, passed: Mask, rng: NoiseGenerator) -> Labels:
        """Labels of the queries that passed [N], -1 for the others."""
        labels = np.full(len(votes), NO_ANSWER, dtype=np.int64)
        labels[passed] = gaussian_argmax(votes[passed], self.sigma2, rng)
        return labels

    def _decide(self, rng: NoiseGenerator, votes: Array, *public: Array) -> tuple[Labels, Mask]:
        passed = self.check(votes, rng)
        return self.answer_passed(votes, passed, rng), passed


def surprise_counts(votes: NDArray[np.integer[Any]], student_scores: Floats) -> Floats:
    """Counts that Interactive-GNMax checks: votes less those that the student expects [N, K].

    The expectation T p is rounded before it is subtracted. The counts are then whole, so that one
    vote moves their maximum by 1 at most; rounding their difference in floats could move it by 2.
    The student's class probabilities [N, K] are public.
    """
    teachers = int(votes[0].sum())
    return votes.astype(np.float64) + np.floor(0.5 - teachers * student_scores)


@dataclass(frozen=True, kw_only=True)
class InteractiveGNMax(_Aggregator):
    """Confident-GNMax that answers where teachers contradict the student (PATE 2018, Algorithm 2).

    The check looks at the votes less what the student expects. Where it fails and the student's
    score is above `confidence`, the student's own label is reinforced; that costs nothing more,
    because the student has been trained on answers alone.
    """

    threshold: float
    sigma1: float
    sigma2: float
    confidence: float

    recorded_without_type: ClassVar[bool] = True  # see release_store

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.number(confidence=self.confidence)
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence is {self.confidence}; it must lie in [0, 1]")
        _ = self._teachers

    @property
    def _teachers(self) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2)

    def _public(self, votes: Array, student_scores: ArrayLike | None) -> tuple[Array, ...]:
        if student_scores is None:
            raise ValueError("InteractiveGNMax needs student_scores, the student's probabilities")
        scores = _validate.probabilities(
            student_scores, name="student_scores", num_classes=votes.shape[1]
        )
        _validate.same_length(student_scores=len(scores), votes=len(votes))
        return surprise_counts(votes, scores), scores

    def _costs(self, votes: Array, accounting: Accounting, *public: Array) -> QueryCosts:
        return self._teachers._costs(votes, accounting, public[0])

    def _events(self, checked: int, answered: int, accounting: Accounting) -> tuple[Event, ...]:
        return self._teachers.events(checked=checked, answered=answered, accounting=accounting)

    def _decide(self, rng: NoiseGenerator, votes: Array, *public: Array) -> tuple[Labels, Mask]:
        counts, scores = public
        passed = self._teachers.check(counts, rng)
        labels = self._teachers.answer_passed(votes, passed, rng)
        sure = ~passed & (scores.max(axis=1) > self.confidence)
        labels[sure] = scores[sure].argmax(axis=1)
        return labels, passed


#: Aggregators that answer queries in one round, without a student.
Aggregator = LNMax | GNMax | ConfidentGNMax


@_validate.plain_numbers
def price_for_any_votes(
    aggregator: Aggregator,
    *,
    checked: int,
    answered: int,
    delta: float,
    conversion: Conversion = Conversion.IMPROVED,
    accounting: Accounting = Accounting.DECISION,
) -> PateCost:
    """Cost of so many checks and answers for any votes; order `inf` marks pure DP."""
    _validate.between(0, 1, delta=delta)
    events = aggregator.events(checked=checked, answered=answered, accounting=accounting)
    _, rdp = renyi_curve(events)
    pure = math.inf
    if isinstance(aggregator, LNMax):  # Renyi curves add up answer by answer, below the pure cost
        pure = 2 / aggregator.scale * answered
        rdp = answered * pure_rdp(2 / aggregator.scale, ORDERS)
    epsilon, order = epsilon_from_rdp(ORDERS, rdp, delta, conversion)
    if pure <= epsilon:
        epsilon = pure
        order = math.inf
    return PateCost(epsilon=epsilon, order=order, answered=float(answered))


def least_noise(price: Callable[[float], float], target: float) -> float:
    """Smallest noise whose price is within the target; prices fall as noise rises."""
    low = 1.0
    high = 1.0
    while price(high) > target:
        if high >= _validate.LARGEST_WHOLE_SCALE:
            raise ValueError(
                f"epsilon is {target}; at this delta, Renyi orders up to {ORDERS[-1]:.0f} prove no "
                f"less than {price(high):.4g} with any noise; raise epsilon or delta"
            )
        high *= 2
    while price(low) <= target:
        low /= 2
    log_noise = brentq(lambda x: price(math.exp(x)) - target, math.log(low), math.log(high))
    noise = math.exp(float(log_noise))
    while price(noise) > target:
        noise *= 1 + 1e-12
    return noise

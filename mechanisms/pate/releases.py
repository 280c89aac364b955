"""PATE's two releases as mechanisms of the vault: the answers, and what they cost.

Both are made of votes, so the vault draws and charges them through `release_from_votes`. Answers
are charged with the most that was requested, all checks and all answers, whatever the votes turn
out to be: how far a run got depends on secret votes, so a charge for real use would be a secret
itself. The real cost is private, but for the number that `PublishedCost` releases with its
own noise.

>>> answers = PateAnswers(aggregator=GNMax(noise_std=40.0), queries=1000, max_answers=500)
>>> round(epsilon_of([answers.event], delta=1e-5), 2)
2.82
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    Event,
    GaussianEvent,
    composed,
    epsilon_from_rdp,
    epsilon_of,
)
from labeldp.mechanisms.ledger import epsilon_of_prices, epsilon_or_infinity
from labeldp.mechanisms.pate.accounting import CheckNoise, QueryCosts
from labeldp.mechanisms.pate.aggregators import (
    Aggregator,
    Answers,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
)
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_cost import (
    TAIL_SHARE,
    ReleaseNoise,
    SanitizedEpsilon,
    public_rule,
    release_epsilon,
)
from labeldp.mechanisms.randomness import AnyGenerator

#: Aggregators that an ensemble can answer through.
RequestedAggregator = Aggregator | InteractiveGNMax

#: Columns of a release of answers.
LABEL = 0
BY_TEACHERS = 1
#: In the second column: the run had its answers before it came to this query.
NOT_LOOKED_AT = -1


@dataclass(frozen=True, kw_only=True)
class PateAnswers:
    """Answers of an ensemble to Q queries, in order, until there are `max_answers`."""

    aggregator: RequestedAggregator
    queries: int
    max_answers: int

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _validate.plain_fields(self)
        _validate.whole(minimum=1, queries=self.queries)
        _validate.enough_queries(self.max_answers, self.queries)

    @property
    def event(self) -> Event:
        """The charge to every label: for all checks and all answers that were requested."""
        events = self.events(checked=self.queries, answered=self.max_answers)
        assert len(events) == 1
        return events[0]

    def events(
        self, *, checked: int, answered: int, accounting: Accounting = Accounting.DECISION
    ) -> tuple[Event, ...]:
        """Events of every label for so many checks and answers, as `Aggregator.events`."""
        return self.aggregator.events(checked=checked, answered=answered, accounting=accounting)

    def release(
        self, votes: NDArray[Any], *student_scores: NDArray[Any], generator: AnyGenerator
    ) -> NDArray[np.int64]:
        """Draw the answers to votes [Q, K]; Interactive-GNMax takes the student's scores [Q, K].

        Returns:
            Label (-1 for none), and whether the teachers gave it: 1 or 0, -1 for queries that were
            not looked at [Q, 2].
        """
        if len(votes) != self.queries:
            raise ValueError(f"votes has {len(votes)} rows; {self.queries} queries were declared")
        answers = self.aggregator.respond(
            votes,
            generator=generator,
            max_answers=self.max_answers,
            student_scores=student_scores[0] if student_scores else None,
        )
        return released_of(answers)


@dataclass(frozen=True, kw_only=True)
class NeighborAnswers(PateAnswers):
    """Answers where each label votes on at most `queries_per_label` of the queries.

    Which queries these are must be public and fixed before the first answer. Given all earlier
    answers, a label changes the distribution of an answer only where it votes, so it pays for its
    own queries, by the same accounting: at most so many checks, and at most so many answers.
    """

    queries_per_label: int

    failure_probability: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.whole(minimum=1, queries_per_label=self.queries_per_label)

    def events(
        self, *, checked: int, answered: int, accounting: Accounting = Accounting.DECISION
    ) -> tuple[Event, ...]:
        """Events of every label, of whose queries all may be among those checked and answered."""
        most = self.queries_per_label
        return super().events(
            checked=min(checked, most), answered=min(answered, most), accounting=accounting
        )


@dataclass(frozen=True, kw_only=True)
class PublishedCost:
    """A public bound on what GNMax or Confident-GNMax answers cost, by smooth sensitivity.

    It is random, and known after the answers only (`published_cost.SanitizedEpsilon`). noise_std is
    that of the answers, threshold and sigma1 of the check (None without one); order, delta, its
    part tail and the noise of the release are fixed beforehand.
    """

    noise_std: float
    threshold: float | None
    sigma1: float | None
    order: float
    delta: float
    tail: float
    publishing_noise: ReleaseNoise

    @classmethod
    def of(
        cls, answers: PateAnswers, *, teachers: int, classes: int, delta: float
    ) -> "PublishedCost | None":
        """Return the release for `answers`, by rules that see no votes; None where none is proven.

        Laplace noise has no proof of smooth sensitivity here, per-class checks cost the same for
        all votes, and an interactive round compares what the votes alone do not tell.
        """
        # By the type of the aggregator alone, which is public.
        noise: dict[str, Any] = {"threshold": None, "sigma1": None}
        match answers.aggregator:
            case GNMax(noise_std=noise_std):
                pass
            case ConfidentGNMax(check_noise=CheckNoise.ON_MAXIMUM) as confident:
                noise_std = confident.sigma2
                noise = {"threshold": confident.threshold, "sigma1": confident.sigma1}
            case _:
                return None
        noise |= {"noise_std": noise_std, "delta": delta}
        # The bound may fail with a part of delta; the rest is for the release itself.
        tail = TAIL_SHARE * delta
        order, guess = public_rule(
            queries=answers.queries,
            answers=answers.max_answers,
            teachers=teachers,
            classes=classes,
            **noise,
        )
        return cls(
            **noise,
            order=order,
            tail=tail,
            publishing_noise=ReleaseNoise.public(order=order, tail=tail, sensitivity_guess=guess),
        )

    @property
    def failure_probability(self) -> float:
        """That of the bound: the part of delta that it was given."""
        return self.tail

    @property
    def event(self) -> Event:
        """The price of publishing the bound, beside its failure probability."""
        noise = self.publishing_noise
        multipliers = (noise.sensitivity_multiplier, noise.cost_multiplier)
        return composed([GaussianEvent(noise_multiplier=each) for each in multipliers])

    def release(
        self, votes: NDArray[Any], answers: NDArray[Any], *, generator: AnyGenerator
    ) -> NDArray[np.float64]:
        """Draw the bound on answers [Q, 2] to votes [Q, K], its own price included: [epsilon]."""
        published = self.sanitize(votes, answers, generator=generator)
        # Releases are kept in single precision, and a bound may not be rounded below itself.
        bound = np.float32(published.epsilon)
        if float(bound) < published.epsilon:
            bound = np.nextafter(bound, np.float32(np.inf))
        return np.array([bound], dtype=np.float64)

    def sanitize(
        self,
        votes: NDArray[Any],
        answers: NDArray[Any],
        *,
        generator: AnyGenerator,
        conversion: Conversion = Conversion.IMPROVED,
    ) -> SanitizedEpsilon:
        """Draw the bound, as `release`, with everything that may be published about it."""
        checked = looked_at(answers)
        stated = dict(vars(self))
        return release_epsilon(
            votes[:checked],
            answered=None if self.threshold is None else answers[:checked, BY_TEACHERS] > 0,
            noise=stated.pop("publishing_noise"),
            **stated,
            conversion=conversion,
            generator=generator,
        )

    def capped(self, bound: float, answers: PateAnswers) -> float:
        """Return the released `bound`, or the bound for any votes, if less."""
        return min(bound, epsilon_of_prices([answers, self], delta=self.delta))


# The votes are secret: no text shows them.
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnsweredRequest:
    """A request and everything that determines its real cost; private, for the votes in it.

    votes are [Q, K], the released answers [Q, 2], student scores (for Interactive-GNMax) [Q, K].
    """

    request: PateAnswers
    votes: NDArray[Any]
    released: NDArray[Any]
    student_scores: NDArray[Any] | None = None

    def costs(self, accounting: Accounting = Accounting.DECISION) -> QueryCosts:
        """Return the costs of the queries that were looked at."""
        checked = slice(looked_at(self.released))  # what is not looked at is not computed either
        scores = None if self.student_scores is None else self.student_scores[checked]
        return self.request.aggregator.costs(self.votes[checked], accounting, student_scores=scores)

    @property
    def by_teachers(self) -> NDArray[np.bool_]:
        """Mask of the queries that teachers answered, among those that were looked at."""
        return self.released[: looked_at(self.released), BY_TEACHERS] > 0


def private_costs(rounds: Sequence[AnsweredRequest], *, delta: float) -> dict[str, float]:
    """Epsilon that the answers of a run really cost, over all of its rounds.

    Returns:
        `realised`: for the checks that were made and the answers that were given, with these votes.
        `realised_data_independent`: the same for any votes. `expected`: each answer weighted by its
        probability. `expected_of_counts`: the same by the bounds of PATE 2018, the papers' epsilon.
        All but the second are private.
    """
    # Renyi divergences of rounds add at each order; epsilons of rounds would be too large together.
    expected, published, realised = np.zeros((3, len(ORDERS)))
    events: list[Event] = []
    for each in rounds:
        costs = each.costs()
        answered = each.by_teachers
        expected += costs.rdp()
        published += each.costs(Accounting.COUNTS).rdp()
        realised += costs.rdp(answered=answered)
        events += each.request.events(checked=len(answered), answered=int(answered.sum()))
    requested = epsilon_of([each.request.event for each in rounds], delta=delta)
    for_any_votes = epsilon_of(events, delta=delta)
    # Curves are of all queries. Prices for any votes are less where answers are few, or where a
    # label votes on a part of the queries.
    return {
        "expected": min(epsilon_from_rdp(ORDERS, expected, delta)[0], requested),
        "expected_of_counts": epsilon_from_rdp(ORDERS, published, delta)[0],
        "realised": min(epsilon_from_rdp(ORDERS, realised, delta)[0], for_any_votes),
        "realised_data_independent": for_any_votes,
    }


def epsilon_of_counts(
    requests: Sequence[PateAnswers], published: PublishedCost | None = None, *, delta: float
) -> float:
    """The published price: the cost of releasing the noisy counts of checks and answers.

    A bound on the cost that is released beside them has a price of its own, which is included.
    """
    events: list[Event] = [] if published is None else [published.event]
    failing = 0.0 if published is None else published.failure_probability
    for request in requests:
        events += request.events(
            checked=request.queries, answered=request.max_answers, accounting=Accounting.COUNTS
        )
    return epsilon_or_infinity(events, delta=delta - failing)


def released_of(answers: Answers) -> NDArray[np.int64]:
    """Label of each answer, and its source [N, 2], as `PateAnswers.release` returns them."""
    by_teachers = answers.by_teachers.astype(np.int64)
    by_teachers[answers.checked :] = NOT_LOOKED_AT
    return np.stack([answers.labels, by_teachers], axis=1)


def looked_at(released: NDArray[Any]) -> int:
    """How many queries were checked."""
    return int((released[:, BY_TEACHERS] != NOT_LOOKED_AT).sum())

"""Settings of PATE-FM (`pate.pate_fm`): who votes, how votes become answers, who learns of them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Priced, failure_of
from labeldp.mechanisms.pate.aggregators import (
    Aggregator,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
)
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost, composed
from labeldp.trainers.performance import Performance
from labeldp.trainers.priors import PriorSettings
from labeldp.trainers.settings.ensemble import EnsembleConfig
from labeldp.trainers.settings.student import StudentConfig
from labeldp.trainers.trainer import PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data import PublicData
    from labeldp.trainers.pate.pate_fm import AnswerSource, Pate


class AggregatorKind(StrEnum):
    """How votes become answers; see `labeldp.mechanisms.pate.aggregators`."""

    CONFIDENT = "confident"
    GNMAX = "gnmax"
    LNMAX = "lnmax"
    INTERACTIVE = "interactive"


@dataclass(frozen=True, kw_only=True)
class PateConfig(TrainerDefaults):
    """Settings of PATE-FM.

    Attributes:
        ensemble: The teachers; everything else here reuses their votes.
        aggregator: How votes become answers.
        threshold: tau, of CONFIDENT and INTERACTIVE, in votes.
        sigma1: Standard deviation of the check's noise, in votes.
        sigma2: Standard deviation of the answers' noise, in votes; LNMAX takes the Laplace
            distribution of this standard deviation, of scale sigma2 / sqrt 2 (`labeldp epsilon
            pate --aggregator lnmax` is given that scale).
        confidence: Of INTERACTIVE: a student surer than this keeps its own label.
        answers: K, after which no more queries are answered.
        delta: At which epsilon is stated.
        publish_cost: Release, beside the answers and with noise of its own, a bound after the fact
            on what they really cost (`epsilon_sanitized`), where one is proven; charged too.
        student: What learns from the answers.
        students: How many of them; mean and spread are reported.
        prior: What students learn from beside the answers; UNIFORM for nothing. It is released by
            itself, costs `prior_epsilon` whatever its share, and adds to what the answers cost.
        prior_epsilon: Of that release.
        prior_trusted: Share of the training examples of each class, the surest first, whose
            likeliest class under the prior becomes a label.
    """

    ensemble: EnsembleConfig = field(default_factory=EnsembleConfig)
    aggregator: AggregatorKind = AggregatorKind.CONFIDENT
    threshold: float = 150.0
    sigma1: float = 100.0
    sigma2: float = 40.0
    confidence: float = 0.95
    answers: int = 500
    delta: float = USUAL_DELTA
    publish_cost: bool = True
    student: StudentConfig = field(default_factory=StudentConfig)
    students: int = 3
    prior: PriorSettings = field(default_factory=PriorSettings)
    prior_epsilon: float = 0.1
    prior_trusted: float = 0.8

    def __post_init__(self) -> None:
        """Check the numbers against each other."""
        _validate.members(self)
        _validate.between(0, 1, delta=self.delta, prior_trusted=self.prior_trusted)
        _validate.positive(prior_epsilon=self.prior_epsilon)
        if self.prior.source.asks_labels and self.publish_cost:
            raise ValueError(
                f"publish_cost is True, but with prior.source={self.prior.source} the answers are "
                "not all that is paid for, and the bound speaks of answers only; set "
                "publish_cost=False"
            )
        _validate.whole(minimum=1, answers=self.answers, students=self.students)
        teachers = self.ensemble.teachers
        with_check = self.aggregator in (AggregatorKind.CONFIDENT, AggregatorKind.INTERACTIVE)
        # Three standard deviations above what a unanimous vote has, one query in a thousand passes.
        if with_check and self.threshold > teachers + 3 * self.sigma1:
            raise ValueError(
                f"threshold is {self.threshold:g}, but {teachers} teachers who all agree reach "
                f"{teachers} votes and with noise of sigma1 {self.sigma1:g} hardly more than "
                f"{teachers + 3 * self.sigma1:g}: nothing would pass; the papers take 10% to 75% "
                f"of the teachers, {0.1 * teachers:g} to {0.75 * teachers:g}"
            )
        if self.answers > self.ensemble.queries:
            raise ValueError(
                f"answers is {self.answers}, but ensemble.queries is {self.ensemble.queries}; ask "
                "for fewer answers, or let teachers vote on more queries"
            )
        if self.aggregator is AggregatorKind.INTERACTIVE and self.answers < 2:
            raise ValueError("an interactive run has two rounds; ask for 2 answers at least")
        _ = self.rounds

    def check_data(self, data: "PublicData") -> None:
        """Refuse data that don't fit, before any teacher or trial starts.

        Raises:
            ValueError: More teachers or queries than examples, or models of other features.
        """
        self.ensemble.check_data(data)
        self.student.check_data(data)

    @property
    def epochs(self) -> int:
        """Of all students, one after the other."""
        return self.students * self.student.epochs

    @property
    def rounds(self) -> tuple[PateAnswers, ...]:
        """What is asked for: one request, or two of half the queries and answers each."""
        queries, answers = self.ensemble.queries, self.answers
        if self.aggregator is not AggregatorKind.INTERACTIVE:
            aggregator: Aggregator
            match self.aggregator:
                case AggregatorKind.GNMAX:
                    aggregator = GNMax(noise_std=self.sigma2)
                case AggregatorKind.LNMAX:
                    aggregator = LNMax(scale=self.sigma2 / 2**0.5)
                case _:
                    aggregator = self._confident
            request = PateAnswers(aggregator=aggregator, queries=queries, max_answers=answers)
            return (request,)
        interactive = InteractiveGNMax(
            threshold=self.threshold,
            sigma1=self.sigma1,
            sigma2=self.sigma2,
            confidence=self.confidence,
        )
        return (
            PateAnswers(
                aggregator=self._confident,
                queries=queries // 2,
                max_answers=answers // 2,
            ),
            PateAnswers(
                aggregator=interactive,
                queries=queries - queries // 2,
                max_answers=answers - answers // 2,
            ),
        )

    @property
    def publishes(self) -> bool:
        """Whether a bound on the cost is published: it is proven for one round, not for two."""
        return self.publish_cost and len(self.rounds) == 1

    @property
    def _confident(self) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay for its answers, and for publishing what they cost."""
        rounds = self.rounds
        published = None
        if self.publishes:
            published = PublishedCost.of(
                rounds[0],
                teachers=self.ensemble.teachers,
                classes=num_classes,
                delta=self.delta,
            )
        paid: list[Priced] = [*rounds, *([] if published is None else [published])]
        known: tuple[object, ...] | None = None
        if len(rounds) > 1:
            # Each student shows scores of its own to the teachers in an interactive round.
            known = (self.prior, self.prior_epsilon, self.prior_trusted, self.student, seed)
        return PlannedCharge(
            event=composed([each.event for each in paid]),
            failure_probability=failure_of(paid),
            release=(self.ensemble, rounds, self.delta, published, known),
            releases=len(paid),
            before=self.prior.planned_charge(
                epsilon=self.prior_epsilon, delta=self.delta, num_classes=num_classes
            ),
        )

    def start(
        self, *, data: "PublicData", labels: "AnswerSource", seed: int, performance: Performance
    ) -> "Pate":
        """Ask for the answers and the prior, and set the students up.

        Raises:
            BudgetExceeded: A release would take a label over the budget.
            ValueError: Nothing was answered, or settings that don't fit the data.
        """
        from labeldp.trainers.pate.pate_fm import started

        return started(self, data=data, labels=labels, seed=seed, performance=performance)

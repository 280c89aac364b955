"""Settings of PATE-FM (`pate.pate_fm`): who votes, how votes become answers, who learns of them."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.ledger import Priced, delta_of_total, epsilon_of_prices, failure_of
from labeldp.mechanisms.pate.aggregators import (
    Aggregator,
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
)
from labeldp.mechanisms.pate.calibration import MOST_NOISE, least_noise
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost, composed
from labeldp.trainers.methods.priors import PriorSettings
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.ensemble import EnsembleConfig
from labeldp.trainers.settings.student import StudentConfig
from labeldp.trainers.trainer import PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.pate.pate_fm import AnswerSource, Pate


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
        epsilon: Privacy loss per label of all checks, all answers and the prior together, for any
            votes. Noise that is not given is calibrated to it. Null where `sigma1` and `sigma2`
            are both given; 1 if one of them is not.
        threshold: tau, of CONFIDENT and INTERACTIVE, in votes; 60% of the teachers if not given.
        sigma1: Standard deviation of the check's noise, in votes; calibrated if not given.
        sigma2: Standard deviation of the answers' noise, in votes; calibrated if not given. LNMAX
            takes the Laplace distribution of this standard deviation, of scale sigma2 / sqrt 2
            (`labeldp epsilon pate --aggregator lnmax` is given that scale).
        confidence: Of INTERACTIVE: a student surer than this keeps its own label.
        answers: K, after which no more queries are answered.
        delta: At which epsilon is stated.
        publish_cost: Release, beside the answers and with noise of its own, a bound after the fact
            on what they really cost (`epsilon_sanitized`), where one is proven; charged too. If
            not given: only where all noise is given, without a prior.
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
    epsilon: float | None = None
    threshold: float | None = None
    sigma1: float | None = None
    sigma2: float | None = None
    confidence: float = 0.95
    answers: int = 500
    delta: float = USUAL_DELTA
    publish_cost: bool | None = None
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
        given = {name: getattr(self, name) for name in ("epsilon", "sigma1", "sigma2")}
        _validate.positive(**{name: value for name, value in given.items() if value is not None})
        if self.threshold is not None:
            _validate.non_negative(threshold=self.threshold)
        # Three standard deviations above what a unanimous vote has, one query in a thousand passes.
        if (
            self._has_check
            and self.threshold is not None
            and self.sigma1 is not None
            and self.threshold > teachers + 3 * self.sigma1
        ):
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

    @property
    def _has_check(self) -> bool:
        return self.aggregator in (AggregatorKind.CONFIDENT, AggregatorKind.INTERACTIVE)

    def calibrated(self) -> "PateConfig":
        """Return these settings with the noise and threshold that they lead to.

        Neither the data nor the votes have a say in them, so that they cost nothing.

        Raises:
            ValueError: The noise that is given costs another epsilon.
        """
        # Seeds, students and kinds of teachers change no price: settings that differ in them alone
        # are calibrated once.
        asked = EnsembleConfig(teachers=self.ensemble.teachers, queries=self.ensemble.queries)
        found = _calibrated(replace(self, ensemble=asked, student=StudentConfig(), students=1))
        names = ("epsilon", "threshold", "sigma1", "sigma2", "publish_cost")
        return replace(self, **{name: getattr(found, name) for name in names})

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
        return self.calibrated()._requests

    @property
    def _requests(self) -> tuple[PateAnswers, ...]:
        queries, answers = self.ensemble.queries, self.answers
        assert self.sigma2 is not None, "calibrated"
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
        confident = self._confident
        interactive = InteractiveGNMax(
            threshold=confident.threshold,
            sigma1=confident.sigma1,
            sigma2=confident.sigma2,
            confidence=self.confidence,
        )
        return (
            PateAnswers(
                aggregator=confident,
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
    def price(self) -> float:
        """Epsilon of a trial for any votes, of settings whose noise is all given."""
        charge = replace(self, epsilon=None).planned_charge(num_classes=2, seed=0).chain()
        return epsilon_of_prices(charge, delta=delta_of_total(charge, delta=self.delta))

    @property
    def publishes(self) -> bool:
        """Whether a bound on the cost is published: it is proven for one round, not for two."""
        return bool(self.calibrated().publish_cost) and len(self.rounds) == 1

    @property
    def _confident(self) -> ConfidentGNMax:
        assert self.threshold is not None and self.sigma1 is not None and self.sigma2 is not None
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
        from labeldp.trainers.methods.pate.pate_fm import started

        return started(self, data=data, labels=labels, seed=seed, performance=performance)


#: Share of epsilon that pays for the checks: among published settings it is 5% to 20%.
_CHECK_SHARE = 0.1
#: The papers' thresholds are 10% to 75% of the teachers, most of them about so much.
_THRESHOLD_SHARE = 0.6
#: Another epsilon than the one that is asked for, beyond rounding.
_OTHER = 1e-6


@lru_cache(maxsize=256)
def _calibrated(settings: PateConfig) -> PateConfig:
    names = ("sigma1", "sigma2") if settings._has_check else ("sigma2",)
    missing = [name for name in names if getattr(settings, name) is None]
    threshold, publish = settings.threshold, settings.publish_cost
    if settings._has_check and threshold is None:
        threshold = _THRESHOLD_SHARE * settings.ensemble.teachers
    by_noise = settings.epsilon is None and not missing
    if publish is None:
        publish = by_noise and not settings.prior.source.asks_labels
    if by_noise:
        return replace(settings, threshold=threshold, publish_cost=publish)
    target = 1.0 if settings.epsilon is None else settings.epsilon
    if publish:
        raise ValueError(
            f"publish_cost is True and epsilon is {target:g}: the published bound is charged "
            "beside the answers, and epsilon is the price of the answers; set publish_cost=false, "
            f"or leave epsilon out and set {' and '.join(names)}"
        )
    found = replace(settings, epsilon=target, threshold=threshold, publish_cost=False)
    checks = settings.ensemble.queries / _CHECK_SHARE
    answers = 2 * settings.answers / (1 - _CHECK_SHARE)
    parts = {"sigma1": checks**0.5, "sigma2": answers**0.5}

    def at(scale: float) -> PateConfig:
        return replace(found, **{name: scale * parts[name] for name in missing})

    given = ", ".join(
        f"{name}={getattr(settings, name):g}" for name in names if name not in missing
    )
    if given:
        alone = at(MOST_NOISE).price
        if alone > target or (not missing and alone < target * (1 - _OTHER)):
            other = "" if not missing else f" or more, whatever {missing[0]} is"
            default = " (where none is given)" if settings.epsilon is None else ""
            raise ValueError(
                f"epsilon is {target:g}{default}, but with {given} {settings.answers} answers to "
                f"{settings.ensemble.queries} queries cost {alone:.4g} at delta "
                f"{settings.delta:g}{other}; set epsilon or {', '.join(names)}, and not both"
            )
    return at(least_noise(lambda scale: at(scale).price, target)) if missing else found

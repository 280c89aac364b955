"""Interactive-GNMax: teachers answer where they contradict the student, who reinforces the rest.

Papernot et al., "Scalable Private Learning with PATE", ICLR 2018 (arXiv:1802.08908), Algorithm 2.
Its prices are those of `aggregators`: `events` for any votes, which the ledger charges; `costs` and
`private_event` for these votes, which is private itself.

>>> import numpy as np
>>> votes = np.array([[240, 10], [240, 10], [130, 120]])
>>> scores = np.array([[0.99, 0.01], [0.1, 0.9], [0.6, 0.4]])
>>> aggregator = InteractiveGNMax(threshold=100.0, sigma1=10.0, sigma2=10.0, confidence=0.9)
>>> answers = aggregator.respond(votes, student_scores=scores, generator=np.random.default_rng(1))
>>> answers.labels, answers.by_teachers
(array([ 0,  0, -1]), array([False,  True, False]))
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import like
from labeldp.mechanisms.accounting import Event, RenyiEvent
from labeldp.mechanisms.pate.accounting import QueryCosts, confident_gnmax_costs
from labeldp.mechanisms.pate.aggregators import (
    Answers,
    ConfidentGNMax,
    Labels,
    Mask,
    event_of_answers,
    respond_in_order,
)
from labeldp.mechanisms.pate.decision_events import Accounting
from labeldp.mechanisms.pate.renyi_bounds import Floats
from labeldp.mechanisms.pate.votes import checked_votes
from labeldp.mechanisms.randomness import AnyGenerator, as_noise_generator


def surprise_counts(votes: NDArray[np.integer[Any]], student_scores: Any) -> Floats:
    """What Interactive-GNMax checks: votes less what the student expects, in whole votes [N, K].

    The expectation T p is rounded before it is subtracted. The counts are then whole, so that one
    vote moves their maximum by 1 at most, exactly; rounding their difference in floating point
    could move it by 2.

    Args:
        votes: Counts [N, K] of T teachers.
        student_scores: The student's class probabilities [N, K]; public.

    Raises:
        ValueError: Scores that are no probabilities (the row is named), or of another shape.
    """
    scores = _validate.probabilities(
        student_scores, name="student_scores", num_classes=votes.shape[1]
    )
    if len(scores) != len(votes):
        raise ValueError(
            f"student_scores has {len(scores)} rows, votes {len(votes)}; the student scores every "
            "query"
        )
    teachers = int(votes[0].sum())
    counts: Floats = votes.astype(np.float64) + np.floor(0.5 - teachers * scores)
    return counts


@dataclass(frozen=True, kw_only=True)
class InteractiveGNMax:
    """Confident-GNMax that answers where teachers contradict the student (PATE 2018, Algorithm 2).

    The check looks at the votes less what the student expects. Where it fails and the student is
    confident, the student's own label is reinforced; that costs nothing more, because the student
    has been trained on answers alone.

    Attributes:
        threshold: What the noisy largest surplus must reach, 0 or above.
        sigma1: Standard deviation of the noise of the check.
        sigma2: Standard deviation of the noise of the answer.
        confidence: The student's label is reinforced if its score is above this, in [0, 1].
    """

    threshold: float
    sigma1: float
    sigma2: float
    confidence: float

    recorded_without_type: ClassVar[bool] = True  # see release_address

    def __post_init__(self) -> None:
        """Check the parameters."""
        _validate.number(confidence=self.confidence)
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"confidence is {self.confidence}; it must lie in [0, 1]")
        _ = self._teachers

    @property
    def _teachers(self) -> ConfidentGNMax:
        return ConfidentGNMax(threshold=self.threshold, sigma1=self.sigma1, sigma2=self.sigma2)

    def costs(
        self,
        votes: Any,
        *,
        student_scores: Any,
        accounting: Accounting = Accounting.DECISION,
    ) -> QueryCosts:
        """Costs of these votes [N, K], query by query: private, like the votes.

        Args:
            votes: Counts [N, K], one vote per teacher.
            student_scores: The student's class probabilities [N, K].
            accounting: Exact costs of decisions, or the published bounds.

        Raises:
            ValueError: Not vote counts or not scores (the row is named).
        """
        checked = checked_votes(votes)
        return confident_gnmax_costs(
            checked,
            threshold=self.threshold,
            sigma1=self.sigma1,
            sigma2=self.sigma2,
            check_counts=surprise_counts(checked, student_scores),
            accounting=accounting,
        )

    def events(
        self, *, checked: int, answered: int, accounting: Accounting = Accounting.DECISION
    ) -> tuple[Event, ...]:
        """One event, of all checks and all answers by teachers, for any votes."""
        return self._teachers.events(checked=checked, answered=answered, accounting=accounting)

    def respond(
        self,
        votes: Any,
        *,
        student_scores: Any,
        generator: AnyGenerator,
        max_answers: int | None = None,
    ) -> Answers:
        """Answer or reinforce queries in order.

        Args:
            votes: Counts [N, K], one vote per teacher.
            student_scores: The student's class probabilities [N, K].
            generator: Source of the noise.
            max_answers: Stop after so many answers by teachers.

        Raises:
            ValueError: Not vote counts or not scores (the row is named), more answers than queries.
        """
        checked = checked_votes(votes)
        counts = surprise_counts(checked, student_scores)
        scores = _validate.probabilities(student_scores, name="student_scores")
        rng, teachers = as_noise_generator(generator), self._teachers

        def decide(rows: slice, part: NDArray[Any]) -> tuple[Labels, Mask]:
            passed = teachers.check(counts[rows], rng)
            labels = teachers.answer_passed(part, passed, rng)
            sure = ~passed & (scores[rows].max(axis=1) > self.confidence)
            labels[sure] = scores[rows][sure].argmax(axis=1)
            return labels, passed

        return respond_in_order(checked, max_answers, decide)

    def answer(
        self,
        votes: Any,
        *,
        student_scores: Any,
        generator: AnyGenerator,
        max_answers: int | None = None,
    ) -> Any:
        """Return the labels of `respond` [N], -1 for no answer, in the kind of `votes`."""
        answers = self.respond(
            votes, student_scores=student_scores, generator=generator, max_answers=max_answers
        )
        return like(answers.labels, votes)

    def private_event(self, votes: Any, answers: Answers, *, student_scores: Any) -> RenyiEvent:
        """What the answers cost with these votes, on ORDERS: private, like the votes.

        Raises:
            ValueError: Not vote counts or not scores, or not those of the answers.
        """
        return event_of_answers(self.costs(votes, student_scores=student_scores), answers)

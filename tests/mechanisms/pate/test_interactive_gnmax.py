"""Interactive-GNMax: who answers, whole surpluses, the same price as a Confident-GNMax."""

import math
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import log_gaussian_delta
from labeldp.mechanisms.pate.aggregators import (
    NO_ANSWER,
    ConfidentGNMax,
    InteractiveGNMax,
    surprise_counts,
)
from tests.mechanisms.privacy_loss import RUNS, privacy_loss_lower_bound

AGGREGATOR = InteractiveGNMax(threshold=60.0, sigma1=5.0, sigma2=2.0, confidence=0.9)


def test_teachers_answer_where_they_surprise_the_student_who_reinforces_the_rest() -> None:
    votes = np.array([[98, 1, 1], [98, 1, 1], [50, 48, 2]] * 100)
    scores = np.array([[0.95, 0.03, 0.02], [0.0, 0.05, 0.95], [0.4, 0.3, 0.3]] * 100)
    answers = AGGREGATOR.respond(votes, student_scores=scores, generator=np.random.default_rng(0))
    known, surprising, unclear = (slice(start, None, 3) for start in range(3))
    assert (answers.labels[known] == 0).all() and not answers.by_teachers[known].any()
    assert (answers.labels[surprising] == 0).all() and answers.by_teachers[surprising].all()
    assert (answers.labels[unclear] == NO_ANSWER).all() and answers.checked == 300
    assert answers.answered == 100
    labels = AGGREGATOR.answer(votes, student_scores=scores, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(labels, answers.labels)
    few = AGGREGATOR.respond(
        votes, student_scores=scores, generator=np.random.default_rng(0), max_answers=10
    )
    assert (few.answered, few.checked) == (10, 29)
    costs = [
        AGGREGATOR.private_event(votes, given, student_scores=scores).rdp[-1]
        for given in (few, answers)
    ]
    assert 0 < costs[0] < costs[1]


def test_one_vote_moves_the_surplus_by_one_at_most() -> None:
    generator = np.random.default_rng(1)
    scores = generator.dirichlet(np.full(4, 0.5), size=2000)
    scores[:3] = np.array([[4, 4, 0, 0], [1, 3, 2, 2], [8, 0, 0, 0]]) / 8  # exact halves
    votes = generator.multinomial(20, [0.4, 0.3, 0.2, 0.1], size=2000)
    moved = votes.copy()
    source = votes.argmax(axis=1)
    rows = np.arange(len(votes))
    moved[rows, source] -= 1
    moved[rows, (source + generator.integers(1, 4, size=2000)) % 4] += 1
    before, after = (surprise_counts(counts, scores).max(axis=1) for counts in (votes, moved))
    assert (before == np.floor(before)).all()
    assert np.abs(before - after).max() == 1
    assert np.abs(before - (votes - 20 * scores).max(axis=1)).max() <= 0.5 + 1e-12


def test_a_vote_moves_a_count_by_one_at_scores_that_rounding_would_trip_over() -> None:
    """Scores half a vote off, to the last bit: rounded afterwards, one in nine jumps by 2."""
    halves = (np.arange(100) + 0.5) / 100
    teachers = np.arange(101)
    votes = np.stack([teachers, 100 - teachers], axis=1)
    for score in (*halves, *np.nextafter(halves, 0), *np.nextafter(halves, 1)):
        scores = np.tile([score, 1 - score], (101, 1))
        counts = surprise_counts(votes, scores)
        assert (np.diff(counts, axis=0) == [1, -1]).all()


def test_a_student_who_knows_nothing_shifts_the_threshold() -> None:
    votes = np.random.default_rng(2).multinomial(100, [0.6, 0.3, 0.1, 0.0], size=20)
    flat = np.full((20, 4), 0.25)
    costs = AGGREGATOR.costs(votes, student_scores=flat)
    same = ConfidentGNMax(threshold=85.0, sigma1=5.0, sigma2=2.0).costs(votes)
    np.testing.assert_allclose(costs.expected_rdp(), same.expected_rdp(), rtol=1e-12)
    events = AGGREGATOR.events(checked=20, answered=3)
    assert events == ConfidentGNMax(threshold=1.0, sigma1=5.0, sigma2=2.0).events(
        checked=20, answered=3
    )


def test_the_check_is_private_over_a_million_runs_and_half_its_noise_is_not() -> None:
    scores = np.tile([[0.25, 0.75]], (RUNS, 1))

    def passed(sigma1: float) -> list[Any]:
        aggregator = InteractiveGNMax(threshold=14.5, sigma1=sigma1, sigma2=1e6, confidence=1.0)
        generator = np.random.default_rng(3)
        runs = [
            aggregator.respond(
                np.tile([row], (RUNS, 1)), student_scores=scores, generator=generator
            )
            for row in ([24, 16], [23, 17])
        ]
        return [run.by_teachers.astype(np.int64) for run in runs]

    # The surplus is 14 or 13, and passing 14.5 the worst event of this Gaussian at epsilon 0.25.
    delta = math.exp(log_gaussian_delta(noise_multiplier=2.0, epsilon=0.25))
    assert privacy_loss_lower_bound(*passed(2.0), delta=delta) <= 0.25
    assert privacy_loss_lower_bound(*passed(1.0), delta=delta) > 0.25


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[0.5, 0.5]], "1 rows, votes 2"),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]], r"must be \[N, 2\]"),
        ([[0.5, 0.5], [0.9, 0.3]], "student_scores row 1"),
        ([[0.5, 0.5], [math.nan, 0.3]], "student_scores row 1"),
    ],
)
def test_scores_that_are_none_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AGGREGATOR.answer(
            [[3, 1], [2, 2]], student_scores=scores, generator=np.random.default_rng(0)
        )


def test_other_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 holds a negative"):
        AGGREGATOR.answer(
            [[-1, 5]], student_scores=[[0.5, 0.5]], generator=np.random.default_rng(0)
        )
    with pytest.raises(ValueError, match="max_answers is 2"):
        AGGREGATOR.answer(
            [[1, 5]],
            student_scores=[[0.5, 0.5]],
            generator=np.random.default_rng(0),
            max_answers=2,
        )
    for confidence in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="confidence is"):
            InteractiveGNMax(threshold=1.0, sigma1=1.0, sigma2=1.0, confidence=confidence)
    with pytest.raises(ValueError, match="sigma1 is"):
        InteractiveGNMax(threshold=1.0, sigma1=0.0, sigma2=1.0, confidence=0.5)

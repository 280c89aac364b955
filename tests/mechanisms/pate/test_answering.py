"""answering: every defence, measured by the same attack."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import NO_ANSWER, GNMax
from labeldp.mechanisms.pate.leakage_measurements import (
    AnsweringService,
    Defence,
)
from labeldp.mechanisms.pate.vote_leakage import error_rate, reconstruct

VOTES = np.array([19, 7, 31, 7, 78, 4, 90, 10, 3, 1])  # a published histogram of low consensus
NOISE_STD = 60.0
QUESTIONS = 2000


def service(defence: Defence, **extra: Any) -> AnsweringService:
    """An ensemble that votes alike on everything near any input."""
    return AnsweringService(
        vote=lambda features: np.tile(VOTES, (len(features), 1)),
        aggregator=GNMax(noise_std=NOISE_STD),
        defence=defence,
        generator=np.random.default_rng(0),
        **extra,
    )


def attack(target: AnsweringService, features: NDArray[Any]) -> float:
    """The attack's error rate from all answers to these questions."""
    labels = target.answer(features)
    counts = np.bincount(labels[labels != NO_ANSWER], minlength=10)
    return float(error_rate(reconstruct(counts[None], NOISE_STD, 250), VOTES[None])[0])


SAME = np.ones((QUESTIONS, 4))
KEYED = Defence(key=b"sixteen or more secret bytes")


def test_fresh_noise_gives_the_votes_away() -> None:
    target = service(Defence())
    assert attack(target, SAME) < 0.1
    assert target.drawn == QUESTIONS


@pytest.mark.parametrize("defence", [Defence(cached=True), KEYED])
def test_one_answer_for_each_input_stops_the_attack(defence: Defence) -> None:
    target = service(defence)
    assert attack(target, SAME) > 0.4  # it sees one class and concludes consensus
    assert np.unique(target.answer(SAME[:50])).size == 1
    assert target.drawn == 1


def test_a_limit_leaves_what_few_answers_tell() -> None:
    target = service(Defence(limit=20))
    labels = target.answer(SAME)
    assert (labels != NO_ANSWER).sum() == 20
    assert (labels[20:] == NO_ANSWER).all()
    assert target.drawn == 20
    limited = attack(service(Defence(limit=20)), SAME)
    assert limited > 2 * attack(service(Defence()), SAME)


@pytest.mark.parametrize("defence", [Defence(cached=True), KEYED, Defence(limit=1)])
def test_small_changes_evade_exact_fingerprints_and_not_coarse_ones(defence: Defence) -> None:
    nearly = SAME + 1e-6 * np.arange(QUESTIONS)[:, None]
    evaded = service(defence)
    assert attack(evaded, nearly) < 0.1
    assert evaded.drawn == QUESTIONS  # and the budget is charged for every one
    coarse = service(defence, fingerprint=lambda features: np.round(features, 1).tobytes())
    assert attack(coarse, nearly) > 0.4
    assert coarse.drawn == 1


def test_keyed_noise_differs_by_input_and_key_and_not_by_replica() -> None:
    inputs = np.arange(200.0)[:, None]
    answers = service(KEYED).answer(inputs)
    np.testing.assert_array_equal(service(KEYED).answer(inputs[::-1])[::-1], answers)
    other = service(Defence(key=b"another secret key of bytes")).answer(inputs)
    assert (other != answers).mean() > 0.3
    assert np.unique(answers).size > 3
    assert "secret" not in repr(KEYED)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 secret bytes"):
        Defence(key=b"short")
    with pytest.raises(ValueError, match="limit is 0"):
        Defence(limit=0)
    with pytest.raises(ValueError, match="at least one input"):
        service(Defence()).answer(np.empty((0, 4)))
    broken = AnsweringService(
        vote=lambda features: VOTES,
        aggregator=GNMax(noise_std=NOISE_STD),
        defence=Defence(),
        generator=np.random.default_rng(0),
    )
    with pytest.raises(ValueError, match=r"votes of shape \(10,\) for 1 inputs"):
        broken.answer(np.ones((1, 4)))

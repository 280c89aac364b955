"""leakage_measurements: the attack's error by answers, by budget, and behind every defence."""

import numpy as np
import pytest

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.leakage_measurements import (
    VoteBudget,
    all_defences,
    measure_defences,
    measure_reconstruction,
)
from labeldp.mechanisms.pate.vote_leakage import queries_within_budget

VOTES = np.array(
    [
        [19, 7, 31, 7, 78, 4, 90, 10, 3, 1],
        [4, 7, 6, 8, 4, 2, 0, 214, 4, 1],
        [6, 18, 184, 7, 10, 4, 7, 10, 3, 1],
    ]
)
BUDGET = VoteBudget(threshold=200.0, sigma1=150.0, epsilon=1.97, delta=1e-5)


def test_more_answers_give_more_away() -> None:
    errors = [
        measure_reconstruction(
            VOTES, noise_std=60.0, answers=answers, generator=np.random.default_rng(0), repeats=2
        ).error
        for answers in (10, 100, 1000, 10_000)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.15 and errors[-1] < 0.05


def test_a_budget_decides_how_often_can_be_asked() -> None:
    found = measure_reconstruction(
        VOTES, noise_std=40.0, budget=BUDGET, generator=np.random.default_rng(0), repeats=1
    )
    aggregator = ConfidentGNMax(threshold=200.0, sigma1=150.0, sigma2=40.0)
    each = [queries_within_budget(row, aggregator, epsilon=1.97, delta=1e-5) for row in VOTES]
    assert found.answers == np.mean(each)
    assert 0 < found.error < 0.3 and found.milliseconds > 0


def test_every_defence_stops_the_attack_and_costs_no_accuracy() -> None:
    rows = measure_defences(
        VOTES,
        all_defences(key=b"sixteen or more secret bytes", limit=20),
        noise_std=60.0,
        questions=500,
        generator=np.random.default_rng(0),
    )
    none, cached, keyed, limited = rows
    assert [row.defence for row in rows] == [
        "none",
        "cached answers",
        "noise keyed by input",
        "at most 20 answers",
    ]
    assert none.error < 0.15 and none.draws == 500
    assert min(cached.error, keyed.error) > 2 * none.error
    assert limited.error > 1.2 * none.error
    assert (cached.draws, keyed.draws, limited.draws) == (1, 1, 20)
    # all recognize an input by its exact bytes, so a change that no teacher notices evades them
    assert all(row.error_evaded < 0.15 for row in rows)
    # first answers are drawn alike: 300 questions each, so .03 is one standard error at most
    assert max(abs(row.accuracy - none.accuracy) for row in rows) < 0.12
    assert all(row.answered_again == 1 for row in rows)


def test_a_limit_below_a_clients_needs_is_seen() -> None:
    (row,) = measure_defences(
        VOTES[:1],
        {"two": all_defences(key=bytes(16), limit=2)["at most 2 answers"]},
        noise_std=60.0,
        questions=5,
        generator=np.random.default_rng(0),
    )
    assert row.answered_again == pytest.approx(0.2)


def test_bad_input_is_refused() -> None:
    generator = np.random.default_rng(0)
    with pytest.raises(ValueError, match="either answers or budget"):
        measure_reconstruction(VOTES, noise_std=60.0, generator=generator)
    with pytest.raises(ValueError, match="either answers or budget"):
        measure_reconstruction(VOTES, noise_std=60.0, answers=1, budget=BUDGET, generator=generator)
    with pytest.raises(ValueError, match=r"votes has shape \(10,\)"):
        measure_reconstruction(VOTES[0], noise_std=60.0, answers=1, generator=generator)
    uneven = VOTES + np.array([[0], [1], [0]])
    with pytest.raises(ValueError, match="votes are of 250 to 260 teachers"):
        measure_reconstruction(uneven, noise_std=60.0, answers=1, generator=generator)
    with pytest.raises(ValueError, match="questions is 0"):
        measure_defences(VOTES, {}, noise_std=60.0, questions=0, generator=generator)

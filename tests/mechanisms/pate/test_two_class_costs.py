"""Exact costs of two classes: tables, sensitivities against all votes there are, and Adult."""

import itertools

import numpy as np
import pytest

from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.exact_costs import exact_rdp_gnmax, exact_rdp_threshold
from labeldp.mechanisms.pate.published_cost import log_smooth_sensitivity, release_epsilon
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost, released_of
from labeldp.mechanisms.pate.sensitivity import ExactPrices
from tests.shared_material import shared_path

TEACHERS = 7
TABLES = ExactPrices(
    num_classes=2, num_teachers=TEACHERS, noise_std=2.0, order=3.0, threshold=5.0, sigma1=3.0
)


def cost_of(first: tuple[int, ...], answered: np.ndarray) -> float:
    """Cost of queries with so many votes for the first class, decision by decision."""
    votes = np.array([[n, TEACHERS - n] for n in first])
    answers = exact_rdp_gnmax(votes, 2.0, [3.0])[answered].sum()
    return float(answers + exact_rdp_threshold(votes, 5.0, 3.0, [3.0]).sum())


def test_sensitivities_bound_every_change_at_every_distance() -> None:
    """All votes of three queries, and all that one more label can do to them."""
    answered = np.array([True, False, True])
    start = (2, 5, 7)
    votes = np.array([[n, TEACHERS - n] for n in start])
    rdp, sensitivity = TABLES.cost(votes, votes, answered=answered)
    assert rdp == pytest.approx(cost_of(start, answered))
    every = {
        first: cost_of(first, answered)
        for first in itertools.product(range(TEACHERS + 1), repeat=3)
    }
    for distance in range(TEACHERS):
        worst = 0.0
        for first, cost in every.items():
            if max(abs(a - b) for a, b in zip(first, start, strict=True)) > distance:
                continue
            for step in itertools.product((-1, 0, 1), repeat=3):
                there = tuple(n + s for n, s in zip(first, step, strict=True))
                if there in every:
                    worst = max(worst, abs(every[there] - cost))
        found = sensitivity[distance]
        assert worst <= found * (1 + 1e-9)
        assert worst >= 0.3 * found  # costs of single queries rarely all move one way
    assert (np.diff(sensitivity) >= 0).all()
    largest = TABLES.largest_change(checked=3, answered=3)
    assert sensitivity[-1] <= largest * (1 + 1e-12)
    assert max(every.values()) <= TABLES.flat(checked=3, answered=2)


def test_one_label_moves_the_smooth_sensitivity_by_beta_at_most() -> None:
    generator, beta = np.random.default_rng(0), 0.1
    tables = ExactPrices(
        num_classes=2, num_teachers=60, noise_std=8.0, order=5.0, threshold=40.0, sigma1=10.0
    )
    answered = np.ones(30, dtype=bool)
    for _ in range(50):
        first = generator.integers(61, size=30)
        other = np.clip(first + generator.integers(-1, 2, size=30), 0, 60)
        logs = [
            log_smooth_sensitivity(
                tables.cost(votes := np.stack([n, 60 - n], axis=1), votes, answered=answered)[1],
                beta,
            )
            for n in (first, other)
        ]
        assert abs(logs[0] - logs[1]) <= beta + 1e-12


def test_without_a_check_nothing_is_charged_for_it() -> None:
    tables = ExactPrices(num_classes=2, num_teachers=TEACHERS, noise_std=2.0, order=3.0)
    votes = np.array([[3, 4], [7, 0]])
    cost, _ = tables.cost(votes, votes, answered=np.array([True, True]))
    assert cost == pytest.approx(float(exact_rdp_gnmax(votes, 2.0, [3.0]).sum()))
    assert tables.flat(checked=2, answered=2) == tables.flat(checked=0, answered=2)


def test_a_run_that_cost_much_is_never_told_to_be_cheap() -> None:
    """400 releases at a tail of a tenth: few are below the cost that they bound."""
    generator = np.random.default_rng(1)
    first = generator.integers(30, 61, size=200)
    votes = np.stack([first, 60 - first], axis=1)
    tables = ExactPrices(num_classes=2, num_teachers=60, noise_std=30.0, order=6.0)
    cost, _ = tables.cost(votes, votes, answered=np.ones(200, dtype=bool))
    below = sum(
        release_epsilon(
            votes, noise_std=30.0, delta=0.3, tail=0.1, order=6.0, generator=generator
        ).rdp
        < cost
        for _ in range(400)
    )
    assert below <= 400 * 0.1


def test_adult_is_published_below_two() -> None:
    """The 1,500 votes of forests on UCI Adult, at the setting of PATE 2018, Table 1."""
    with np.load(shared_path("data", "votes", "adult_votes_250.npz")) as arrays:
        votes = np.concatenate([arrays[name] for name in arrays.files])[:1500].astype(np.int64)
    aggregator = ConfidentGNMax(threshold=300.0, sigma1=200.0, sigma2=40.0)
    request = PateAnswers(aggregator=aggregator, queries=1500, max_answers=600)
    published = PublishedCost.of(request, teachers=250, classes=2, delta=1e-5)
    assert published is not None
    found = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        answers = aggregator.respond(votes, generator=generator, max_answers=600)
        released = published.sanitize(votes, released_of(answers), generator=generator)
        found.append(released.epsilon)
    assert 1.7 < np.mean(found) < 2.0

"""The rule by which costs are published: no votes in it, and tables where there are two classes."""

import inspect
from typing import Any

import pytest

from labeldp.mechanisms.pate.published_cost import public_order, public_rule
from labeldp.mechanisms.pate.sensitivity import ExactPrices


def rule(**changes: Any) -> tuple[float, float]:
    settings: dict[str, Any] = {
        "queries": 1000,
        "answers": 300,
        "noise_std": 40.0,
        "check": (200.0, 150.0),
        "teachers": 250,
        "classes": 2,
        "delta": 1e-5,
        **changes,
    }
    return public_rule(**settings)


def test_it_takes_public_numbers_and_no_votes() -> None:
    names = set(inspect.signature(public_rule).parameters)
    assert not {"votes", "counts", "answered"} & names


def test_two_classes_go_by_their_tables() -> None:
    order, guess = rule()
    tables = ExactPrices(
        num_classes=2, num_teachers=250, noise_std=40.0, order=order, threshold=200.0, sigma1=150.0
    )
    assert guess == pytest.approx(0.3 * tables.largest_change(checked=1000, answered=300))


def test_more_classes_go_by_the_published_bounds() -> None:
    order, guess = rule(classes=10)
    assert order == public_order(
        num_queries=1000, num_answers=300, noise_std=40.0, sigma1=150.0, delta=1e-5
    )
    assert guess > 0


def test_more_questions_take_a_lower_order() -> None:
    for classes in (2, 10):
        assert rule(classes=classes, queries=10_000)[0] < rule(classes=classes)[0]

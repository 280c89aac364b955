"""suggestions: a function of what was told, that finds what is better than drawing at random."""

import builtins
import math
from typing import Any

import numpy as np
import pytest

from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.space import Choice, LogUniform, RandomAxis, Uniform
from labeldp.platform.sweep.strands import Numbers
from labeldp.platform.sweep.suggestions import check_installed, suggest

AXES: dict[str, RandomAxis] = {
    "trainer.learning_rate": LogUniform(1e-4, 1.0),
    "trainer.width": Choice(8, 16, 32),
    "trainer.momentum": Uniform(0.0, 0.9),
}


def accuracy(numbers: Numbers) -> float:
    """Best at a rate of .01, the widest network and no momentum."""
    rate, width, momentum = numbers
    return 1 - abs(math.log10(rate) + 2) / 4 - 0.1 * (2 - width) - 0.1 * momentum


def searched(seed: int, trials: int) -> list[tuple[Numbers, float]]:
    told: list[tuple[Numbers, float]] = []
    for number in range(trials):
        found = suggest(AXES, told, seed=seed, number=number)
        told.append((found, accuracy(found)))
    return told


def test_what_was_told_decides_and_nothing_else() -> None:
    told = searched(0, 14)
    assert suggest(AXES, told, seed=0, number=14) == suggest(AXES, told, seed=0, number=14)
    assert searched(0, 14) == told
    asked = [
        suggest(AXES, told, seed=1, number=14),
        suggest(AXES, told, seed=0, number=15),
        suggest(AXES, told, seed=0, number=14, attempt=1),
        suggest(AXES, [(each, 1 - found) for each, found in told], seed=0, number=14),
    ]
    assert len({*asked, suggest(AXES, told, seed=0, number=14)}) == 5


def test_suggestions_lie_on_their_axes() -> None:
    for (rate, width, momentum), _ in searched(2, 14):
        assert 1e-4 <= rate <= 1.0 and width in (0, 1, 2) and 0 <= momentum <= 0.9


def test_a_search_learns() -> None:
    """Its second half is better than its first ten, which are drawn at random, for every seed."""
    gains = []
    for seed in range(5):
        found = [each for _, each in searched(seed, 30)]
        gains.append(np.mean(found[15:]) - np.mean(found[:10]))
    assert min(gains) > 0 and np.mean(gains) > 0.1


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    found = builtins.__import__

    def without(name: str, *more: Any, **others: Any) -> Any:
        if name == "optuna":
            raise ImportError(name)
        return found(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"labeldp\[search\]"):
        check_installed()

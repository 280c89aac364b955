"""release_store: events survive being written down; the store in memory keeps both or neither."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accounting import (
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
)
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_store import Charge, MemoryStore, read_event, write_event


def a_charge(key: str) -> Charge:
    return Charge(
        key=key,
        event=PureEvent(epsilon=1.0),
        indices=None,
        mechanism={"name": "Any"},
        failure_probability=0.0,
    )


def test_events_are_standard_json() -> None:
    text = write_event(PureEvent(epsilon=math.inf))
    assert "Infinity" not in text
    assert json.loads(text) == {"name": "PureEvent", "epsilon": math.inf}


def test_an_event_of_an_unknown_kind_is_not_read_as_another() -> None:
    with pytest.raises(KeyError, match="NewerEvent"):
        read_event('{"name": "NewerEvent", "epsilon": 1.0}')


def test_a_line_of_unknown_noise_is_not_a_guarantee() -> None:
    line = a_charge("a")
    assert line.noise is NoiseKind.SEEDED
    named = replace(line, mechanism={"name": "Any", "noise": {"name": "OsEntropy", "draw": 0}})
    assert named.noise is NoiseKind.PLAIN


@pytest.mark.parametrize(
    ("indices", "beyond"),
    [(None, False), ([0, 1], False), ([3, 4], False), ([4], True), ([4, 9], True)],
)
def test_a_line_of_held_out_labels_touches_none_to_train_on(
    indices: list[int] | None, beyond: bool
) -> None:
    line = replace(a_charge("a"), indices=None if indices is None else np.array(indices))
    assert line.is_beyond(4) is beyond


def test_how_many_labels_are_trained_on_has_to_be_a_number() -> None:
    unknown: Any = None
    with pytest.raises(ValueError, match="training"):
        a_charge("a").is_beyond(unknown)


@pytest.mark.parametrize(
    ("event", "out"),
    [
        (PureEvent(epsilon=math.inf), True),
        (RandomizedResponseEvent(epsilon=math.inf, num_classes=3), True),
        (PureEvent(epsilon=700.0), False),
        (GaussianEvent(noise_multiplier=1e-9), False),
        # Dear without limit, and no copy of the labels: sums with noise count it.
        (RenyiEvent(orders=(2.0,), rdp=(math.inf,)), False),
    ],
)
def test_a_line_says_whether_labels_left_as_they_are(event: Event, out: bool) -> None:
    line = replace(a_charge("a"), event=event)
    assert line.hands_out is out
    assert read_event(write_event(event)) == event


def test_a_store_keeps_nothing_for_a_line_that_comes_too_late() -> None:
    store = MemoryStore()
    assert store.record(a_charge("a"), np.ones(1), lines=0)
    assert not store.record(a_charge("b"), np.ones(1), lines=0)
    assert store.release("b") is None and [line.key for line in store.charges()] == ["a"]

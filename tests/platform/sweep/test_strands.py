"""strands: one search per variant and point of the grids, and settings that tell its axes apart."""

from dataclasses import replace
from typing import Any

import pytest

from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.search_settings import OptunaSearch
from labeldp.platform.sweep.space import Axis, Choice, LogUniform, Uniform
from labeldp.platform.sweep.strands import Strand, strands_of
from labeldp.platform.sweep.sweep import Sweep
from tests.platform.sweep.examples import a_sweep

RATE, DECAY = "trainer.learning_rate", "trainer.weight_decay"


def sweep(**space: Axis) -> Sweep:
    axes = {key.replace("__", "."): axis for key, axis in space.items()}
    return replace(a_sweep(), space=axes, search=OptunaSearch(trials=12))


def only(**space: Axis) -> Strand:
    (strand,) = strands_of(replace(sweep(**space), variants=()))
    return strand


def test_one_search_for_each_variant_at_each_point_of_its_grids() -> None:
    strands = strands_of(sweep(trainer__learning_rate=LogUniform(0.01, 0.1)))
    names = ["ALIBI epsilon=0.5", "ALIBI epsilon=2.0", "AGIBI epsilon=0.5", "AGIBI epsilon=2.0"]
    assert [strand.name for strand in strands] == [*names, "no privacy"]
    assert [strand.size for strand in strands] == [12] * 5
    assert len({strand.id for strand in strands}) == 5


def test_overrides_reach_the_searches() -> None:
    axes: dict[str, Any] = {"trainer.epsilon": 1.0, RATE: Uniform(0.1, 0.2), "trainer.epochs": 7}
    strands = strands_of(sweep(trainer__weight_decay=Choice(0.0, 0.1)), axes)
    assert len(strands) == 3
    trial = strands[0].planned((1, 0.15))
    assert dict(trial.point) == {DECAY: 0.1, RATE: 0.15}
    assert (trial.config.trainer.epochs, trial.config.trainer.epsilon) == (7, 1.0)


def test_a_variant_without_a_searched_axis_is_one_trial() -> None:
    whole = a_sweep()
    searched = replace(whole.variants[0], space={RATE: LogUniform(0.01, 0.1)})
    strands = strands_of(
        replace(whole, variants=[searched, whole.variants[2]], search=OptunaSearch(trials=3))
    )
    assert [strand.size for strand in strands] == [3, 1]


def test_few_settings_are_all_looked_at_and_none_is_tried_twice() -> None:
    strand = only(trainer__width=Choice(4, 8), trainer__momentum=Choice(0.0, 0.5, 0.9))
    assert sorted(strand.probes()) == [(a, b) for a in range(2) for b in range(3)]
    assert (strand.combinations, strand.size) == (6, 6)


def test_samples_of_many_settings_hold_ends_corners_and_draws() -> None:
    strand = only(trainer__learning_rate=LogUniform(0.01, 0.1), trainer__momentum=Uniform(0.0, 0.9))
    probes = strand.probes()
    assert {(0.01, 0.0), (0.01, 0.9), (0.1, 0.0), (0.1, 0.9)} <= set(probes)
    inner = [rate for rate, _ in probes if 0.01 < rate < 0.1]
    assert len(inner) >= 8 and probes == strand.probes()


def test_the_name_of_a_search_outlives_a_start_and_more_trials() -> None:
    axis: dict[str, Axis] = {"trainer__learning_rate": LogUniform(0.01, 0.1)}
    first = only(**axis).id
    more = replace(sweep(**axis), variants=(), search=OptunaSearch(trials=40))
    assert strands_of(more)[0].id == first
    assert strands_of(more, {"trainer.epochs": 9})[0].id != first
    assert only(trainer__learning_rate=LogUniform(0.01, 0.2)).id != first
    other = replace(more, search=OptunaSearch(trials=40, seed=1))
    assert strands_of(other)[0].id != first


def test_an_end_of_an_axis_that_cant_be_used_is_refused_beforehand() -> None:
    strand = only(trainer__momentum=Uniform(0.0, 1.5))
    with pytest.raises(ConfigurationError, match="momentum is 1"):
        _ = strand.probed


def test_the_labels_can_t_be_searched() -> None:
    with pytest.raises(ConfigurationError, match="one sweep asks one vault"):
        strands_of(sweep(data__limit=Choice(100, 200)))

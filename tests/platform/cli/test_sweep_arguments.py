"""sweep_arguments: from words of the command line to a sweep's options."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.cli.sweep_arguments import add_plan_arguments, plan_options
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import AshaStop, OptunaSearch
from labeldp.platform.sweep.space import Choice, LogUniform, Uniform
from labeldp.platform.sweep.sweep import Sweep, SweepOptions
from tests.platform.sweep.examples import a_sweep


def asked(*arguments: str, sweep: Sweep | None = None) -> SweepOptions:
    parser = argparse.ArgumentParser()
    add_plan_arguments(parser)
    options = parser.parse_intermixed_args(arguments)
    return plan_options(sweep or a_sweep(), options, results=Path("r"))


def test_nothing_asked_is_the_sweep_as_it_is() -> None:
    assert asked() == SweepOptions(results=Path("r"), overrides={})


def test_lines_limits_and_axes() -> None:
    found = asked(
        *("--only", "ALIBI", "--only", "AGIBI", "--without", "AGIBI", "--choose-by", "test"),
        *("a=loguniform(0.1, 1)", "--smoke", "b=uniform(0,1)", "c=choice(x, 2)", "d=[1,2]"),
    )
    assert (found.only, found.without) == (("ALIBI", "AGIBI"), ("AGIBI",))
    assert found.smoke and found.choose_by is ChooseBy.TEST
    drawn = {"a": LogUniform(0.1, 1), "b": Uniform(0, 1), "c": Choice("x", 2)}
    assert found.overrides == {**drawn, "d": [1, 2]}


def test_a_preset_is_passed_on() -> None:
    assert asked("--preset", "home").preset == "home"
    assert asked().preset is None


def test_a_search_is_asked_for_or_changed() -> None:
    assert asked("--search", "optuna").search == OptunaSearch()
    found = asked("--search", "optuna", "--trials", "5", "--search-seed", "2")
    assert found.search == OptunaSearch(trials=5, seed=2)
    own = replace(a_sweep(), search=OptunaSearch(trials=9, seed=4), stop=AshaStop(keep_one_in=2))
    assert asked(sweep=own).search is None
    assert asked("--trials", "5", sweep=own).search == OptunaSearch(trials=5, seed=4)
    assert asked("--stop", "asha", sweep=own).stop == AshaStop(keep_one_in=2)
    assert asked("--stop", "asha").stop == AshaStop()
    with pytest.raises(ValueError, match="ask for one with --search optuna"):
        asked("--trials", "5")


@pytest.mark.parametrize("text", ["loguniform(0,1)", "uniform(1)", "choice()", "uniform(a,b)"])
def test_what_is_no_axis_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no axis"):
        asked(f"a={text}")

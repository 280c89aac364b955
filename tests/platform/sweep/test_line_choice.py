"""line_choice: which lines are left, and names that a sweep has not."""

from dataclasses import replace

import pytest

from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.line_choice import LineChoice
from tests.platform.sweep.examples import a_sweep


def names(**choice: tuple[str, ...]) -> list[str]:
    return [variant.name for variant in LineChoice(**choice).of(a_sweep())]


def test_lines_are_chosen_by_name_in_the_sweeps_order() -> None:
    assert names() == ["ALIBI", "AGIBI", "no privacy"]
    assert names(without=("no privacy",)) == ["ALIBI", "AGIBI"]
    assert names(only=("No Privacy", "alibi")) == ["ALIBI", "no privacy"]
    assert names(only=("ALIBI", "AGIBI"), without=("AGIBI",)) == ["ALIBI"]


def test_other_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"no line 'ALIBY'; did you mean 'ALIBI'\?"):
        names(only=("ALIBY",))
    with pytest.raises(ConfigurationError, match="its lines are 'ALIBI', 'AGIBI', 'no privacy'"):
        names(without=("zzzzzzzz",))
    with pytest.raises(ConfigurationError, match="leave nothing"):
        names(only=("ALIBI",), without=("ALIBI",))
    with pytest.raises(ConfigurationError, match="one line only"):
        LineChoice(only=("ALIBI",)).of(replace(a_sweep(), variants=()))


def test_the_beginning_of_one_name_is_enough_and_names_are_listed_once() -> None:
    assert names(only=("no",)) == ["no privacy"]
    with pytest.raises(ConfigurationError, match=r"'A' begins several lines .* 'ALIBI', 'AGIBI'"):
        names(only=("A",))
    twice = replace(a_sweep(), variants=[*a_sweep().variants, *a_sweep().variants])
    with pytest.raises(ConfigurationError, match=r"lines are 'ALIBI', 'AGIBI', 'no privacy'$"):
        LineChoice(only=("zzzzzzzz",)).of(twice)

"""sweep_options: limits that are no limits are refused, and so are more trials than allowed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.sweep.configuration import ConfigurationError, with_changes
from labeldp.platform.sweep.plan import prepare
from labeldp.platform.sweep.sweep import Sweep, with_canaries
from labeldp.platform.sweep.sweep_options import SweepOptions, canaries_left_out, sized_sweep
from tests.platform.sweep.examples import a_sweep


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_trials": 0}, "max_trials"),
        ({"max_minutes": 0.0}, "max_minutes"),
        ({"max_minutes": float("nan")}, "max_minutes"),
    ],
)
def test_limits_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SweepOptions(results=Path(), **settings)


def test_more_trials_than_allowed_are_refused(tmp_path: Path) -> None:
    _, trials = prepare(a_sweep(), SweepOptions(results=tmp_path))
    enough = SweepOptions(results=tmp_path, max_trials=len(trials))
    assert prepare(a_sweep(), enough)[1] == trials
    with pytest.raises(ValueError, match=f"has {len(trials)} trials, more than the 1 that"):
        prepare(a_sweep(), SweepOptions(results=tmp_path, max_trials=1))


def test_overrides_are_in_the_plan(tmp_path: Path) -> None:
    options = SweepOptions(results=tmp_path, overrides={"trainer.epochs": 7})
    assert {trial.config.trainer.epochs for trial in prepare(a_sweep(), options)[1]} == {7}


def stating() -> Sweep:
    """A sweep with canaries for its own digits, in its base and in a variant."""
    sweep = a_sweep()
    variants = [
        replace(each, changes={**each.changes, "audit.canaries": 60}) for each in sweep.variants
    ]
    return replace(
        sweep, base=with_changes(sweep.base, {"audit.coin_canaries": 40}), variants=variants
    )


def test_a_file_of_the_users_own_is_not_spoiled_by_another_sets_numbers(tmp_path: Path) -> None:
    def audits(**overrides: Any) -> set[tuple[int | None, int | None]]:
        named = {key.replace("__", "."): value for key, value in overrides.items()}
        options = SweepOptions(results=tmp_path, overrides=named)
        found = [trial.config.audit for trial in prepare(stating(), options)[1]]
        return {(each.canaries, each.coin_canaries) for each in found}

    assert audits() == audits(data__name="mnist") == {(60, 40)}
    assert audits(data__name="own") == {(None, None)}
    assert audits(data__name="own", audit__canaries=70) == {(70, None)}


def test_a_sweep_that_spoils_nothing_spoils_nothing_of_a_users_file(tmp_path: Path) -> None:
    none = {"audit.canaries": 0, "audit.coin_canaries": 0}
    sweep = replace(a_sweep(), base=with_changes(a_sweep().base, none))
    options = SweepOptions(results=tmp_path, overrides={"data.name": "own"})
    found = {trial.config.audit.spoiled for trial in prepare(sweep, options)[1]}
    assert found == {0}


def test_it_is_said_that_a_sweeps_numbers_do_not_count() -> None:
    sweep, own = stating(), {"data.name": "own"}
    said = canaries_left_out(sweep, own)
    assert "the 60 wrong labels" in said and "are for digits" in said and "audit.canaries=N" in said
    assert canaries_left_out(sweep, {}) == ""
    assert canaries_left_out(sweep, {**own, "audit.canaries": 0}) == "", "a number was said"
    assert canaries_left_out(replace(sweep, base=with_changes(sweep.base, own)), own) == ""


def test_two_classes_of_a_users_file_are_audited_though_the_sweep_has_no_coins(
    tmp_path: Path,
) -> None:
    """Quickstart has a hundred wrong labels and no coins: of two classes only coins tell."""
    base = with_changes(a_sweep().base, {"audit.canaries": 100, "audit.coin_canaries": 0})
    options = SweepOptions(results=tmp_path, overrides={"data.name": "own"})
    _, trials = prepare(replace(a_sweep(), base=base), options)
    (settled, *_) = with_canaries(trials, num_labels=4500, num_classes=2)
    assert (settled.config.audit.canaries, settled.config.audit.coin_canaries) == (0, 45)


def chosen(sweep: Sweep, **choice: tuple[str, ...]) -> list[str]:
    sized = sized_sweep(
        sweep,
        SweepOptions(
            results=Path(), only=choice.get("only", ()), without=choice.get("without", ())
        ),
    )
    return [variant.name for variant in sized.variants]


def names(**choice: tuple[str, ...]) -> list[str]:
    return chosen(a_sweep(), **choice)


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
        chosen(replace(a_sweep(), variants=()), only=("ALIBI",))


def test_the_beginning_of_one_name_is_enough_and_names_are_listed_once() -> None:
    assert names(only=("no",)) == ["no privacy"]
    with pytest.raises(ConfigurationError, match=r"'A' begins several lines .* 'ALIBI', 'AGIBI'"):
        names(only=("A",))
    twice = replace(a_sweep(), variants=[*a_sweep().variants, *a_sweep().variants])
    with pytest.raises(ConfigurationError, match=r"lines are 'ALIBI', 'AGIBI', 'no privacy'$"):
        chosen(twice, only=("zzzzzzzz",))

"""sweep and space: which trials a sweep has, what options and overrides do, what is refused."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.settings.configuration import (
    ConfigurationError,
    with_changes,
)
from labeldp.platform.settings.sweep import (
    Axis,
    Choice,
    Grid,
    LogUniform,
    Preset,
    Resources,
    Sweep,
    SweepOptions,
    Uniform,
    Variant,
    plan_trials,
    points,
    resized,
    sized_sweep,
)
from labeldp.platform.sweep.plan import plan_of, prepare
from tests.platform.sweep.examples import a_sweep


def settings(sweep: Sweep, overrides: dict[str, Any] | None = None) -> list[tuple[str, float, int]]:
    trials = plan_trials(sweep, overrides)
    return [(t.variant, t.config.trainer.epsilon, t.config.trainer.epochs) for t in trials]


def options(**given: Any) -> SweepOptions:
    return SweepOptions(results=Path("nowhere"), **given)


def test_every_grid_point_gets_the_same_draws_in_every_plan() -> None:
    space: dict[str, Axis] = {"a": Grid(1, 2), "b": Uniform(0, 1), "d": Choice("x", "y")}
    found = list(points(space, samples=4))
    draws = [{key: value for key, value in point.items() if key != "a"} for point in found]
    assert len(found) == 8 and draws[:4] == draws[4:]
    assert list(points(space, samples=4)) == found
    # More samples keep those that a smaller sweep had: its trials are not run again.
    del space["a"]
    assert list(points(space, samples=5))[:4] == draws[:4]


@pytest.mark.parametrize(
    ("axis", "bounds"),
    [
        (Grid, ()),
        (Choice, ()),
        *((Uniform, bounds) for bounds in ((1, 1), (2, 1), (0, math.inf), (math.nan, 1))),
        *((LogUniform, bounds) for bounds in ((0, 1), (-1, 1), (2, 1), (1, 1), (1, math.inf))),
    ],
)
def test_wrong_axes_are_refused(axis: type, bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"low|high" if bounds else "holds no value; name at"):
        axis(*bounds)


def test_a_list_is_an_axis_and_a_trial_is_listed_once() -> None:
    found = settings(a_sweep(), {"trainer.epsilon": [1, 2, 4]})
    assert [epsilon for variant, epsilon, _ in found if variant == "ALIBI"] == [1, 2, 4]
    assert len([1 for variant, *_ in found if variant == "no privacy"]) == 1
    assert len(plan_trials(a_sweep(), {"seed": [0, 1, 2]})) == 15
    assert len(plan_trials(a_sweep(), {"trainer.epsilon": [1, 1.0, 1]})) == 3
    assert len(plan_trials(a_sweep(), {"audit.confidence": [0.9, 0.95]})) == 10


def test_a_list_is_an_axis_of_lines_that_vary_or_state_its_key() -> None:
    lines = [
        Variant(name="ours", space={"trainer.epochs": Grid(1, 2)}),
        Variant(name="published", changes={"trainer.epochs": 9}),
        Variant(name="plain"),
    ]
    sized = sized_sweep(a_sweep(variants=lines), options(overrides={"trainer.epochs": [3, 4]}))
    found = {line.name[:5]: line.space.get("trainer.epochs") for line in sized.variants}
    assert found == {"ours": Grid(3, 4), "publi": Grid(3, 4), "plain": None}
    note = "trainer.epochs is an axis of other lines; the line 'plain' runs without it"
    assert sized.notes == [note]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"trainer.epsilom": [1, 2]}, "did you mean trainer.epsilon"),
        ({"trainer.epsilon": [1, [2]]}, "trainer.epsilon is [2]"),
        ({"audit.canary_seed": [1, 2]}, "audit.canary_seed is 1 in one trial and 2 in"),
        ({"data.limit": [100, 200]}, "data.limit is 100 in one trial and 200 in"),
        ({"method": ["alibi", "nothing"]}, "method is 'nothing'"),
    ],
)
def test_overrides_that_make_no_sweep(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_trials(a_sweep(), overrides)
    assert words in str(caught.value)


def test_smoke_and_presets_change_every_variant_its_axes_and_resources() -> None:
    changes, space = {"trainer.epochs": 9}, {"trainer.epsilon": Grid(3.0)}
    sweep = replace(
        a_sweep(),
        resources=Resources(cpu=1, gpu=1),
        needs_gpu=True,
        presets={"home": Preset(changes=changes, space=space, resources=Resources())},
    )
    home, smoke = resized(sweep, sweep.presets["home"]), resized(sweep, sweep.smoke)
    assert settings(home) == [("ALIBI", 3.0, 9), ("AGIBI", 3.0, 9), ("no privacy", 1.0, 9)]
    assert (home.resources, home.needs_gpu) == (Resources(), False)
    assert settings(smoke) == [("ALIBI", 8.0, 1), ("AGIBI", 8.0, 1), ("no privacy", 1.0, 1)]
    assert settings(resized(home, home.smoke)) == settings(smoke), "smoke has the last word"


def test_a_stated_share_of_a_gpu_ends_the_sharing_by_memory() -> None:
    sweep = replace(a_sweep(), resources=Resources(gpu=1, shared=True))

    def sized(overrides: dict[str, Any]) -> Resources:
        return sized_sweep(sweep, options(overrides=overrides)).resources

    assert sized({"resources.cpu": 2}) == Resources(cpu=2, gpu=1, shared=True)
    assert sized({"resources.gpu": 1}) == Resources(gpu=1)
    assert sized({"resources.gpu": 0.25}) == Resources(gpu=0.25)
    with pytest.raises(ValueError, match=r"cpu is 0\.0; it must be a finite number above 0"):
        sized({"resources.cpu": 0})
    for share in (1e-9, 1.5):
        with pytest.raises(ConfigurationError, match=f"gpu is {share:g}; it is a share of one"):
            sized({"resources.gpu": share})


def test_settings_of_a_presets_own_lines_stand() -> None:
    own = (Variant(name="one", changes={"trainer.epochs": 4}), Variant(name="other"))
    preset = Preset(changes={"trainer.epochs": 7}, variants=own)
    sweep = replace(a_sweep(), space={}, presets={"home": preset})
    found = [(name, epochs) for name, _, epochs in settings(resized(sweep, preset))]
    assert found == [("one", 4), ("other", 7)]
    with pytest.raises(ConfigurationError, match=r"no preset 'hom'; did you mean home\?"):
        sized_sweep(sweep, options(preset="hom"))


def test_an_axis_of_another_method_is_left_out_of_a_presets_own_lines() -> None:
    preset = Preset(variants=(Variant(name="one", changes={"trainer.epochs": 4}),))
    smoke = Preset(space={"trainer.ensemble.seed": Grid(0), "trainer.epsilon": Grid(8.0)})
    sweep = replace(a_sweep(), presets={"home": preset}, smoke=smoke)
    sized = sized_sweep(sweep, options(preset="home", smoke=True))
    assert settings(sized) == [("one", 8.0, 4)]
    wrong = replace(sweep, smoke=Preset(space={"trainer.ensembl.seed": Grid(0)}))
    with pytest.raises(ConfigurationError, match=r"unknown key 'trainer\.ensembl\.seed'"):
        sized_sweep(wrong, options(preset="home", smoke=True))


def chosen(**choice: tuple[str, ...]) -> list[str]:
    return [variant.name for variant in sized_sweep(a_sweep(), options(**choice)).variants]


def test_lines_are_chosen_by_name_or_its_beginning_in_the_sweeps_order() -> None:
    assert chosen() == ["ALIBI", "AGIBI", "no privacy"]
    assert chosen(without=("no privacy",)) == ["ALIBI", "AGIBI"]
    assert chosen(only=("No Privacy", "alibi")) == ["ALIBI", "no privacy"]
    assert chosen(only=("ALIBI", "AGIBI"), without=("AGIBI",)) == ["ALIBI"]
    assert chosen(only=("no",)) == ["no privacy"]
    assert chosen(only=("A",)) == ["ALIBI", "AGIBI"]


def test_names_of_no_line_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"lines are 'ALIBI', 'AGIBI', 'no privacy'$"):
        chosen(only=("ALIBY",))
    with pytest.raises(ConfigurationError, match="leave nothing"):
        chosen(only=("ALIBI",), without=("ALIBI",))


def stating() -> Sweep:
    """A sweep with canaries for its own digits, in its base and in a variant."""
    sweep = a_sweep()
    variants = [
        replace(each, changes={**each.changes, "audit.canaries": 60}) for each in sweep.variants
    ]
    return replace(
        sweep, base=with_changes(sweep.base, {"audit.coin_canaries": 40}), variants=variants
    )


def audits(sweep: Sweep, **overrides: Any) -> set[tuple[int | None, int | None]]:
    named = {key.replace("__", "."): value for key, value in overrides.items()}
    found = [each.config.audit for each in prepare(sweep, options(overrides=named))[1]]
    return {(each.canaries, each.coin_canaries) for each in found}


def test_a_users_file_is_not_spoiled_by_another_sets_numbers() -> None:
    assert audits(stating()) == audits(stating(), data__name="mnist") == {(60, 40)}
    assert audits(stating(), data__name="own") == {(None, None)}
    assert audits(stating(), data__name="own", audit__canaries=70) == {(70, None)}
    none = {"audit.canaries": 0, "audit.coin_canaries": 0}
    sweep = replace(a_sweep(), base=with_changes(a_sweep().base, none))
    assert audits(sweep, data__name="own") == {(0, 0)}


# --- names of lines -------------------------------------------------------------------------------


def named(sweep: Sweep, *, only: tuple[str, ...] = (), size: str = "", **overrides: Any) -> Any:
    """Return the names of the lines that a plan lists, and its notes."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    preset, smoke = (size or None, False) if size != "smoke" else (None, True)
    asked = options(overrides=changes, only=only, preset=preset, smoke=smoke)
    found = plan_of(sweep, asked)
    return list(dict.fromkeys(row["variant"] for row in found.configurations)), found.notes


def test_a_line_is_not_named_for_a_noise_that_it_does_not_have() -> None:
    names, _ = named(a_sweep(), trainer__noise="gaussian")  # the baseline had epsilon 1
    assert names == ["AGIBI", "no privacy with trainer.noise=gaussian"]
    names, _ = named(a_sweep(), trainer__noise="subset", trainer__epsilon=1.0)
    assert names == ["ALIBI with trainer.noise=subset"]
    names, _ = named(a_sweep(), trainer__noise=["gaussian", "subset"], trainer__epsilon=1.0)
    assert names == ["ALIBI with trainer.noise varied"]
    assert named(a_sweep(), trainer__epochs=1, trainer__width=8)[0] == [
        *("ALIBI", "AGIBI", "no privacy")
    ]


def test_lines_are_chosen_by_both_names() -> None:
    for name in ("ALIBI", "alibi with trainer.noise=subset"):
        names, _ = named(a_sweep(), only=(name,), trainer__noise="subset")
        assert names == ["ALIBI with trainer.noise=subset"]
    # The line that stands for it does not run: nothing else goes by its name.
    names, _ = named(a_sweep(), only=("ALIBI",), trainer__noise="gaussian")
    assert names == ["ALIBI with trainer.noise=gaussian"]


@pytest.mark.parametrize(
    ("changes", "override", "said"),
    [
        ({"trainer.epsilon": 8.0}, {"trainer__epsilon": 1.0}, "trainer.epsilon=1.0"),
        ({"trainer.epsilon": 8.0}, {"trainer__lambda": 4.0}, "trainer.epsilon=2 / 4.0"),
        ({"trainer.epsilon": 8.0}, {"trainer__lambda": [4.0, 5.0]}, "trainer.epsilon varied"),
        ({"trainer.width": 64}, {"trainer__width": 8}, "trainer.width=8"),
        (
            {"method": "lp_mst", "trainer.randomizer": "optimal"},
            {"trainer__randomizer": "rr_with_prior"},
            "trainer.randomizer=rr_with_prior",
        ),
    ],
)
def test_a_single_line_is_named_for_what_it_states(
    changes: dict[str, Any], override: dict[str, Any], said: str
) -> None:
    sweep = a_sweep(variants=[Variant(name="mine", changes=changes)])
    assert named(sweep)[0] == ["mine"]
    assert named(sweep, **override)[0] == [f"mine with {said}"]


def test_a_size_that_takes_a_difference_away_says_so() -> None:
    home = Preset(changes={"trainer.noise": "subset", "trainer.epochs": 1})
    _, notes = named(a_sweep(presets={"home": home}), size="home")
    assert "lines differ in trainer.noise at the full size" in notes[0]
    # A size with lines of its own has names of its own.
    own = replace(home, variants=[Variant(name="a"), Variant(name="b", changes={"seed": 1})])
    assert not named(a_sweep(presets={"home": own}), size="home")[1]

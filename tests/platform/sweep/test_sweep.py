"""sweep: which trials a sweep has, what overrides do to it, and what it refuses."""

from dataclasses import replace
from typing import Any

import pytest

from labeldp.platform.sweep.configuration import ConfigurationError, TrialConfig
from labeldp.platform.sweep.space import Grid, Uniform
from labeldp.platform.sweep.sweep import (
    Preset,
    Resources,
    Smoke,
    Sweep,
    Variant,
    ensembles_of,
    plan_trials,
    preset_sized,
    smoke_sized,
)
from labeldp.trainers.settings.methods import Noise
from labeldp.trainers.settings.pate import PateConfig
from tests.platform.sweep.examples import a_sweep


def settings(sweep: Sweep, overrides: dict[str, Any] | None = None) -> list[tuple[str, float, int]]:
    trials = plan_trials(sweep, overrides)
    return [(t.variant, t.config.trainer.epsilon, t.config.trainer.epochs) for t in trials]


def test_trials_are_listed_in_order() -> None:
    assert settings(a_sweep()) == [
        ("ALIBI", 0.5, 2),
        ("ALIBI", 2.0, 2),
        ("AGIBI", 0.5, 2),
        ("AGIBI", 2.0, 2),
        ("no privacy", 1.0, 2),
    ]
    assert plan_trials(a_sweep())[2].config.trainer.noise is Noise.GAUSSIAN


def test_a_sweep_without_variants_is_one_of_its_own_name() -> None:
    sweep = Sweep(name="alone", base=TrialConfig(), space={"seed": Grid(0, 1, 2)})
    trials = plan_trials(sweep)
    assert [trial.variant for trial in trials] == ["alone"] * 3
    assert [trial.point for trial in trials] == [{"seed": 0}, {"seed": 1}, {"seed": 2}]


def test_a_value_fixes_a_key_and_its_axis() -> None:
    trials = plan_trials(a_sweep(), {"trainer.epsilon": 4, "trainer.epochs": 7})
    assert [(t.variant, t.config.trainer.epsilon) for t in trials] == [
        ("ALIBI", 4.0),
        ("AGIBI", 4.0),
        ("no privacy", 1.0),  # which does not look at it: the baseline stays one trial
    ]
    assert all(t.config.trainer.epochs == 7 and t.point == {} for t in trials)


def test_a_list_replaces_an_axis_where_it_is_one() -> None:
    found = settings(a_sweep(), {"trainer.epsilon": [1, 2, 4]})
    assert [epsilon for variant, epsilon, _ in found if variant == "ALIBI"] == [1, 2, 4]
    assert len([1 for variant, *_ in found if variant == "no privacy"]) == 1


def test_a_list_makes_a_new_axis_for_all() -> None:
    assert len(plan_trials(a_sweep(), {"seed": [0, 1, 2]})) == 15


def test_the_same_trial_is_listed_once() -> None:
    assert len(plan_trials(a_sweep(), {"trainer.epsilon": [1, 1.0, 1]})) == 3


def test_smoke_changes_every_variant_and_its_axes() -> None:
    assert settings(smoke_sized(a_sweep())) == [
        ("ALIBI", 8.0, 1),
        ("AGIBI", 8.0, 1),
        ("no privacy", 1.0, 1),
    ]


def test_a_preset_changes_every_variant_its_axes_and_what_a_trial_occupies() -> None:
    changes, space = {"trainer.epochs": 9}, {"trainer.epsilon": Grid(3.0)}
    sweep = replace(
        a_sweep(),
        resources=Resources(cpus=1, gpus=1),
        gpu_hours_per_trial=2.0,
        presets={"home": Preset(changes=changes, space=space)},
    )
    home = preset_sized(sweep, "home")
    assert settings(home) == [("ALIBI", 3.0, 9), ("AGIBI", 3.0, 9), ("no privacy", 1.0, 9)]
    assert (home.resources, home.gpu_hours_per_trial) == (Resources(), 0.0)
    assert settings(smoke_sized(home)) == settings(smoke_sized(sweep)), "smoke has the last word"


def test_a_preset_may_bring_lines_of_its_own_which_know_better_than_the_rest_of_it() -> None:
    own = (Variant(name="one", changes={"trainer.epochs": 4}), Variant(name="other"))
    preset = Preset(changes={"trainer.epochs": 7}, variants=own)
    sweep = replace(a_sweep(), space={}, presets={"home": preset})
    assert [(name, epochs) for name, _, epochs in settings(preset_sized(sweep, "home"))] == [
        ("one", 4),
        ("other", 7),
    ]


def test_a_preset_that_there_is_not_is_named_with_what_comes_near() -> None:
    sweep = replace(a_sweep(), presets={"home": Preset()})
    with pytest.raises(ConfigurationError, match=r"no preset 'hom'; did you mean home\?"):
        preset_sized(sweep, "hom")
    with pytest.raises(ConfigurationError, match=r"no preset 'home'; it has none: leave it out"):
        preset_sized(a_sweep(), "home")


def test_smoke_wins_over_a_variant_and_keeps_other_axes() -> None:
    sweep = Sweep(
        name="s",
        base=TrialConfig(),
        variants=[Variant(name="long", changes={"trainer.epochs": 50})],
        space={"seed": Grid(0, 1), "trainer.learning_rate": Uniform(0.1, 0.2)},
        samples=10,
        smoke=Smoke(changes={"trainer.epochs": 1}, space={"seed": Grid(5)}, samples=2),
    )
    trials = plan_trials(smoke_sized(sweep))
    assert [(t.config.seed, t.config.trainer.epochs) for t in trials] == [(5, 1)] * 2
    assert len(plan_trials(sweep)) == 20


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"trainer.epsilon": []}, "trainer.epsilon is an empty list"),
        ({"trainer.epsilom": 1}, "did you mean trainer.epsilon"),
        ({"trainer.epsilom": [1, 2]}, "did you mean trainer.epsilon"),
        ({"trainer.epsilon": [1, -1]}, "epsilon is -1"),
        ({"trainer.epsilon": [1, [2]]}, "trainer.epsilon is [2]"),
        ({"audit.canaries": [10, 20]}, "audit.canaries can't be an axis"),
        ({"audit.canary_seed": [1, 2]}, "audit.canary_seed can't be an axis"),
        ({"data.limit": [100, 200]}, "data.limit can't be an axis"),
        ({"method": ["alibi", "nothing"]}, "method is 'nothing'"),
    ],
)
def test_overrides_that_make_no_sweep(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        plan_trials(a_sweep(), overrides)
    assert words in str(caught.value)


def test_variants_share_one_set_of_labels() -> None:
    variants = [Variant(name="all"), Variant(name="few", changes={"data.limit": 10})]
    with pytest.raises(ConfigurationError, match=r"data.limit is None .* 10 in variant 'few'"):
        plan_trials(a_sweep(variants=variants))


def test_confidence_of_the_audit_may_differ() -> None:
    assert len(plan_trials(a_sweep(), {"audit.confidence": [0.9, 0.95]})) == 10


def test_hashes_tell_trials_apart_and_do_not_depend_on_the_sweep() -> None:
    trials = plan_trials(a_sweep())
    hashes = [trial.hash("data") for trial in trials]
    assert len(set(hashes)) == 5
    renamed = plan_trials(replace(a_sweep(), name="other"))
    assert [trial.hash("data") for trial in renamed] == hashes


@pytest.mark.parametrize("cpus", [-1, float("nan"), float("inf"), "1"])
def test_resources_are_checked(cpus: Any) -> None:
    with pytest.raises(ValueError, match="cpus is"):
        Resources(cpus=cpus)


def test_settings_of_the_noise_share_an_ensemble() -> None:
    sweep = Sweep(
        name="noise",
        base=TrialConfig(method="pate", trainer=PateConfig(sigma2=40.0)),
        space={
            "trainer.sigma1": Grid(50.0, 100.0),
            "trainer.threshold": Grid(100.0, 150.0),
            "trainer.answers": Grid(300, 500),
            "trainer.ensemble.teachers": Grid(100, 250),
        },
    )
    trials = plan_trials(sweep)
    assert len(trials) == 16
    assert sorted(each.teachers for each in ensembles_of(trials)) == [100, 250]


def test_other_methods_have_no_ensemble() -> None:
    assert ensembles_of(plan_trials(Sweep(name="alibi", base=TrialConfig()))) == {}

"""The comparison of methods: one budget for all of them, the same training, releases shared."""

from dataclasses import replace

import pytest

from labeldp.mechanisms.accounting import DecisionEvent, GaussianEvent, epsilon_of
from labeldp.platform.studies.comparison import EPSILONS, REPETITIONS, comparison
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.overrides import load_sweep
from labeldp.platform.sweep.plan import check_priors
from labeldp.platform.sweep.sweep import PlannedTrial, plan_trials, resized
from labeldp.trainers.models.schedules import Flip
from labeldp.trainers.settings.base import FeatureSet
from tests.source_tree import ROOT

PATE = "PATE with probes"
SWEEP = comparison("digits")


@pytest.fixture(scope="module")
def trials() -> list[PlannedTrial]:
    return plan_trials(SWEEP)


def test_each_trial_costs_the_epsilon_that_it_is_compared_at(trials: list[PlannedTrial]) -> None:
    private = [trial for trial in trials if trial.variant not in ("no privacy", PATE)]
    costs = cost_of(private, num_classes=10)
    for trial, epsilon in zip(private, costs.epsilons, strict=True):
        assert epsilon == pytest.approx(trial.config.trainer.epsilon, rel=1e-6), trial.variant


def test_pates_noise_is_what_the_epsilons_ask_for(trials: list[PlannedTrial]) -> None:
    pate = [trial for trial in trials if trial.variant == PATE and trial.config.seed == 0]
    assert cost_of(pate, num_classes=10).epsilons == pytest.approx(EPSILONS, rel=1e-6)
    # What is charged is the price of decisions; but for tiny epsilons that of the counts is above.
    for trial, epsilon in zip(pate, EPSILONS, strict=True):
        planned = trial.config.trainer.planned_charge(num_classes=10, seed=0)
        assert planned is not None and isinstance(planned.event, DecisionEvent)
        counts = GaussianEvent(noise_multiplier=planned.event.noise_multiplier)
        price = epsilon_of([counts], delta=1e-5)
        assert price > 1.1 * epsilon if epsilon >= 0.1 else price == pytest.approx(epsilon)


def test_each_repetition_draws_and_pays_for_releases_of_its_own(
    trials: list[PlannedTrial],
) -> None:
    for name in {trial.variant for trial in trials}:
        of_line = [trial for trial in trials if trial.variant == name]
        first = [trial for trial in of_line if trial.config.seed == 0]
        releases, of_first = (cost_of(some, num_classes=10).releases for some in (of_line, first))
        assert releases == REPETITIONS * of_first, name


def test_an_epsilon_on_the_command_line_is_pates_too() -> None:
    asked = {"trainer.epsilon": [1, 2], "trainer.epochs": 8}
    pate = [trial for trial in plan_trials(SWEEP, asked) if trial.variant == PATE]
    assert cost_of(pate, num_classes=10).epsilons == pytest.approx([1, 2] * REPETITIONS, rel=1e-6)
    with pytest.raises(ConfigurationError, match=r"unknown key 'trainer.epocs'; did you mean"):
        plan_trials(SWEEP, {"trainer.epocs": 3})


@pytest.fixture(scope="module", params=["compare_cifar10", "compare_cifar100"])
def networks(request: pytest.FixtureRequest) -> list[PlannedTrial]:
    sweep = load_sweep(str(ROOT / "sweeps" / f"{request.param}.py"))
    return plan_trials(resized(sweep, sweep.presets["network"]))


def test_each_line_meets_its_epsilons_and_costs_them(networks: list[PlannedTrial]) -> None:
    private = [trial for trial in networks if not trial.variant.startswith("no privacy")]
    assert len(networks) == len(private) + 2
    found: dict[str, list[float]] = {}
    costs = cost_of(private, num_classes=10)
    for trial, epsilon in zip(private, costs.epsilons, strict=True):
        assert epsilon == pytest.approx(trial.config.trainer.epsilon, rel=1e-6), trial.variant
        found.setdefault(trial.variant, []).append(trial.config.trainer.epsilon)
    single = [1.0, 2.0, 4.0]
    assert found == {
        "moment labels in stages": [0.1, 0.2, 0.5, 1.0, 2.0] * REPETITIONS,
        "moment labels": [0.5, 1.0],
        "subset selection": single,
        "optimal channels in 2 stages": single,
        "moment prior + optimal channel": single,
        "ALIBI, randomized response": single,
        "ALIBI, randomized response, full width": [2.0, 4.0],
        "ALIBI": single,
        "ALIBI + moment prior": single,
        "LP-2ST": single,
    }
    assert {trial.config.seed for trial in networks} == set(range(REPETITIONS))


def test_digits_are_not_mirrored_and_a_night_has_full_width() -> None:
    def trials(sweep: str, preset: str) -> list[PlannedTrial]:
        loaded = load_sweep(str(ROOT / "sweeps" / f"{sweep}.py"))
        return plan_trials(resized(loaded, loaded.presets[preset]))

    digits = {trial.config.trainer.recipe.flip for trial in trials("compare_mnist", "network")}
    clothes = trials("compare_fashion_mnist", "network")
    assert digits == {Flip.NONE} != {trial.config.trainer.recipe.flip for trial in clothes}
    night = trials("compare_cifar100", "night")
    assert {trial.config.trainer.width for trial in night} == {64}
    plain = [trial for trial in night if trial.variant == "subset selection"]
    assert {trial.config.trainer.epochs for trial in plain} == {30} and len(plain) == 3


def test_no_features_of_features(networks: list[PlannedTrial]) -> None:
    trial = networks[0]
    data = replace(trial.config.data, features=FeatureSet.PATCHES)
    changed = replace(trial, config=replace(trial.config, data=data))
    with pytest.raises(ValueError, match=r"features is random_patches, but data\.features=patches"):
        check_priors([changed], examples=50_000, num_classes=10)

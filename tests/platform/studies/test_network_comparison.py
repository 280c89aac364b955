"""`--preset network`: the fast network on images, its priors on features, one release for all."""

from dataclasses import replace

import pytest

from labeldp.platform.cli.sweep_plan import load_sweep
from labeldp.platform.studies.network_comparison import REPETITIONS
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.plan import check_priors
from labeldp.platform.sweep.sweep import PlannedTrial, plan_trials, preset_sized
from labeldp.trainers.settings.base import FeatureSet, ModelName
from tests.source_tree import ROOT


@pytest.fixture(scope="module", params=["compare_cifar10", "compare_cifar100"])
def trials(request: pytest.FixtureRequest) -> list[PlannedTrial]:
    sweep = load_sweep(str(ROOT / "sweeps" / f"{request.param}.py"))
    return plan_trials(preset_sized(sweep, "network"))


def test_the_network_sees_images_and_priors_see_features(trials: list[PlannedTrial]) -> None:
    for config in (trial.config for trial in trials):
        assert config.data.features is FeatureSet.AS_THEY_ARE and config.data.limit is None
        assert config.trainer.model is ModelName.FAST_CNN and config.trainer.width in (32, 64)
        prior = config.trainer.prior
        if prior is not None and prior.source.asks_labels:
            assert prior.features is FeatureSet.RANDOM_PATCHES
    check_priors(trials, examples=50_000, num_classes=10)


def test_each_line_meets_its_epsilons_and_costs_them(trials: list[PlannedTrial]) -> None:
    private = [trial for trial in trials if not trial.variant.startswith("no privacy")]
    assert len(trials) == len(private) + 2
    found: dict[str, list[float]] = {}
    costs = cost_of(private, num_classes=10)
    for trial, epsilon in zip(private, costs.epsilons, strict=True):
        assert epsilon == pytest.approx(trial.config.trainer.epsilon, rel=1e-6), trial.variant
        found.setdefault(trial.variant, []).append(trial.config.trainer.epsilon)
    single = [1.0, 2.0, 4.0]
    assert found == {
        "moment labels in stages": [0.1, 0.2, 0.5, 1.0, 2.0] * REPETITIONS,
        "moment labels": [0.5, 1.0],
        "ALIBI, randomized response": single,
        "ALIBI, randomized response, full width": [2.0, 4.0],
        "ALIBI": single,
        "ALIBI + moment prior": single,
        "LP-2ST": single,
    }
    assert {trial.config.seed for trial in trials} == set(range(REPETITIONS))


def test_two_networks_on_one_prior_read_one_release(trials: list[PlannedTrial]) -> None:
    trial = next(trial for trial in trials if trial.variant == "moment labels")
    wider = replace(trial.config, trainer=replace(trial.config.trainer, width=64))
    pair = [trial, replace(trial, config=wider)]
    assert cost_of(pair, num_classes=10).releases == 1
    plain = replace(trial.config.trainer.prior, features=FeatureSet.AS_THEY_ARE)
    other = replace(trial.config, trainer=replace(trial.config.trainer, prior=plain))
    assert cost_of([trial, replace(trial, config=other)], num_classes=10).releases == 2


def test_no_features_of_features(trials: list[PlannedTrial]) -> None:
    trial = trials[0]
    data = replace(trial.config.data, features=FeatureSet.PATCHES)
    changed = replace(trial, config=replace(trial.config, data=data))
    with pytest.raises(ValueError, match=r"features is random_patches, but data\.features=patches"):
        check_priors([changed], examples=50_000, num_classes=10)

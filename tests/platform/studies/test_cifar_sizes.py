"""cifar_sizes: `--preset home` has all images and the fast network, `--smoke` is small."""

import pytest

from labeldp.platform.cli.sweep_plan import load_sweep
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import plan_trials, preset_sized, smoke_sized
from labeldp.trainers.models.schedules import fast_training
from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import StudentKind, TeacherKind
from labeldp.trainers.settings.training import LearnerConfig
from tests.source_tree import ROOT


def at_home(name: str) -> list[TrialConfig]:
    sweep = preset_sized(load_sweep(str(ROOT / "sweeps" / f"{name}.py")), "home")
    assert sweep.resources.gpus == sweep.teacher.gpus == 0
    return [trial.config for trial in plan_trials(sweep)]


@pytest.mark.parametrize(
    ("name", "epochs", "epsilons"),
    [
        ("alibi_cifar10", {10}, {1.0, 2.1, 8.0}),
        ("alibi_cifar100", {10}, {2.0, 3.0, 4.0, 6.0, 8.0}),
        ("lp_mst_cifar10", {10, 20}, {1.0, 2.0, 4.0, 8.0}),
        ("lp_mst_cifar100", {10, 20}, {3.0, 4.0, 5.0, 6.0, 8.0}),
    ],
)
def test_networks(name: str, epochs: set[int], epsilons: set[float]) -> None:
    configs = at_home(name)
    assert {config.trainer.epochs for config in configs} == epochs
    assert {config.trainer.epsilon for config in configs} == epsilons
    for config in configs:
        trainer, recipe = config.trainer, fast_training()
        assert (trainer.model, trainer.width) == (ModelName.FAST_CNN, 32)
        assert (trainer.learning_rate, trainer.recipe) == (
            recipe["learning_rate"],
            recipe["recipe"],
        )
        assert config.data.limit is None and config.performance.precision is Precision.AUTO
        assert config.audit.canaries == 1000


@pytest.mark.parametrize("name", ["pate_fm_cifar10", "pate_fm_cifar100"])
def test_pate(name: str) -> None:
    for config in at_home(name):
        teacher, student = config.trainer.ensemble.network, config.trainer.student.network
        assert config.trainer.ensemble.kind is TeacherKind.NETWORK
        assert config.trainer.student.kind is StudentKind.NETWORK
        assert teacher.model is student.model is ModelName.FAST_CNN
        assert teacher.recipe.label_smoothing > 0, "a shard's labels are right"
        assert config.data.limit is None and config.trainer.students == 3


@pytest.mark.parametrize(
    "name",
    [f"{method}_{data}" for method in ("alibi", "lp_mst") for data in ("cifar10", "cifar100")],
)
def test_a_smoke_is_two_epochs_of_a_small_network_on_any_processor(name: str) -> None:
    full = load_sweep(str(ROOT / "sweeps" / f"{name}.py"))
    trials = plan_trials(smoke_sized(full))
    assert 0 < len(trials) < len(plan_trials(full))
    for trial in trials:
        trainer, performance = trial.config.trainer, trial.config.performance
        assert trial.config.data.limit == 2000
        assert isinstance(trainer, LearnerConfig)
        assert (trainer.epochs, trainer.model) == (2, ModelName.SMALL_CNN)
        assert (performance.precision, performance.channels_last) == (Precision.FP32, False)

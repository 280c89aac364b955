"""smoke_sizes: every sweep of CIFAR that trains one network takes it, and is small."""

import pytest

from labeldp.platform.cli.sweep_plan import load_sweep
from labeldp.platform.sweep.sweep import plan_trials, smoke_sized
from labeldp.trainers.performance import Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import LearnerConfig
from tests.source_tree import ROOT


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

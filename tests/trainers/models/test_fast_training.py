"""The recipe of the fast network: every trainer takes it, as fields and as keys."""

from typing import Any

import pytest

from labeldp.platform.sweep.configuration import METHODS, TrialConfig, with_changes
from labeldp.trainers.models.recipe import LABEL_SMOOTHING, Flip, as_changes, fast_training
from labeldp.trainers.settings.alibi import AlibiConfig
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.settings.lp_mst import LpMstConfig
from labeldp.trainers.settings.model_name import ModelName


def test_it_is_of_a_learner() -> None:
    config = LearnerConfig(**fast_training(epochs=3, label_smoothing=LABEL_SMOOTHING))
    assert (config.model, config.width, config.epochs) == (ModelName.FAST_CNN, 32, 3)
    assert config.recipe.label_smoothing == LABEL_SMOOTHING
    assert AlibiConfig(**fast_training(width=64)).width == 64
    assert LpMstConfig(**fast_training()).recipe.flip is Flip.ALTERNATING


@pytest.mark.parametrize("method", ["alibi", "alibi_prior", "bit_flip", "consensus", "lp_mst"])
def test_every_method_takes_it_as_keys(method: str) -> None:
    extra: dict[str, Any] = {"trainer.retrain_epochs": 4} if method == "consensus" else {}
    changes = {"method": method, **as_changes("trainer", fast_training()), **extra}
    config = with_changes(TrialConfig(), changes)
    assert isinstance(config.trainer, METHODS[method])
    expected = fast_training()
    assert all(getattr(config.trainer, name) == value for name, value in expected.items())


def test_teachers_and_students_take_it_too() -> None:
    settings = fast_training(label_smoothing=LABEL_SMOOTHING)
    changes: dict[str, Any] = {"method": "pate"}
    for section in ("trainer.ensemble.network", "trainer.student.network"):
        changes |= as_changes(section, settings)
    config = with_changes(TrialConfig(), changes)
    expected = LearnerConfig(**settings)
    assert config.trainer.ensemble.network == config.trainer.student.network == expected

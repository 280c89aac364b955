"""A trial's accuracy on held-out labels: what it will cost, and the asking."""

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, PerLabel
from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.platform.sweep.configuration import ConfigurationError, TrialConfig
from labeldp.platform.sweep.evaluation_settings import Estimate
from labeldp.trainers.trainer import PlannedCharge, Trainer

if TYPE_CHECKING:
    from labeldp.platform.vault.trial_labels import TrialLabels
    from labeldp.trainers.data.labelled_data import PublicData


def mechanism_of(config: TrialConfig, *, num_classes: int) -> Any:
    """Return what a trial asks of held-out labels.

    Raises:
        ConfigurationError: RELEASE where the trial's own releases say nothing of single labels.
    """
    settings = config.evaluation
    if settings.estimate is Estimate.COUNT:
        return CorrectCount(epsilon=settings.count_epsilon)
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    own = None if planned is None else planned.release
    if not isinstance(own, get_args(PerLabel)):
        raise ConfigurationError(
            f"evaluation.estimate is release, but method {config.method!r} as it is set releases "
            "nothing that shows the accuracy on single labels; take evaluation.estimate=count"
        )
    return own


def planned_evaluation(config: TrialConfig, *, num_classes: int) -> PlannedCharge:
    """Return what each held-out label will pay for a trial's estimate.

    Raises:
        ConfigurationError: As for `mechanism_of`.
    """
    mechanism = mechanism_of(config, num_classes=num_classes)
    shared = config.evaluation.estimate is Estimate.RELEASE
    # Counts are of predictions: two trials share one if they predict alike, which no plan foresees.
    return PlannedCharge.of(mechanism, release=None if shared else (config, "count"))


def estimate(
    config: TrialConfig, trainer: Trainer, *, data: "PublicData", vault: "TrialLabels"
) -> AccuracyEstimate | None:
    """Ask how accurate a trained model is on held-out labels; None where there are none.

    Raises:
        BudgetExceeded: The release would take a held-out label over the budget.
    """
    features = data.held_out_features
    if features is None:
        return None
    guesses = trainer.predict(features).argmax(1).astype(np.int64)
    mechanism = mechanism_of(config, num_classes=data.num_classes)
    if isinstance(mechanism, CorrectCount):
        (correct,) = vault.release_held_out(mechanism, guesses).values.tolist()
        return AccuracyEstimate.from_count(correct, examples=len(guesses), mechanism=mechanism)
    values = vault.release_held_out(mechanism).values
    return AccuracyEstimate.from_release(values, guesses, mechanism)

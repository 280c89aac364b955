"""evaluation: what a trial asks of held-out labels, what it costs, and who is never held out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import Charge, LabelVault, Mechanism
from labeldp.platform.sweep.configuration import (
    AuditSettings,
    ConfigurationError,
    Estimate,
    EvaluationSettings,
    TrialConfig,
    with_changes,
)
from labeldp.platform.sweep.cost import check_what_is_left, cost_of, held_out_mechanism
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep, plan_trials
from labeldp.platform.sweep.trial import run_trial
from labeldp.platform.vault.label_home import LabelHome, SecretLabels, TrialLabels
from labeldp.trainers.data.labelled_data import LabelledData, set_aside
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import AlibiConfig, Noise
from tests.platform.vault.homes import DRIVER, home_settings
from tests.trainers.small_data import small_table

BASE = TrialConfig(
    trainer=AlibiConfig(
        epochs=3, width=16, epsilon=2.0, noise=Noise.RANDOMIZED_RESPONSE, learning_rate=0.1
    ),
    evaluation=EvaluationSettings(epsilon=1.5),
    performance=Performance(device=Device.CPU),
)


class HomeOf(TrialLabels):
    """A trial's labels in a home in this process, some of them held out."""

    def __init__(self, data: LabelledData, budget: Budget | None = None) -> None:
        home = LabelHome(
            SecretLabels(training=data.train_labels, held_out=data.held_out_labels, num_classes=3),
            **home_settings(None, audit=AuditSettings(canaries=0, coin_canaries=0), budget=budget),
        )
        home.begin(DRIVER, "a1")
        super().__init__(home=home, noise=OsEntropy(), trial="a1")

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        self.keys_at_the_audit = list(self.keys)
        super().audit(confidences, confidence=confidence, delta=delta)


def no_test_split() -> LabelledData:
    public, labels = small_table(examples=600)
    bare = replace(public, test_features=public.test_features[:0], test_labels=np.empty(0, int))
    return set_aside(LabelledData(public=bare, train_labels=labels), share=0.25)


@pytest.mark.parametrize("estimate", list(Estimate))
def test_a_trial_without_test_labels_says_about_how_accurate_it_is(estimate: Estimate) -> None:
    data = no_test_split()
    client = HomeOf(data)
    config = with_changes(BASE, {"evaluation.estimate": estimate})
    outcome = run_trial(config, data=data.public, vault=client, on_epoch=lambda metrics: None)
    metrics = outcome.metrics
    assert "accuracy" not in metrics
    assert not any(np.isnan(value) for value in metrics.values())
    low, high = metrics["accuracy_estimated_low"], metrics["accuracy_estimated_high"]
    assert low < 0.9 < high + 0.1 and metrics["accuracy_estimated_error"] < 0.15
    # Held-out labels pay for the estimate and training labels for the training: not for both.
    assert metrics["epsilon"] == 2.0
    assert len(outcome.release_keys) == 2
    assert client.keys_at_the_audit == outcome.release_keys[:1]


def test_an_estimate_over_the_budget_is_refused() -> None:
    data = no_test_split()
    client = HomeOf(data, budget=Budget(epsilon=2.0))
    config = with_changes(BASE, {"evaluation.epsilon": 2.5})
    with pytest.raises(BudgetExceeded):
        run_trial(config, data=data.public, vault=client, on_epoch=lambda metrics: None)


@pytest.mark.parametrize("method", ["prior_labels", "pate", "lp_mst"])
def test_releases_that_say_nothing_of_single_labels_show_no_accuracy(method: str) -> None:
    config = with_changes(TrialConfig(), {"method": method, "evaluation.estimate": "release"})
    with pytest.raises(ConfigurationError, match=r"evaluation\.estimate=count"):
        held_out_mechanism(config, num_classes=3)


def planned(*epsilons: float, **changes: Any) -> list[PlannedTrial]:
    space = {"trainer.epsilon": Grid(*epsilons)}
    named = {key.replace("__", "."): value for key, value in changes.items()}
    return plan_trials(Sweep(name="s", base=with_changes(BASE, named), space=space))


def test_a_plan_prices_estimates_apart_from_the_training() -> None:
    without = cost_of(planned(1.0, 2.0), num_classes=3)
    assert (without.releases, without.epsilon_total) == (2, 3.0)
    counts = cost_of(planned(1.0, 2.0), num_classes=3, with_estimates=True)
    assert counts.releases == 4
    assert counts.epsilons == (1.5, 2.0)  # a count of 1.5 is dearer than a training of 1
    assert counts.epsilon_total == 3.0  # two counts of 1.5, or trainings of 1 and 2
    dear = cost_of(planned(1.0, evaluation__epsilon=4.0), num_classes=3, with_estimates=True)
    assert dear.epsilon_total == 4.0
    shared = planned(1.0, 2.0, evaluation__estimate="release")
    free = cost_of([*shared, *shared], num_classes=3, with_estimates=True)
    assert (free.releases, free.epsilon_total) == (4, 3.0)


def held_out_lines(*mechanisms: Mechanism, training: Sequence[Mechanism] = ()) -> Sequence[Charge]:
    """Lines of a ledger of 40 labels to train on and 10 that are held out."""
    vault = LabelVault(labels=np.arange(50) % 3, num_classes=3)
    for number, mechanism in enumerate(mechanisms):
        guesses = [np.full(10, number % 3)] if isinstance(mechanism, CorrectCount) else []
        vault.release(mechanism, *guesses, indices=np.arange(40, 50))
    for mechanism in training:
        vault.release(mechanism, indices=np.arange(40))
    return vault.charges()


def check_left(
    trials: Sequence[PlannedTrial], earlier: Sequence[Charge], epsilon: float, **read: Any
) -> None:
    budget = Budget(epsilon=epsilon)
    check_what_is_left(
        trials, earlier, num_classes=3, num_labels=40, held_out=10, budget=budget, **read
    )


def test_what_held_out_labels_have_paid_is_not_what_training_has() -> None:
    earlier = held_out_lines(CorrectCount(epsilon=1.5))
    check_left(planned(1.0), earlier, 1.6)
    with pytest.raises(BudgetExceeded):
        check_left(planned(2.0), earlier, 1.6)
    # A release of held-out labels is none of the training's, whoever asks by the same mechanism.
    apart = held_out_lines(RandomizedResponse(epsilon=1.0, num_classes=3))
    again = held_out_lines(training=[RandomizedResponse(epsilon=2.0, num_classes=3)])
    with pytest.raises(BudgetExceeded, match="2 releases that are new"):
        check_left(planned(1.0), [*apart, *again], 2.9, read=[apart[0].key])


def test_counts_that_are_still_to_be_asked_are_counted_before_the_start() -> None:
    one = CorrectCount(epsilon=1.5)
    check_left(planned(0.5, 1.0), [], 3.0)
    with pytest.raises(BudgetExceeded, match=r"2 trials left and 4 releases.*would make it 3;"):
        check_left(planned(0.5, 1.0), [], 2.9)
    # Two that finished trials have read, and two trials with two more to ask.
    earlier = held_out_lines(one, one)
    read = {charge.key for charge in earlier}
    check_left(planned(0.5, 1.0), earlier, 6.0, read=read)
    with pytest.raises(BudgetExceeded, match="would make it 6"):
        check_left(planned(0.5, 1.0), earlier, 5.9, read=read)
    # One of the two is of a trial that ended after its count and before its record.
    check_left(planned(0.5, 1.0), earlier, 4.5, read=[earlier[0].key])
    with pytest.raises(BudgetExceeded, match=r"would make it 4\.5"):
        check_left(planned(0.5, 1.0), earlier, 4.4, read=[earlier[0].key])
    check_left([], earlier, 0.1, read=read)  # overspent, and nothing is left to ask


def test_one_release_of_held_out_labels_serves_all_trials_that_are_left() -> None:
    own = RandomizedResponse(epsilon=2.0, num_classes=3)
    shared = planned(2.0, trainer__learning_rate=0.1, evaluation__estimate="release")
    shared += planned(2.0, trainer__learning_rate=0.2, evaluation__estimate="release")
    check_left(shared, [], 2.0)
    with pytest.raises(BudgetExceeded, match="2 releases that are new"):
        check_left(shared, [], 1.9)
    check_left(shared, held_out_lines(own, training=[own]), 0.1)

"""accuracy_figures: classes of figures, accuracies in words, and choices that noise would make."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from labeldp import LabelPrivateClassifier
from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.cli.command_line import PLAN_OPTIONS
from labeldp.platform.settings.metrics import (
    PUBLIC,
    ChoiceNoise,
    ChooseBy,
    chosen_by,
    doubt_of,
    figures_of,
    is_owners,
    refuse_lottery,
)
from tests.trainers.small_data import small_table


def test_figures_of_an_audited_fit_lie_where_they_belong() -> None:
    owners = ("private/of_tomorrow", "epsilon_m_of_tomorrow", "vote_label_accuracy")
    assert all(map(is_owners, owners)) and not any(map(is_owners, PUBLIC))
    data, labels = small_table()
    settings = {"epochs": 1}
    model = LabelPrivateClassifier(
        "alibi", epsilon=4.0, classes=3, canaries=100, settings=settings
    ).fit(data.train_features.numpy(), labels)
    open_ones = {name for name, value in model.audit_.items() if isinstance(value, float)}
    kept = set(model.private_)
    assert "private/epsilon_release" in kept and "epsilon_release_ceiling" in open_ones
    assert "epsilon_m_low" in kept
    assert all(map(is_owners, kept)) and not any(map(is_owners, open_ones))


def an_estimate(accuracy: float, noise: float) -> AccuracyEstimate:
    """From a count whose noise has this standard deviation, per label."""
    return AccuracyEstimate(accuracy=accuracy, sampling_error=0.03, count_scale=noise / np.sqrt(2))


def trials(noise: float, *accuracies: float) -> list[dict[str, float]]:
    return [figures_of(an_estimate(accuracy, noise)) for accuracy in accuracies]


@pytest.mark.parametrize(
    ("candidates", "noise", "refused"),
    [(1, 0.9, False), (2, 0.09, False), (2, 0.11, True), (9, 0.06, False), (9, 0.07, True)],
)
def test_a_choice_by_noise_is_refused(candidates: int, noise: float, refused: bool) -> None:
    found = ChoiceNoise(candidates=candidates, noise=noise)
    with pytest.raises(ValueError, match="held_out_share") if refused else nullcontext():
        found.refuse(instead="toss a coin")


def test_noise_of_a_lift_is_a_share_of_the_largest() -> None:
    found = ChoiceNoise.among([3.0, 2.0], [0.24, 0.2], by=ChooseBy.LIFT_ESTIMATED)
    assert found.noise == pytest.approx(0.08) and not found.swamps


def test_trials_are_compared_by_any_figure_that_all_of_them_have() -> None:
    option: Any = next(each for each in PLAN_OPTIONS if each.name == "choose_by")
    assert set(option.type.choices) == set(ChooseBy)
    rare = {"accuracy": 0.98, "accuracy_estimated": 0.98, "roc_auc": 0.8, "log_loss": 0.1}
    assert chosen_by([rare]) is ChooseBy.TEST
    assert chosen_by([rare], ChooseBy.LOG_LOSS) is ChooseBy.LOG_LOSS
    for asked, why in (
        (ChooseBy.LIFT, "did not measure"),
        (ChooseBy.ROC_AUC_ESTIMATED, r"evaluation\.estimate=histogram"),
    ):
        with pytest.raises(ValueError, match=why):
            chosen_by([rare], asked)
    # Of losses the least is the best, and noise decides as it does with accuracies.
    noisy = [{"log_loss_estimated": each, "log_loss_estimated_noise": 0.3} for each in (0.1, 0.5)]
    with pytest.raises(ValueError, match="too large to choose by estimated log loss"):
        refuse_lottery(noisy, by=ChooseBy.LOG_LOSS_ESTIMATED)
    assert max(0.1, 0.5, key=ChooseBy.LOG_LOSS.rank) == 0.1


def test_finished_trials_differ_only_beyond_their_noise() -> None:
    loud, clear = trials(0.28, 0.7, 1.06), trials(0.04, 0.6, 0.75, 0.9)
    near = trials(0.04, 0.85, 0.9)
    with pytest.raises(ValueError, match="name a trial"):
        refuse_lottery(loud, by=ChooseBy.ESTIMATED)
    refuse_lottery(loud, by=ChooseBy.TEST)
    refuse_lottery(clear, by=ChooseBy.ESTIMATED)
    words = doubt_of(near, by=ChooseBy.ESTIMATED)
    assert "another trial may be as good" in words and "is 5.0 points behind" in words
    for certain in (clear, trials(0.04, 0.5, 0.84, 0.9), near[:1]):
        assert doubt_of(certain, by=ChooseBy.ESTIMATED) == ""
    assert doubt_of(near, by=ChooseBy.TEST) == ""

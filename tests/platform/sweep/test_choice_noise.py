"""choice_noise: how lucky the best of several looks, and which choices are refused for it."""

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from labeldp.platform.sweep.choice_noise import ChoiceNoise, doubt_of, refuse_lottery
from tests.platform.sweep.examples import a_record


def an_estimate(accuracy: float, noise: float) -> AccuracyEstimate:
    """From a count whose noise has this standard deviation, per label."""
    return AccuracyEstimate(accuracy=accuracy, sampling_error=0.03, count_scale=noise / np.sqrt(2))


def records(noise: float, *accuracies: float) -> list[TrialRecord]:
    return [
        a_record(f"{place:016x}", figures=figures_of(an_estimate(accuracy, noise)))
        for place, accuracy in enumerate(accuracies)
    ]


@pytest.mark.parametrize("candidates", [1, 2, 9, 40])
def test_luck_is_the_largest_draw_of_noise(candidates: int) -> None:
    draws = np.random.default_rng(0).normal(scale=0.05, size=(20_000, candidates))
    found = ChoiceNoise(candidates=candidates, noise=0.05).luck
    assert found == pytest.approx(draws.max(axis=1).mean(), abs=0.002)


def test_noise_is_that_of_counts_which_no_two_trials_share() -> None:
    found = ChoiceNoise.among([an_estimate(0.7, 0.04), an_estimate(0.9, 0.06)])
    assert found.candidates == 2 and found.noise == pytest.approx(0.06)
    assert found.spread == found.lead == pytest.approx(0.2)
    release = AccuracyEstimate(accuracy=0.8, sampling_error=0.2)
    assert ChoiceNoise.among([release]).noise == 0.2


@pytest.mark.parametrize(
    ("candidates", "noise", "refused"),
    [(1, 0.9, False), (2, 0.09, False), (2, 0.11, True), (9, 0.06, False), (9, 0.07, True)],
)
def test_a_choice_by_noise_is_refused(candidates: int, noise: float, refused: bool) -> None:
    found = ChoiceNoise(candidates=candidates, noise=noise, epsilon=0.05)
    assert found.swamps is refused
    if not refused:
        found.refuse(instead="-")
        return
    with pytest.raises(ValueError, match=r"more than 10\.0 points .*held_out_share") as caught:
        found.refuse(instead="toss a coin")
    said = str(caught.value)
    assert f"{100 * noise:.1f} points" in said and said.endswith("or toss a coin")


def test_the_price_that_a_refusal_names_is_enough() -> None:
    before = ChoiceNoise(candidates=12, noise=0.2, epsilon=0.05)
    with pytest.raises(ValueError, match=r"evaluation\.epsilon; 0\.17 would do"):
        before.refuse(instead="-")
    assert not ChoiceNoise(candidates=12, noise=0.2 * 0.05 / 0.17).swamps


def test_finished_trials_are_told_apart_by_what_is_not_noise() -> None:
    loud, clear = records(0.28, 0.7, 1.06), records(0.04, 0.6, 0.75, 0.9)
    with pytest.raises(ValueError, match=r"differ by 36\.0 points at most.*name a trial"):
        refuse_lottery(loud, by=ChooseBy.ESTIMATED)
    refuse_lottery(loud, by=ChooseBy.TEST)
    refuse_lottery(clear, by=ChooseBy.ESTIMATED)
    assert doubt_of(clear, by=ChooseBy.ESTIMATED) == ""
    near = records(0.04, 0.5, 0.85, 0.9)
    said = doubt_of(near, by=ChooseBy.ESTIMATED)
    assert "another of them may well be as good" in said and "is 5.0 points behind" in said
    assert doubt_of(records(0.04, 0.5, 0.84, 0.9), by=ChooseBy.ESTIMATED) == ""
    assert doubt_of(near[:1], by=ChooseBy.ESTIMATED) == ""
    assert doubt_of(near, by=ChooseBy.TEST) == ""

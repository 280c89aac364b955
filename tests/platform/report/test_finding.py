"""finding: two sentences that follow from a sweep's records, whatever is missing from them."""

import math
from typing import Any

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.finding import finding
from labeldp.platform.sweep.accuracy_figures import ChooseBy, figures_of
from tests.platform.sweep.examples import a_record

LEDGER = {
    **{"releases": 3, "epsilon_total": math.inf, "delta": 1e-5},
    **{"epsilon_private": 46.2, "delta_private": 1e-5},
}


def trial(digest: str, variant: str, **metrics: Any) -> TrialRecord:
    point = metrics.pop("point", None) or {"trainer.epsilon": metrics.get("epsilon", 1.0)}
    return a_record(digest * 16, variant=variant, point=point, **metrics)


def baseline(**metrics: Any) -> TrialRecord:
    figures = {"accuracy": 0.956, "epsilon_m_low": 1.78, "epsilon_m_ceiling": 3.49, **metrics}
    return trial("a", "no privacy", epsilon=math.inf, point={"x": 1}, **figures)


def private(digest: str = "b", variant: str = "ALIBI", /, **metrics: Any) -> TrialRecord:
    figures = {"epsilon_m_low": 0.0, "epsilon_m_ceiling": 3.49, **metrics}
    return trial(digest, variant, **figures)


def estimated(digest: str, variant: str, accuracy: float, noise: float) -> TrialRecord:
    found = AccuracyEstimate(accuracy=accuracy, sampling_error=0.03, count_scale=noise)
    return trial(digest, variant, **figures_of(found))


def test_baseline_private_trials_and_cost() -> None:
    records = [baseline(), private(accuracy=0.903)]
    found = finding(records, ledger=LEDGER)
    assert found.sentences == (
        "Without privacy the model is 95.6% accurate, and the attack proves that it leaks labels: "
        "its epsilon is at least 1.78.",
        "At epsilon 1 ALIBI is 90.3% accurate, and the attack proves no leak, though it could have "
        "proven 3.49.",
    )
    assert found.cost == (
        "The 1 private trial cost epsilon 46.2 at delta 1e-05; the baseline without noise "
        "publishes its labels."
    )
    assert found.text == " ".join([*found.sentences, found.cost])
    public = finding(records, with_attack=False)
    assert "attack" not in public.text and "1.78" not in public.text and len(public.sentences) == 2


@pytest.mark.parametrize(
    ("records", "ledger", "words"),
    [
        (
            [private("b"), private("c", epsilon=2.0)],
            {"epsilon_total": 3.0, "delta": 0.0},
            "The 2 private trials together cost epsilon 3.",
        ),
        ([], {"epsilon_total": 3.0, "delta": 0.0}, ""),
        (
            [baseline()],
            {**LEDGER, "epsilon_private": 0.0},
            "The baseline without noise publishes its labels.",
        ),
    ],
)
def test_the_cost_of_private_trials_alone(
    records: list[TrialRecord], ledger: dict[str, float], words: str
) -> None:
    assert finding(records, ledger=ledger).cost == words


def test_of_several_at_the_epsilon_nearest_one_the_most_accurate_is_told() -> None:
    records = [
        private("b", "ALIBI", accuracy=0.90),
        private("c", "RR", accuracy=0.93),
        private("d", "AGIBI", accuracy=0.91, epsilon=1 + 1e-13, delta=1e-5),
        private("e", "ALIBI", accuracy=0.99, epsilon=8.0),
        private("f", "ALIBI", accuracy=0.99, epsilon=0.25),
    ]
    (sentence,) = finding(records).sentences
    assert sentence.startswith("At epsilon 1 the best of 3 lines (RR) is 93.0% accurate")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (private(epsilon_m_low=0.4), "proves an epsilon of at least 0.40."),
        (private(epsilon_m_low=1.4), "at least 1.40, which is above the guarantee"),
        (private(epsilon_m_low=1.4, delta=1e-5), "at epsilon 1 and delta 1e-05 ALIBI"),
        (private(epsilon_m_low=1.4, delta=1e-5), "at least 1.40 at delta 0."),
        (private(epsilon_m_ceiling=0.0), "; no memorization attack was made that could prove a"),
        (baseline(epsilon_m_low=0.0), "proves no leak, though it could have proven 3.49."),
        (
            a_record("a", accuracy=0.728, figures={"majority_share": 0.771}),
            "no better than always answering the largest class (77.1% of the public test split).",
        ),
    ],
)
def test_what_the_attack_proved_and_what_is_trivial_is_said(
    record: TrialRecord, words: str
) -> None:
    (sentence,) = finding([record]).sentences
    assert words.lower() in sentence.lower()


def test_an_estimated_accuracy_is_called_one_and_a_lottery_a_lottery() -> None:
    loud = [estimated("b", "ALIBI", 1.06, 0.2), estimated("c", "AGIBI", 0.7, 0.2)]
    (sentence,) = finding(loud, choose_by=ChooseBy.ESTIMATED).sentences
    assert "is about 100% (106.0% with its noise) accurate" in sentence
    assert "Which of them is best, noise decides: " in sentence and "28.3 points" in sentence
    clear = [estimated("b", "ALIBI", 0.9, 0.02), estimated("c", "AGIBI", 0.7, 0.02)]
    text = finding(clear, choose_by=ChooseBy.ESTIMATED).text
    assert "is about 90.0% accurate" in text and "noise" not in text
    assert "noise decides" not in finding(loud, choose_by=ChooseBy.TEST).text

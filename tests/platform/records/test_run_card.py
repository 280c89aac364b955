"""run_card: what is guaranteed, what is not, and where the noise came from."""

import math
from dataclasses import replace

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.run_card import run_card
from labeldp.platform.sweep.accuracy_figures import figures_of
from tests.platform.sweep.examples import a_charge, a_record


def test_a_pure_trial() -> None:
    card = run_card(a_record(), [a_charge()])
    assert card.startswith("# ALIBI\n")
    for words in (
        "Trial `0123456789abcdef` of method `alibi` on `digits`, training seed 0",
        "| accuracy, public test split, last epoch | 0.9000 |",
        "| epsilon, provable | 1 |",
        "| delta | 0 |",
        "0.250 to 1.5",
        "(1, 0)-label differential privacy (pure)",
        "operating system's entropy",
        "- `r1`: LaplaceNoise {'epsilon': 1.0, 'num_classes': 10} on all labels, charged",
        "says nothing of stronger attacks",
    ):
        assert words in card
    assert card.endswith("\n") and "nan" not in card.lower()


def test_an_approximate_trial_on_some_labels() -> None:
    charge = replace(a_charge(), indices=np.array([1, 2, 3]))
    card = run_card(a_record(delta=1e-5, epsilon=2.0), [charge])
    assert "(2, 1e-05)-label differential privacy (approximate)" in card
    assert "on 3 labels" in card


def test_the_guarantee_leaves_out_what_comes_from_true_labels() -> None:
    card = run_card(a_record(), [a_charge()])
    guarantee = card.partition("## What is guaranteed")[2].partition("## Releases")[0]
    for words in ("made of the releases below", "Not covered", "epsilon_m", "`private/`"):
        assert words in guarantee


def test_an_attack_that_can_find_nothing_says_so() -> None:
    """Of two classes one is wrong: no bound from 0 to infinity is passed off as a finding."""
    figures = {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf, "epsilon_m_ceiling": 0.0}
    card = run_card(a_record(figures=figures), [a_charge()])
    assert "epsilon_m says nothing here" in card and "stronger attacks" not in card


def test_a_baseline_promises_nothing() -> None:
    card = run_card(a_record(epsilon=math.inf, epsilon_m_high=math.inf), [a_charge()])
    assert "Nothing: this baseline trains on the true labels" in card
    assert "| epsilon, provable | infinite |" in card
    assert "label differential privacy (" not in card


def test_seeded_noise_is_said_aloud() -> None:
    card = run_card(a_record(changes={"noise.seed": 42}), [a_charge()])
    assert "**The noise was drawn from seed 42" in card
    assert "entropy" not in card


def test_secure_noise_is_told_from_plain_noise() -> None:
    plain = run_card(a_record(), [a_charge()])
    secure = run_card(a_record(changes={"noise.secure": True}), [a_charge()])
    assert "plain floating-point noise" in plain and "It is secure" not in plain
    assert "It is secure" in secure and "plain floating-point noise" not in secure
    assert "operating system's entropy" in secure
    before = a_record()
    config = {key: value for key, value in before.config.items() if key != "noise.secure"}
    assert "plain floating-point noise" in run_card(replace(before, config=config), [a_charge()])


def test_an_estimated_accuracy_stands_with_its_error_and_interval() -> None:
    found = AccuracyEstimate(accuracy=0.8, sampling_error=0.01)
    record = a_record(figures=figures_of(found))
    assert "0.0100, 95% interval 0.7804 to 0.8196 | 0.8000 |" in run_card(record, [a_charge()])
    alone = {key: value for key, value in record.metrics.items() if key != "accuracy"}
    card = run_card(replace(record, metrics=alone), [a_charge()])
    assert "public test split, last epoch" not in card and "held-out labels" in card


@pytest.mark.parametrize(
    ("canaries", "coins", "words"),
    [
        (0, 0, "none of 800 labels was made wrong"),
        (0, 14, "14 of 800 labels were made wrong"),
        (20, 20, "40 of 800 labels were made wrong"),
    ],
)
def test_the_card_says_how_many_labels_were_spoiled(canaries: int, coins: int, words: str) -> None:
    changes = {"audit.canaries": canaries, "audit.coin_canaries": coins}
    figures = {"epsilon_m_paper_low": 0.0, "epsilon_m_paper_high": 1.0}
    card = run_card(a_record(changes=changes, figures=figures), [a_charge()], num_labels=800)
    assert words in card
    assert ("| epsilon_m | none" in card) == (canaries == 0)
    assert ("no epsilon_m: this attack" in card) == (canaries == 0)
    assert ("## Audits, for the owner" in card) == (canaries + coins > 0)


def test_the_card_names_the_league() -> None:
    assert "| league | no outside data |" in run_card(a_record(), [a_charge()])
    own = replace(a_record(), features={"league": "not-stated"})
    assert "| league | not stated" in run_card(own, [a_charge()])
    made = {"league": "public-encoder", "encoder": "timm:net", "trained_on": "cats"}
    card = run_card(replace(a_record(), features=made), [a_charge()])
    assert "| league | public encoder: timm:net" in card and "trained on cats" in card

"""public_card: what a stranger must know of a model, and no number of the owner's."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.mechanisms.randomness import SecureEntropy, SeededNoise
from labeldp.platform.report.folder_ledger import read_folder
from labeldp.platform.report.public_card import CardFacts, public_card
from labeldp.platform.report.public_values import public_trial
from labeldp.platform.report.selection import Reservation, selected
from labeldp.platform.report.total_ledger import Total
from labeldp.platform.sweep.accuracy_figures import figures_of
from tests.platform.report.folders import a_folder
from tests.trainers.encoders.test_provenance import MADE


def facts_of(path: Path, *, trial: str = "best", **facts: Any) -> CardFacts:
    a_folder(path, epsilon=2.0, **facts)
    folder = read_folder(path)
    chosen = selected(folder, trial, accepted=frozenset(Reservation))
    return CardFacts(
        trial=public_trial(chosen.record, fingerprint=folder.fingerprint),
        lines=folder.lines_of(chosen.record.release_keys),
        cost=chosen.cost,
        choice=chosen.choice,
        num_labels=folder.num_labels,
        has_model=True,
    )


def test_an_ordinary_trial(tmp_path: Path) -> None:
    stated = {"audit.canaries": 100, "audit.coin_canaries": 100}
    facts = facts_of(tmp_path, readers=9, changes=stated)
    card = public_card(facts)
    assert card.startswith("# ALIBI, trained on digits\n")
    for words in (
        f"Trial `{facts.trial.name}`, trainer `alibi`, training seed 0, data ffffffffffffffff.",
        "| epsilon with the choice of this trial | 2 at delta 0 |",
        "| accuracy, public test split, last epoch | 0.9000 |",
        "| epsilon, provable | 2 |",
        "| labels that were replaced on purpose, to audit it | 200 of 60 |",
        "(2, 0)-label differential privacy",
        "by a factor of e^2 at most. Features",
        "chosen for the best accuracy on the public test split of nine trials",
        "with the choice, all those releases cost epsilon 2.",
        "- one release of Laplace noise, epsilon 2, read by nine trials, paid once; of 60 labels",
        "The trained model is in `model/`",
    ):
        assert words in card, words
    assert "NO PRIVACY" not in card and "FAILED" not in card


def test_the_method_is_named_as_on_the_page_and_the_choice_stands_in_the_table(
    tmp_path: Path,
) -> None:
    facts = facts_of(tmp_path)
    config = {**facts.trial.config, "trainer.noise": "randomized_response"}
    choice = replace(facts.choice, among=3, cost=replace(facts.choice.cost, epsilon=3.0))
    card = public_card(replace(facts, trial=replace(facts.trial, config=config), choice=choice))
    assert card.startswith("# randomized response, trained on digits\n")
    assert "| epsilon with the choice of this trial | 3 at delta 0 |" in card


def test_a_trial_of_a_sweep_that_learned(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, readers=9)
    card = public_card(replace(facts, choice=replace(facts.choice, learned=True)))
    for words in ("Its sweep learned", "and not of its own alone", "9 trials, their releases cost"):
        assert words in card, words


def test_nothing_of_the_owners_is_in_it(tmp_path: Path) -> None:
    card = public_card(facts_of(tmp_path, readers=2, variant="her line", epsilon_m_low=0.4321987))
    for words in ("epsilon_m", "private/", "0.432", "her line", "canar", str(tmp_path), "0" * 16):
        assert words not in card, words


def test_a_trial_that_was_named_says_so(tmp_path: Path) -> None:
    card = public_card(facts_of(tmp_path, trial="0" * 15 + "1", readers=3))
    assert "one of three trials, and its owner named it" in card and "cost epsilon 2." in card


def test_a_trial_alone_was_not_chosen(tmp_path: Path) -> None:
    assert "No other trial of its sweep could have been chosen." in public_card(facts_of(tmp_path))


def test_a_delta_is_a_probability_that_it_does_not_hold(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    cost = replace(facts.cost, delta=1e-5)
    assert "but for a probability of 1e-05" in public_card(replace(facts, cost=cost))


@pytest.mark.parametrize(
    ("noise", "words"),
    [
        (None, "plain floating-point"),
        (SecureEntropy(), "drawn exactly"),
        (SeededNoise(seed=90210), "from a seed, which is not in this folder"),
    ],
)
def test_where_the_noise_came_from(noise: Any, words: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {}
    if isinstance(noise, SecureEntropy):
        changes = {"noise.secure": True}
    if isinstance(noise, SeededNoise):
        changes = {"noise.seed": 90210}
    card = public_card(facts_of(tmp_path, trial="0", noise=noise, changes=changes))
    assert words in card and "90210" not in card
    assert ("NO PRIVACY TOWARDS WHO KNOWS THE SEED" in card) == isinstance(noise, SeededNoise)


def test_a_baseline_and_a_failed_trial_are_shouted_about(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    bare = Total(releases=1, epsilon=math.inf, delta=0.0, epsilon_private=0.0, handed_out=1)
    card = public_card(replace(facts, cost=bare))
    assert "**NO PRIVACY: what is here was made of the true labels" in card
    assert "## What is guaranteed\n\nNothing.\n" in card and "e^" not in card
    failed = replace(facts.trial, finished=False, metrics={})
    assert "**This trial FAILED" in public_card(replace(facts, trial=failed))


def test_estimates_stand_with_their_interval_and_a_missing_model_is_told(tmp_path: Path) -> None:
    found = figures_of(AccuracyEstimate(accuracy=0.8, sampling_error=0.01))
    facts = facts_of(tmp_path, figures=found)
    card = public_card(replace(facts, has_model=False))
    assert "95% interval 0.7804 to 0.8196 | 0.8000 |" in card
    assert "There is no model" in card and "`model/`" not in card


def test_the_sanitized_price_is_not_called_a_bound(tmp_path: Path) -> None:
    card = public_card(facts_of(tmp_path, figures={"epsilon_sanitized": 1.25}))
    (row,) = [line for line in card.splitlines() if line.endswith("| 1.25 |")]
    assert "one direction" in row and "bound" not in row


def test_what_is_unknown_is_not_made_up(tmp_path: Path) -> None:
    facts = facts_of(tmp_path)
    trial = replace(facts.trial, replaced=None, fingerprint="")
    card = public_card(replace(facts, trial=trial, num_labels=None))
    assert "replaced on purpose" not in card and ", data" not in card


def test_the_league_is_published_with_every_number(tmp_path: Path) -> None:
    card = public_card(facts_of(tmp_path / "plain"))
    assert "| league | no outside data |" in card
    facts = facts_of(tmp_path / "made")
    card = public_card(replace(facts, trial=replace(facts.trial, features=MADE)))
    assert "| league | public encoder: timm:net (weights abababab), trained on ImageNet-1k" in card

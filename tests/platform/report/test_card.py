"""card: the guarantee, its limits, the source of noise; nothing of the owner's in public."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.report.card import public_card, run_card
from labeldp.platform.report.ledger import LedgerLine, Total, read_folder
from labeldp.platform.report.publish import public_record
from labeldp.platform.report.selection import Reservation, Selected, selected
from labeldp.platform.sweep.accuracy_figures import figures_of
from tests.platform.report.folders import a_folder
from tests.platform.report.test_report import audited
from tests.platform.sweep.examples import a_charge, a_record
from tests.trainers.encoders.test_provenance import MADE

ESTIMATE = figures_of(AccuracyEstimate(accuracy=0.8, sampling_error=0.01))


class Folder:
    """A results folder's published trial."""

    def __init__(self, path: Path, *, trial: str = "best", **facts: Any) -> None:
        a_folder(path, epsilon=2.0, **facts)
        folder = read_folder(path)
        self.chosen = selected(folder, trial, accepted=frozenset(Reservation))
        self.public = public_record(self.chosen.record, fingerprint=folder.fingerprint)
        self.lines = folder.lines_of(self.chosen.record.release_keys)

    def card(
        self,
        *,
        public: TrialRecord | None = None,
        chosen: Selected | None = None,
        lines: Sequence[LedgerLine] | None = None,
        **facts: Any,
    ) -> str:
        known = {"fingerprint": "f" * 64, "replaced": 200, "num_labels": 60, "has_model": True}
        return public_card(
            public or self.public,
            chosen or self.chosen,
            self.lines if lines is None else lines,
            **{**known, **facts},
        )


def has(card: str, *words: str) -> bool:
    missing = [each for each in words if each not in card]
    assert not missing, (missing, card)
    return True


def test_a_pure_trial() -> None:
    card = run_card(a_record(), [a_charge()])
    assert card.startswith("# ALIBI\n") and card.endswith("\n") and "nan" not in card.lower()
    assert has(
        card,
        "Trial `0123456789abcdef` of method `alibi` on `digits`, training seed 0",
        "| accuracy, public test split, last epoch | 90.00% |",
        "| epsilon, provable | 1 |",
        "| delta | 0 |",
        "0.250 to 1.5",
        "(1, 0)-label differential privacy (pure)",
        "operating system's entropy",
        "- `r1`: LaplaceNoise {'epsilon': 1.0, 'num_classes': 10} on all labels, charged",
        "says nothing of stronger attacks",
        "| league | no outside data |",
    )
    assert "\n\n\n" not in card and "## Audits" not in card
    guarantee = card.partition("## What is guaranteed")[2].partition("## What was released")[0]
    assert has(guarantee, "made of the releases below", "Not covered", "epsilon_m", "`private/`")


@pytest.mark.parametrize(("accuracy", "named"), [(0.728, True), (0.9, False)])
def test_the_card_names_the_largest_class_where_it_is_as_good(accuracy: float, named: bool) -> None:
    card = run_card(a_record(accuracy=accuracy, figures={"majority_share": 0.771}), [a_charge()])
    assert ("| largest class |" in card) == ("77.1%" in card) == named


def test_an_attack_that_can_find_nothing_says_so() -> None:
    """Of two classes one is wrong: no bound from 0 to infinity is passed off as a finding."""
    figures = {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf, "epsilon_m_ceiling": 0.0}
    card = run_card(a_record(figures=figures), [a_charge()])
    assert "epsilon_m says nothing here" in card and "stronger attacks" not in card


def test_a_baseline_promises_nothing() -> None:
    card = run_card(a_record(epsilon=math.inf, epsilon_m_high=math.inf), [a_charge()])
    assert has(
        card, "Nothing: this baseline trains on the true", "| epsilon, provable | infinite |"
    )
    assert "label differential privacy (" not in card


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
    assert ("| epsilon_m | none" in card) == ("no epsilon_m: this attack" in card) == (not canaries)
    assert ("## Audits, for the owner" in card) == (canaries + coins > 0)


def test_every_audit_is_on_the_owners_card() -> None:
    assert has(
        run_card(audited("a"), [a_charge()]),
        "## Audits, for the owner of the labels and not for release",
        "| epsilon_m as published, an estimate | 0.500 to 1.25 |",
        "| one-run audit: epsilon is at least | 0.765 (37 of 50 coins right; ceiling 3.490) |",
        "f-DP audit (the curve that is claimed): at least | 0.877 (ceiling 3.570) |",
        "tight audit (the noise that is claimed): at least | 0.917 (ceiling 9.910) |",
        "(the noisy labels alone): at least | 0.959 (48 of 60 coins right; ceiling 8.910) |",
        "advantage over guessing | 0.123 (0.234 right; label DP allows an advantage of 0.142) |",
    )


def test_an_ordinary_trial_in_public(tmp_path: Path) -> None:
    folder = Folder(tmp_path, readers=9)
    card = folder.card()
    assert card.startswith("# alibi, trained on digits\n") and "\n\n\n" not in card
    assert has(
        card,
        f"Trial `{folder.public.hash}`, trainer `alibi`, training seed 0, data ffffffffffffffff.",
        "| epsilon with the choice of this trial | 2 at delta 0 |",
        "| accuracy, public test split, last epoch | 90.00% |",
        "| epsilon, provable | 2 |",
        "| labels that were replaced on purpose, to audit it | 200 of 60 |",
        "(2, 0)-label differential privacy",
        "by a factor of e^2 at most. Features",
        "chosen for the best accuracy on the public test split of 9 trials",
        "with the choice, all those releases cost epsilon 2.",
        "- 1 release of Laplace noise, epsilon 2, read by 9 trials, paid once; of 60 labels",
        "The trained model is in `model/`",
        "| league | no outside data |",
    )
    assert "NO PRIVACY" not in card and "FAILED" not in card
    made = replace(folder.public, features=MADE.described())
    words = "| league | public encoder: timm:net (weights abababab), trained on ImageNet-1k"
    assert words in folder.card(public=made)


def test_the_choice_is_priced_and_explained(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "nine", readers=9)
    config = {**folder.public.config, "trainer.noise": "randomized_response"}
    dearer = replace(folder.chosen, together=replace(folder.chosen.together, epsilon=3.0))
    card = folder.card(public=replace(folder.public, config=config), chosen=dearer)
    assert card.startswith("# alibi_randomized_response, trained on digits\n")
    assert "| epsilon with the choice of this trial | 3 at delta 0 |" in card
    card = folder.card(chosen=replace(folder.chosen, learned=True))
    assert has(card, "Its sweep learned", "not of its own alone", "9 trials, their releases cost")
    named = Folder(tmp_path / "named", trial="0" * 15 + "1", readers=3).card()
    assert "one of 3 trials, and its owner named it" in named and "cost epsilon 2." in named
    alone = Folder(tmp_path / "alone").card()
    assert "No other trial of its sweep could have been chosen." in alone


def test_a_baseline_and_a_failed_trial_are_shouted_about(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    bare = Total(releases=1, epsilon=math.inf, handed_out=1)
    card = folder.card(chosen=replace(folder.chosen, cost=bare))
    assert "**NO PRIVACY: what is here was made of the true labels" in card
    assert "## What is guaranteed\n\nNothing.\n" in card and "e^" not in card
    failed = replace(folder.public, finished=False, metrics={})
    assert "**This trial FAILED" in folder.card(public=failed)


def test_missing_facts_are_not_made_up(tmp_path: Path) -> None:
    folder = Folder(tmp_path, figures={**ESTIMATE, "epsilon_sanitized": 1.25})
    card = folder.card(replaced=None, fingerprint="", num_labels=None, has_model=False)
    assert "replaced on purpose" not in card and ", data" not in card
    assert "There is no model" in card and "`model/`" not in card
    assert "95% interval 78.04% to 81.96% |" in card
    (row,) = [line for line in card.splitlines() if line.endswith("| 1.25 |")]
    assert "one direction" in row and "bound" not in row, "the sanitized price is not a bound"
    approximate = replace(folder.chosen, cost=replace(folder.chosen.cost, delta=1e-5))
    assert "but for a probability of 1e-05" in folder.card(chosen=approximate)

"""Lines of the ledger for readers: sentences, tables without formulas, and lines for anybody."""

import csv
import io
import json
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from labeldp import mechanisms
from labeldp.mechanisms.accounting import PureEvent, epsilon_of
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.pate import releases
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.release_store import read_event
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.report.ledger import (
    LedgerLine,
    in_words,
    ledger_report,
    public_lines,
    read_folder,
    rows,
    sentences,
    what_of,
)
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from tests.platform.report.folders import LAPLACE, a_folder, a_vault, account
from tests.platform.sweep.examples import a_record

GAUSSIAN = GaussianNoise(noise_std=5.0, num_classes=10)


@dataclass(frozen=True, kw_only=True)
class OfSecretProjectX:
    """A mechanism of a user's own."""

    note: str = "s3cr3t-4711"
    epsilon: float = 1.0
    failure_probability: ClassVar[float] = 0.0

    @property
    def event(self) -> PureEvent:
        return PureEvent(epsilon=self.epsilon)

    def release(self, labels: Any, *, generator: Any) -> Any:
        return np.zeros(3)


def lines(path: Path, **facts: Any) -> tuple[LedgerLine, ...]:
    a_folder(path, **facts)
    return read_folder(path).lines


def test_equal_releases_are_one_sentence(tmp_path: Path) -> None:
    (text,) = sentences(lines(tmp_path / "one", readers=9))
    assert text.startswith(
        "1 release of Laplace noise, epsilon 2, read by 9 trials, paid once; for ALIBI; of "
        "60 labels, made on 20"
    )
    assert text.endswith("Anybody may see results computed from it.")
    (text,) = sentences(lines(tmp_path / "gaussian", releases=[GAUSSIAN]))
    assert "1 release of Gaussian noise, epsilon 1.061 at delta 1e-05, read by 1 trial" in text
    (seeded,) = sentences(lines(tmp_path / "seeded", noise=SeededNoise(seed=81243)))
    assert "the seed takes this noise off" in seeded and "81243" not in seeded


def test_a_count_of_a_baselines_answers_is_the_owners(tmp_path: Path) -> None:
    """They were made of the labels to train on, which the count's noise does not cover."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    bare = vault.release(NoNoise(num_classes=10)).key
    counts = [vault.release(CorrectCount(epsilon=0.05), np.full(60, g)).key for g in range(3)]
    for digest, keys in (("0a", [bare, counts[0]]), ("1a", [counts[1]])):
        folder.keep(a_record(digest, release_keys=tuple(keys)))
    *found, labels = sentences(read_folder(tmp_path).lines)
    private, owners = found if "Anybody" in found[0] else reversed(found)
    assert private.startswith("1 noisy count") and "Anybody may see" in private
    # The third was asked by a trial that left no record, perhaps the baseline.
    assert owners.startswith("2 noisy counts of right answers, epsilon 0.05 each, read by 1 ")
    assert "paid once each" in owners and "owner of the labels only" in owners
    assert labels.startswith("1 copy of the labels without any noise, no bound on epsilon")
    assert "owner of the labels only" in labels
    audiences = [row["who_may_see_it"] for row in rows(account(tmp_path))]
    assert audiences.count("anybody") == 1 and len(audiences) == 4
    words = in_words(account(tmp_path))
    assert "no label has paid more than epsilon 0.15 for those with noise" in words[-2]
    assert words[-1].startswith("1 release without any noise")


def test_sums_over_folders_say_what_is_known_of_the_labels(tmp_path: Path) -> None:
    for name, fingerprint in (("a", "x"), ("b", "x"), ("c", "other")):
        a_folder(tmp_path / name, fingerprint=fingerprint)
    a, b, c = (tmp_path / name for name in "abc")
    assert "In all, 1 release: no label has paid more than epsilon 2" in in_words(account(a))[-1]
    same = in_words(account(a, b))[-1]
    assert "2 folders on the same labels" in same and "more than epsilon 4" in same
    total, unknown = in_words(account(a, b, c))[-2:]
    assert "3 folders and 3 releases" in total and "more than epsilon 6" in total
    assert "can't be known" in unknown and unknown.count("more than epsilon 4") == 1
    found = ledger_report([str(a), str(b), str(c)])
    assert [folder["group"] for folder in found["folders"]] == [0, 0, 1]
    assert (found["epsilon"], found["epsilon_private"]) == (6.0, 6.0)
    assert (found["ok"], found["same_labels"], found["releases"]) == (True, None, 3)
    assert found["epsilon_if_different"] == 4.0
    assert ledger_report([str(a), str(b)])["same_labels"] is True


def test_no_depth_hides_a_folder_and_no_vault_that_is_gone(tmp_path: Path) -> None:
    deep = tmp_path / "studies" / "of" / "mine" / "a"
    for place in (deep, tmp_path / "b", tmp_path / "b" / "within"):
        a_folder(place)
    assert ledger_report([str(tmp_path)])["epsilon"] == 6.0
    (deep / "vault.db").unlink()
    found = ledger_report([str(tmp_path)])
    assert not found["ok"] and "is gone" in found["problems"][0]
    assert "THIS LEDGER IS NOT WHOLE, and its sums are too low:" in found["words"]


def test_a_vault_of_fits_is_read_as_well(tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    for number in range(2):
        side = PublicSide(rows=str(number), classes="[0, 1]", num_labels=2)
        vault = LabelVault(labels=[0, 1], num_classes=2, store=shared.store(side))
        vault.release(RandomizedResponse(epsilon=1.0, num_classes=2))
    found = ledger_report([str(tmp_path / "vault")])
    assert (found["ok"], found["releases"], found["epsilon"]) == (True, 2, 2.0)
    next((tmp_path / "vault").rglob("vault.db")).unlink()
    assert not ledger_report([str(tmp_path / "vault")])["ok"]


def test_the_table_has_every_line_and_no_formula(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[LAPLACE], readers=2, variant="=1+1")
    a_vault(tmp_path).release(NoNoise(num_classes=10))
    table = tmp_path / "table.csv"
    ledger_report([str(tmp_path)], csv=str(table))
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    first, second = csv.DictReader(io.StringIO(table.read_text()))
    expected: dict[str, Any] = {
        "sweep": "small",
        "line": "1",
        "what": "release of Laplace noise",
        "noise": "plain",
        "epsilon": "2.0",
        "labels": "60",
        "trials": "0000000000000000; 0000000000000001",
        "configurations": "'=1+1",
        "who_may_see_it": "anybody",
        "counted": "1",
    }
    assert {name: first[name] for name in expected} == expected
    assert (second["noise"], second["epsilon"]) == ("none", "inf")
    assert second["who_may_see_it"] == "the owner of the labels only"


def test_wrong_folders_deltas_and_tables_are_refused(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    with pytest.raises(ValueError, match="does not exist"):
        ledger_report([str(tmp_path / "nowhere")])
    assert ledger_report([str(tmp_path / "a")], delta=0.0)["delta"] == 0.0
    with pytest.raises(ValueError, match="delta is 2"):
        ledger_report([str(tmp_path / "a")], delta=2.0)
    with pytest.raises(ValueError, match=r"table\.csv can't be written"):
        ledger_report([str(tmp_path / "a")], csv=str(tmp_path / "no" / "table.csv"))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, kind in {**vars(mechanisms), **vars(releases)}.items()
        if isinstance(kind, type)
        and hasattr(kind, "failure_probability")
        and hasattr(kind, "release")
        and name != "Mechanism"
    ],
)
def test_every_mechanism_of_ours_has_words(name: str) -> None:
    assert name not in what_of(name), f"{name} is released, and no words say what it is"


def test_a_public_line_has_what_it_takes_to_compute_its_price(tmp_path: Path) -> None:
    first, second = public_lines(lines(tmp_path, releases=[LAPLACE, GAUSSIAN]))
    assert first["parameters"] == {"epsilon": 2.0, "num_classes": 10}
    assert (first["mechanism"], first["noise"], first["labels"]) == ("LaplaceNoise", "plain", 60)
    assert (first["epsilon"], first["delta"], first["failure_probability"]) == (2.0, 0.0, 0.0)
    event = read_event(json.dumps(second["event"]))
    assert epsilon_of([event], delta=second["delta"]) == second["epsilon"]
    # Times are days, and folders stay.
    assert len(first["made"]) == 10 and first["made"].count("-") == 2
    assert str(tmp_path) not in json.dumps(first) and "small" not in json.dumps(first)
    (seeded,) = public_lines(lines(tmp_path / "seeded", noise=SeededNoise(seed=8124377)))
    assert seeded["noise"] == "seeded" and "8124377" not in json.dumps(seeded)


def test_mechanisms_of_other_code_are_told_by_their_price_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OfSecretProjectX, "failure_probability", 4e-6)
    (line,) = public_lines(lines(tmp_path, releases=[OfSecretProjectX()]))
    shown = json.dumps(line)
    assert "SecretProject" not in shown and "s3cr3t" not in shown
    assert (line["mechanism"], line["parameters"], line["epsilon"]) == ("other", {}, 1.0)
    assert (line["delta"], line["failure_probability"]) == (8e-6, 4e-6)


@pytest.mark.parametrize("planted", ["s3cr3t", ["s3cr3t"], {"s3cr3t": 1}, True])
def test_parameters_are_numbers(planted: Any, tmp_path: Path) -> None:
    (line,) = lines(tmp_path)
    strange = {**line.charge.mechanism, "epsilon": planted, "s3cr3t": 3.0}
    (shown,) = public_lines([replace(line, charge=replace(line.charge, mechanism=strange))])
    assert (shown["parameters"], shown["mechanism"]) == ({}, "other")
    assert "s3cr3t" not in json.dumps(shown)

"""ledger_words: what a privacy officer reads, word by word, and a table without formulas."""

import csv
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp import mechanisms
from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.pate import releases
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.report.ledger import Account, account_of, read_folder
from labeldp.platform.report.ledger_words import as_csv, in_words, rows, sentences, what_of
from tests.platform.report.folders import LAPLACE, a_folder, a_vault, an_impostors
from tests.platform.sweep.examples import a_record


def account(*paths: Path) -> Account:
    return account_of(read_folder(path) for path in paths)


def test_one_release_that_nine_trials_read(tmp_path: Path) -> None:
    a_folder(tmp_path, readers=9)
    (text,) = sentences(read_folder(tmp_path).lines)
    assert text.startswith(
        "one release of Laplace noise, epsilon 2, read by nine trials, paid once; for ALIBI; of "
        "60 labels, made on 20"
    )
    assert text.endswith("Anybody may see what was made of it.")


def test_equal_releases_are_one_sentence(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[])
    vault = a_vault(tmp_path)
    for guess in range(3):
        vault.release(CorrectCount(epsilon=0.05), np.full(60, guess))
    (text,) = sentences(read_folder(tmp_path).lines)
    assert text.startswith("three noisy counts of right answers, epsilon 0.05 each, read by no ")
    assert "paid once each" in text


def test_a_count_of_a_baselines_answers_is_the_owners(tmp_path: Path) -> None:
    """They were made of the labels to train on, which the count's noise does not cover."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    bare = vault.release(NoNoise(num_classes=10)).key
    counts = [vault.release(CorrectCount(epsilon=0.05), np.full(60, g)).key for g in range(3)]
    for digest, keys in (("0a", [bare, counts[0]]), ("1a", [counts[1]])):
        folder.keep(a_record(digest, release_keys=tuple(keys)))
    said = [text for text in sentences(read_folder(tmp_path).lines) if "count" in text]
    private, owners = said if "Anybody" in said[0] else reversed(said)
    assert private.startswith("one noisy count") and "Anybody may see" in private
    # The third was asked by a trial that left no record, perhaps the baseline.
    assert owners.startswith("two noisy counts") and "owner of the labels only" in owners
    who = [row["who_may_see_it"] for row in rows(account(tmp_path))]
    assert who.count("anybody") == 1 and len(who) == 4


def test_what_needs_a_delta_says_it(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[GaussianNoise(noise_std=5.0, num_classes=10)])
    (text,) = sentences(read_folder(tmp_path).lines)
    assert "one release of Gaussian noise, epsilon 1.061 at delta 1e-05, read by one trial" in text


def test_labels_without_noise_and_seeded_noise_are_for_the_owner(tmp_path: Path) -> None:
    keys = a_folder(tmp_path / "bare", releases=[NoNoise(num_classes=10), LAPLACE], readers=2)
    ResultsFolder(tmp_path / "bare", sweep="small").keep(
        a_record("ab", release_keys=tuple(keys[1:]))
    )
    noisy, bare = sentences(read_folder(tmp_path / "bare").lines)
    assert bare.startswith("one copy of the labels without any noise, no bound on epsilon, read by")
    assert "For the owner of the labels only" in bare and "Anybody" in noisy
    said = in_words(account(tmp_path / "bare"))
    assert "no label has paid more than epsilon 2 for those with noise" in said[-2]
    assert said[-1].startswith("One release has no noise at all")
    a_folder(tmp_path / "seeded", noise=SeededNoise(seed=81243))
    (seeded,) = sentences(read_folder(tmp_path / "seeded").lines)
    assert "the seed takes this noise off" in seeded and "81243" not in seeded


def test_sums_over_folders_say_what_is_known_of_the_labels(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    a_folder(tmp_path / "b")
    a_folder(tmp_path / "c", fingerprint="other")
    assert (
        "In all, one release: no label has paid more than epsilon 2"
        in in_words(account(tmp_path / "a"))[-1]
    )
    same = in_words(account(tmp_path / "a", tmp_path / "b"))[-1]
    assert "two folders on the same labels" in same and "more than epsilon 4" in same
    unknown = in_words(account(tmp_path / "a", tmp_path / "b", tmp_path / "c"))[-1]
    assert "can't be known" in unknown and "more than epsilon 6" in unknown
    assert "no label in common, than epsilon 4" in unknown


def test_copies_are_not_listed_twice(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    found = account(tmp_path / "a", tmp_path / "b")
    said = in_words(found)
    assert sum(line.startswith("- one release") for line in said) == 1
    assert [row["counted"] for row in rows(found)] == [True, False]


def test_a_ledger_that_is_not_whole_is_shouted_about(tmp_path: Path) -> None:
    a_folder(tmp_path)
    (tmp_path / "vault.db").unlink()
    said = in_words(account(tmp_path))
    assert "THIS LEDGER IS NOT WHOLE, and its sums are too low:" in said


def test_the_table_has_every_line_and_no_formula(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[LAPLACE], readers=2, variant="=1+1")
    a_vault(tmp_path).release(NoNoise(num_classes=10))
    (first, second) = csv.DictReader(io.StringIO(as_csv(account(tmp_path))))
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


def test_a_users_class_by_a_name_of_ours_is_told_by_its_name_and_in_public_by_none(
    tmp_path: Path,
) -> None:
    a_folder(tmp_path)
    found = an_impostors(read_folder(tmp_path))
    assert sentences(found.lines)[0].startswith("one release by LaplaceNoise, epsilon 2,")
    assert sentences(found.lines, public=True)[0].startswith("one release by a mechanism of the")
    (row,) = rows(account_of([found]))
    assert row["what"] == "release by LaplaceNoise"


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
    assert name not in what_of(name), f"{name} is released, and ledger_words says nothing of it"

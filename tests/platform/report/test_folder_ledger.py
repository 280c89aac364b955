"""folder_ledger: each line with its readers and price; what does not fit together is told."""

import math
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.randomness import NoiseKind, OsEntropy, SecureEntropy, SeededNoise
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError
from labeldp.platform.report.ledger import Audience, FolderLedger, read_folder
from tests.platform.report.folders import LABELS, LAPLACE, a_folder, a_vault
from tests.platform.sweep.examples import a_record

GAUSSIAN = GaussianNoise(noise_std=5.0, num_classes=10)


def test_lines_know_their_price_readers_and_labels(tmp_path: Path) -> None:
    keys = a_folder(tmp_path, releases=[LAPLACE, GAUSSIAN], readers=3)
    a_vault(tmp_path).release(LAPLACE, indices=np.arange(7))
    first, second, third = read_folder(tmp_path).lines
    assert (first.charge.key, first.epsilon, first.delta, first.labels) == (keys[0], 2.0, 0.0, 60)
    assert [record.hash for record in first.readers] == [f"{n:016x}" for n in range(3)]
    assert first.made is not None and (first.number, third.number) == (1, 3)
    assert second.delta == 1e-5 and 0 < second.epsilon < math.inf
    assert (third.labels, third.readers) == (7, ())


def test_delta_is_the_largest_that_a_trial_was_given_or_what_is_asked_for(tmp_path: Path) -> None:
    a_folder(tmp_path, releases=[GAUSSIAN], changes={"trainer.delta": 1e-4})
    assert read_folder(tmp_path).lines[0].delta == 1e-4
    ResultsFolder(tmp_path, sweep="small").keep(a_record("b", changes={"trainer.delta": 1e-7}))
    assert read_folder(tmp_path).delta == 1e-4
    asked = read_folder(tmp_path, delta=1e-6).lines[0]
    assert asked.delta == 1e-6 and asked.epsilon > read_folder(tmp_path).lines[0].epsilon


@pytest.mark.parametrize(
    ("mechanism", "noise", "kind", "audience"),
    [
        (LAPLACE, OsEntropy(), NoiseKind.PLAIN, Audience.PUBLIC),
        (LAPLACE, SecureEntropy(), NoiseKind.SECURE, Audience.PUBLIC),
        (LAPLACE, SeededNoise(seed=3), NoiseKind.SEEDED, Audience.OWNER),
        (NoNoise(num_classes=10), OsEntropy(), None, Audience.OWNER),
    ],
)
def test_what_has_no_secret_noise_is_for_the_owner(
    mechanism: LaplaceNoise | NoNoise,
    noise: OsEntropy | SecureEntropy | SeededNoise,
    kind: NoiseKind | None,
    audience: Audience,
    tmp_path: Path,
) -> None:
    a_folder(tmp_path, releases=[mechanism], noise=noise)
    (line,) = read_folder(tmp_path).lines
    assert (line.noise, line.audience) == (kind, audience)


def test_a_ledger_that_is_gone_is_a_problem_and_no_free_folder(tmp_path: Path) -> None:
    a_folder(tmp_path)
    (tmp_path / "vault.db").unlink()
    found = read_folder(tmp_path)
    assert found.lines == () and "vault.db is gone" in found.problems[0]
    assert not (tmp_path / "vault.db").exists()


def test_a_ledger_that_lost_lines_is_a_problem_of_its_folder(tmp_path: Path) -> None:
    keys = a_folder(tmp_path, releases=[LAPLACE, GAUSSIAN], readers=0)
    with sqlite3.connect(tmp_path / "vault.db") as connection:
        connection.execute("DELETE FROM charges WHERE key = ?", (keys[1],))
    connection.close()
    (problem,) = read_folder(tmp_path).problems
    assert "has lost lines of its ledger: it holds 1, and 2 are known" in problem


def test_a_sweep_that_released_nothing_has_no_problem(tmp_path: Path) -> None:
    ResultsFolder(tmp_path, sweep="small").identify(fingerprint="abc")
    assert read_folder(tmp_path).problems == ()


def test_releases_that_a_trial_read_and_the_ledger_lacks_are_told(tmp_path: Path) -> None:
    a_folder(tmp_path)
    ResultsFolder(tmp_path, sweep="small").keep(a_record("ab", release_keys=("lost",)))
    (problem,) = read_folder(tmp_path).problems
    assert "trial ab" in problem and "release lost" in problem


def test_another_vault_than_the_sweep_names_is_told(tmp_path: Path) -> None:
    a_folder(tmp_path)
    ResultsFolder(tmp_path, sweep="small").identify(vault="another")
    assert any("not the vault that sweep.json" in text for text in read_folder(tmp_path).problems)


def test_a_vault_without_a_sweep_has_a_ledger_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    a_vault(folder).release(LAPLACE)
    found: FolderLedger = read_folder(folder)
    assert (found.results.sweep, found.fingerprint, found.num_labels) == ("mine", "", None)
    assert found.lines[0].labels is None and found.lines[0].epsilon == 2.0


def test_held_out_labels_are_among_all_labels(tmp_path: Path) -> None:
    a_folder(tmp_path)
    ResultsFolder(tmp_path, sweep="small").identify(num_labels=50, held_out_labels=10)
    assert read_folder(tmp_path).num_labels == len(LABELS)


def test_a_folder_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsFolderError, match="holds no results"):
        read_folder(tmp_path)

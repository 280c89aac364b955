"""Results folders that a sweep cannot use: refused before Ray, in one line, nothing touched."""

import shutil

import pytest

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.data.labelled_data import load
from tests.platform.sweep.examples import a_record
from tests.sweeps.front_door import Door


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_spending_of_earlier_starts_counts(door: Door) -> None:
    loaded = load("digits")
    folder = ResultsFolder(door.results, sweep="quickstart")
    folder.identify(fingerprint=loaded.public.fingerprint)
    store = SqliteStore(door.results / "vault.db")
    vault = LabelVault(labels=loaded.train_labels, num_classes=10, store=store)
    vault.release(LaplaceNoise(epsilon=1.0, num_classes=10))
    limit = ("--max-epsilon-total", "1.2", "trainer.noise=laplace")
    code, line = door.refuse(*limit, "trainer.epsilon=0.5")
    assert code == 4
    for word in ("budget is epsilon 1.2", "1 is spent", "would make it 1.5"):
        assert word in line
    with pytest.raises(AssertionError, match="Ray is about to start"):
        door.refuse(*limit, "trainer.epsilon=1")


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_a_deleted_vault_does_not_grant_the_budget_again(door: Door) -> None:
    loaded = load("digits")
    folder = ResultsFolder(door.results, sweep="quickstart")
    store = SqliteStore(folder.store)
    folder.identify(fingerprint=loaded.public.fingerprint, vault=store.id)
    vault = LabelVault(labels=loaded.train_labels, num_classes=10, store=store)
    vault.release(LaplaceNoise(epsilon=2.0, num_classes=10))
    limit = ("--max-epsilon-total", "2", "trainer.noise=laplace", "trainer.epsilon=1.9")
    assert door.refuse(*limit)[0] == 4
    for path in (folder.store, folder.store.with_suffix(".lines")):
        path.unlink()
    for moved in ((), ("--moved",)):
        code, line = door.refuse(*limit, *moved)
        assert code == 2
        for word in ("vault.db is missing", "sweep.json knows of it", "--results", "add what"):
            assert word in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_a_copied_results_folder_is_refused(door: Door) -> None:
    original = ResultsFolder(door.here / "original", sweep="quickstart")
    SqliteStore(original.store)
    shutil.copytree(original.path, door.results, dirs_exist_ok=True)
    code, line = door.refuse()
    assert code == 2
    assert f"is a copy of the vault that was made at {original.store}" in line
    assert "--moved" in line
    with pytest.raises(AssertionError, match="Ray is about to start"):
        door.refuse("--moved")


def test_results_below_a_file_are_refused(door: Door) -> None:
    (door.here / "file").write_text("mine")
    code, line = door.refuse("--results", "file/results")
    assert code == 2
    assert "file/results can't be written" in line and "--results DIR" in line


@pytest.mark.parametrize("door", ["used"], indirect=True)
def test_results_of_others_are_refused(door: Door) -> None:
    code, line = door.refuse()
    assert code == 2 and "holds this sweep on other data" in line and "--results" in line
    other = ResultsFolder(door.here / "other", sweep="another sweep")
    other.identify()
    code, line = door.refuse("--results", "other")
    assert code == 2 and "holds sweep 'another sweep', not 'quickstart'" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_resume_must_and_never_are_kept(door: Door) -> None:
    code, line = door.refuse("--resume", "must")
    assert code == 2 and "holds no sweep to resume" in line and "--resume auto" in line
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    code, line = door.refuse("--resume", "never")
    assert code == 2 and "holds 1 trials" in line and "--results DIR" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_damaged_results_are_refused(door: Door) -> None:
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    (door.results / "trials" / "bad.json").write_text('{"hash": ')
    code, line = door.refuse()
    assert code == 2 and "bad.json can't be read" in line and "move" in line

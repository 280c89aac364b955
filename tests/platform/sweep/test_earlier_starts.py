"""earlier_starts: what was spent can't be forgotten, and other code is spoken of."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError, write_json
from labeldp.platform.sweep.earlier_starts import known_ledger, other_code
from labeldp.platform.sweep.plan import count_epsilon_before
from labeldp.platform.vault.vault_store import SqliteStore, witness
from tests.platform.sweep.examples import a_charge, a_record


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    """A folder whose one trial read a release."""
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    store = SqliteStore(folder.store)
    charge: Charge = a_charge("r1")
    assert store.record(charge, np.arange(3), lines=0)
    folder.identify(vault=store.id)
    folder.keep(a_record(release_keys=("r1",)))
    return folder


def test_a_ledger_that_knows_everything_is_gone_on_with(folder: ResultsFolder) -> None:
    known = known_ledger(folder, moved=False)
    assert [charge.key for charge in known.charges] == ["r1"]
    assert known.vault == folder.identity().vault


def test_a_new_folder_has_spent_nothing(tmp_path: Path) -> None:
    known = known_ledger(ResultsFolder(tmp_path, sweep="small"), moved=False)
    assert (known.charges, known.vault) == ((), None)


@pytest.mark.parametrize("kept", ["sweep.json", "trials", "vault.lines"])
def test_a_deleted_vault_is_missed_by_whatever_is_left(folder: ResultsFolder, kept: str) -> None:
    folder.store.unlink()
    if kept != "sweep.json":
        (folder.path / "sweep.json").unlink()
    if kept != "trials":
        (folder.path / "trials" / f"{a_record().hash}.json").unlink()
    if kept != "vault.lines":
        witness(folder.store).unlink()
    with pytest.raises(ValueError, match=r"vault\.db is gone.*--results"):
        known_ledger(folder, moved=True)
    assert not folder.store.exists()


def test_a_new_vault_in_its_place_is_refused(folder: ResultsFolder) -> None:
    for path in (folder.store, witness(folder.store)):
        path.unlink()
    SqliteStore(folder.store)
    with pytest.raises(ResultsFolderError, match=r"not the vault that this folder's sweep\.json"):
        known_ledger(folder, moved=True)


@pytest.mark.parametrize("finished", [True, False])
def test_a_release_that_any_trial_read_is_missed(folder: ResultsFolder, finished: bool) -> None:
    """Also one of another plan, and one that failed: it has seen the noise."""
    folder.keep(a_record("f" * 16, finished=finished, reason="no", release_keys=("r1", "r2")))
    with pytest.raises(ResultsFolderError, match=r"lost lines.*trial f{16} read release r2"):
        known_ledger(folder, moved=False)


def test_other_code_is_spoken_of() -> None:
    old, now = (replace(a_record(), git_commit=each) for each in ("old", "now"))
    assert other_code([now, now], commit="now") == ""
    assert other_code([], commit="now") == ""
    said = other_code([old, now, a_record()], commit="now")
    assert "1 at old, 1 at unknown" in said and "at now now" in said and "--results" in said


def test_a_folder_tells_what_a_count_cost_where_nobody_said(tmp_path: Path) -> None:
    assert count_epsilon_before(tmp_path / "nowhere") is None
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    folder.keep(a_record(changes={"evaluation.epsilon": 0.4}))
    assert count_epsilon_before(folder.path) is None, "it was stated"
    folder.identify(count_epsilon=0.36)
    assert count_epsilon_before(folder.path) == 0.36
    write_json(folder.path / "sweep.json", {"sweep": "small", "count_epsilon": "much"})
    with pytest.raises(ResultsFolderError, match="count_epsilon"):
        count_epsilon_before(folder.path)

"""ledger_report: folders of folders, a table for the owner alone, and what is refused."""

import stat
from pathlib import Path

import pytest

from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.report.ledger_words import ledger_report
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from tests.platform.report.folders import a_folder


def test_folders_with_their_groups_and_one_sum(tmp_path: Path) -> None:
    for name, fingerprint in (("a", "x"), ("b", "x"), ("c", "y")):
        a_folder(tmp_path / name, fingerprint=fingerprint)
    found = ledger_report([str(tmp_path / name) for name in "abc"])
    assert [folder["group"] for folder in found["folders"]] == [0, 0, 1]
    assert (found["epsilon"], found["epsilon_private"], found["epsilon_if_different"]) == (
        6.0,
        6.0,
        4.0,
    )
    assert (found["ok"], found["same_labels"], found["releases"]) == (True, None, 3)
    assert ledger_report([str(tmp_path / "a"), str(tmp_path / "b")])["same_labels"] is True


def test_a_folder_of_results_stands_for_all_in_it(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    a_folder(tmp_path / "blocks" / "b")
    assert ledger_report([str(tmp_path)])["epsilon"] == 4.0


def test_no_depth_hides_a_folder_and_no_vault_that_is_gone(tmp_path: Path) -> None:
    a_folder(tmp_path / "studies" / "of" / "mine" / "a")
    a_folder(tmp_path / "b")
    a_folder(tmp_path / "b" / "within")
    assert ledger_report([str(tmp_path)])["epsilon"] == 6.0
    (tmp_path / "studies" / "of" / "mine" / "a" / "vault.db").unlink()
    found = ledger_report([str(tmp_path)])
    assert not found["ok"] and "is gone" in found["problems"][0]


def test_a_vault_of_fits_is_read_as_well(tmp_path: Path) -> None:
    shared = SharedVault(tmp_path / "vault")
    for number in range(2):
        side = PublicSide(rows=str(number), classes="[0, 1]", num_labels=2)
        vault = shared.lock_away(
            side, lambda store: LabelVault(labels=[0, 1], num_classes=2, store=store)
        )
        vault.release(RandomizedResponse(epsilon=1.0, num_classes=2))
    found = ledger_report([str(tmp_path / "vault")])
    assert (found["ok"], found["releases"], found["epsilon"]) == (True, 2, 2.0)
    next((tmp_path / "vault").rglob("vault.db")).unlink()
    assert not ledger_report([str(tmp_path / "vault")])["ok"]


def test_the_table_is_its_owners_alone(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    table = tmp_path / "table.csv"
    ledger_report([str(tmp_path / "a")], csv=str(table))
    assert stat.S_IMODE(table.stat().st_mode) == 0o600
    assert table.read_text().startswith("folder,sweep,line,")


def test_what_can_not_be_told_is_refused(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    with pytest.raises(ValueError, match="there is no folder"):
        ledger_report([str(tmp_path / "nowhere")])
    assert ledger_report([str(tmp_path / "a")], delta=0.0)["delta"] == 0.0
    with pytest.raises(ValueError, match="delta is 2"):
        ledger_report([str(tmp_path / "a")], delta=2.0)
    with pytest.raises(ValueError, match="choose another --csv"):
        ledger_report([str(tmp_path / "a")], csv=str(tmp_path / "no" / "table.csv"))

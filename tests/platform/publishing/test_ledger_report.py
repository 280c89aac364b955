"""ledger_report: folders of folders, a table for the owner alone, and what is refused."""

import stat
from pathlib import Path

import pytest

from labeldp.platform.publishing.ledger_report import ledger_report
from tests.platform.publishing.folders import a_folder


def test_folders_with_their_groups_and_one_sum(tmp_path: Path) -> None:
    for name, fingerprint in (("a", "x"), ("b", "x"), ("c", "y")):
        a_folder(tmp_path / name, fingerprint=fingerprint)
    found = ledger_report([str(tmp_path / name) for name in "abc"])
    assert [folder["group"] for folder in found.folders] == [0, 0, 1]
    assert (found.epsilon, found.epsilon_private, found.epsilon_if_different) == (6.0, 6.0, 4.0)
    assert (found.ok, found.same_labels, found.releases) == (True, None, 3)
    assert ledger_report([str(tmp_path / "a"), str(tmp_path / "b")]).same_labels is True


def test_a_folder_of_results_stands_for_all_in_it(tmp_path: Path) -> None:
    a_folder(tmp_path / "a")
    a_folder(tmp_path / "blocks" / "b")
    assert ledger_report([str(tmp_path)]).epsilon == 4.0


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
    with pytest.raises(ValueError, match="delta is 2"):
        ledger_report([str(tmp_path / "a")], delta=2.0)
    with pytest.raises(ValueError, match="choose another --csv"):
        ledger_report([str(tmp_path / "a")], csv=str(tmp_path / "no" / "table.csv"))

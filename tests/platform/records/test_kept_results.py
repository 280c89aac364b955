"""kept_results: a results folder is read without making or changing anything in it."""

import os
from pathlib import Path

import pytest

from labeldp.platform.records.kept_results import read_results
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError
from tests.platform.sweep.examples import a_record


def a_folder(path: Path, *digests: str) -> Path:
    folder = ResultsFolder(path, sweep="small")
    folder.identify(fingerprint="abc")
    for digest in digests:
        folder.keep(a_record(digest))
    return path


def test_a_folder_is_read_as_it_is(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "results", "01aa", "02bb")
    os.chmod(path, 0o755)  # who only reads closes nothing
    found = read_results(path)
    assert (found.sweep, found.identity.fingerprint) == ("small", "abc")
    assert list(found.records) == ["01aa", "02bb"]
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_trial_is_found_by_the_beginning_of_its_hash(tmp_path: Path) -> None:
    found = read_results(a_folder(tmp_path / "results", "01aa", "01bb", "02cc"))
    assert found.trial("02").hash == "02cc" and found.trial("01aa").hash == "01aa"
    with pytest.raises(ResultsFolderError, match=r"2 trials .* '01' \(01aa, 01bb\)"):
        found.trial("01")
    for named in ("ff", ""):
        with pytest.raises(ResultsFolderError, match=r"no trial .*it has 3 \(01aa, 01bb, 02cc\)"):
            found.trial(named)


def test_a_sweep_without_a_trial_that_ended_says_so(tmp_path: Path) -> None:
    with pytest.raises(ResultsFolderError, match=r"no trial .* has ended yet"):
        read_results(a_folder(tmp_path / "results")).trial("01")


def test_what_is_no_results_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(ResultsFolderError, match="there is no folder"):
        read_results(tmp_path / "nowhere")
    with pytest.raises(ResultsFolderError, match="holds no results"):
        read_results(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    path = a_folder(tmp_path / "results", "01aa")
    (path / "trials" / "01aa.json").write_text("{broken")
    with pytest.raises(ResultsFolderError, match=r"01aa\.json"):
        read_results(path)

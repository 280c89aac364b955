"""results: one driver per folder, records that are all there or not at all, standard JSON."""

import json
import math
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.platform.results import (
    ResultsFolder,
    ResultsFolderError,
    dumps,
    write_json,
    write_text,
)
from tests.platform.examples import a_record


def test_a_record_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    kept = [
        a_record("a" * 16, point={"trainer.epsilon": 0.5}),
        a_record("b" * 16, epsilon=math.inf, epsilon_m_high=math.inf),
        a_record("c" * 16, finished=False, reason="TrainingDiverged: the loss is not finite"),
    ]
    for record in kept:
        folder.keep(record)
    found = ResultsFolder(tmp_path / "results", sweep="small").records()
    assert found == {record.hash: record for record in kept}


def test_a_new_folder_is_its_owners_alone_and_an_old_one_stays_as_it_is(tmp_path: Path) -> None:
    new = ResultsFolder(tmp_path / "results" / "small", sweep="small").path
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    old = tmp_path / "shared"
    old.mkdir()
    old.chmod(0o750)
    assert stat.S_IMODE(ResultsFolder(old, sweep="small").path.stat().st_mode) == 0o750


def test_keeping_a_trial_again_replaces_its_record(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(a_record(finished=False, reason="out of memory"))
    folder.keep(a_record())
    assert list(folder.records().values()) == [a_record()]


def test_identity_grows_and_lasts(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    assert folder.identity() == {}
    folder.identify(fingerprint="f")
    folder.identify(parent_run_id="p")
    assert ResultsFolder(tmp_path, sweep="small").identity() == {
        "sweep": "small",
        "fingerprint": "f",
        "parent_run_id": "p",
    }


def test_another_sweep_is_refused(tmp_path: Path) -> None:
    ResultsFolder(tmp_path, sweep="small").identify()
    with pytest.raises(ResultsFolderError, match=r"holds sweep 'small', not 'large'.*--results"):
        ResultsFolder(tmp_path, sweep="large")


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ResultsFolderError, match=r"can't be written .*--results DIR"):
        ResultsFolder(tmp_path / "file" / "results", sweep="small")
    assert (tmp_path / "file").read_text() == "mine"


def test_one_driver_holds_the_folder(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    with folder.held():
        other = ResultsFolder(tmp_path, sweep="small")
        with pytest.raises(ResultsFolderError, match=f"in use by process {os.getpid()}"):
            with other.held():
                pass
    with folder.held():
        pass


def test_the_lock_goes_with_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from labeldp.platform.results import ResultsFolder\n"
        "with ResultsFolder(Path(sys.argv[1]), sweep='small').held():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -9
    with ResultsFolder(tmp_path, sweep="small").held():
        assert (tmp_path / "driver.lock").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", "\x00", '{"finished": 1}', '{"hash": "a", "x": 1}']
)
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    file = tmp_path / "trials" / "0000.json"
    file.write_text(text)
    with pytest.raises(ResultsFolderError) as caught:
        folder.records()
    assert str(file) in str(caught.value) and "move" in str(caught.value)


def test_a_damaged_identity_is_named(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text("{broken")
    with pytest.raises(ResultsFolderError, match=r"sweep\.json can't be read"):
        ResultsFolder(tmp_path, sweep="small")


def test_json_is_standard_and_infinity_survives() -> None:
    value = {"a": math.inf, "b": [-math.inf, math.nan, 1.5], "c": None, "d": True, "e": Path("/x")}
    text = dumps(value)
    assert "Infinity" not in text and "NaN" not in text
    assert json.loads(text) == {
        "a": math.inf,
        "b": [-math.inf, None, 1.5],
        "c": None,
        "d": True,
        "e": "/x",
    }


def test_text_that_looks_like_infinity_stays_text() -> None:
    for text in ("<infinite number>", "1e999", "Infinity"):
        assert json.loads(dumps({"note": text})) == {"note": text}


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "record.json"
    write_json(file, {"a": 1})

    def no_space(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(ResultsFolderError, match=r"No space left on device.*free the disk"):
        write_text(file, "half")
    assert json.loads(file.read_text()) == {"a": 1}
    assert list(tmp_path.iterdir()) == [file], "a draft was left behind"


def test_records_are_readable_by_whoever_may_read_the_folder(tmp_path: Path) -> None:
    """A report is made to be shown; temporary files are the owner's alone by default."""
    write_text(tmp_path / "report.html", "x")
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == 0o666 & ~mask

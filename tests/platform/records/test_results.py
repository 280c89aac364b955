"""results: one driver per folder, records that are all there or not at all, standard JSON."""

import json
import math
import os
import stat
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records.results import (
    ResultsFolder,
    ResultsFolderError,
    dumps,
    write_json,
    write_text,
)
from tests.platform.sweep.examples import METRICS, a_record


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


def test_a_record_does_not_finish_over_the_budget() -> None:
    with pytest.raises(ValueError, match="over_budget is True, and should be false if finished"):
        replace(a_record(), over_budget=True)


def test_a_folder_is_its_owners_alone_whatever_it_was(tmp_path: Path) -> None:
    new = ResultsFolder(tmp_path / "results" / "small", sweep="small").path
    assert stat.S_IMODE(new.stat().st_mode) == 0o700
    old = tmp_path / "shared"
    (old / "trials").mkdir(parents=True)
    (old / "trials" / "a.json").write_text("{}")
    for path, mode in ((old, 0o755), (old / "trials", 0o755), (old / "trials" / "a.json", 0o644)):
        path.chmod(mode)
    ResultsFolder(old, sweep="small")
    assert stat.S_IMODE(old.stat().st_mode) == stat.S_IMODE((old / "trials").stat().st_mode)
    assert stat.S_IMODE(old.stat().st_mode) == 0o700
    assert stat.S_IMODE((old / "trials" / "a.json").stat().st_mode) == 0o600


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(ResultsFolderError, match=r"belongs to user \d+.*chown.*--results DIR"):
        ResultsFolder(tmp_path, sweep="small")


def test_keeping_a_trial_again_replaces_its_record(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(a_record(finished=False, reason="out of memory"))
    folder.keep(a_record())
    assert list(folder.records().values()) == [a_record()]


def test_identity_grows_and_lasts(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    assert not folder.identity()
    folder.identify(fingerprint="f")
    folder.identify(parent_run_id="p", fingerprint=None)
    told = {"sweep": "small", "fingerprint": "f", "parent_run_id": "p"}
    assert json.loads((tmp_path / "sweep.json").read_text()) == told
    assert ResultsFolder(tmp_path, sweep="small").identity().to_json() == told
    with pytest.raises(TypeError, match="finger_print"):
        folder.identify(finger_print="f")


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
        "from labeldp.platform.records.results import ResultsFolder\n"
        "with ResultsFolder(Path(sys.argv[1]), sweep='small').held():\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60, check=False)
    assert done.returncode == -9
    with ResultsFolder(tmp_path, sweep="small").held():
        assert (tmp_path / "driver.lock").read_text() == str(os.getpid())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1, 2]", "\x00", '{"finished": 1}', '{"hash": "a", "x": 1}', "[" * 100_000],
)
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    file = tmp_path / "trials" / "0000.json"
    file.write_text(text)
    with pytest.raises(ResultsFolderError) as caught:
        folder.records()
    assert str(file) in str(caught.value) and "move" in str(caught.value)


def test_a_record_needs_one_accuracy_measured_or_estimated(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    bare = {name: value for name, value in METRICS.items() if name != "accuracy"}
    record = replace(a_record(), metrics={**bare, "accuracy_estimated": 0.8})
    folder.keep(record)
    assert folder.records() == {record.hash: record}
    with pytest.raises(ValueError, match="has no metric 'accuracy'"):
        replace(a_record(), metrics=bare)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metrics": {**METRICS, "accuracy": None}}, "metric 'accuracy' is None"),
        ({"metrics": {**METRICS, "epsilon": math.nan}}, "metric 'epsilon' is None"),
        ({"metrics": {**METRICS, "delta": "0"}}, "metric 'delta' is '0'"),
        ({"metrics": {**METRICS, "delta": True}}, "metric 'delta' is True"),
        ({"metrics": {**METRICS, "delta": 10**400}}, "metric 'delta' is 1000"),
        ({"metrics": {}}, "has no metric 'accuracy'"),
        ({"metrics": [1]}, "metrics is [1]"),
        ({"variant": 5}, "variant is 5"),
        ({"variant": "\ud800"}, "half a character"),
        ({"point": {"a": "\udfff"}}, "half a character"),
        ({"finished": "yes"}, "finished is 'yes'"),
        ({"curves": [{"loss": 1.0}]}, "curves is"),
        ({"curves": {"a": 1}}, "curves"),
        ({"release_keys": [3]}, "release_keys"),
        ({"environment": {"python": 3}}, "environment"),
        ({"hash": "f" * 16}, "is of trial"),
    ],
)
def test_a_record_that_no_report_could_show_is_named(
    changes: dict[str, Any], word: str, tmp_path: Path
) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    file = tmp_path / "trials" / f"{a_record().hash}.json"
    write_json(file, {**asdict(a_record()), **changes})
    with pytest.raises(ResultsFolderError) as caught:
        folder.records()
    assert str(file) in str(caught.value) and word in str(caught.value)
    assert "move it away" in str(caught.value)


def test_a_number_of_an_epoch_that_was_none_comes_back_as_none(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(replace(a_record(), curves=[{"epoch": 1, "loss": math.nan}]))
    (record,) = folder.records().values()
    assert record.curves[0]["epoch"] == 1 and math.isnan(record.curves[0]["loss"])


@pytest.mark.parametrize("name", ["sweep", "parent_run_id", "vault", "path", "teachers_trained"])
def test_a_mistyped_identity_is_named(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", {"sweep": "small", name: [1]})
    with pytest.raises(ResultsFolderError, match=rf"sweep\.json is damaged \({name} is \[1\]\)"):
        ResultsFolder(tmp_path, sweep="small")


def test_drafts_of_a_killed_driver_go_when_the_folder_is_held(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path, sweep="small")
    folder.keep(a_record())
    drafts = [tmp_path / ".report.html.12ab.draft", tmp_path / "trials" / ".a.json.77cd.draft"]
    drafts.append(tmp_path / "private" / "figures" / ".a.json.0.draft")
    drafts.append(tmp_path / "tune" / "sweep" / "tuner.pkl")
    for draft in drafts:
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text("half")
    (tmp_path / ".mine").write_text("no draft")
    with folder.held():
        assert not any(draft.exists() for draft in drafts)
    assert (tmp_path / ".mine").exists() and len(folder.records()) == 1


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


def test_what_is_written_is_its_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")
    file.chmod(0o644)
    mask = os.umask(0)
    try:
        write_text(file, "x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["driver.lock", "trials", "vault.db", "private", "checkpoints"])
def test_a_planted_link_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("do not lose me")
    precious.chmod(0o644)
    results = tmp_path / "results"
    results.mkdir(mode=0o777)
    (results / name).symlink_to(precious)
    with pytest.raises(ResultsFolderError, match=rf"{name} is a link.*--results DIR"):
        ResultsFolder(results, sweep="small")
    assert [path.name for path in results.iterdir()] == [name]
    assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == (
        "do not lose me",
        0o644,
    )


def test_a_lock_that_was_planted_since_is_not_overwritten(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    precious = tmp_path / "precious"
    precious.write_text("do not lose me")
    for plant in (os.symlink, os.link):
        plant(precious, folder.path / "driver.lock")
        with pytest.raises(ResultsFolderError, match=r"is a (hard )?link"), folder.held():
            pass
        (folder.path / "driver.lock").unlink()
    assert precious.read_text() == "do not lose me"


def test_the_results_folder_may_be_a_link_that_the_user_made(tmp_path: Path) -> None:
    (tmp_path / "large-disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "large-disk")
    folder = ResultsFolder(tmp_path / "results", sweep="small")
    with folder.held():
        folder.keep(a_record())
    assert len(list((tmp_path / "large-disk" / "trials").iterdir())) == 1


def test_a_file_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "page").symlink_to(tmp_path / "victim")
    with pytest.raises(ResultsFolderError, match="page is a link"):
        write_text(tmp_path / "page", "text")
    assert (tmp_path / "victim").read_text() == "mine"

"""results: one driver per folder, records that are all there or not at all, standard JSON."""

import json
import math
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records.results import (
    ResultsFolder,
    SweepIdentity,
    close_results,
    dumps,
    read_results,
    write_json,
)
from tests.platform.sweep.examples import METRICS, a_record, mode


@pytest.fixture
def folder(tmp_path: Path) -> ResultsFolder:
    return ResultsFolder(tmp_path / "results", sweep="small")


def test_records_come_back_as_they_were_kept(folder: ResultsFolder) -> None:
    bare = {name: value for name, value in METRICS.items() if name != "accuracy"}
    kept = [
        a_record("a" * 16, point={"trainer.epsilon": 0.5}),
        a_record("b" * 16, epsilon=math.inf, epsilon_m_high=math.inf),
        a_record("c" * 16, finished=False, reason="TrainingDiverged: the loss is not finite"),
        replace(a_record("d" * 16), metrics={**bare, "accuracy_estimated": 0.8}),
    ]
    folder.keep(a_record("a" * 16, finished=False, reason="out of memory"))  # it runs again
    for record in kept:
        folder.keep(record)
    file = folder.path / "trials" / f"{kept[0].hash}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "reliability": []}))  # as before
    found = ResultsFolder(folder.path, sweep="small").records()
    assert found == {record.hash: record for record in kept}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"metrics": {**METRICS, "epsilon": math.nan}}, "metrics.epsilon is None"),
        ({"metrics": {**METRICS, "delta": "0"}}, "metrics.delta is '0'"),
        ({"metrics": {}}, "has no metric 'accuracy'"),
        ({"variant": 5}, "variant is 5"),
        ({"over_budget": True}, "it is finished and over_budget"),
        ({"curves": [{"loss": 1.0}]}, "epoch without its number"),
        ({"curves": [{"epoch": 1, "loss": "0"}]}, "curves.0.loss"),
        ({"hash": "f" * 16}, "is of trial"),
        ({"of_another_version": 1}, "of_another_version"),
    ],
)
def test_a_damaged_record_is_named(
    changes: dict[str, Any], word: str, folder: ResultsFolder
) -> None:
    file = folder.path / "trials" / f"{a_record().hash}.json"
    write_json(file, {**asdict(a_record()), **changes})
    for read in (folder.records, lambda: read_results(folder.path)):
        with pytest.raises(ValueError) as caught:
            read()
        assert str(file) in str(caught.value) and word in str(caught.value)
        assert "move it away" in str(caught.value)


PLACES: dict[str, Any] = {"path": "/results", "tracking_uri": "sqlite:///mlflow.db", "vault": "v"}
PLACES |= {"sweep_id": "5eed", "parent_run_id": "babe"}


def test_public_places_differ_from_the_owners() -> None:
    kept = SweepIdentity(**PLACES, sweep="small", num_labels=40, held_out_labels=10)
    assert kept.of_the_owner == PLACES
    # The vault has the labels that are held out too.
    assert kept.all_labels == 50 and SweepIdentity(num_labels=40).all_labels == 40


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("path", [1]), ("learned_delta", {"a": 1}), ("choose_by", "luck")),
        *(("num_labels", True), ("num_labels", 2.0), ("learned_releases", 1)),
        ("of_another_version", 1),
    ],
)
def test_a_wrong_fact_is_named(name: str, value: object, tmp_path: Path) -> None:
    write_json(tmp_path / "sweep.json", {**PLACES, name: value})
    with pytest.raises(ValueError, match=rf"sweep\.json is damaged \({name} is "):
        ResultsFolder(tmp_path, sweep="small")


def test_identity_grows_and_another_sweep_is_refused(folder: ResultsFolder) -> None:
    assert not folder.identity()
    folder.identify(fingerprint="f")
    folder.identify(parent_run_id="p", fingerprint=None)
    told = {"format": 1, "sweep": "small", "fingerprint": "f", "parent_run_id": "p"}
    assert json.loads((folder.path / "sweep.json").read_text()) == told
    assert ResultsFolder(folder.path, sweep="small").identity().to_json() == told
    with pytest.raises(ValueError, match="finger_print"):
        folder.identify(finger_print="f")
    with pytest.raises(ValueError, match=r"holds sweep 'small', not 'large'.*--results"):
        ResultsFolder(folder.path, sweep="large")
    write_json(folder.path / "sweep.json", {**told, "format": 2})
    for reader in (read_results, partial(ResultsFolder, sweep="small")):
        with pytest.raises(ValueError, match=r"of format 2, .* use the version that wrote it"):
            reader(folder.path)
    (folder.path / "sweep.json").write_text("{broken")
    with pytest.raises(ValueError, match=r"sweep\.json can't be read"):
        ResultsFolder(folder.path, sweep="small")


def test_a_folder_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "results"
    (folder / "trials").mkdir(parents=True)
    for path in (folder, folder / "trials"):
        path.chmod(0o755)
    ResultsFolder(folder, sweep="small")
    assert mode(folder) == mode(folder / "trials") == 0o700
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    with pytest.raises(ValueError, match=r"belongs to user \d+.*chown.*--results DIR"):
        ResultsFolder(folder, sweep="small")


def test_a_folder_of_other_things_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / ".gitkeep").touch()
    (tmp_path / "lost+found").mkdir()
    ResultsFolder(tmp_path, sweep="small")  # it is as good as empty
    (tmp_path / "trials").rmdir()
    page = tmp_path / "index.html"
    page.touch()
    for path, rights in ((tmp_path, 0o755), (page, 0o644)):
        path.chmod(rights)
    with pytest.raises(ValueError, match=r"'index.html'.* folder of its own with --results DIR"):
        ResultsFolder(tmp_path, sweep="small")
    assert (mode(tmp_path), mode(page), (tmp_path / "trials").exists()) == (0o755, 0o644, False)
    for name in ("sweep.json", "vault.db", "mlflow.db", "together"):
        (tmp_path / name).mkdir()
        close_results(tmp_path)
        (tmp_path / name).rmdir()


def test_one_driver_holds_the_folder(folder: ResultsFolder) -> None:
    for _ in range(2):
        with folder.held(), pytest.raises(ValueError, match=f"by process {os.getpid()}"):
            with ResultsFolder(folder.path, sweep="small").held():
                pass
    precious = folder.path.parent / "precious"
    precious.write_text("do not lose me")
    for plant in (os.symlink, os.link):
        (folder.path / "driver.lock").unlink()
        plant(precious, folder.path / "driver.lock")
        with pytest.raises(ValueError, match=r"is a (hard )?link"), folder.held():
            pass
    assert precious.read_text() == "do not lose me"


def test_drafts_of_a_killed_driver_go_when_the_folder_is_held(folder: ResultsFolder) -> None:
    folder.keep(a_record())
    names = (".report.html.12ab.draft", "trials/.a.json.77cd.draft", "tune/sweep/tuner.pkl")
    drafts = [folder.path / name for name in (*names, "private/figures/.a.json.0.draft")]
    for draft in drafts:
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text("half")
    (folder.path / ".mine").write_text("no draft")
    with folder.held():
        assert not any(draft.exists() for draft in drafts)
    assert (folder.path / ".mine").exists() and len(folder.records()) == 1


def test_json_is_standard_and_infinity_survives() -> None:
    value = {"a": math.inf, "b": [-math.inf, math.nan, 1.5], "c": None, "d": True, "e": Path("/x")}
    text = dumps(value)
    assert "Infinity" not in text and "NaN" not in text
    assert json.loads(text) == {**value, "b": [-math.inf, None, 1.5], "e": "/x"}
    for note in ("<infinite number>", "1e999", "Infinity"):
        assert json.loads(dumps({"note": note})) == {"note": note}


def test_a_folder_is_read_as_it_is(folder: ResultsFolder) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        read_results(folder.path / "nowhere")
    with pytest.raises(ValueError, match="holds no results"):
        read_results(folder.path / "trials")
    assert not list((folder.path / "trials").iterdir())
    folder.identify(fingerprint="abc")
    with pytest.raises(ValueError, match="have ended: none yet"):
        read_results(folder.path).trial("01")
    for digest in ("01aa", "01bb", "02cc"):
        folder.keep(a_record(digest))
    folder.path.chmod(0o755)  # a reader closes nothing
    found = read_results(folder.path)
    assert mode(folder.path) == 0o755
    assert (found.sweep, found.identity.fingerprint) == ("small", "abc")
    assert list(found.records) == ["01aa", "01bb", "02cc"]
    assert found.trial("02").hash == "02cc" and found.trial("01aa").hash == "01aa"
    with pytest.raises(ValueError, match=r"2 trials .* '01'.*: 01aa, 01bb$"):
        found.trial("01")
    for named in ("ff", ""):
        with pytest.raises(ValueError, match=r"no trials .*: 01aa, 01bb, 02cc$"):
            found.trial(named)

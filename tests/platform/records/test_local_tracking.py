"""local_tracking: one process at a time makes a store; artifacts go where the results went."""

import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.records import local_tracking
from labeldp.platform.records.local_tracking import file_of, one_at_a_time
from labeldp.platform.records.tracking import Tracker, TrackingUnusable, default_uri
from tests.faults.sweep_runs import own_environment
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store

#: Opens one store when it is told to, together with others.
TOGETHER = """
import sys
from pathlib import Path
from labeldp.platform.records.tracking import Tracker
uri, own = sys.argv[1:]
Path(own).mkdir()
print("ready", flush=True)
sys.stdin.readline()
Tracker(uri=uri, experiment="small", artifacts=Path(own, "artifacts"))
"""


def test_only_a_local_store_is_a_file() -> None:
    assert file_of("sqlite:////a/b.db") == Path("/a/b.db")
    assert file_of("sqlite:///b.db?timeout=5") == Path("b.db")
    assert file_of("http://127.0.0.1:5000") is file_of("postgresql://u@h/d") is None


def test_drivers_that_make_one_store_at_the_same_moment_wait_for_each_other(
    tmp_path: Path,
) -> None:
    uri = f"sqlite:///{tmp_path / 'shared.db'}"
    with ExitStack() as stack:
        drivers = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", TOGETHER, uri, str(tmp_path / f"{number}")],
                    env=own_environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(2)
        ]
        for driver in drivers:
            stack.callback(driver.kill)
            assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        for driver in drivers:
            assert driver.stdin is not None
            driver.stdin.write("now\n")
            driver.stdin.flush()
        ends = [driver.communicate(timeout=240)[1] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], ends
    assert MlflowClient(tracking_uri=uri).get_experiment_by_name("small") is not None


def test_a_store_is_opened_when_the_other_one_has(tmp_path: Path) -> None:
    uri = new_store(tmp_path)
    opened = threading.Event()

    def probe() -> None:
        Tracker.probe(uri)
        opened.set()

    with one_at_a_time(uri):
        thread = threading.Thread(target=probe)
        thread.start()
        assert not opened.wait(0.5)
    assert opened.wait(60)
    thread.join()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db"], "nothing is left"


def test_a_store_that_is_never_let_go_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = new_store(tmp_path)
    monkeypatch.setattr(local_tracking, "TIME_LIMIT_SECONDS", 0.2)
    with (
        one_at_a_time(uri),
        pytest.raises(TrackingUnusable, match=r"another process has been opening it for 0 s"),
    ):
        Tracker.probe(uri)


def a_sweep_in(folder: Path, *, uri: str | None = None, formerly: Path | None = None) -> Tracker:
    """Write a trial into a results folder, as one start of a driver."""
    folder.mkdir(exist_ok=True)
    tracker = Tracker(
        uri=uri or default_uri(folder),
        experiment="small",
        artifacts=folder / "artifacts",
        formerly=None if formerly is None else formerly / "artifacts",
    )
    tracker.open_parent("small", tags={"sweep_id": folder.name}, run_id=None)
    digest = f"{len(list(folder.rglob('config.yaml'))):016x}"
    run_id = tracker.open_child(digest, name="trial", tags={})
    tracker.close_child(a_record(digest), run_id=run_id, texts={"config.yaml": "x"})
    return tracker


def artifacts_of(tracker: Tracker) -> list[Path]:
    """Where MLflow finds the artifacts of all trials."""
    client = MlflowClient(tracking_uri=tracker.uri)
    runs = client.search_runs([tracker.experiment_id], "params.method = 'alibi'")
    for run in runs:
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["config.yaml"]
    return [Path(unquote(urlsplit(run.info.artifact_uri).path)) for run in runs]


@pytest.mark.parametrize("copied", [False, True])
def test_artifacts_move_with_their_folder(copied: bool, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "a new one"
    new_store(old)
    a_sweep_in(old)
    before = sorted(old.rglob("*"))
    (shutil.copytree if copied else shutil.move)(old, new)
    found = artifacts_of(a_sweep_in(new))
    assert len(found) == 2 and all(path.is_relative_to(new) for path in found)
    assert sorted(old.rglob("*")) == (before if copied else [])


def test_a_shared_store_is_told_by_the_folder_that_moved(tmp_path: Path) -> None:
    uri, old, new = new_store(tmp_path / "store"), tmp_path / "old", tmp_path / "new"
    other = tmp_path / "other"
    a_sweep_in(old, uri=uri)
    a_sweep_in(other, uri=uri)  # the experiment is the first one's: its artifacts go there
    assert not (other / "artifacts").exists()
    shutil.copytree(old, new)
    found = artifacts_of(a_sweep_in(new, uri=uri, formerly=old))
    assert len(found) == 3 and all(path.is_relative_to(new) for path in found)


def test_artifacts_somewhere_else_on_purpose_stay_there(tmp_path: Path) -> None:
    uri = new_store(tmp_path)
    MlflowClient(tracking_uri=uri).create_experiment("small", "s3://bucket/artifacts")
    Tracker(uri=uri, experiment="small", artifacts=tmp_path / "artifacts")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as connection:
        query = "SELECT artifact_location FROM experiments WHERE name = 'small'"
        assert connection.execute(query).fetchone() == ("s3://bucket/artifacts",)


def test_half_written_artifacts_of_a_killed_driver_go(tmp_path: Path) -> None:
    uri = new_store(tmp_path)
    left = tmp_path / "artifacts" / "run" / "artifacts" / ".artifact.uploading.x1"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    left.with_name("whole").write_text("whole")
    Tracker(uri=uri, experiment="small", artifacts=tmp_path / "artifacts")
    assert [path.name for path in left.parent.iterdir()] == ["whole"]


def test_trials_are_read_from_the_tables_as_mlflow_finds_them(tmp_path: Path) -> None:
    uri = new_store(tmp_path)
    tracker = Tracker(uri=uri, experiment="small", artifacts=tmp_path / "artifacts")
    parents = [tracker.open_parent(name, tags={}, run_id=None) for name in ("other", "own")]
    client = MlflowClient(tracking_uri=uri)
    for parent in parents:
        for number, status in enumerate(("FINISHED", "FAILED", "KILLED", None, "FINISHED")):
            tags = {"mlflow.parentRunId": parent, "config_hash": f"{parent[:4]}{number // 2}"}
            run = client.create_run(tracker.experiment_id, tags=tags, start_time=1000 - number % 3)
            if status is not None:
                client.set_terminated(run.info.run_id, status)
            if number == 4:
                client.delete_run(run.info.run_id)
    client.create_run(tracker.experiment_id, tags={"mlflow.parentRunId": parents[1]})
    client.create_run(tracker.experiment_id, tags={"sibling_of": parents[1]})
    elsewhere = client.create_experiment("another")
    client.create_run(elsewhere, tags={"mlflow.parentRunId": parents[1], "config_hash": "x"})
    searched = tracker._searched_trials()
    read = local_tracking.children_of(uri, experiment=tracker.experiment_id, parent=parents[1])
    assert read == searched
    assert [trial.status for trial in read].count("RUNNING") == 2 and len(read) == 5
    assert read[0].digest == ""

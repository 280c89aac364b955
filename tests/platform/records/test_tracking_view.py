"""tracking_view: moved folders are shown from where they lie, several as one, none is changed."""

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.records.tracking import Tracker, TrackingUnusable, default_uri
from labeldp.platform.records.tracking_view import store_to_show
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store


def a_folder(root: Path, name: str, *, experiment: str = "small") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    new_store(folder)
    tracker = Tracker(
        uri=default_uri(folder), experiment=experiment, artifacts=folder / "artifacts"
    )
    tracker.open_parent(experiment, tags={"sweep": experiment}, run_id=None)
    run_id = tracker.open_child("a" * 16, name="a trial", tags={})
    tracker.close_child(a_record("a" * 16), run_id=run_id, texts={"config.yaml": f"of: {name}\n"})
    return folder


def shown(uri: str) -> dict[str, str]:
    """Experiments by name, with the artifact that each one's trial has."""
    client = MlflowClient(tracking_uri=uri)
    found = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id], "tags.config_hash LIKE '%'"):
            file = client.download_artifacts(run.info.run_id, "config.yaml")
            assert run.data.metrics["accuracy"] == 0.9 and run.data.params["seed"] == "0"
            found[experiment.name] = Path(file).read_text()
    return found


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def test_a_folder_where_it_was_is_shown_itself(tmp_path: Path, scratch: Path) -> None:
    folder = a_folder(tmp_path, "one")
    assert store_to_show([folder], scratch=scratch) == default_uri(folder)
    assert not list(scratch.iterdir())


def test_a_moved_folder_is_shown_from_where_it_lies_and_not_changed(
    tmp_path: Path, scratch: Path
) -> None:
    there = tmp_path / "there"
    shutil.move(a_folder(tmp_path, "one"), there)
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    assert shown(store_to_show([there], scratch=scratch)) == {"small": "of: one\n"}
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def test_several_folders_are_one_store(tmp_path: Path, scratch: Path) -> None:
    a_folder(tmp_path / "results", "one")
    a_folder(tmp_path / "results", "two")
    a_folder(tmp_path / "results", "three", experiment="other")
    found = shown(store_to_show([tmp_path / "results"], scratch=scratch))
    assert sorted(found.values()) == ["of: one\n", "of: three\n", "of: two\n"]
    assert found["small (two)"] == "of: two\n" and found["other"] == "of: three\n"


def test_a_copy_of_a_folder_is_shown_once(tmp_path: Path, scratch: Path) -> None:
    folder = a_folder(tmp_path, "one")
    shutil.copytree(folder, tmp_path / "copy")
    found = shown(store_to_show([folder, tmp_path / "copy", folder], scratch=scratch))
    assert found == {"small": "of: one\n"}


def test_what_is_no_results_folder_is_refused(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(TrackingUnusable, match=r"holds no tracking store"):
        store_to_show([tmp_path / "nowhere"], scratch=scratch)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "mlflow.db").write_text("no database, but long enough to be read as one")
    with pytest.raises(TrackingUnusable, match="is no tracking store"):
        store_to_show([tmp_path / "bad"], scratch=scratch)

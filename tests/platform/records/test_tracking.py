"""Tracking: one complete run per trial, in a store that answers."""

import math
import shutil
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri, shown
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store, of_newer_schema


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return new_store(tmp_path)


@pytest.fixture
def tracker(uri: str) -> Tracker:
    tracker = Tracker(uri=uri, experiment="small")
    tracker.open_parent("small", tags={"sweep": "small"}, run_id=None)
    return tracker


def children(tracker: Tracker) -> list[Any]:
    query = f"tags.`mlflow.parentRunId` = '{tracker.parent_run_id}'"
    client = MlflowClient(tracking_uri=tracker.uri)
    return list(client.search_runs([tracker.experiment_id], query))


def written(tracker: Tracker, digest: str, **changes: Any) -> str:
    record, texts = a_record(digest, **changes), {"config.yaml": "seed: 0\n"}
    return tracker.write(record, name="a trial", tags={"seed": "0"}, texts=texts)


def test_more_points_and_settings_than_fit_into_a_batch(tracker: Tracker) -> None:
    record = a_record("a" * 16)
    record.curves[:] = [{"epoch": e, "loss": e / 2, "val_accuracy": 0.5} for e in range(1, 1201)]
    settings = {**record.config, **{f"extra.{i}": i for i in range(250)}, "long": "y" * 7000}
    object.__setattr__(record, "config", settings)
    run_id = tracker.write(record, name="long", tags={}, texts={})
    client = MlflowClient(tracking_uri=tracker.uri)
    assert len(client.get_metric_history(run_id, "loss")) == 1200
    params = client.get_run(run_id).data.params
    assert len(params) == len(settings)
    assert params["extra.249"] == "249" and params["long"].startswith("y" * 5000)


def test_what_is_infinite_or_was_not_measured_is_missing(tracker: Tracker) -> None:
    silent = {"epsilon_m_paper_low": 0.0, "epsilon_m_paper_high": 0.0}
    record = a_record("a" * 16, figures={"epsilon": math.inf, "epsilon_m_high": math.inf, **silent})
    data = ("digits", "f" * 64)
    run_id = tracker.write(record, name="a trial", tags={}, texts={}, data=data)
    client = MlflowClient(tracking_uri=tracker.uri)
    run = client.get_run(run_id)
    metrics = run.data.metrics
    assert metrics["epsilon_m"] == metrics["epsilon_m_low"] == record.metrics["epsilon_m_low"]
    assert not {"epsilon", "epsilon_m_high", *silent} & metrics.keys()
    assert run.data.tags["infinite"] == "epsilon, epsilon_m_high"
    assert run.inputs is not None
    (source,) = run.inputs.dataset_inputs
    assert source.dataset.name == "digits" and source.dataset.digest == "f" * 36
    guessed = {"epsilon_m_paper_low": 0.1, "epsilon_m_paper_high": 2.0, "epsilon_m_ceiling": 0.0}
    run_id = written(tracker, "b" * 16, figures=guessed)
    metrics = client.get_run(run_id).data.metrics
    assert metrics["epsilon_m_paper_high"] == 2.0
    assert "epsilon_m" not in metrics, "no attack was made"
    totals = {"epsilon_total": math.inf, "trials": 2.0}
    tracker.close_parent(metrics=totals, files=[], texts={}, finished=True)
    parent = client.get_run(tracker.parent_run_id).data
    assert parent.metrics == {"trials": 2.0} and parent.tags["infinite"] == "epsilon_total"


def test_a_second_start_drops_half_written_runs_and_doubles(tracker: Tracker) -> None:
    done = written(tracker, "a" * 16)
    failed = written(tracker, "b" * 16, finished=False, reason="no")
    parent = tracker.parent_run_id
    client = MlflowClient(tracking_uri=tracker.uri)
    for digest in "ca":  # one was being written, the other was written twice
        tags = {"config_hash": digest * 16, "mlflow.parentRunId": parent}
        made = client.create_run(tracker.experiment_id, start_time=1, tags=tags)
    client.set_terminated(made.info.run_id, "FINISHED")
    again = Tracker(uri=tracker.uri, experiment="small")
    assert again.open_parent("small", tags={}, run_id=parent) == parent
    assert {run.info.run_id for run in children(again)} == {done, failed}
    assert [again.run_id(digest * 16) for digest in "abc"] == [done, failed, ""]
    # The failed one runs again: its run is replaced, and there are never two of one trial.
    written(again, "b" * 16)
    found = children(again)
    assert sorted(run.data.tags["config_hash"][0] for run in found) == ["a", "b"]
    assert all(run.info.status == "FINISHED" for run in found)


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("postgresql://me:ab/cd+e=@db/mlflow", "postgresql://me:***@db/mlflow"),
        ("mysql://me:p@ss:w@db:3306/x", "mysql://me:***@db:3306/x"),
        ("postgresql://db/x?user=me&password=p&a=b", "postgresql://db/x?user=me&password=***&a=b"),
        ("http://host:5000", "http://host:5000"),
        ("sqlite:////a b/mlflow.db", "sqlite:////a b/mlflow.db"),
    ],
)
def test_an_address_is_shown_without_its_password(uri: str, safe: str) -> None:
    assert shown(uri) == safe


@pytest.mark.parametrize("change", ["renamed", "deleted"])
def test_a_trial_has_one_run_after_somebody_has_tidied_up(tracker: Tracker, change: str) -> None:
    done = written(tracker, "a" * 16)
    parent = tracker.parent_run_id
    client = MlflowClient(tracking_uri=tracker.uri)
    if change == "renamed":
        client.rename_experiment(tracker.experiment_id, "of last year")
    else:
        client.delete_run(parent)
    again = Tracker(uri=tracker.uri, experiment="small")
    now = again.open_parent("small", tags={}, run_id=parent)
    assert (now == parent) is (change == "renamed")
    assert again.experiment_id == tracker.experiment_id and again.run_id("a" * 16) == done


@pytest.mark.parametrize("wanted", [False, True])
def test_the_sweeps_run_has_system_metrics_if_mlflow_is_told_so(
    wanted: bool, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", str(wanted))
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    tracker = Tracker(uri=uri, experiment="small")
    run_id = tracker.open_parent("small", tags={}, run_id=None)
    client = MlflowClient(tracking_uri=uri)
    name = "system/cpu_utilization_percentage"
    for _ in range(200 * wanted):
        if name in client.get_run(run_id).data.metrics:
            break
        time.sleep(0.05)
    tracker.close_parent(metrics={}, files=[], texts={}, finished=True)
    assert (name in client.get_run(run_id).data.metrics) == wanted
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.delitem(sys.modules, "mlflow.system_metrics.system_metrics_monitor", raising=False)
    monkeypatch.delitem(sys.modules, "mlflow.system_metrics.metrics.cpu_monitor", raising=False)
    again = Tracker(uri=uri, experiment="other")
    with pytest.raises(ValueError, match="pip install psutil") if wanted else nullcontext():
        again.open_parent("other", tags={}, run_id=None)


def test_a_store_of_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = of_newer_schema(tmp_path)
    before = path.read_bytes()
    for attempt in (
        lambda: Tracker(uri=default_uri(tmp_path), experiment="small"),
        lambda: Tracker.probe(default_uri(tmp_path)),
    ):
        words = f"{path} .*another version of MLflow.*MLFLOW_TRACKING_URI"
        with pytest.raises(ValueError, match=words):
            attempt()
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "uri",
    [
        f"sqlite:///{__file__}",
        "sqlite:////proc/nowhere/mlflow.db",
        "nosuchscheme://x",
        "http://user:planted@127.0.0.1:9",
    ],
)
def test_a_store_that_does_not_answer_is_refused(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ValueError) as caught:
        Tracker(uri=uri, experiment="small")
    said = str(caught.value)
    assert uri.replace("planted", "***") in said and "planted" not in said and "\n" not in said


def test_artifacts_of_a_database_are_in_the_results_folder(tmp_path: Path) -> None:
    """By default MLflow puts them below the folder where its first client was started."""
    database = new_store(tmp_path).replace("sqlite:", "sqlite+pysqlite:")
    for _ in range(2):  # a later folder takes the experiment as it is
        tracker = Tracker(uri=database, experiment="small", folder=tmp_path / "results")
        found = MlflowClient(tracking_uri=database).get_experiment(tracker.experiment_id)
        assert found.artifact_location == (tmp_path / "results" / "artifacts").as_uri()


@pytest.mark.parametrize("copied", [False, True])
def test_a_moved_store_is_filled_anew_where_it_is(copied: bool, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "a new one"
    first = Tracker(uri=new_store(old), experiment="small")
    parent = first.open_parent("small", tags={"sweep_id": "mine"}, run_id=None)
    written(first, "a" * 16)
    before = sorted(old.rglob("*"))
    (shutil.copytree if copied else shutil.move)(old, new)
    for _ in range(2):
        again = Tracker(uri=default_uri(new), experiment="small")
        parent = again.open_parent("small", tags={"sweep_id": "mine"}, run_id=parent)
        if not again.run_id("a" * 16):
            written(again, "a" * 16)
    (run,) = children(again)
    place = Path(unquote(urlsplit(run.info.artifact_uri).path))
    assert place.is_relative_to(new) and (place / "config.yaml").exists()
    assert sorted(old.rglob("*")) == (before if copied else [])


@pytest.mark.parametrize(
    ("name", "words"),
    [("a%20b", "a%20b contains %20"), ("%2f", "contains %2f"), ("what?", r"what\? contains \?")],
)
def test_a_folder_that_no_address_leads_to(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{words}.*--results DIR.*MLFLOW_TRACKING_URI"):
        default_uri(tmp_path / name)

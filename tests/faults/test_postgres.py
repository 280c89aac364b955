"""Tracking on a real PostgreSQL, as infra/ sets it up, with the database killed in the middle."""

import importlib.util
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.records.tracking import TRACKING_ERRORS, Tracker
from tests.faults.postgres import Postgres, binaries
from tests.faults.tracking_server import TrackingServer
from tests.platform.sweep.examples import a_record

pytestmark = pytest.mark.fault

TRIALS, EPOCHS = 16, 50


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed here (Debian's package `postgresql` has it)")
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("PostgreSQL's client is not installed here (`pip install 'psycopg[binary]'`)")
    folder = Path(tempfile.mkdtemp(prefix="ldp"))
    folder.chmod(0o755)
    try:
        with Postgres(folder, programs=programs) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_every_number_is_there_once(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    curves = [{"epoch": e, "loss": 1.0 / (e + 1), "val_accuracy": 0.5} for e in range(EPOCHS)]
    records = [replace(a_record(f"{i:016x}"), curves=curves) for i in range(TRIALS)]

    def write(tracker: Tracker) -> None:
        for record in records:
            if not tracker.has(record.hash):
                run_id = tracker.open_child(record.hash, name="a trial", tags={})
                tracker.log_curves(run_id, record.curves)
                if record is records[TRIALS // 2] and not killed:
                    postgres.kill()
                    killed.append(record.hash)
                tracker.close_child(record, run_id=run_id, texts={"ledger.json": "[]"})

    killed: list[str] = []
    password = {"PGPASSWORD": postgres.password}
    with TrackingServer(tmp_path, store=postgres.uri, environment=password) as server:
        tracker = Tracker(uri=server.uri, experiment="small", results=tmp_path)
        parent = tracker.open_parent("small", tags={}, run_id=None)
        with pytest.raises(TRACKING_ERRORS):
            write(tracker)
        postgres.start()
        # Every connection in the server's pool is dead, and each costs a request: MLflow's own
        # seven attempts outlast them, the one that kept the failure above short does not.
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")
        tracker.reconcile()
        write(tracker)
        client = MlflowClient(tracking_uri=server.uri)
        runs = client.search_runs(
            [tracker.experiment_id], f"tags.`mlflow.parentRunId` = '{parent}'"
        )
        assert Counter(run.data.tags["config_hash"] for run in runs) == dict.fromkeys(
            (record.hash for record in records), 1
        )
        for run in runs:
            assert run.info.status == "FINISHED"
            losses = client.get_metric_history(run.info.run_id, "loss")
            assert [point.step for point in losses] == list(range(EPOCHS))
            (accuracy,) = client.get_metric_history(run.info.run_id, "accuracy")
            assert accuracy.value == 0.9
        assert postgres.password not in server.log

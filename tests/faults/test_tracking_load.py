"""How much a sweep asks of its tracking server, and a server that refuses."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.records.tracking import Tracker
from tests.faults.stub_server import StubServer
from tests.faults.sweep_runs import run_here
from tests.platform.sweep.examples import a_record, a_sweep

TEXTS = {name: "text" for name in ("config.yaml", "ledger.json", "run_card.md", "curves.json")}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.parametrize("epochs", [2, 300])
def test_a_trial_takes_ten_requests_however_long_it_is(epochs: int, tmp_path: Path) -> None:
    curves = [{"epoch": e, "loss": 1.0, "val_accuracy": 0.5, "seconds": 0.1} for e in range(epochs)]
    record = replace(a_record(), curves=curves)
    with StubServer() as server:
        tracker = Tracker(uri=server.uri, experiment="small")
        tracker.open_parent("small", tags={}, run_id=None)
        before = len(server.requests)
        run_id = tracker.open_child(record.hash, name="a trial", tags={"seed": "0"})
        tracker.log_curves(run_id, record.curves)
        tracker.close_child(record, run_id=run_id, texts=TEXTS)
        asked = Counter(path for path, _ in server.requests[before:])
    assert asked["POST /api/2.0/mlflow/runs/log-batch"] == 2
    assert sum(asked.values()) <= 10, asked


def test_a_server_that_refuses_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "planted-token")
    with StubServer(status=401) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        code, said = run_here(a_sweep(), "--results", str(tmp_path / "results"))
        assert any("planted-token" in str(headers) for _, headers in server.requests)
    assert code == 2
    assert "refuses us" in said and "MLFLOW_TRACKING_TOKEN" in said
    assert "planted-token" not in said and "Traceback" not in said


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:planted@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    code, said = run_here(a_sweep(), "--results", str(tmp_path / "results"))
    assert code == 2
    assert "can't be used" in said and "http://user:***@127.0.0.1:9" in said
    assert "planted" not in said

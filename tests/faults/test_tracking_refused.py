"""A tracking server that refuses: exit code 2, and no secret in what is printed."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.faults.sweep_runs import run_here
from tests.platform.sweep.examples import a_sweep

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_a_server_that_refuses_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    class Refusing(BaseHTTPRequestHandler):
        def _refuse(self) -> None:
            sent.append(str(self.headers))
            self.send_response(401)
            self.end_headers()
            self.wfile.write(b"not authenticated")  # MLflow's own way to refuse is plain text

        do_GET = do_POST = _refuse

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "planted-token")
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_address[1]}")
        code, said = run_here(a_sweep(), "--results", str(tmp_path / "results"))
        server.shutdown()
    assert any("planted-token" in headers for headers in sent)
    assert code == 2
    assert "refuses us" in said and "MLFLOW_TRACKING_TOKEN" in said
    assert "planted-token" not in said and "Traceback" not in said

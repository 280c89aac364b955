"""An HTTP server that answers as a tracking server would, in a thread; it keeps what was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_RUN = {
    "info": {
        "run_id": "r1",
        "run_uuid": "r1",
        "experiment_id": "1",
        "status": "RUNNING",
        "lifecycle_stage": "active",
        "artifact_uri": "mlflow-artifacts:/1/r1/artifacts",
        "start_time": 0,
    },
    "data": {},
}
_EXPERIMENT = {
    "experiment_id": "1",
    "name": "small",
    "artifact_location": "mlflow-artifacts:/1",
    "lifecycle_stage": "active",
}
_ANSWERS: dict[str, dict[str, Any]] = {
    "experiments/get-by-name": {"experiment": _EXPERIMENT},
    "runs/create": {"run": _RUN},
    "runs/get": {"run": _RUN},
    "runs/update": {"run_info": _RUN["info"]},
    "runs/search": {"runs": []},
}


class StubServer:
    """Answers every request with the same status; on a free port of 127.0.0.1."""

    def __init__(self, *, status: int = 200) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path = self.path.partition("?")[0]
                stub.requests.append((f"{self.command} {path}", dict(self.headers)))
                found = next((a for end, a in _ANSWERS.items() if path.endswith(end)), {})
                # MLflow's own way to refuse is plain text.
                body = json.dumps(found).encode() if status == 200 else b"not authenticated"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_PATCH = _answer

            def log_message(self, *arguments: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.uri = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "StubServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)

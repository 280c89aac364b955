"""A real `mlflow server` on a port of its own, that can be killed and started again."""

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.faults.processes import end_all, family, wait_until
from tests.faults.sweep_runs import own_environment


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class TrackingServer:
    """`mlflow server` with its runs in a database in `folder`; ends with the `with` block."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "TrackingServer":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={self.port}"),
            *("--workers=1", f"--backend-store-uri=sqlite:///{self._folder / 'server.db'}"),
            f"--artifacts-destination={(self._folder / 'artifacts').as_uri()}",
        ]
        # Its runners of jobs are ten processes that nothing here needs.
        environment = {**own_environment(), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, what="the tracking server answers", seconds=180)

    def kill(self) -> None:
        """End it as a power cut would, with all that it started."""
        assert self._process is not None
        seen = family(self._process.pid)
        self._process.kill()
        self._process.wait()
        self._process = None
        end_all(seen)

    def _answers(self) -> bool:
        log = (self._folder / "server.log").read_text()
        assert self._process is not None and self._process.poll() is None, log
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

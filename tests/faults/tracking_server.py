"""A real `mlflow server` on a port of its own, that can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.faults.processes import Process, end_all, family, wait_until
from tests.faults.sweep_runs import own_environment


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class TrackingServer:
    """`mlflow server` with its runs in a database; ends with the `with` block."""

    def __init__(
        self, folder: Path, *, store: str = "", environment: Mapping[str, str] | None = None
    ) -> None:
        """Prepare one.

        Args:
            folder: For artifacts, the log, and the database if no other is named.
            store: Address of the database.
            environment: What the server gets beside ours, such as a password for the database.
        """
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._folder, self._environment = folder, environment or {}
        self._store = store or f"sqlite:///{folder / 'server.db'}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "TrackingServer":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def log(self) -> str:
        """What it said, over all its lives."""
        return (self._folder / "server.log").read_text()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        artifacts = (self._folder / "artifacts").as_uri()
        command = [sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1"]
        command += [f"--port={self.port}", "--workers=1", f"--backend-store-uri={self._store}"]
        command += [f"--artifacts-destination={artifacts}"]
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                # Its runners of jobs are ten processes that nothing here needs.
                env={
                    **own_environment(),
                    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
                    **self._environment,
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, what="the tracking server answers", seconds=180)

    def kill(self) -> None:
        """End it as a power cut would, with all that it started."""
        assert self._process is not None
        seen: list[Process] = family(self._process.pid)
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        end_all(seen)

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

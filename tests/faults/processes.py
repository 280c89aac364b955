"""Processes found and ended one by one: only those that a test started."""

import os
import resource
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def alive(process: psutil.Process) -> bool:
    """Whether a process runs; a later one of the same number is another."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def title(process: psutil.Process) -> str:
    """Return a process's command, or the name that it gave itself, as Ray's actors do."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline()).strip()
    return ""


def titled(processes: Sequence[psutil.Process], start: str) -> list[psutil.Process]:
    return [process for process in processes if title(process).startswith(start)]


def wait_until(condition: Callable[[], object], *, what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def end_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: not any(map(alive, processes)), what="killed processes end", seconds=30)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let no file of this process grow above `size` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class TrackingServer:
    """A command that serves MLflow on a port of 127.0.0.1; ends with the `with` block."""

    def __init__(self, command: Sequence[str], port: int, *, folder: Path) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        self._command = command
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "TrackingServer":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        own = {name: os.environ[name] for name in os.environ if not name.startswith("MLFLOW_")}
        # Its runners of jobs are ten processes that nothing here needs.
        environment = {**own, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                self._command,
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

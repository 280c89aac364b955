"""`labeldp ui RESULTS`: MLflow's pages on a results folder, on a free port, until Ctrl-C."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from labeldp.platform.cli.command import interrupt
from labeldp.platform.records.tracking import TRACKING_ERRORS
from labeldp.platform.records.tracking_address import (
    TrackingUnusable,
    check_file,
    default_uri,
    links,
)

_HOST = "127.0.0.1"
_PORT = 5000
#: MLflow's server takes half a minute on a quiet machine.
_PATIENCE_SECONDS = 300.0


def serve(*, results: str, port: int | None = None) -> dict[str, Any]:
    """Show a results folder until Ctrl-C or SIGTERM.

    `port`: of this machine; 5000 if that is free, else any free one.

    Raises:
        TrackingUnusable: A folder without a store, a port in use, a server that does not start.
    """
    if port is None:
        try:
            port = _free_port(_PORT)
        except TrackingUnusable:
            port = _free_port(0)
    else:
        port = _free_port(port)
    folder, address = Path(results), f"http://{_HOST}:{port}"
    here = folder.expanduser().absolute()
    if not (here / "mlflow.db").exists():
        inside = [str(folder / store.parent.name) for store in sorted(here.glob("*/mlflow.db"))]
        raise TrackingUnusable(
            f"{folder} has no tracking store (mlflow.db); name one results folder, such as "
            f"{' or '.join(inside[:3]) or 'results/quickstart'}"
        )
    uri = default_uri(here)
    check_file(uri)
    pages = _pages(uri, address)
    with tempfile.TemporaryDirectory(prefix="labeldp-ui-") as scratch:
        print("starting MLflow's pages, which takes half a minute ...", file=sys.stderr, flush=True)
        with _server(uri, port=port, folder=Path(scratch)) as server:
            print("\n".join(pages), file=sys.stderr)
            print("Other users of this machine can open these pages, too.", file=sys.stderr)
            print("Ctrl-C ends it.", file=sys.stderr, flush=True)
            _wait_for_the_end(server)
    return {"address": address, "experiments": len(pages)}


def _pages(uri: str, address: str) -> list[str]:
    """Links to click, for each experiment."""
    client = MlflowClient(tracking_uri=uri)
    try:
        experiments = client.search_experiments(order_by=["experiment_id ASC"])
    except TRACKING_ERRORS as error:
        raise TrackingUnusable(f"{uri} is not a tracking store ({error})") from error
    found = []
    for experiment in experiments:
        if experiment.name == "Default":
            continue
        runs = client.search_runs(
            [experiment.experiment_id],
            "tags.config_hash LIKE '%' AND attributes.status = 'FINISHED'",
            order_by=["metrics.epsilon ASC"],
            max_results=10,
        )
        ids = [run.info.run_id for run in runs]
        to = links(address, experiment=experiment.experiment_id, runs=ids)
        charts = f"  charts: {to['chart']}\n  side by side: {to['compare']}"
        found.append(f"{experiment.name}: {to['table']}\n{charts}")
    return found


def _free_port(port: int) -> int:
    """Return the port, or any for 0, if nothing listens there."""
    if not 0 <= port < 2**16:
        raise TrackingUnusable(f"--port is {port}; a port is a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise TrackingUnusable(
                f"port {port} can't be used ({error.strerror}); leave --port out to get a free one"
            ) from error
        return int(probe.getsockname()[1])


def _command(uri: str, port: int) -> list[str]:
    where = ["--host", _HOST, "--port", str(port), "--backend-store-uri", uri]
    return [sys.executable, "-m", "mlflow", "server", "--workers", "1", *where]


@contextmanager
def _server(uri: str, *, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers; its whole group of processes is ended at the end."""
    log = folder / "server.log"
    with open(log, "wb") as output:
        server = subprocess.Popen(
            _command(uri, port),
            # Ctrl-C reaches this process alone, which then ends the server.
            start_new_session=True,
            cwd=folder,
            env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_an_answer(server, port, log)
        yield server
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(server.pid, number)
                server.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _wait_for_an_answer(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{port}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    last = log.read_text(errors="replace").strip().splitlines()[-1:] or ["its log is empty"]
    raise TrackingUnusable(
        f"MLflow's server does not answer on port {port} ({last[0]:.300}); try another --port, or "
        "`labeldp doctor`"
    )


def _wait_for_the_end(server: subprocess.Popen[bytes]) -> None:
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        server.wait()
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, before)

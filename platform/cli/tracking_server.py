"""`labeldp ui RESULTS`: MLflow's pages on a results folder, on a free port, until Ctrl-C."""

import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mlflow.tracking import MlflowClient

from labeldp.platform.records.tracking import explained
from labeldp.platform.records.tracking_address import (
    TRIALS,
    check_file,
    compared,
    default_uri,
    links,
)

_HOST = "127.0.0.1"
_PORT = 5000


def serve(*, results: str, port: int | None = None) -> dict[str, Any]:
    """Show a results folder until Ctrl-C or SIGTERM; MLflow's log goes to standard error.

    `port`: of this machine; 5000 if that is free, else any free one.

    Raises:
        ValueError: A folder without a store, a port in use, a server that ends by itself.
    """
    try:
        number = _free_port(_PORT if port is None else port)
    except ValueError:
        if port is not None:
            raise
        number = _free_port(0)
    folder = Path(results)
    address = f"http://{_HOST}:{number}"
    here = folder.expanduser().absolute()
    if not (here / "mlflow.db").exists():
        inside = [str(folder / store.parent.name) for store in sorted(here.glob("*/mlflow.db"))]
        named = f"name one results folder, such as {' or '.join(inside[:3])}"
        first = "run the sweep first (`make demo`), or name the folder of MLFLOW_TRACKING_URI's"
        fix = named if inside else f"{first} mlflow.db"
        raise ValueError(f"{folder} has no tracking store (mlflow.db); {fix}")
    uri = default_uri(here)
    check_file(uri)
    pages = _pages(uri, address)
    note = (
        "These pages open when MLflow's server has started, in about half a minute. Other users of "
        "this machine can open them, too. Ctrl-C ends it."
    )
    print(*pages, note, sep="\n", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="labeldp-ui-") as scratch:
        _run(_command(uri, number), folder=scratch)
    return {"address": address, "experiments": len(pages)}


def _run(command: list[str], *, folder: str) -> None:
    """Run a server until Ctrl-C or SIGTERM, and then end its whole group of processes."""
    server = subprocess.Popen(
        command,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the server
        cwd=folder,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=sys.stderr.fileno(),
    )
    try:
        code = server.wait()
        raise ValueError(
            f"MLflow's server ended with code {code}, and its log is above; try another --port, or "
            "`labeldp doctor`"
        )
    except KeyboardInterrupt:
        print("ended", file=sys.stderr)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(server.pid, number)
                server.wait(timeout=10)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _pages(uri: str, address: str) -> list[str]:
    client = MlflowClient(tracking_uri=uri)
    with explained(uri):
        experiments = client.search_experiments(order_by=["experiment_id ASC"])
    found = []
    for experiment in experiments:
        if experiment.name == "Default":
            continue
        number = experiment.experiment_id
        runs = client.search_runs([number], TRIALS, order_by=["metrics.epsilon ASC"])
        chosen = compared(
            (
                run.info.run_id,
                run.data.tags.get("line", ""),
                run.data.metrics.get("epsilon", math.inf),
            )
            for run in runs
        )
        to = links(address, experiment=number, runs=chosen)
        lines = [f"{experiment.name}: {to['table']}", f"charts: {to['chart']}"]
        found.append("\n  ".join([*lines, f"compare: {to['compare']}"]))
    return found


def _free_port(port: int) -> int:
    """Return the port, or any for 0, if nothing listens there."""
    if not 0 <= port < 2**16:
        raise ValueError(f"--port is {port}; a port is a number from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError as error:
            raise ValueError(
                f"port {port} can't be used ({error.strerror}); leave --port out to get a free one"
            ) from error
        return int(probe.getsockname()[1])


def _command(uri: str, port: int) -> list[str]:
    where = ["--host", _HOST, "--port", str(port), "--backend-store-uri", uri]
    # MLflow's own list has 10.*, and a stranger's page may be called 10.example.org. Any port: it
    # is another one at the other end of a tunnel.
    where += ["--allowed-hosts", ",".join(f"{host}:*" for host in (_HOST, "localhost"))]
    return [sys.executable, "-m", "mlflow", "server", "--workers", "1", *where]

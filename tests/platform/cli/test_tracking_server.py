"""tracking_server: a free port, what to click, and nothing left behind; MLflow is played."""

import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from mlflow import MlflowClient
from mlflow.server.security_utils import is_allowed_host_header

from labeldp.platform.cli import tracking_server
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri, links
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store

#: Starts a process of its own, and does not listen to Ctrl-C.
PLAYED = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
open(sys.argv[2], "w").write(str(child.pid))
time.sleep(600)
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    new_store(folder)
    uri = default_uri(folder)
    tracker = Tracker(uri=uri, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    tracker.write(a_record("a" * 16), name="a trial", tags={}, texts={})
    return folder


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_ended_and_leaves_nothing(
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    ended_by: signal.Signals,
) -> None:
    child = tmp_path / "child"
    # A shell's background job has Ctrl-C ignored from its start; nobody waits for it there.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    played = [sys.executable, "-c", PLAYED, "port", str(child)]
    monkeypatch.setattr(tracking_server, "_command", lambda uri, port: played)

    def end() -> None:
        while not (child.exists() and child.read_text()):
            time.sleep(0.1)
        os.kill(os.getpid(), ended_by)

    threading.Thread(target=end, daemon=True).start()
    try:
        assert main(["ui", str(results), "--json"]) == 0
    finally:
        signal.signal(signal.SIGINT, before)
    out, said = capfd.readouterr()
    address = json.loads(out)["address"]
    assert f"small: {address}/#/experiments/1/runs?workflowType=machine_learning" in said
    assert "compareRunsMode=CHART" in said
    assert "Ctrl-C ends it" in said and said.rstrip().endswith("ended")
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(child.read_text()), 0)
            time.sleep(0.05)


def test_the_links_list_the_trials_and_not_the_run_that_hides_them(results: Path) -> None:
    place = links("http://127.0.0.1:5000", experiment="1", runs=[])["chart"].partition("#/")[2]
    (key,) = parse_qs(urlsplit(place).query)["viewStateShareKey"]
    client = MlflowClient(tracking_uri=default_uri(results))
    tags = client.get_experiment("1").tags
    state = json.loads(json.loads(tags[f"mlflow.sharedViewState.{key}"])["state"])
    search = state["searchFilter"]
    assert state["orderByKey"] == "metrics.`epsilon`"  # by time it shows the sweep's run again
    assert len(client.search_runs(["1"])) == 2
    assert [run.info.run_name for run in client.search_runs(["1"], search)] == ["a trial"]


def test_servers_that_can_not_start_are_refused(
    results: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = [sys.executable, "-c", "exit('no disk')"]
    monkeypatch.setattr(tracking_server, "_command", lambda uri, port: failing)
    with pytest.raises(ValueError, match="ended with code 1, and its log is above"):
        tracking_server.serve(results=str(results))
    assert "no disk" in capfd.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"port {port} can't be used"):
            tracking_server.serve(results=str(results), port=port)
    with pytest.raises(ValueError, match="--port is 70000"):
        tracking_server.serve(results=str(results), port=70000)
    for folder, fix in ((results.parent, f"such as {results}$"), (results / "none", "make demo")):
        with pytest.raises(ValueError, match=f"has no tracking store .*{fix}"):
            tracking_server.serve(results=str(folder))


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:5000", True),
        ("localhost:8080", True),  # the other end of a tunnel
        ("10.attacker.example:5000", False),
        ("192.168.attacker.example", False),
        ("localhost.attacker.example:5000", False),
    ],
)
def test_only_this_machine_s_names_are_answered(host: str, allowed: bool) -> None:
    """A page of a stranger's may resolve its own name to this machine."""
    command = tracking_server._command("sqlite:///x", 5000)
    named = command[command.index("--allowed-hosts") + 1].split(",")
    assert is_allowed_host_header(named, host) is allowed

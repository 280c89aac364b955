"""A private cluster is private: loopback only, no exporters, and its token and files the owner's.

The sweep runs in a home of its own, so that Ray makes its token anew. A driver that is asked to end
ends its cluster too.
"""

import os
import stat
from pathlib import Path

import psutil
import pytest

from labeldp.platform import cluster
from labeldp.platform.cli.command import ExitCode
from tests.faults.processes import alive, title, wait_until
from tests.faults.small_sweep import TRIALS
from tests.faults.sweep_runs import Driver, identity, records

#: What `ray start --head` needs: GCS, dashboard, Ray Client, agent, two exporters of metrics.
DEFAULT_PORTS = {6379, 8265, 10001, 52365, 44217, 44227}


#: More than end while a busy machine lists all connections.
SEEDS = f"seed={list(range(20))}".replace(" ", "")


@pytest.mark.ray_cluster
def test_a_private_cluster_is_closed_to_others_and_ends_on_request(
    tmp_path: Path,
) -> None:
    home, results = tmp_path / "home", tmp_path / "results"
    home.mkdir()
    with Driver(results, SEEDS, environment={"HOME": str(home)}) as driver:
        driver.wait_for_records(1)
        processes = driver.processes()
        found = [
            (socket.laddr.ip, socket.laddr.port, title(process)[:40])
            for process in filter(alive, processes)
            for socket in process.net_connections("tcp")
            if socket.status == psutil.CONN_LISTEN
        ]
        print(*found, sep="\n")
        # The head, the scheduler twice, Ray's agents, the driver and a worker at least.
        assert len(found) >= 6 and any(name.startswith("ray::") for _, _, name in found)
        assert {host for host, _, _ in found} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
        assert {port for _, port, _ in found}.isdisjoint(DEFAULT_PORTS)
        raylet = next(each for each in map(title, processes) if "raylet_socket_name" in each)
        session = Path(raylet.partition("--raylet_socket_name=")[2].split()[0]).parents[1]
        ports = [path.read_text() for path in session.glob("metrics_export_port_*")]
        assert ports == ["-1"]  # Ray's own word for an exporter that is off
        token = home / ".ray" / "auth_token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600 and len(token.read_text()) > 30
        # Ray opens its own folders to all on purpose; they lie below one that is closed.
        assert any(
            folder.stat().st_uid == os.geteuid() and stat.S_IMODE(folder.stat().st_mode) == 0o700
            for folder in session.parents
        )

        driver.terminate()
        assert driver.ended(seconds=60) == ExitCode.INTERRUPTED
        wait_until(
            lambda: not any(map(alive, driver.seen)),
            what="all that it started ends",
            seconds=30,
        )
        assert "interrupted; finished trials are kept" in driver.log
        assert "Traceback" not in driver.log
    assert 1 <= len(records(results)) < 3 * TRIALS
    assert identity(results)["parent_run_id"]


@pytest.mark.parametrize("linked", [False, True])
def test_an_earlier_token_is_tightened_and_kept_and_no_link_is_followed(
    linked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster.tighten_token()  # nothing there, nothing made
    assert list(tmp_path.iterdir()) == []
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    file = tmp_path / "elsewhere" if linked else token
    file.write_text("secret")
    file.chmod(0o644)
    if linked:
        token.symlink_to(file)
    cluster.tighten_token()
    assert stat.S_IMODE(file.stat().st_mode) == (0o644 if linked else 0o600)
    assert token.read_text() == "secret"

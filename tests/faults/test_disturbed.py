"""Nodes, the tracking server and the disk fail while a sweep runs in this process."""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.settings.sweep import Resources
from labeldp.platform.sweep import recorder, trial_runs
from tests.faults.processes import TrackingServer, free_port, wait_until
from tests.faults.small_sweep import SWEEP, TRIALS
from tests.faults.sweep_runs import (
    TIME_LIMIT_SECONDS,
    Ending,
    check_tracking,
    records,
    run_here,
)

pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster]


def tracking_server(folder: Path) -> TrackingServer:
    """`mlflow server` with its runs in a database in `folder`."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}"),
        *("--workers=1", f"--backend-store-uri=sqlite:///{folder / 'server.db'}"),
        f"--artifacts-destination={(folder / 'artifacts').as_uri()}",
    ]
    return TrackingServer(command, port, folder=folder)


class Mischief:
    """Does each act once so many trials have ended; an act that fails fails the `with` block."""

    def __init__(self, results: Path, acts: Sequence[tuple[int, Callable[[], object]]]) -> None:
        self._results, self._acts = results, acts
        self._error: BaseException | None = None
        self._called_off = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._called_off.set()
        self._thread.join(timeout=60)
        if error is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            for number, act in self._acts:
                wait_until(
                    lambda number=number: (  # type: ignore[misc]
                        len(records(self._results)) >= number or self._called_off.is_set()
                    ),
                    what=f"{number} trials end",
                    seconds=TIME_LIMIT_SECONDS,
                )
                assert len(records(self._results)) >= number, "the sweep ended early"
                act()
        except BaseException as error:  # handed to the test's own thread
            self._error = error


def test_nodes_and_the_tracking_server_may_die(
    cluster: Any, undisturbed: Ending, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = replace(SWEEP, resources=Resources(cpu=1, gpu=1))
    results = tmp_path / "results"
    command = ["--results", str(results), "--address", cluster.address]
    monkeypatch.setattr(recorder, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(trial_runs, "TELL_SECONDS", 2.0)
    with tracking_server(tmp_path) as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        first, second = (cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2))
        acts = [
            (1, server.kill),
            (2, lambda: cluster.remove_node(first, allow_graceful=False)),
            (3, server.start),
            (4, lambda: cluster.remove_node(second, allow_graceful=False)),
            (4, lambda: monkeypatch.setattr(trial_runs, "WAIT_SECONDS", 6.0)),
        ]
        with Mischief(results, acts):
            code, said = run_here(sweep, *command)
        # The node that could hold a trial is gone: that ends, and says what is missing.
        assert code == 3, said
        assert "tracking does not answer" in said
        assert "trials wait for resources" in said
        assert "no trial could start" in said and "1 CPU + 1 GPU" in said
        finished = len(records(results))
        assert 4 <= finished < TRIALS

        monkeypatch.undo()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
        third = cluster.add_node(num_cpus=1, num_gpus=1)
        code, said = run_here(sweep, *command, "--resume", "must")
        cluster.remove_node(third)
        assert code == 0, said
        assert f"({finished} finished before)" in said
        assert Ending.of(results) == undisturbed
        check_tracking(results)


def test_a_folder_that_can_not_be_written_any_more(
    cluster: Any, undisturbed: Ending, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    trials, elsewhere = results / "trials", results / "elsewhere"
    command = ["--results", str(results), "--address", cluster.address]

    def put_a_file_in_the_way() -> None:
        trials.rename(elsewhere)
        trials.write_text("")

    with Mischief(results, [(1, put_a_file_in_the_way)]):
        code, said = run_here(SWEEP, *command)
    assert code == 2, said
    assert f"{trials}" in said and "can't be written" in said and "run the command again" in said
    trials.unlink()
    elsewhere.rename(trials)
    # Each charge is there with the release that it paid for, and nothing is torn.
    assert set(Ending.of(results).releases) <= set(undisturbed.releases)
    code, said = run_here(SWEEP, *command, "--resume", "must")
    assert code == 0, said
    assert Ending.of(results) == undisturbed
    check_tracking(results)

"""Drivers of sweeps as processes of their own, and what a sweep must have left at its end."""

import hashlib
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
from mlflow.tracking import MlflowClient

from labeldp.platform.records import tracking
from labeldp.platform.settings.metrics import tracked_figures
from labeldp.platform.settings.sweep import Sweep
from tests.faults.processes import alive, end_all, family, wait_until
from tests.platform.cli.asked import swept
from tests.platform.sweep.stores import copy_store

SMALL_SWEEP = Path(__file__).with_name("small_sweep.py")
ROOT = SMALL_SWEEP.parents[2]
#: No run of these tests takes that long, on any machine that is worth testing on.
TIME_LIMIT_SECONDS = 400.0


class Driver:
    """`python sweep.py --results DIR --json ...`; what it started ends with the `with` block."""

    def __init__(
        self,
        results: Path,
        *arguments: str,
        sweep: Path = SMALL_SWEEP,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.results = results
        command = [sys.executable, str(sweep), "--results", str(results), "--json", *arguments]
        results.parent.mkdir(parents=True, exist_ok=True)
        self._log = results.parent / f"{results.name}.log"
        self._log_file = open(self._log, "ab")
        self._seen: dict[psutil.Process, None] = {}
        self._process = subprocess.Popen(
            command,
            cwd=results.parent,
            env={**own_environment(), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            text=True,
            start_new_session=True,
            # A shell's background jobs ignore Ctrl-C, and hand that on: here it has to count.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *error: object) -> None:
        self.processes()
        self._process.kill()
        self._process.communicate()
        self._log_file.close()
        end_all(list(self._seen))

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()

    def processes(self) -> list[psutil.Process]:
        """Return the driver and all that it has started and is still there."""
        found = family(self._process.pid)
        self._seen.update(dict.fromkeys(found))
        return found

    @property
    def seen(self) -> list[psutil.Process]:
        """All processes that were found so far, ended ones too."""
        return list(self._seen)

    def wait_for_records(self, number: int) -> None:
        wait_until(
            lambda: len(records(self.results)) >= number or self._process.poll() is not None,
            what=f"{number} trials end",
            seconds=TIME_LIMIT_SECONDS,
        )
        found = len(records(self.results))
        assert found >= number, f"the driver ended after {found} trials:\n{self.log}"

    def kill(self) -> None:
        """End the driver as a power cut would, and wait until what it started has noticed."""
        seen = self.processes()
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()
        wait_until(
            lambda: not any(map(alive, seen)),
            what="Ray's processes end when their driver is gone",
            seconds=90,
        )

    def terminate(self) -> None:
        """Ask the driver to end, as `ray job stop` and a shell's `kill` do."""
        self.processes()
        os.kill(self._process.pid, signal.SIGTERM)

    def interrupt(self) -> None:
        """Press Ctrl-C, which goes to all processes of a shell's job."""
        self.processes()
        os.killpg(self._process.pid, signal.SIGINT)

    def ended(self, *, seconds: float = TIME_LIMIT_SECONDS) -> int:
        """Wait for the end, whatever it is; returns the exit code, below 0 for a signal."""
        self._process.communicate(timeout=seconds)
        return int(self._process.returncode)

    def finish(self, *, code: int = 0, seconds: float = TIME_LIMIT_SECONDS) -> dict[str, Any]:
        """Wait for the end, and return what `--json` printed (empty where it printed nothing)."""
        output, _ = self._process.communicate(timeout=seconds)
        assert self._process.returncode == code, f"exit {self._process.returncode}:\n{self.log}"
        printed: dict[str, Any] = json.loads(output.splitlines()[-1]) if output.strip() else {}
        return printed


def own_environment() -> dict[str, str]:
    """Return an environment that finds this checkout, and no cluster or store of the user."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RAY_", "MLFLOW_", "PYTEST_", "LABELDP_DATA"))
    }
    path = os.pathsep.join(filter(None, (str(ROOT), kept.get("PYTHONPATH"))))
    return {**kept, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


def records(results: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((results / "trials").glob("*.json"))]


def identity(results: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((results / "sweep.json").read_text())
    return facts


@dataclass(frozen=True)
class Ending:
    """Results of a seeded sweep, which must not depend on interruptions.

    Numbers and curves of trials by hash, but for times; charges, with a digest of their releases.
    """

    trials: Mapping[str, Any]
    releases: Sequence[tuple[str, str, str]]

    @staticmethod
    def of(results: Path) -> "Ending":
        with sqlite3.connect(results / "vault.db") as store:
            charged = store.execute(
                "SELECT mechanism, event, content FROM charges JOIN releases USING (key)"
            ).fetchall()
            assert store.execute("SELECT count(*) FROM releases").fetchone() == (len(charged),)
        store.close()
        return Ending(
            trials={
                record["hash"]: (
                    record["finished"],
                    record["reason"],
                    _timeless(record["metrics"]),
                    [_timeless(epoch) for epoch in record["curves"]],
                )
                for record in records(results)
            },
            releases=sorted(
                (mechanism, event, hashlib.sha256(content).hexdigest())
                for mechanism, event, content in charged
            ),
        )


def _timeless(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if "seconds" not in name}


def check_tracking(results: Path) -> None:
    """Check that tracking holds one complete run per trial, and every number once."""
    facts = identity(results)
    client = MlflowClient(tracking_uri=facts["tracking_uri"])
    parent = client.get_run(facts["parent_run_id"])
    assert parent.info.status == "FINISHED"
    runs = client.search_runs(
        [parent.info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    by_hash = {record["hash"]: record for record in records(results)}
    assert sorted(run.data.tags["config_hash"] for run in runs) == sorted(by_hash)
    for run in runs:
        record = by_hash[run.data.tags["config_hash"]]
        assert run.info.status == "FINISHED"
        figures = tracked_figures(record["metrics"])
        for name, value in figures.items():
            points = client.get_metric_history(run.info.run_id, name)
            # SQL stores have no infinity: a tag names what is missing.
            assert [point.value for point in points] == [value] * math.isfinite(value), name
        losses = client.get_metric_history(run.info.run_id, "loss")
        assert sorted(point.step for point in losses) == [
            epoch["epoch"] for epoch in record["curves"]
        ]
        files = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert {"config.yaml", "ledger.json", "run_card.md", "curves.json"} <= files


def run_here(sweep: Sweep, *arguments: str) -> tuple[int, str]:
    """Run a sweep's command line in this process; returns the exit code and its output."""
    with patch.object(tracking, "_create_whole", copy_store):
        code, out, err = swept(sweep, *arguments)
    print(err + out)  # for a test that failed
    return code, err + out

"""Kills of a driver at its last writes, one after the other, each followed by a resume.

The sweep has two trials on one release. Its writes are counted from the record of the last trial
on: files of the results folder, statements and commits of the tracking store, and the driver's end.
Drivers are forks of this process, which has loaded what they load, with vault and trials in their
own: a kill and the resume after it take seconds where two drivers with clusters take a minute.
"""

import atexit
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import sqlalchemy
from mlflow.tracking import MlflowClient

from labeldp.platform.cli import sweep_command
from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.platform.settings.sweep import Grid, Sweep
from tests.faults.sweep_runs import TIME_LIMIT_SECONDS, Ending, check_tracking, identity
from tests.faults.without_cluster import without_cluster

TRIALS = 2
SWEEP = Sweep(
    name="ending",
    base=with_changes(
        TrialConfig(),
        {
            "data.limit": 200,
            "noise.seed": 7,
            "audit.canaries": 20,
            "trainer.epochs": 2,
            "trainer.batch_size": 100,
        },
    ),
    space={"seed": Grid(*range(TRIALS))},
)


class Moments:
    """Counts the writes of the driver's main thread after the last trial has ended.

    At the moment `kill_at` the driver ends as by a power cut; without, it writes `DIR.moments`.
    """

    def __init__(self, results: Path, kill_at: int | None) -> None:
        self._results, self._kill_at = str(results), kill_at
        self._begun = False
        self.passed: list[str] = []

    def watch(self) -> None:
        keep = ResultsFolder.keep

        def kept(self_: ResultsFolder, record: TrialRecord) -> None:
            if len(list((self_.path / "trials").glob("*.json"))) == TRIALS - 1:
                self._begun = True
            keep(self_, record)

        setattr(ResultsFolder, "keep", kept)  # noqa: B010  # mypy refuses an assignment
        engines = sqlalchemy.engine.Engine
        sqlalchemy.event.listen(engines, "before_cursor_execute", self._statement)
        sqlalchemy.event.listen(engines, "commit", lambda _: self.comes("COMMIT"))
        sys.addaudithook(self._audited)
        atexit.register(self._at_exit)

    def comes(self, what: str) -> None:
        if not self._begun or threading.current_thread() is not threading.main_thread():
            return
        self.passed.append(what)
        if len(self.passed) == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _statement(self, connection: Any, cursor: Any, statement: str, *others: Any) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            self.comes(" ".join(statement.split()[:3]).strip('"'))

    def _audited(self, event: str, details: tuple[Any, ...]) -> None:
        if not self._begun or not details or not isinstance(details[0], str | os.PathLike):
            return
        path = os.fspath(details[0])
        if not path.startswith(self._results):
            return
        writes = event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"):
            self.comes(f"{event} {os.path.relpath(path, self._results)}")

    def _at_exit(self) -> None:
        self.comes("exit")
        if self._kill_at is None:
            Path(f"{self._results}.moments").write_text("\n".join(self.passed) + "\n")


def drive(results: Path, *arguments: str, kill_at: int | None = None) -> int:
    """Run the sweep to its end or its kill; returns the exit code, below 0 for a signal."""
    fork = multiprocessing.get_context("fork")
    child: BaseProcess = fork.Process(target=_drive, args=(results, kill_at, *arguments))
    child.start()
    child.join(TIME_LIMIT_SECONDS)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode is not None
    return child.exitcode


def _drive(results: Path, kill_at: int | None, *arguments: str) -> None:
    results.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(f"{results}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    atexit._clear()  # what is to be done at the end of the process that this one is a fork of
    try:
        Moments(results, kill_at).watch()
        with without_cluster():
            sweep_command.main(SWEEP, ["--results", str(results), "--json", *arguments])
    finally:
        atexit._run_exitfuncs()


def disturbed(results: Path, peace: Ending, moment: int) -> str:
    """Kill a driver at this moment, counted from 1, resume, and return what is wrong, or ''."""
    shutil.rmtree(results, ignore_errors=True)
    if (code := drive(results, kill_at=moment)) != -9:
        return f"was not killed (exit {code})"
    if (code := drive(results, "--resume", "must")) != 0:
        said = Path(f"{results}.log").read_text().splitlines()
        return f"the resume ended with {code} ({said[-1] if said else 'nothing said'})"
    try:
        check_totals(results)
    except AssertionError as error:
        return f"tracking differs: {error}"
    return ending_difference(results, peace)


def ending_difference(results: Path, peace: Ending) -> str:
    """Return in what numbers, releases or runs differ from those in peace; empty if in nothing."""
    ending = Ending.of(results)
    if ending.trials != peace.trials:
        return "other numbers"
    if ending.releases != peace.releases:
        return "other releases"
    try:
        check_tracking(results)
    except AssertionError as error:
        return f"tracking differs: {error}"
    return ""


def check_totals(results: Path) -> None:
    """Check that there is one run of the sweep, with every number once."""
    facts = identity(results)
    client = MlflowClient(tracking_uri=facts["tracking_uri"])
    parent = client.get_run(facts["parent_run_id"])
    for name in parent.data.metrics:
        points = client.get_metric_history(parent.info.run_id, name)
        assert len(points) == 1, f"{name} is there {len(points)} times"
    same_tag = f"tags.sweep_id = '{facts['sweep_id']}'"
    assert len(client.search_runs([parent.info.experiment_id], same_tag)) == 1, "two sweeps"

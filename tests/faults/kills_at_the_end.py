"""Kills of a driver at its last writes, one after the other, each followed by a resume.

Drivers are forks of this process, which has loaded what they load, with vault and trials in their
own: a kill and the resume after it take seconds where two drivers with clusters take a minute.
"""

import multiprocessing
import os
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path

from mlflow.tracking import MlflowClient

from tests.faults import ending_sweep
from tests.faults.sweep_runs import TIME_LIMIT_SECONDS, Ending, check_tracking, identity


@dataclass(frozen=True, kw_only=True)
class Peace:
    """The sweep's end when nothing happens to it; `moments` are its writes, in order.

    `totals` are of the sweep's own run; `files` counts file names, MLflow's by kind of run.
    """

    moments: Sequence[str]
    ending: Ending
    totals: dict[str, float]
    files: Counter[str]

    @classmethod
    def of(cls, results: Path) -> "Peace":
        """Read what an undisturbed driver left."""
        moments = Path(f"{results}.moments").read_text().splitlines()
        return cls(
            moments=moments,
            ending=Ending.of(results),
            totals=check_totals(results),
            files=files(results),
        )


def drive(results: Path, *arguments: str) -> int:
    """Run the ending sweep to its end or its kill; returns the exit code, below 0 for a signal."""
    fork = multiprocessing.get_context("fork")
    child: BaseProcess = fork.Process(target=_drive, args=(results, *arguments))
    child.start()
    child.join(TIME_LIMIT_SECONDS)
    if child.exitcode is None:
        child.kill()
        child.join()
    assert child.exitcode is not None
    return child.exitcode


def _drive(results: Path, *arguments: str) -> None:
    import atexit

    results.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(f"{results}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    atexit._clear()  # what is to be done at the end of the process that this one is a fork of
    sys.argv = ["ending_sweep.py", "--results", str(results), "--json", *arguments]
    try:
        ending_sweep.main()
    finally:
        atexit._run_exitfuncs()


def load() -> None:
    """Load what drivers load, so that forks need not."""
    import_module("tests.faults.without_cluster")


def disturbed(results: Path, peace: Peace, moment: int) -> str:
    """Kill a driver at this moment, counted from 1, resume, and return what is wrong, or ''."""
    shutil.rmtree(results, ignore_errors=True)
    if (code := drive(results, "--kill-at", str(moment))) != -9:
        return f"was not killed (exit {code})"
    if (code := drive(results, "--resume", "must")) != 0:
        said = Path(f"{results}.log").read_text().splitlines()
        return f"the resume ended with {code} ({said[-1] if said else 'nothing said'})"
    return difference(results, peace)


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


def difference(results: Path, peace: Peace) -> str:
    """Return in what a sweep's end differs from the one in peace; empty if in nothing."""
    if found := ending_difference(results, peace.ending):
        return found
    try:
        totals = check_totals(results)
    except AssertionError as error:
        return f"tracking differs: {error}"
    if totals != peace.totals:
        return f"other totals: {totals}"
    if (kept := files(results)) != peace.files:
        return f"other files: {dict(kept - peace.files)}, not {dict(peace.files - kept)}"
    return ""


def check_totals(results: Path) -> dict[str, float]:
    """Check that every number of the sweep's own run is there once; return them."""
    facts = identity(results)
    client = MlflowClient(tracking_uri=facts["tracking_uri"])
    parent = client.get_run(facts["parent_run_id"])
    for name in parent.data.metrics:
        points = client.get_metric_history(parent.info.run_id, name)
        assert len(points) == 1, f"{name} is there {len(points)} times"
    same_tag = f"tags.sweep_id = '{facts['sweep_id']}'"
    assert len(client.search_runs([parent.info.experiment_id], same_tag)) == 1, "two sweeps"
    return dict(parent.data.metrics)


def files(results: Path) -> Counter[str]:
    """Count the files of a results folder; artifacts of deleted runs, which MLflow keeps, not."""
    facts = identity(results)
    client = MlflowClient(tracking_uri=facts["tracking_uri"])
    parent = client.get_run(facts["parent_run_id"])
    kinds = {parent.info.run_id: "sweep"}
    for run in client.search_runs([parent.info.experiment_id]):
        kinds.setdefault(run.info.run_id, "trial")
    found: Counter[str] = Counter()
    for path in results.rglob("*"):
        first, *rest = path.relative_to(results).parts
        if path.is_file() and first != "artifacts":
            found["/".join((first, *rest))] += 1
        elif path.is_file() and rest[0] in kinds:
            found["/".join((first, kinds[rest[0]], *rest[1:]))] += 1
    return found

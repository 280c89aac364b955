"""The report of a sweep, rebuilt from the tracking store.

The store alone is enough; where it lies in the sweep's results folder, learning curves and releases
in words are taken from there.
"""

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.folder_report import ReportFiles
from labeldp.platform.records.private_files import owner_only
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracking_address import (
    FEATURE_TAG,
    TrackingUnusable,
    check_file,
    default_uri,
    shown,
)
from labeldp.platform.report.ledger import FolderLedger, read_folder
from labeldp.platform.report.ledger_words import sentences
from labeldp.platform.report.report import write_report
from labeldp.platform.sweep.accuracy_figures import ChooseBy

if TYPE_CHECKING:  # two seconds, which a mistyped name should not cost
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient


@owner_only()
def report(experiment: str, *, tracking_uri: str | None, out: str) -> ReportFiles:
    """Write the report of an experiment's latest sweep.

    Args:
        experiment: Name of the experiment, which is the sweep's.
        tracking_uri: Of the tracking store; MLFLOW_TRACKING_URI or `results/EXPERIMENT` if None.
        out: Folder to write to; made if need be.

    Raises:
        TrackingUnusable: The store or the experiment is not there, or holds no sweep.
        ValueError: The folder can't be written.
    """
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _beside_results(experiment)
    path = uri.removeprefix("sqlite:///")
    if path != uri and not Path(path).exists():
        # MLflow would make a new one there.
        raise TrackingUnusable(f"there is no file {path}; check --tracking-uri")
    check_file(uri)
    from mlflow.tracking import MlflowClient

    from labeldp.platform.records.tracking import TRACKING_ERRORS

    try:
        parent, children = _latest(MlflowClient(tracking_uri=uri), uri, experiment)
    except TRACKING_ERRORS as error:
        raise TrackingUnusable(
            f"tracking store {shown(uri)} can't be read "
            f"({str(error).replace(uri, shown(uri)).splitlines()[0]}); check "
            "--tracking-uri"
        ) from error
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        totals = {name: _infinite(value) for name, value in parent.data.metrics.items()}
        needed = ("releases", "epsilon_total", "delta")
        later = ("epsilon_private", "delta_private", "num_labels")
        ledger: dict[str, Any] = {key: totals[key] for key in (*needed, *later) if key in totals}
        kept = _kept_beside(uri, experiment)
        written = write_report(
            [_with_curves(_record(child), kept) for child in children],
            folder=folder,
            title=experiment,
            ledger={**ledger, "releases": int(ledger["releases"])}
            if all(key in ledger for key in needed)
            else None,
            results=Path(uri.removeprefix("sqlite:///")).parent,
            choose_by=ChooseBy(by) if (by := parent.data.tags.get("choose_by")) else None,
            releases=() if kept is None else sentences(kept.lines),
        )
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {folder} ({error.strerror}); choose another --out DIR"
        ) from error
    return ReportFiles.of(written)


def _kept_beside(uri: str, experiment: str) -> FolderLedger | None:
    """The results folder of the experiment's sweep, if the store lies in it."""
    if not uri.startswith("sqlite:///"):
        return None
    try:
        found = read_folder(Path(uri.removeprefix("sqlite:///")).parent)
    except ValueError:  # none, or a damaged one: the store is enough
        return None
    return found if found.results.sweep == experiment else None


def _with_curves(record: TrialRecord, kept: FolderLedger | None) -> TrialRecord:
    """A trial with its curves and the releases that it read, where they are kept."""
    own = None if kept is None else kept.results.records.get(record.hash)
    if own is None:
        return record
    return replace(record, curves=own.curves, release_keys=own.release_keys)


def _beside_results(experiment: str) -> str:
    for name in (experiment, f"{experiment}-smoke"):
        folder = Path("results", name)
        if (folder / "mlflow.db").exists():
            return default_uri(folder.absolute())
    raise TrackingUnusable(
        f"there is no results/{experiment}/mlflow.db here; name the store with --tracking-uri or "
        "MLFLOW_TRACKING_URI"
    )


def _latest(client: "MlflowClient", uri: str, experiment: str) -> "tuple[Run, list[Run]]":
    found = client.get_experiment_by_name(experiment)
    if found is None:
        names = ", ".join(e.name for e in client.search_experiments() if e.name != "Default")
        raise TrackingUnusable(
            f"{shown(uri)} has no experiment {experiment!r}; it has {names or 'none'}"
        )
    runs: list[Any] = []
    token = None
    while True:
        page = client.search_runs([found.experiment_id], max_results=1000, page_token=token)
        runs.extend(page)
        token = page.token
        if not token:
            break
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    if not parents:
        raise TrackingUnusable(f"experiment {experiment!r} in {shown(uri)} holds no sweep")
    parent = max(parents, key=lambda run: run.info.start_time)
    children = [
        run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id
    ]
    return parent, sorted(children, key=lambda run: run.info.start_time)


def _record(run: "Run") -> TrialRecord:
    tags = run.data.tags
    try:
        return TrialRecord(
            hash=tags.get("config_hash", run.info.run_id),
            variant=tags.get("variant", run.info.run_name),
            config=run.data.params,
            point=json.loads(tags.get("point", "{}")),
            finished=run.info.status == "FINISHED",
            reason=tags.get("failure_reason", f"the run is {run.info.status}"),
            metrics={name: _infinite(value) for name, value in run.data.metrics.items()},
            git_commit=tags.get("git_commit", ""),
            features={
                name.removeprefix(FEATURE_TAG): text
                for name, text in tags.items()
                if name.startswith(FEATURE_TAG)
            },
        )
    except (ValueError, RecursionError) as error:
        raise TrackingUnusable(
            f"run {run.info.run_id} is no trial of this labeldp ({error}); delete it, or run the "
            "sweep again to have it written from its record"
        ) from error


def _infinite(value: float) -> float:
    """Tracking stores write infinity as the largest float."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value

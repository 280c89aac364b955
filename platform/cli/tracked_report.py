"""The report of a sweep, rebuilt from the tracking store alone: what `labeldp report` does."""

import json
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.accuracy_figures import ChooseBy
from labeldp.platform.private_files import owner_only
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracking_address import (
    TrackingUnusable,
    check_file,
    default_uri,
    shown,
)

if TYPE_CHECKING:  # two seconds, which a mistyped name should not cost
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """What was written.

    Attributes:
        html: The page.
        pareto_png: The figure.
        rows: Lines of the table.
    """

    html: str
    pareto_png: str
    rows: int


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
    from labeldp.platform.reports.report import write_report

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
        ledger: dict[str, Any] = {
            key: totals[key] for key in ("releases", "epsilon_total", "delta") if key in totals
        }
        written = write_report(
            [_record(child) for child in children],
            folder=folder,
            title=experiment,
            ledger={**ledger, "releases": int(ledger["releases"])} if len(ledger) == 3 else None,
            results=Path(uri.removeprefix("sqlite:///")).parent,
            choose_by=ChooseBy(by) if (by := parent.data.tags.get("choose_by")) else None,
        )
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {folder} ({error.strerror}); choose another --out DIR"
        ) from error
    return ReportFiles(
        html=str(written.html), pareto_png=str(written.pareto_png), rows=written.rows
    )


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
        )
    except (ValueError, RecursionError) as error:
        raise TrackingUnusable(
            f"run {run.info.run_id} is no trial of this labeldp ({error}); delete it, or run the "
            "sweep again to have it written from its record"
        ) from error


def _infinite(value: float) -> float:
    """Tracking stores write infinity as the largest float."""
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value

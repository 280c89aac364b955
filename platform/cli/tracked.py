"""The records of a sweep from its tracking store, for a report of an experiment."""

import json
import math
import sys
from typing import Any

from mlflow.tracking import MlflowClient

from labeldp.platform.records.results import TrialRecord, first_wrong
from labeldp.platform.records.tracking import TRACKING_ERRORS, all_runs
from labeldp.platform.records.tracking_address import FEATURE_TAG, TrackingUnusable, shown


def latest_sweep(uri: str, experiment: str) -> tuple[list[TrialRecord], dict[str, Any]]:
    """Return the trials of an experiment's latest sweep, and the facts that its report states.

    Raises:
        TrackingUnusable: The store or the experiment can't be read, or has no sweep of labeldp.
    """
    try:
        parent, children = _runs(MlflowClient(tracking_uri=uri), uri, experiment)
    except TRACKING_ERRORS as error:
        reason = str(error).replace(uri, shown(uri)).splitlines()[0]
        raise TrackingUnusable(
            f"tracking store {shown(uri)} can't be read ({reason}); check --tracking-uri"
        ) from error
    totals = {name: _infinite(value) for name, value in parent.data.metrics.items()}
    needed = ("releases", "epsilon_total", "delta")
    others = ("epsilon_private", "delta_private", "num_labels")
    ledger: dict[str, Any] = {key: totals[key] for key in (*needed, *others) if key in totals}
    if "releases" in ledger:
        ledger["releases"] = int(ledger["releases"])
    return list(map(record_of, children)), {
        "ledger": ledger if all(key in ledger for key in needed) else None,
        "choose_by": parent.data.tags.get("choose_by"),
    }


def _runs(client: MlflowClient, uri: str, experiment: str) -> tuple[Any, list[Any]]:
    found = client.get_experiment_by_name(experiment)
    if found is None:
        names = ", ".join(e.name for e in client.search_experiments() if e.name != "Default")
        raise TrackingUnusable(
            f"{shown(uri)} has no experiment {experiment!r}; it has {names or 'none'}"
        )
    runs = all_runs(client, found.experiment_id)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    if not parents:
        raise TrackingUnusable(f"experiment {experiment!r} in {shown(uri)} holds no sweep")
    latest = max(parents, key=lambda run: run.info.start_time)
    own = latest.info.run_id
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == own]
    return latest, sorted(children, key=lambda run: run.info.start_time)


def record_of(run: Any) -> TrialRecord:
    """Return the record that a trial's run in the tracking store stands for.

    Raises:
        TrackingUnusable: A run that labeldp did not write.
    """
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
            f"run {run.info.run_id} is not a trial of this labeldp ({first_wrong(error)}); "
            "delete it, or run the sweep again to have it written from its record"
        ) from error


def _infinite(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value

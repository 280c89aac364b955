"""`labeldp report`: of a results folder in any state, or of a sweep in the tracking store.

A results folder is left as it is: ended, cut off, failed, or still running. The store alone is
enough; where it lies in the sweep's results folder, learning curves and releases in words are taken
from there.
"""

import csv
import fcntl
import json
import math
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.cli.command import Table
from labeldp.platform.records.private_files import owner_only
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracking_address import (
    FEATURE_TAG,
    TrackingUnusable,
    check_file,
    default_uri,
    shown,
)
from labeldp.platform.report.ledger import FolderLedger, read_folder, sweep_totals
from labeldp.platform.report.ledger_words import sentences
from labeldp.platform.report.report import write_report
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.trainers.data.files import FileRefused, open_regular

if TYPE_CHECKING:
    from labeldp.platform.report.publish import PublicReport


@dataclass(frozen=True, kw_only=True)
class ReportFiles:
    """A written report."""

    html: str
    pareto_png: str
    rows: int


def report(
    *, experiment: str, tracking_uri: str | None, out: str | None, edition: str
) -> "ReportFiles | PublicReport":
    """Write the report of a results folder or an experiment, for its owner or for the public."""
    if edition == "public":
        if out is None or tracking_uri is not None:
            raise ValueError(
                "the public edition is made of a results folder and has a folder of its own, so "
                "that nothing else is published with it: labeldp report RESULTS --edition public "
                "--out DIR"
            )
        from labeldp.platform.report.publish import public_report  # it loads torch

        return public_report(Path(experiment), to=Path(out))
    if tracking_uri is None and is_results(experiment):
        return report_folder(experiment, out=out)
    return report_experiment(experiment, tracking_uri=tracking_uri, out=out or ".")


def is_results(named: str) -> bool:
    """Return whether `named` is a folder of results, and not an experiment's name."""
    folder = Path(named).expanduser()
    if any((folder / name).exists() for name in ("sweep.json", "trials", "vault.db")):
        return True
    if "/" not in named and named not in (".", "..", "~"):
        return False
    if not folder.is_dir():
        raise ValueError(f"there is no folder {named}; name the results of a sweep")
    return True


@owner_only()
def report_folder(named: str, *, out: str | None = None) -> ReportFiles:
    """Write the report of a results folder, into that folder if no other is named."""
    ledger = read_folder(Path(named))
    return _write(
        list(ledger.results.records.values()),
        folder=ledger.path if out is None else Path(out),
        title=ledger.results.sweep,
        ledger=totals_of(ledger),
        results=ledger.path,
        choose_by=ledger.results.identity.choose_by,
        releases=sentences(ledger.lines),
        running=_is_held(ledger.path),
    )


def totals_of(ledger: FolderLedger) -> dict[str, Any] | None:
    """Return the totals of a folder's ledger, as in a sweep's JSON; None of one without lines.

    Of a sweep that learns they are the plan's, where that is more: its choices are an outcome.
    """
    if not ledger.lines:
        return None
    identity = ledger.results.identity
    facts = sweep_totals([line.charge for line in ledger.lines], identity, delta=ledger.delta)
    num_labels = identity.num_labels
    return facts if num_labels is None else {**facts, "num_labels": num_labels}


def _is_held(folder: Path) -> bool:
    try:
        with open_regular(folder / "driver.lock") as lock:
            # Let go of at once: a driver that starts in this very moment is refused, and says so.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (FileRefused, OSError):
        return False
    return False


def _write(records: list[TrialRecord], *, folder: Path, **facts: Any) -> ReportFiles:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = write_report(records, folder=folder, **facts)
    except OSError as error:
        raise ValueError(
            f"the report can't be written to {folder} ({error.strerror}); choose another --out DIR"
        ) from error
    return ReportFiles(
        html=str(written.html), pareto_png=str(written.pareto_png), rows=written.rows
    )


@owner_only()
def report_experiment(experiment: str, *, tracking_uri: str | None, out: str) -> ReportFiles:
    """Write the report of an experiment's latest sweep into the folder `out`.

    The tracking store is MLFLOW_TRACKING_URI or `results/EXPERIMENT` if None.

    Raises:
        TrackingUnusable: The store or the experiment is not there, or holds no sweep.
    """
    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or _beside_results(experiment)
    path = uri.removeprefix("sqlite:///")
    if path != uri and not Path(path).exists():
        # MLflow would make a new one there.
        raise TrackingUnusable(f"there is no file {path}; check --tracking-uri")
    check_file(uri)
    # MLflow takes two seconds, which reports of folders do without.
    from mlflow.tracking import MlflowClient

    from labeldp.platform.records.tracking import TRACKING_ERRORS

    try:
        parent, children = _latest(MlflowClient(tracking_uri=uri), uri, experiment)
    except TRACKING_ERRORS as error:
        reason = str(error).replace(uri, shown(uri)).splitlines()[0]
        raise TrackingUnusable(
            f"tracking store {shown(uri)} can't be read ({reason}); check --tracking-uri"
        ) from error
    totals = {name: _infinite(value) for name, value in parent.data.metrics.items()}
    needed = ("releases", "epsilon_total", "delta")
    others = ("epsilon_private", "delta_private", "num_labels")
    ledger = {key: totals[key] for key in (*needed, *others) if key in totals}
    complete = all(key in ledger for key in needed)
    by = parent.data.tags.get("choose_by")
    kept = _kept_beside(uri, experiment)
    return _write(
        [_with_curves(record_of(child), kept) for child in children],
        folder=Path(out),
        title=experiment,
        ledger={**ledger, "releases": int(ledger["releases"])} if complete else None,
        results=Path(path).parent,
        choose_by=ChooseBy(by) if by else None,
        releases=() if kept is None else sentences(kept.lines),
    )


def _kept_beside(uri: str, experiment: str) -> FolderLedger | None:
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


def _latest(client: Any, uri: str, experiment: str) -> tuple[Any, list[Any]]:
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
    runs.sort(key=lambda run: run.info.start_time)
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    if not parents:
        raise TrackingUnusable(f"experiment {experiment!r} in {shown(uri)} holds no sweep")
    own = parents[-1].info.run_id
    return parents[-1], [run for run in runs if run.data.tags.get("mlflow.parentRunId") == own]


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
            f"run {run.info.run_id} is not a trial of this labeldp ({error}); delete it, or run "
            "the sweep again to have it written from its record"
        ) from error


def _infinite(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) >= sys.float_info.max else value


def report_words(written: "ReportFiles | PublicReport") -> list[Table | str]:
    """Return a written report for a person; the owner's with its table."""
    if not isinstance(written, ReportFiles):
        return [
            f"{written.trials} trials in the public page {written.html}; {written.left_out} left "
            f"out; epsilon {written.epsilon:.6g} at delta {written.delta:g}"
        ]
    with open_regular(Path(written.html).with_name("pareto.csv")) as file:
        lines = list(csv.reader(file.read().decode().splitlines()))
    words: list[Table | str] = [
        f"{written.rows} rows in the page {written.html}",
        f"figure: {written.pareto_png}",
    ]
    if not lines:
        return words
    rows = [[_cell(text) for text in line] for line in lines[1:]]
    return [Table(title="accuracy against epsilon", columns=lines[0], rows=rows), *words]


def _cell(text: str) -> str:
    try:
        return f"{float(text):.4g}"
    except ValueError:
        return text


def ledger_words(found: dict[str, Any]) -> str:
    """Return an account over several folders for a person."""
    return "\n".join(found["words"])

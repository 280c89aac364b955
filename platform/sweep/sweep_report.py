"""Last step of a sweep: its report, its own run in tracking, and its outcome as JSON."""

from dataclasses import dataclass, field
from typing import Any

from labeldp.platform.records.results import REPORT_FILES
from labeldp.platform.records.tracking_address import LOCAL_SERVER, compared, links, shown
from labeldp.platform.report.finding import finding
from labeldp.platform.report.ledger import OF_ALL, read_folder, sentences, sweep_totals
from labeldp.platform.report.page import write_report
from labeldp.platform.report.pareto import front_rows, points, same_epsilon
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.recorder import Recorder, ledger_json


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """The outcome of a sweep; the JSON that `--json` prints.

    Of `trials`, some were `skipped` (finished before), `finished` now, `failed` (of which some
    requested releases `over_budget`), or are `left` for the next run. `epsilon_private` is the
    price of the trials with noise alone, `labels` the numbers of labels to train on and of those
    spoiled for audits; `finding`, `cost` and `spoiled` are texts, `league` names the features'
    origin. `links` lead into the tracking pages, of its server or of `labeldp ui`.
    """

    experiment: str
    tracking_uri: str
    parent_run_id: str
    trials: int
    finished: int
    failed: int
    skipped: int
    over_budget: int
    left: int
    results_dir: str
    pareto: list[dict[str, Any]]
    ledger: dict[str, Any]
    report: str
    tracked: bool
    epsilon_private: float = 0.0
    labels: dict[str, int] = field(default_factory=dict)
    finding: tuple[str, ...] = ()
    cost: str = ""
    spoiled: str = ""
    links: dict[str, str] = field(default_factory=dict)
    league: str = ""


def report(sweep: OpenSweep, recorder: Recorder) -> SweepOutcome:
    """Report on all trials of a sweep's folder, those of earlier commands too; close its run."""
    plan = sweep.plan
    folder = sweep.folder
    tracker = sweep.tracker
    charges = sweep.home.ledger()
    identity = folder.identity()
    totals = sweep_totals(charges, identity, delta=plan.delta)
    labels = {"num_labels": plan.size.num_labels, "spoiled_labels": plan.audit.spoiled}
    facts = {**totals, **labels}
    # The ledger has releases of lines that this command leaves out: the folder has their trials.
    records = folder.records()
    now = recorder.records
    failed = [record for record in now.values() if not record.finished]
    left = plan.cost.trials - len(recorder.ended)
    try:
        releases = sentences(read_folder(folder.path).lines)
    except ValueError:  # the ledger can't be read from the disk: the sweep ends without its words
        releases = []
    found = finding(list(records.values()), ledger=facts, choose_by=plan.choose_by)
    private = write_report(
        list(records.values()),
        folder=folder.path,
        title=plan.sweep.name,
        ledger=facts,
        choose_by=plan.choose_by,
        releases=releases,
        left=left,
    )
    finished = sum(record.finished for record in recorder.ended.values())
    tracked = recorder.close(
        metrics={
            "trials": plan.cost.trials,
            "finished": finished,
            "teachers_trained": identity.teachers_trained or 0,
            "teachers_reused": identity.teachers_reused or 0,
            **facts,
        },
        files=[folder.path / name for name in REPORT_FILES],
        private=private,
        texts={"ledger.json": ledger_json(charges)},
        finished=finished == plan.cost.trials,
    )
    rows = front_rows(records.values(), choose_by=plan.choose_by, run_id=tracker.run_id)
    return SweepOutcome(
        trials=plan.cost.trials,
        finished=len(now) - len(failed),
        failed=len(failed),
        skipped=len(sweep.skipped),
        over_budget=sum(record.over_budget for record in failed),
        left=left,
        experiment=plan.sweep.name,
        tracking_uri=shown(tracker.uri),
        parent_run_id=tracker.parent_run_id,
        results_dir=str(folder.path),
        links=links(
            shown(tracker.uri) if tracker.uri.startswith("http") else LOCAL_SERVER,
            experiment=tracker.experiment_id,
            runs=compared(
                (tracker.run_id(digest), point.variant, same_epsilon(point.epsilon))
                for point in points(records.values(), choose_by=plan.choose_by)
                for digest in point.hashes
                if tracker.run_id(digest)
            ),
        ),
        pareto=rows,
        ledger={name: totals[name] for name in OF_ALL},
        epsilon_private=totals["epsilon_private"],
        report=str(folder.path / REPORT_FILES[0]),
        tracked=tracked,
        finding=(*filter(None, [found.advice]), *found.sentences),
        cost=found.cost,
        labels=labels,
        spoiled=found.spoiled,
        league=sweep.data.public.provenance.words,
    )

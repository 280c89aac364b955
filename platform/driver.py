"""Run a sweep from its plan to its report; resume one that was cut off.

The order matters: everything that can be refused is refused before the first label is released.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.vault import Charge
from labeldp.platform.accuracy_figures import ChooseBy, resolve
from labeldp.platform.cluster import Capacity, connected, place
from labeldp.platform.cost import budget_of, check_budget, check_priors, check_what_is_left, cost_of
from labeldp.platform.data_loading import load_data as load_data
from labeldp.platform.earlier_starts import Resume, finished_before, known_ledger, other_code
from labeldp.platform.private_files import owner_only
from labeldp.platform.records import environment
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.recorder import Recorder, ledger_json
from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.records.tracking import (
    TRACKING_ERRORS,
    Tracker,
    TrackingUnusable,
    default_uri,
    shown,
)
from labeldp.platform.reports.pareto import front_rows
from labeldp.platform.reports.report import Report, write_report
from labeldp.platform.sweep import PlannedTrial, Sweep, plan_trials, smoke_sized
from labeldp.platform.trial_runs import run_trials
from labeldp.platform.trusted import vault_home
from labeldp.platform.trusted.audits import check_room
from labeldp.platform.trusted.ensembles import ensembles_of, train_missing
from labeldp.platform.trusted.vault_store import SqliteStore
from labeldp.platform.vault_client import ask
from labeldp.platform.vault_owner import VaultOwner
from labeldp.trainers.performance import Device


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How to run a sweep; nothing here changes a trial's numbers.

    Attributes:
        smoke: Run the small size.
        resume: What to do about trials of an earlier start.
        results: The results folder.
        address: Of a Ray cluster; a private one is started if not given.
        tracking_uri: Of a tracking store; SQLite beside the results if not given.
        overrides: Dotted key -> value.
        max_epsilon_total: The most that any label may pay in the whole sweep.
        max_trials: Refuse a sweep of more trials.
        max_minutes: Stop after so long; trials in training go on from there in the next run.
        moved: The results folder was moved to another disk or restored from a copy, and no other
            copy of it will be used any more. (One that was renamed is known to be the same.)
        choose_by: Which accuracy trials are compared by; the sweep's own choice if not given.
    """

    smoke: bool = False
    resume: Resume = Resume.AUTO
    results: Path
    address: str | None = None
    tracking_uri: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    max_epsilon_total: float | None = None
    max_trials: int | None = None
    max_minutes: float | None = None
    moved: bool = False
    choose_by: ChooseBy | None = None

    def __post_init__(self) -> None:
        """Check the limits; that of epsilon is checked as a budget."""
        if self.max_trials is not None:
            _validate.whole(minimum=1, max_trials=self.max_trials)
        if self.max_minutes is not None:
            _validate.positive(max_minutes=self.max_minutes)


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """What a sweep left behind; the JSON that `--json` prints.

    Of its `trials`, so many were `skipped` (finished before), `finished` now, `failed` (of which so
    many asked for releases `over_budget`), and so many are `left` for the next run.
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


def prepare(sweep: Sweep, options: SweepOptions) -> tuple[Sweep, list[PlannedTrial]]:
    """Return the sweep at the size asked for, and its trials.

    Raises:
        ConfigurationError: A key or value that can't be used, or too many trials.
    """
    sized = smoke_sized(sweep) if options.smoke else sweep
    trials = plan_trials(sized, options.overrides)
    if options.max_trials is not None and len(trials) > options.max_trials:
        raise ValueError(
            f"sweep {sweep.name!r} has {len(trials)} trials, more than the {options.max_trials} "
            "that --max-trials allows; fix an axis with key=value or raise the limit"
        )
    return sized, trials


@owner_only()
def run_sweep(sweep: Sweep, options: SweepOptions) -> SweepOutcome:
    """Run a sweep's unfinished trials and report on all of them.

    Raises:
        ValueError: Bad input of any kind (configuration, data, results folder, tracking store).
        CannotFit: The cluster can't hold a trial.
        BudgetExceeded: The sweep would cost more than its budget.
        KeyboardInterrupt: As it came; what has finished is kept.
    """
    sized, trials = prepare(sweep, options)
    shared = options.results.expanduser().absolute().parent
    first = trials[0].config
    loaded = load_data(first.data, evaluation=first.evaluation, cache=shared / "features")
    public, audit = loaded.public, first.audit
    for trial in trials:
        trial.config.trainer.check_data(public)
    choose_by = resolve(
        options.choose_by or sized.choose_by,
        has_test_split=public.has_test_split,
        has_held_out=public.held_out_features is not None,
    )
    check_priors(trials, public)
    check_room(audit, num_labels=len(loaded.train_labels))
    held_out = 0 if loaded.held_out_labels is None else len(loaded.held_out_labels)
    cost = cost_of(trials, num_classes=public.num_classes, with_estimates=held_out > 0)
    budget = budget_of(sized.budget, options.max_epsilon_total, delta=cost.delta)
    check_budget(cost, budget)
    # Earlier starts may have drawn releases that hold at a delta only, also where these don't.
    delta = max(trial.config.trainer.delta for trial in trials)
    plans = {trial.hash(public.fingerprint): trial for trial in trials}
    folder = ResultsFolder(options.results, sweep=sweep.name)
    with folder.held():
        done = finished_before(folder, options.resume, public.fingerprint)
        known, identity = known_ledger(folder, moved=options.moved), folder.identity()
        charges = known.charges
        if not all(isinstance(charge.event, PureEvent) for charge in charges):
            later = max(cost.delta, delta)
            budget = budget_of(sized.budget, options.max_epsilon_total, delta=later)
        check_what_is_left(
            trials,
            charges,
            num_classes=public.num_classes,
            num_labels=len(loaded.train_labels),
            held_out=held_out,
            budget=budget,
        )
        uri = options.tracking_uri or default_uri(folder.path)
        tracker = Tracker(
            uri=uri,
            experiment=sweep.name,
            artifacts=folder.path / "artifacts",
            formerly=Path(identity["path"], "artifacts") if "path" in identity else None,
        )
        if not identity:
            tracker.refuse_doubles(list(folder.records()), sweep_id=known.vault)
        with connected(options.address) as capacity:
            _one_writer(uri, capacity)
            required = any(t.config.performance.device is Device.CUDA for t in trials)
            resources = place(sized.resources, capacity, gpu_required=required)
            teacher = sized.teacher
            if ensembles_of(trials):
                what = "an actor that trains teachers"
                teacher = place(teacher, capacity, gpu_required=required, what=what)
            authority = secrets.token_bytes(32)
            home = vault_home.start(
                labels=loaded.train_labels,
                held_out_labels=loaded.held_out_labels,
                num_classes=public.num_classes,
                audit=audit,
                coin_seed=_coin_seed(trials),
                store_path=folder.store,
                votes_folder=shared / "votes",
                with_ensembles=bool(ensembles_of(trials)),
                fingerprint=public.fingerprint,
                budget=budget,
                authority=authority,
            )
            commit = environment.git_commit()
            # Written before tracking hears of it, and before the first release: a start that is
            # killed in between finds its run, and a vault that is lost later is missed. The vault
            # finds the run as well, where this file was lost.
            vault = SqliteStore(folder.store).id
            sweep_id = identity.get("sweep_id") or vault
            folder.identify(
                fingerprint=public.fingerprint,
                sweep_id=sweep_id,
                vault=vault,
                path=str(folder.path),
            )
            facts = {"dataset": public.name, "sweep": sweep.name, "sweep_id": sweep_id}
            facts["choose_by"] = choose_by.value
            parent = tracker.open_parent(
                sweep.name,
                tags={"git_commit": commit, **facts},
                run_id=folder.identity().get("parent_run_id"),
            )
            folder.identify(parent_run_id=parent, tracking_uri=shown(uri))
            skipped = {digest: done[digest] for digest in plans if digest in done}
            progress = SweepProgress(total=len(plans), skipped=len(skipped))
            recorder = Recorder(
                folder=folder,
                tracker=tracker,
                plans=plans,
                tags={"git_commit": commit},
                environment=environment.describe(),
                progress=progress,
                charges=lambda: {
                    charge.key: charge for charge in ask(home.summary.remote(delta)).charges
                },
                vault=VaultOwner(home=home, authority=authority),
            )
            progress.say(
                f"{sweep.name}: {len(plans)} trials ({len(skipped)} finished before), "
                f"{cost.releases} releases, results in {folder.path}"
            )
            warning = other_code(skipped.values(), commit=commit)
            if warning:
                progress.say(warning)
            left = [digest for digest in plans if digest not in skipped]
            data = ray.put(public)
            try:
                ensembles = train_missing(
                    [plans[digest] for digest in left],
                    home=home,
                    data=data,
                    each=teacher,
                    available=capacity,
                    progress=progress,
                )
                if ensembles.teachers_trained or ensembles.teachers_reused:
                    # A later start that has nothing left to do tells tracking the same.
                    folder.identify(
                        teachers_trained=ensembles.teachers_trained,
                        teachers_reused=ensembles.teachers_reused,
                    )
                if left:
                    run_trials(
                        {digest: plans[digest] for digest in left},
                        data=public,
                        home=home,
                        each=resources,
                        recorder=recorder,
                        progress=progress,
                        max_minutes=options.max_minutes,
                    )
            finally:
                progress.close()
            summary = ask(home.summary.remote(delta))
            records = {**skipped, **recorder.records}
            ledger = {
                "releases": len(summary.charges),
                "epsilon_releases": summary.epsilon,
                # Every release is charged, whichever trial is picked in the end: choosing among
                # them by the public test split, or by estimates of accuracy that are among those
                # releases, is post-processing and costs nothing more.
                "epsilon_selection": 0.0,
                "epsilon_total": summary.epsilon,
                "delta": summary.delta,
            }
            report = write_report(
                list(records.values()),
                folder=folder.path,
                title=sweep.name,
                ledger=ledger,
                results=folder.path,
                choose_by=choose_by,
            )
            tracked = recorder.replay(records)
            tracked = tracked and _close(
                tracker, report, ledger, summary.charges, records, recorder, len(plans), folder
            )
            ray.kill(home)  # another sweep may follow on this cluster
    failed = [record for record in recorder.records.values() if not record.finished]
    return SweepOutcome(
        experiment=sweep.name,
        tracking_uri=shown(uri),
        parent_run_id=parent,
        trials=len(plans),
        finished=len(recorder.records) - len(failed),
        failed=len(failed),
        skipped=len(skipped),
        over_budget=sum(record.reason.startswith("BudgetExceeded") for record in failed),
        left=len(plans) - len(records),
        results_dir=str(folder.path),
        pareto=front_rows(records.values(), choose_by=choose_by, run_id=tracker.run_id),
        ledger=ledger,
        report=str(report.html),
        tracked=tracked,
    )


def _coin_seed(trials: list[PlannedTrial]) -> int | None:
    """Seed of the coin canaries: none, and so a secret of the vault, unless all noise is seeded."""
    seeds = [trial.config.noise.seed for trial in trials]
    return None if None in seeds else min(seed for seed in seeds if seed is not None)


def _one_writer(uri: str, capacity: Capacity) -> None:
    if uri.startswith("sqlite:") and capacity.nodes > 1:
        raise TrackingUnusable(
            f"tracking store {uri} is one file on one machine, but the cluster has "
            f"{capacity.nodes} nodes; start a server (infra/mlflow, or `mlflow server --host "
            "127.0.0.1 --backend-store-uri ...`) and name it with MLFLOW_TRACKING_URI"
        )


def _close(
    tracker: Tracker,
    report: Report,
    ledger: Mapping[str, Any],
    charges: list[Charge],
    records: Mapping[str, TrialRecord],
    recorder: Recorder,
    planned: int,
    folder: ResultsFolder,
) -> bool:
    """Write the sweep's own run; returns whether tracking took it."""
    finished = sum(record.finished for record in records.values())
    identity = folder.identity()
    try:
        tracker.close_parent(
            metrics={
                "trials": planned,
                "finished": finished,
                "teachers_trained": identity.get("teachers_trained", 0),
                "teachers_reused": identity.get("teachers_reused", 0),
                **{key: float(value) for key, value in ledger.items()},
            },
            files=(report.html, report.pareto_png, report.pareto_csv),
            private=report.private,
            texts={"ledger.json": ledger_json(charges)},
            finished=finished == planned,
        )
    except TRACKING_ERRORS as error:
        recorder.lost(error)
        return False
    return True

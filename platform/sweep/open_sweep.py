"""Second step of a sweep: hold its folder, continue earlier starts, open tracking and the vault.

All refusals here come before the first release.
"""

import importlib.metadata
import os
import platform
import secrets
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import torch

import labeldp
from labeldp.mechanisms.ledger import Budget, total_of_prices
from labeldp.mechanisms.vault import Charge
from labeldp.platform.cluster import Capacity, connected, place, telling_of_lost_nodes
from labeldp.platform.records.progress import Steps, SweepProgress
from labeldp.platform.records.results import (
    ResultsFolder,
    SweepIdentity,
    TrialRecord,
    in_ray_job,
)
from labeldp.platform.records.tracking_address import default_uri, shown
from labeldp.platform.settings.configuration import spoiled_text
from labeldp.platform.settings.sweep import PlannedTrial, Resources, Resume, ensembles_of
from labeldp.platform.sweep.cost import budget_of, check_what_is_left, places_on_gpu
from labeldp.platform.sweep.plan import Plan, check_processors, on_cuda, with_shares
from labeldp.platform.sweep.search import Suggestions
from labeldp.platform.vault import actors
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.platform.vault.signing import refuse_changed, sign_folder
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers import performance
from labeldp.trainers.data.labelled_data import LabelledData
from labeldp.trainers.data.splits import NO_OUTSIDE_DATA

if TYPE_CHECKING:  # it loads MLflow, for which Ray's start leaves time
    from labeldp.platform.records.tracking import Tracker

#: Modules to load while Ray and the vault start.
_LOADED_BESIDE = (
    "labeldp.platform.report.page",
    "matplotlib.backends.backend_agg",
    "labeldp.platform.sweep.trial_runs",
    "labeldp.platform.sweep.recorder",
)
#: How long the memory of a step may take to be measured, with the start of a process.
MEASURE_SECONDS = 180.0
_ELSEWHERE = "or choose another folder with --results and add what this one spent"


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep whose folder is held, and whose tracking, cluster and vault are open.

    Attributes:
        plans: Every trial by hash; of a search, the trials suggested so far.
        made_by: The code and the driver's machine, as fields of a record; a trial adds its own.
        skipped: Records of trials that an earlier start has finished, by hash.
        authority: The token that the home requires for figures and shards; trials get none.
        suggestions: The suggestions of its searches; None without a search.
    """

    plan: Plan
    data: LabelledData
    folder: ResultsFolder
    tracker: "Tracker"
    plans: Mapping[str, PlannedTrial]
    made_by: Mapping[str, Any]
    skipped: Mapping[str, TrialRecord]
    capacity: Capacity
    trial: Resources
    teacher: Resources
    home: LabelHome
    authority: bytes = field(repr=False)
    progress: SweepProgress
    suggestions: Suggestions | None = None

    @property
    def left(self) -> dict[str, PlannedTrial]:
        """The trials that are still to be run, by hash; of a search the suggested ones."""
        return {k: trial for k, trial in self.plans.items() if k not in self.skipped}

    @property
    def unfinished(self) -> int:
        """Number of trials that are still to be run."""
        return self.plan.cost.trials - len(self.skipped)


@contextmanager
def opened(plan: Plan, data: LabelledData, *, steps: Steps) -> Iterator[OpenSweep]:
    """Open a sweep; folder and cluster are released at the end, however it comes."""
    options = plan.options
    folder = ResultsFolder(options.results, sweep=plan.sweep.name)
    with ExitStack() as stack:
        # Held before anything is read: another driver could change it in between.
        stack.enter_context(folder.held())
        refuse_changed(folder.path)
        # All that can be refused by files alone is refused before Ray starts, which takes seconds.
        done = finished_before(folder, options.resume, plan.fingerprint)
        _check_comparable(done.values(), folder, plan)
        charges = known_ledger(folder, moved=options.moved)
        suggestions = None
        plans = {trial.hash(plan.fingerprint): trial for trial in plan.trials}
        if plan.searches:
            suggestions = Suggestions(
                folder.path / "search.json",
                plan.searches,
                size=plan.size,
                fingerprint=plan.fingerprint,
                by=plan.choose_by,
            )
            plans = suggestions.plans
        left = [trial for digest, trial in plans.items() if digest not in done]
        left += [] if suggestions is None else suggestions.rest
        # Before the home opens the vault: a sweep that can't be paid changes nothing there.
        budget = budget_left(plan, charges, left, read=_keys_of(done.values()))
        # One thread: two that import the same packages at once may see them half made.
        beside = ThreadPoolExecutor(1)
        stack.callback(beside.shutdown, cancel_futures=True)
        opening = _tracking(plan, folder, beside=beside, steps=steps)
        loading = [beside.submit(import_module, name) for name in _LOADED_BESIDE]
        named = options.address or os.environ.get("RAY_ADDRESS")
        text = f"connecting to Ray at {named}" if named else "starting Ray on this machine"
        with steps.during(text, hint="; a busy machine takes a minute or two"):
            capacity = stack.enter_context(connected(options.address))
        sized, shares = with_shares(plan, capacity.nodes if left else (), measure=_places)
        plan = replace(plan, sweep=sized, notes=[*plan.notes, *shares])
        trial, teacher = _sizes(plan, capacity)
        steps.say("opening the vault and the tracking store ...")
        tracker = opening.result()
        authority = secrets.token_bytes(32)  # the driver keeps it: trials get none
        home = actors.start_home(
            SecretLabels(
                training=data.train_labels,
                held_out=data.held_out_labels,
                num_classes=data.public.num_classes,
            ),
            audit=plan.audit,
            coin_seed=_coin_seed(plan.trials),
            store=folder.store,
            votes=options.shared_folder / "votes",
            shared_coins=bool(ensembles_of(plan.trials)),
            fingerprint=data.public.fingerprint,
            budget=budget,
            authority=authority,
        )
        stack.callback(home.end)  # another sweep may follow on this cluster
        commit = git_commit()
        # A driver that is killed leaves a signature that the next start agrees with.
        sign_folder(folder.path, records=True, only=partial(_lasts, finished=done))
        _identify(plan, data, folder, tracker, commit=commit)
        skipped = {digest: done[digest] for digest in plans if digest in done}
        progress = SweepProgress(total=plan.cost.trials, skipped=len(skipped), quiet=options.quiet)
        progress.say(
            f"{plan.sweep.name}: {plan.cost.trials} trials ({len(skipped)} finished before), "
            f"{plan.cost.releases} releases, results in {folder.path}"
        )
        stopped = sum(record.stopped_early > 0 for record in skipped.values())
        if stopped and plan.sweep.stop is None:
            progress.say(
                f"an earlier start stopped {stopped} of them early, and they stay so: take another "
                "folder (--results DIR) to train them to their end"
            )
        progress.say(f"to follow it on a page: labeldp watch {shlex.quote(str(folder.path))}")
        spoiled = (plan.audit.canaries or 0, plan.audit.coin_canaries or 0)
        features = data.public.provenance
        league = [] if features == NO_OUTSIDE_DATA else [f"league: {features.words}"]
        labels = f"labels: {spoiled_text(spoiled, num_labels=plan.size.num_labels)}"
        for line in (labels, *plan.notes, *league):
            progress.say(line)
        wait(loading)
        stack.enter_context(telling_of_lost_nodes(progress.say))
        yield OpenSweep(
            plan=plan,
            data=data,
            folder=folder,
            tracker=tracker,
            plans=plans,
            made_by={"git_commit": commit, "environment": describe()},
            skipped=skipped,
            capacity=capacity,
            trial=trial,
            teacher=teacher,
            home=home,
            authority=authority,
            progress=progress,
            suggestions=suggestions,
        )


# --- earlier starts -------------------------------------------------------------------------------


def budget_left(
    plan: Plan, charges: Sequence[Charge], left: Sequence[PlannedTrial], *, read: Collection[str]
) -> Budget | None:
    """Check that the trials in `left` can be paid beside `charges`; returns the vault's budget.

    `read`: keys of the releases that finished trials have read.
    """
    budget = plan.budget
    # Releases of earlier starts may hold at a delta where the planned ones are pure.
    _, delta = total_of_prices(charges, delta=max(plan.cost.delta, plan.delta))
    if delta > plan.cost.delta:
        budget = budget_of(plan.sweep.budget, plan.options.max_epsilon_total, delta=delta)
    check_what_is_left(left, charges, plan.size, read=read, budget=budget)
    return budget


def _lasts(name: str, *, finished: Collection[str]) -> bool:
    """Whether a start leaves a signed file or line as it is, as all of `finished` trials."""
    place, _, inside = name.partition("/")
    digest = inside.partition("/")[0].removesuffix(".json")
    return name != "sweep.json" and (place not in ("trials", "models") or digest in finished)


def _keys_of(records: Collection[TrialRecord]) -> set[str]:
    return {key for record in records for key in record.release_keys}


def finished_before(
    folder: ResultsFolder, resume: Resume, fingerprint: str
) -> dict[str, TrialRecord]:
    """Return the finished trials of earlier starts by hash."""
    identity = folder.identity()
    records = folder.records()
    if identity.fingerprint not in (None, fingerprint):
        raise ValueError(
            f"results folder {folder.path} holds this sweep on other data; choose another one with "
            "--results DIR"
        )
    if resume is Resume.NEVER and records:
        raise ValueError(
            f"results folder {folder.path} holds {len(records)} trials, which --resume never "
            "excludes; choose another folder with --results DIR, or use --resume auto"
        )
    if resume is Resume.MUST and not identity:
        raise ValueError(
            f"results folder {folder.path} holds no sweep to resume; check --results DIR, or use "
            "--resume auto"
        )
    return {digest: record for digest, record in records.items() if record.finished}


def _check_comparable(done: Collection[TrialRecord], folder: ResultsFolder, plan: Plan) -> None:
    """Refuse to add trials to others that lack the figure that all are compared by."""
    if lack := sum(plan.choose_by.metric not in record.metrics for record in done):
        raise ValueError(
            f"{lack} finished trials in results folder {folder.path} have no "
            f"{plan.choose_by.words}, by which trials are compared now; choose another folder with "
            "--results DIR, or another figure with --choose-by"
        )


def known_ledger(folder: ResultsFolder, *, moved: bool) -> Sequence[Charge]:
    """Return the lines of the folder's ledger; none of a new folder.

    Lines of trials that are not requested now count too: a ledger that began anew would grant the
    budget a second time. `moved`: the user stated that no other copy of the folder is in use.
    """
    named = folder.identity().vault
    records = folder.records()
    if not folder.store.exists():
        spent = [record.hash for record in records.values() if record.release_keys]
        if named is not None or spent:
            known = f"trial {spent[0]} read releases" if spent else "sweep.json knows of it"
            raise ValueError(
                f"{folder.store} is missing, with the record of what this folder spent ({known}); "
                f"restore it from a copy, {_ELSEWHERE}"
            )
        return ()
    store = SqliteStore(folder.store, moved=moved)
    if named not in (None, store.id):
        raise ValueError(
            f"{folder.store} is not the vault that this folder's sweep.json names; restore that "
            f"one from a copy, {_ELSEWHERE}"
        )
    charges = store.charges()
    missing = _keys_of(records.values()) - {charge.key for charge in charges}
    if missing:
        raise ValueError(
            f"{folder.store} has lost lines of its ledger: trials read release {min(missing)}, "
            f"which is not there; restore the file from a copy, {_ELSEWHERE}"
        )
    return charges


# --- tracking, cluster and vault ------------------------------------------------------------------


def _tracking(
    plan: Plan, folder: ResultsFolder, *, beside: ThreadPoolExecutor, steps: Steps
) -> "Future[Tracker]":
    """Open tracking: a store that exists before Ray is started, a new one beside its start.

    MLflow takes seconds to make one, and can't refuse a file of its own in a folder that is held.
    """
    known = bool(folder.identity())
    uri = plan.options.tracking_uri

    def tracker() -> "Tracker":
        from labeldp.platform.records.tracking import Tracker

        where = uri or default_uri(folder.path)
        return Tracker(uri=where, experiment=plan.sweep.name, folder=folder.path)

    opening = beside.submit(tracker)
    if uri is not None or known or os.path.lexists(folder.path / "mlflow.db"):
        with steps.during("opening the tracking store"):
            opening.result()
    return opening


def _sizes(plan: Plan, capacity: Capacity) -> tuple[Resources, Resources]:
    trials = plan.trials
    sweep = plan.sweep
    required = on_cuda(trials)
    gpu = capacity.grows or any(gpus for _, gpus in capacity.nodes)
    check_processors(plan, gpu=gpu)
    wanted = sweep.resources
    options = plan.options
    alone = plan.cost.trials == 1 and options.preset and not wanted.gpu
    alone = alone and "resources.cpu" not in options.overrides
    if alone and not (options.address or os.environ.get("RAY_ADDRESS")):
        # A trial that has this machine to itself takes all of it. By the plan, and not by the
        # trials that are left: threads change the last digits of a model, and a resumed one must be
        # the same.
        wanted = replace(wanted, cpu=max(wanted.cpu, *(cpus for cpus, _ in capacity.nodes)))
    each = place(wanted, capacity, gpu_required=required)
    teacher = sweep.teacher
    if ensembles_of(trials):
        what = "an actor that trains teachers"
        teacher = place(teacher, capacity, gpu_required=required, what=what)
    return each, teacher


def _places(*of: Any) -> int:
    """Return `places_on_gpu` of a node with a GPU, which may not be the driver's; 1 if it fails."""
    remote: Any = ray.remote
    there = remote(num_cpus=0, num_gpus=0.01, max_calls=1)(places_on_gpu)
    task = there.remote(*of)
    try:
        return int(ray.get(task, timeout=MEASURE_SECONDS))
    except ray.exceptions.RayError:  # no room within this time, or the network does not run there
        ray.cancel(task, force=True)
        return 1


def _coin_seed(trials: Sequence[PlannedTrial]) -> int | None:
    """Seed of the coin canaries: none, and so a secret of the vault, unless all noise is seeded."""
    seeds = [trial.config.noise.seed for trial in trials]
    return None if None in seeds else min(seed for seed in seeds if seed is not None)


def _identify(
    plan: Plan, data: LabelledData, folder: ResultsFolder, tracker: "Tracker", *, commit: str
) -> None:
    public = data.public
    earlier = folder.identity()
    # Written before tracking hears of it, and before the first release: a start that is killed in
    # between finds its run, and a vault that is lost later is missed. The vault finds the run as
    # well, where this file was lost.
    vault = SqliteStore(folder.store).id
    sweep_id = earlier.sweep_id or vault
    folder.identify(
        fingerprint=public.fingerprint,
        sweep_id=sweep_id,
        vault=vault,
        path=str(folder.path),
        num_labels=plan.size.num_labels,
        held_out_labels=plan.size.held_out,
        choose_by=plan.choose_by,
        count_epsilon=plan.count_epsilon,
        **learned_facts(plan, earlier),
    )
    tags = {"git_commit": commit, "dataset": public.name, "sweep": plan.sweep.name}
    tags |= {"sweep_id": sweep_id, "choose_by": plan.choose_by.value}
    parent = tracker.open_parent(plan.sweep.name, tags=tags, run_id=earlier.parent_run_id)
    folder.identify(parent_run_id=parent, tracking_uri=shown(tracker.uri))


def learned_facts(plan: Plan, earlier: SweepIdentity) -> dict[str, Any]:
    """Return the most that a sweep which learns may cost, as facts of its folder.

    Nothing for any other sweep. Plans of earlier starts may have been dearer.
    """
    if not plan.sweep.learns or plan.private is None:
        return {}
    cost = plan.private
    return {
        # The dearest plan of any start counts: labels may have paid by it.
        "learned_epsilon": max(cost.epsilon_total, earlier.learned_epsilon or 0.0),
        "learned_counts": max(cost.epsilon_estimates, earlier.learned_counts or 0.0),
        "learned_delta": max(cost.delta, earlier.learned_delta or 0.0),
        "learned_releases": bool(earlier.learned_releases),
    }


_PACKAGES = ("labeldp", "ray", "torch", "torchvision", "numpy", "scipy", "mlflow", "pydantic")
#: An image has no `.git`; this variable names the commit that it was built from.
COMMIT_VARIABLE = "LABELDP_GIT_COMMIT"


def git_commit() -> str:
    """Return the commit of the code, with `-dirty` where files differ; `unknown` without git."""
    root = Path(labeldp.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        # Installed: a repository further up would be another one. Code that a job has brought with
        # it is not the image's.
        return (not in_ray_job(root) and os.environ.get(COMMIT_VARIABLE)) or "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"


def describe() -> dict[str, str]:
    """Return versions and hardware as plain text by name."""
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = labeldp.__version__ if name == "labeldp" else "not installed"
    found["cores"] = str(os.cpu_count())
    found["bf16"] = (
        performance.bf16_units(torch.device("cpu")) or "no units: precision auto takes fp32"
    )
    found["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return found

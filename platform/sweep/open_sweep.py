"""Second step of a sweep: hold its folder, continue earlier starts, open tracking and the vault.

All refusals here come before the first release.
"""

import importlib
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from labeldp.mechanisms.ledger import Budget, delta_of_total
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records.environment import Provenance
from labeldp.platform.records.progress import Steps, SweepProgress
from labeldp.platform.records.results import (
    ResultsFolder,
    ResultsFolderError,
    SweepIdentity,
    TrialRecord,
)
from labeldp.platform.records.tracking_address import TrackingUnusable, default_uri, shown
from labeldp.platform.sweep.cluster import Capacity, connected, place
from labeldp.platform.sweep.configuration import spoiled_text
from labeldp.platform.sweep.cost import budget_of, check_what_is_left, cost_of
from labeldp.platform.sweep.plan import Plan
from labeldp.platform.sweep.search import SearchBook
from labeldp.platform.sweep.sweep import PlannedTrial, Resources, Resume, ensembles_of
from labeldp.platform.sweep.sweep_check import CheckedSweep, beside
from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.platform.vault.vault_store import SqliteStore, refuse_if_gone
from labeldp.trainers.encoders.provenance import NO_OUTSIDE_DATA
from labeldp.trainers.performance import Device

if TYPE_CHECKING:  # they load MLflow and Tune, for which Ray's start leaves time
    from labeldp.platform.records.recorder import Recorder
    from labeldp.platform.records.tracking import Tracker

_Result = TypeVar("_Result")

#: Modules to load while Ray starts, and while the vault does.
_FIGURES = ("labeldp.platform.report.report", "matplotlib.backends.backend_agg")
_TRIALS = ("labeldp.platform.sweep.trial_runs", "labeldp.platform.sweep.sweep_report")
_ELSEWHERE = "or choose another folder with --results and count what this one spent as spent"


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep whose folder is held, and whose tracking, cluster and vault are open.

    Attributes:
        skipped: Records of trials that an earlier start has finished, by hash.
        authority: The token that the home requires for figures and shards; trials get none.
        book: The suggestions of its searches; None without a search.
    """

    checked: CheckedSweep
    skipped: Mapping[str, TrialRecord]
    capacity: Capacity
    trial: Resources
    teacher: Resources
    home: LabelHome
    authority: bytes = field(repr=False)
    recorder: "Recorder"
    progress: SweepProgress
    book: SearchBook | None = None

    @property
    def plan(self) -> Plan:
        """Its trials and their price."""
        return self.checked.plan

    @property
    def left(self) -> dict[str, PlannedTrial]:
        """The trials that are still to be run, by hash; of a search the suggested ones."""
        plans = self.recorder.plans
        return {digest: plans[digest] for digest in plans if digest not in self.skipped}

    @property
    def unfinished(self) -> int:
        """Number of trials that are still to be run."""
        return self.plan.total - len(self.skipped)


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    done: Mapping[str, TrialRecord]
    identity: SweepIdentity
    vault: str | None
    budget: Budget | None
    book: SearchBook | None


@contextmanager
def opened(checked: CheckedSweep, *, steps: Steps) -> Iterator[OpenSweep]:
    """Open a sweep; folder and cluster are released at the end, however it comes.

    Raises:
        CannotFit: The cluster can't hold a trial.
        BudgetExceeded: The remaining trials would cost more than the budget has left.
    """
    with checked.folder.held():
        earlier = _earlier(checked)
        opening = _tracking(checked, earlier, steps=steps)
        with _awaited(opening), _cluster(checked, opening, steps=steps) as capacity:
            trial, teacher = _sizes(checked.plan, capacity)
            plans = checked.plans if earlier.book is None else earlier.book.plans
            skipped = {digest: earlier.done[digest] for digest in plans if digest in earlier.done}
            steps.say("opening the vault and the tracking store")
            tracker = opening.result()
            check_one_writer(tracker.uri, capacity)
            loading = meanwhile(lambda: load(*_TRIALS))
            authority = secrets.token_bytes(32)  # the driver keeps it: trials get none
            home = _home(checked, budget=earlier.budget, authority=authority)
            provenance = Provenance.now()
            _identify(checked, earlier, tracker, commit=provenance.git_commit)
            progress = SweepProgress(
                total=checked.plan.total, skipped=len(skipped), quiet=checked.plan.options.quiet
            )
            for line in _beginning(checked, skipped, commit=provenance.git_commit):
                progress.say(line)
            wait([loading])
            from labeldp.platform.records.recorder import Recorder

            yield OpenSweep(
                checked=checked,
                skipped=skipped,
                capacity=capacity,
                trial=trial,
                teacher=teacher,
                home=home,
                authority=authority,
                recorder=Recorder(
                    folder=checked.folder,
                    tracker=tracker,
                    plans=plans,
                    provenance=provenance,
                    progress=progress,
                    home=home,
                    authority=authority,
                    num_labels=checked.plan.size.num_labels,
                    features=checked.data.public.provenance,
                ),
                progress=progress,
                book=earlier.book,
            )
            home.end()  # another sweep may follow on this cluster


def _beginning(
    checked: CheckedSweep, skipped: Mapping[str, TrialRecord], *, commit: str
) -> Iterator[str]:
    plan = checked.plan
    yield (
        f"{plan.sweep.name}: {plan.total} trials ({len(skipped)} finished before), "
        f"{plan.cost.releases} releases, results in {checked.folder.path}"
    )
    spoiled = spoiled_text(
        canaries=plan.audit.canaries or 0,
        coin_canaries=plan.audit.coin_canaries or 0,
        num_labels=plan.size.num_labels,
    )
    yield f"labels: {spoiled}"
    yield from plan.notes
    features = checked.data.public.provenance
    if features != NO_OUTSIDE_DATA:
        yield f"league: {features.words}"
    warning = other_code(skipped.values(), commit=commit)
    if warning:
        yield warning


# --- earlier starts -------------------------------------------------------------------------------


def _earlier(checked: CheckedSweep) -> _Earlier:
    folder, plan = checked.folder, checked.plan
    options, budget, public = plan.options, plan.budget, checked.data.public
    done = finished_before(folder, options.resume, public.fingerprint)
    charges, vault = known_ledger(folder, moved=options.moved)
    # Releases of earlier starts may hold at a delta where the planned ones are pure.
    delta = delta_of_total(charges, delta=max(plan.cost.delta, plan.delta))
    if delta > plan.cost.delta:
        budget = budget_of(plan.sweep.budget, options.max_epsilon_total, delta=delta)
    book = None
    left = [trial for digest, trial in checked.plans.items() if digest not in done]
    if plan.searches:
        book = SearchBook(
            folder.path / "search.json",
            plan.searches,
            size=plan.size,
            fingerprint=plan.fingerprint,
            by=plan.choose_by,
        )
        suggested = [trial for digest, trial in book.plans.items() if digest not in done]
        left = [*suggested, *book.rest]
    check_what_is_left(
        left,
        charges,
        num_classes=public.num_classes,
        num_labels=plan.size.num_labels,
        held_out=plan.size.held_out,
        read={key for record in done.values() for key in record.release_keys},
        budget=budget,
    )
    return _Earlier(done=done, identity=folder.identity(), vault=vault, budget=budget, book=book)


def finished_before(
    folder: ResultsFolder, resume: Resume, fingerprint: str
) -> dict[str, TrialRecord]:
    """Return the finished trials of earlier starts by hash."""
    identity, records = folder.identity(), folder.records()
    if identity.fingerprint not in (None, fingerprint):
        raise ResultsFolderError(
            f"results folder {folder.path} holds this sweep on other data; choose another one with "
            "--results DIR"
        )
    if resume is Resume.NEVER and records:
        raise ResultsFolderError(
            f"results folder {folder.path} holds {len(records)} trials, which --resume never "
            "excludes; choose another folder with --results DIR, or use --resume auto"
        )
    if resume is Resume.MUST and not identity:
        raise ResultsFolderError(
            f"results folder {folder.path} holds no sweep to resume; check --results DIR, or use "
            "--resume auto"
        )
    return {digest: record for digest, record in records.items() if record.finished}


def known_ledger(folder: ResultsFolder, *, moved: bool) -> tuple[Sequence[Charge], str | None]:
    """Return the lines of the folder's ledger and its vault's id; none of a new folder.

    Lines of trials that are not requested now count too: a ledger that began anew would grant the
    budget a second time. `moved`: the user stated that no other copy of the folder is in use.
    """
    named, records = folder.identity().vault, folder.records()
    if not folder.store.exists():
        spent = [record.hash for record in records.values() if record.release_keys]
        if named is not None or spent:
            known = f"trial {spent[0]} read releases" if spent else "sweep.json knows of it"
            raise ResultsFolderError(
                f"{folder.store} is gone, and with it what this folder spent ({known}); restore "
                f"it from a copy, {_ELSEWHERE}"
            )
        refuse_if_gone(folder.store)
        return (), None
    store = SqliteStore(folder.store, moved=moved)
    if named not in (None, store.id):
        raise ResultsFolderError(
            f"{folder.store} is not the vault that this folder's sweep.json names; restore that "
            f"one from a copy, {_ELSEWHERE}"
        )
    charges = store.charges()
    keys = {charge.key for charge in charges}
    for record in records.values():
        missing = [key for key in record.release_keys if key not in keys]
        if missing:
            raise ResultsFolderError(
                f"{folder.store} has lost lines of its ledger: trial {record.hash} read release "
                f"{missing[0]}, which is not there; restore the file from a copy, {_ELSEWHERE}"
            )
    return charges, store.id


def other_code(records: Iterable[TrialRecord], *, commit: str) -> str:
    """Return a warning where finished trials were run by other code; empty if none was."""
    others = Counter(record.git_commit or "unknown" for record in records)
    others.pop(commit, None)
    if not others:
        return ""
    named = ", ".join(f"{number} at {each}" for each, number in sorted(others.items()))
    return (
        f"warning: this sweep continues with other code than it was begun with: the code is at "
        f"{commit} now, and trials that are kept were run by other code ({named}); their records "
        "and runs say by which. For numbers of one kind choose another folder with --results"
    )


# --- tracking, cluster and vault ------------------------------------------------------------------


def _tracking(checked: CheckedSweep, earlier: _Earlier, *, steps: Steps) -> "Future[Tracker]":
    """Open tracking: a store that exists before Ray is started, a new one beside its start.

    MLflow takes seconds to make one, and can't refuse a file of its own in a folder that is held.
    """
    store = checked.folder.path / "mlflow.db"
    options = checked.plan.options
    if options.tracking_uri is None and not earlier.identity and not os.path.lexists(store):
        return meanwhile(lambda: _tracker(checked, earlier))
    opening: Future[Tracker] = Future()
    with steps.during("opening the tracking store"):
        opening.set_result(_tracker(checked, earlier))
    return opening


def _tracker(checked: CheckedSweep, earlier: _Earlier) -> "Tracker":
    from labeldp.platform.records.tracking import Tracker

    folder = checked.folder
    tracker = Tracker(
        uri=checked.plan.options.tracking_uri or default_uri(folder.path),
        experiment=checked.plan.sweep.name,
        results=folder.path,
    )
    if not earlier.identity:
        tracker.refuse_doubles(list(folder.records()), sweep_id=earlier.vault)
    return tracker


@contextmanager
def _awaited(opening: "Future[Tracker]") -> Iterator[None]:
    try:
        yield
    finally:
        wait([opening])


@contextmanager
def _cluster(
    checked: CheckedSweep, opening: "Future[Tracker]", *, steps: Steps
) -> Iterator[Capacity]:
    address = checked.plan.options.address
    named = address or os.environ.get("RAY_ADDRESS")
    text = f"connecting to Ray at {named}" if named else "starting Ray on this machine"
    with ExitStack() as stack:
        with steps.during(text, hint="; a busy machine takes a minute or two"):
            figures = meanwhile(lambda: load(*_FIGURES), after=[opening])
            capacity = stack.enter_context(connected(address))
            wait([figures])
        yield capacity


def check_one_writer(uri: str, capacity: Capacity) -> None:
    """Refuse a tracking store that is a file where there are several machines.

    Raises:
        TrackingUnusable: Names the command that starts a server.
    """
    if uri.startswith("sqlite:") and capacity.nodes > 1:
        raise TrackingUnusable(
            f"tracking store {uri} is one file on one machine, but the cluster has "
            f"{capacity.nodes} nodes; start a server (infra/mlflow, or `mlflow server --host "
            "127.0.0.1 --backend-store-uri ...`) and name it with MLFLOW_TRACKING_URI"
        )


def _sizes(plan: Plan, capacity: Capacity) -> tuple[Resources, Resources]:
    trials, sweep = plan.trials, plan.sweep
    required = any(trial.config.performance.device is Device.CUDA for trial in trials)
    wanted = sweep.resources
    alone = plan.total == 1 and plan.options.preset and not wanted.gpus
    if alone and not (plan.options.address or os.environ.get("RAY_ADDRESS")):
        # A trial that has this machine to itself takes all of it. By the plan, and not by the
        # trials that are left: threads change the last digits of a model, and a resumed one must be
        # the same.
        wanted = replace(wanted, cpus=max(wanted.cpus, *(cpus for cpus, _ in capacity.largest)))
    each = place(wanted, capacity, gpu_required=required)
    teacher = sweep.teacher
    if ensembles_of(trials):
        what = "an actor that trains teachers"
        teacher = place(teacher, capacity, gpu_required=required, what=what)
    return each, teacher


def _home(checked: CheckedSweep, *, budget: Budget | None, authority: bytes) -> LabelHome:
    """Start the vault's home; figures and shards require the token `authority`."""
    data, trials = checked.data, checked.plan.trials
    return home_proxy.start(
        SecretLabels(
            training=data.train_labels,
            held_out=data.held_out_labels,
            num_classes=data.public.num_classes,
        ),
        audit=trials[0].config.audit,
        coin_seed=_coin_seed(trials),
        store=checked.folder.store,
        votes=beside(checked.plan.options.results) / "votes",
        shared_coins=bool(ensembles_of(trials)),
        fingerprint=data.public.fingerprint,
        budget=budget,
        authority=authority,
    )


def _coin_seed(trials: Sequence[PlannedTrial]) -> int | None:
    """Seed of the coin canaries: none, and so a secret of the vault, unless all noise is seeded."""
    seeds = [trial.config.noise.seed for trial in trials]
    return None if None in seeds else min(seed for seed in seeds if seed is not None)


def _identify(checked: CheckedSweep, earlier: _Earlier, tracker: "Tracker", *, commit: str) -> None:
    folder, plan, public = checked.folder, checked.plan, checked.data.public
    # Written before tracking hears of it, and before the first release: a start that is killed in
    # between finds its run, and a vault that is lost later is missed. The vault finds the run as
    # well, where this file was lost.
    vault = SqliteStore(folder.store).id
    sweep_id = earlier.identity.sweep_id or vault
    folder.identify(
        fingerprint=public.fingerprint,
        sweep_id=sweep_id,
        vault=vault,
        path=str(folder.path),
        num_labels=plan.size.num_labels,
        held_out_labels=plan.size.held_out,
        choose_by=plan.choose_by,
        count_epsilon=plan.count_epsilon,
        **learned_facts(plan, earlier.identity),
    )
    facts = {"dataset": public.name, "sweep": plan.sweep.name, "sweep_id": sweep_id}
    parent = tracker.open_parent(
        plan.sweep.name,
        tags={"git_commit": commit, **facts, "choose_by": plan.choose_by.value},
        run_id=folder.identity().parent_run_id,
    )
    folder.identify(parent_run_id=parent, tracking_uri=shown(tracker.uri))


def learned_facts(plan: Plan, earlier: SweepIdentity) -> dict[str, Any]:
    """Return the most that a sweep which learns may cost, as facts of its folder.

    Nothing for any other sweep. Plans of earlier starts may have been dearer.
    """
    private = [
        trial
        for trial, epsilon in zip(plan.trials, plan.cost.epsilons, strict=True)
        if isfinite(epsilon)
    ]
    if not plan.sweep.learns or not private:
        return {}
    cost = cost_of(
        private, num_classes=plan.size.num_classes, with_estimates=plan.size.held_out > 0
    )
    touched = any(search.foreseen is None for search in plan.searches)
    return {
        "learned_epsilon": max(cost.epsilon_total, earlier.learned_epsilon or 0.0),
        "learned_counts": max(cost.epsilon_estimates, earlier.learned_counts or 0.0),
        "learned_delta": max(cost.delta, earlier.learned_delta or 0.0),
        "learned_releases": touched or bool(earlier.learned_releases),
    }


# --- work beside ----------------------------------------------------------------------------------


def meanwhile(
    work: Callable[[], _Result], *, after: Iterable[Future[Any]] = ()
) -> "Future[_Result]":
    """Do `work` in a daemon thread when `after` has ended, well or not; returns its result."""
    future: Future[_Result] = Future()

    def carry_out() -> None:
        wait(after)
        try:
            future.set_result(work())
        except BaseException as error:  # raised where the result is requested
            future.set_exception(error)

    threading.Thread(target=carry_out, name="labeldp-meanwhile", daemon=True).start()
    return future


def load(*modules: str) -> None:
    """Import modules ahead of time; errors are left to the import that needs them."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            return

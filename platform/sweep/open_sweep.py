"""Second step of a sweep: hold its folder, go on from earlier starts, open tracking and the vault.

What is refused here, is refused before the first label is released.
"""

import importlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar

from labeldp.mechanisms.ledger import Budget
from labeldp.platform.records.environment import Provenance
from labeldp.platform.records.progress import Steps, SweepProgress
from labeldp.platform.records.results import SweepIdentity, TrialRecord
from labeldp.platform.records.tracking_address import TrackingUnusable, default_uri, shown
from labeldp.platform.sweep.cluster import Capacity, connected, place
from labeldp.platform.sweep.configuration import spoiled_text
from labeldp.platform.sweep.cost import budget_of, check_what_is_left, cost_of, delta_with_earlier
from labeldp.platform.sweep.earlier_starts import finished_before, known_ledger, other_code
from labeldp.platform.sweep.plan import Plan
from labeldp.platform.sweep.search_book import SearchBook
from labeldp.platform.sweep.sweep import PlannedTrial, Resources, ensembles_of
from labeldp.platform.sweep.sweep_check import CheckedSweep, beside
from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.encoders.provenance import NO_OUTSIDE_DATA
from labeldp.trainers.performance import Device

if TYPE_CHECKING:  # they load MLflow and Tune, for which Ray's start leaves time
    from labeldp.platform.records.recorder import Recorder
    from labeldp.platform.records.tracking import Tracker

_Result = TypeVar("_Result")

#: Modules to load while Ray starts, and while the vault does.
_FIGURES = ("labeldp.platform.report.report", "matplotlib.backends.backend_agg")
_TRIALS = ("labeldp.platform.sweep.trial_runs", "labeldp.platform.sweep.sweep_report")


@dataclass(frozen=True, kw_only=True)
class OpenSweep:
    """A sweep whose folder is held, whose tracking, cluster and vault are open.

    Attributes:
        checked: What is to be run.
        skipped: Records of trials that an earlier start has finished, by hash.
        capacity: What the cluster has.
        sizes: What a trial and a teacher's actor occupy there.
        home: The vault's home.
        recorder: Keeps records, and mirrors them to tracking.
        progress: Told how it goes.
        book: Of a search: what it has suggested.
    """

    checked: CheckedSweep
    skipped: Mapping[str, TrialRecord]
    capacity: Capacity
    sizes: "Sizes"
    home: LabelHome
    recorder: "Recorder"
    progress: SweepProgress
    book: SearchBook | None = None

    @property
    def plan(self) -> Plan:
        """What is to be run and what it costs."""
        return self.checked.plan

    @property
    def left(self) -> dict[str, PlannedTrial]:
        """The trials that are still to be run, by hash; of a search those that it has suggested."""
        plans = self.recorder.plans
        return {digest: plans[digest] for digest in plans if digest not in self.skipped}

    @property
    def unfinished(self) -> int:
        """How many trials are still to be run."""
        return self.plan.total - len(self.skipped)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a trial, and an actor that trains teachers, occupy."""

    trial: Resources
    teacher: Resources


@dataclass(frozen=True, kw_only=True)
class _Earlier:
    """What earlier starts left: finished trials, the folder's facts, the vault's id, the budget.

    And what a search has suggested.
    """

    done: Mapping[str, TrialRecord]
    identity: SweepIdentity
    vault: str | None
    budget: Budget | None
    book: SearchBook | None


@contextmanager
def opened(checked: CheckedSweep, *, steps: Steps | None = None) -> Iterator[OpenSweep]:
    """Open a sweep; folder and cluster are let go at the end, however it comes.

    Args:
        checked: What is to be run.
        steps: Told what is being done meanwhile.

    Raises:
        ValueError: A results folder, tracking store, cluster or labels that can't be used.
        CannotFit: The cluster can't hold a trial.
        BudgetExceeded: What is left would cost more than the budget has left.
    """
    with checked.folder.held():
        steps = steps or Steps(quiet=True)
        earlier = _earlier(checked)
        opening = _tracking(checked, earlier, steps=steps)
        with _waited_for(opening), _cluster(checked, opening, steps=steps) as capacity:
            sizes = _sizes(checked.plan, capacity)
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
            recorder = _recorder(
                checked,
                plans,
                tracker,
                progress,
                provenance=provenance,
                home=home,
                authority=authority,
            )
            wait([loading])
            yield OpenSweep(
                checked=checked,
                skipped=skipped,
                capacity=capacity,
                sizes=sizes,
                home=home,
                recorder=recorder,
                progress=progress,
                book=earlier.book,
            )
            home.end()  # another sweep may follow on this cluster


def _beginning(
    checked: CheckedSweep, skipped: Mapping[str, TrialRecord], *, commit: str
) -> Iterator[str]:
    """What a person is told before the first trial, line by line."""
    yield (
        f"{checked.plan.sweep.name}: {checked.plan.total} trials ({len(skipped)} finished before), "
        f"{checked.plan.cost.releases} releases, results in {checked.folder.path}"
    )
    told = spoiled_text(
        canaries=checked.plan.audit.canaries or 0,
        coin_canaries=checked.plan.audit.coin_canaries or 0,
        num_labels=checked.plan.size.num_labels,
    )
    yield f"labels: {told}"
    yield from checked.plan.notes
    features = checked.data.public.provenance
    if features != NO_OUTSIDE_DATA:
        yield f"league: {features.words}"
    warning = other_code(skipped.values(), commit=commit)
    if warning:
        yield warning


@contextmanager
def _cluster(
    checked: CheckedSweep, opening: "Future[Tracker]", *, steps: Steps
) -> Iterator[Capacity]:
    """Start Ray or connect to it, and say so."""
    address = checked.plan.options.address
    named = address or os.environ.get("RAY_ADDRESS")
    text = f"connecting to Ray at {named}" if named else "starting Ray on this machine"
    with ExitStack() as stack:
        with steps.during(text, hint="; a busy machine takes a minute or two"):
            figures = meanwhile(lambda: load(*_FIGURES), after=[opening])
            capacity = stack.enter_context(connected(address))
            wait([figures])
        yield capacity


@contextmanager
def _waited_for(opening: "Future[Tracker]") -> Iterator[None]:
    """Leave no thread at work in a folder that is let go."""
    try:
        yield
    finally:
        wait([opening])


def _earlier(checked: CheckedSweep) -> _Earlier:
    """Find what earlier starts left, and refuse a plan that can't be paid beside it."""
    folder, plan = checked.folder, checked.plan
    options, budget = plan.options, plan.budget
    public = checked.data.public
    done = finished_before(folder, options.resume, public.fingerprint)
    known = known_ledger(folder, moved=options.moved)
    later = delta_with_earlier(known.charges, planned=plan.cost.delta, delta=plan.delta)
    if later > plan.cost.delta:
        budget = budget_of(plan.sweep.budget, options.max_epsilon_total, delta=later)
    book = None
    left = [trial for digest, trial in checked.plans.items() if digest not in done]
    if checked.plan.searches:
        book = SearchBook(folder.path / "search.json", checked.plan)
        suggested = [trial for digest, trial in book.plans.items() if digest not in done]
        left = [*suggested, *book.rest]
    check_what_is_left(
        left,
        known.charges,
        num_classes=public.num_classes,
        num_labels=checked.plan.size.num_labels,
        held_out=checked.plan.size.held_out,
        read={key for record in done.values() for key in record.release_keys},
        budget=budget,
    )
    return _Earlier(
        done=done, identity=folder.identity(), vault=known.vault, budget=budget, book=book
    )


def _tracking(checked: CheckedSweep, earlier: _Earlier, *, steps: Steps) -> "Future[Tracker]":
    """Open tracking: a store that is there before Ray is started, a new one beside its start.

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

    folder, identity = checked.folder, earlier.identity
    tracker = Tracker(
        uri=checked.plan.options.tracking_uri or default_uri(folder.path),
        experiment=checked.plan.sweep.name,
        results=folder.path,
    )
    if not identity:
        tracker.refuse_doubles(list(folder.records()), sweep_id=earlier.vault)
    return tracker


def check_one_writer(uri: str, capacity: Capacity) -> None:
    """Refuse a tracking store that is a file where there are several machines.

    Raises:
        TrackingUnusable: Says how to start a server.
    """
    if uri.startswith("sqlite:") and capacity.nodes > 1:
        raise TrackingUnusable(
            f"tracking store {uri} is one file on one machine, but the cluster has "
            f"{capacity.nodes} nodes; start a server (infra/mlflow, or `mlflow server --host "
            "127.0.0.1 --backend-store-uri ...`) and name it with MLFLOW_TRACKING_URI"
        )


def _sizes(plan: Plan, capacity: Capacity) -> Sizes:
    """What the sweep asks for, as this cluster can hold it."""
    trials, sweep = plan.trials, plan.sweep
    required = any(trial.config.performance.device is Device.CUDA for trial in trials)
    asked = sweep.resources
    alone = plan.total == 1 and plan.options.preset and not asked.gpus
    if alone and not (plan.options.address or os.environ.get("RAY_ADDRESS")):
        # A trial that has this machine to itself takes all of it. By the plan, and not by what is
        # left of it: threads change the last digits of a model, and a resumed one must be the same.
        asked = replace(asked, cpus=max(asked.cpus, *(cpus for cpus, _ in capacity.largest)))
    each = place(asked, capacity, gpu_required=required)
    teacher = sweep.teacher
    if ensembles_of(trials):
        what = "an actor that trains teachers"
        teacher = place(teacher, capacity, gpu_required=required, what=what)
    return Sizes(trial=each, teacher=teacher)


def _home(checked: CheckedSweep, *, budget: Budget | None, authority: bytes) -> LabelHome:
    """Start the vault's home; it gives figures for the token `authority` alone."""
    data, trials = checked.data, checked.plan.trials
    return home_proxy.start(
        SecretLabels(
            training=data.train_labels,
            held_out=data.held_out_labels,
            num_classes=data.public.num_classes,
        ),
        audit=trials[0].config.audit,
        coin_seed=_coin_seed(trials),
        places=HomePlaces(
            store=checked.folder.store,
            votes=beside(checked.plan.options.results) / "votes",
            shared_coins=bool(ensembles_of(trials)),
        ),
        fingerprint=data.public.fingerprint,
        budget=budget,
        authority=authority,
    )


def _recorder(
    checked: CheckedSweep,
    plans: Mapping[str, PlannedTrial],
    tracker: "Tracker",
    progress: SweepProgress,
    *,
    provenance: Provenance,
    home: LabelHome,
    authority: bytes,
) -> "Recorder":
    """What keeps the records of the trials that run now, and mirrors them to tracking."""
    from labeldp.platform.records.recorder import Recorder

    return Recorder(
        folder=checked.folder,
        tracker=tracker,
        plans=plans,
        provenance=provenance,
        progress=progress,
        home=home,
        authority=authority,
        num_labels=checked.plan.size.num_labels,
        features=checked.data.public.provenance,
    )


def _coin_seed(trials: Sequence[PlannedTrial]) -> int | None:
    """Seed of the coin canaries: none, and so a secret of the vault, unless all noise is seeded."""
    seeds = [trial.config.noise.seed for trial in trials]
    return None if None in seeds else min(seed for seed in seeds if seed is not None)


def _identify(checked: CheckedSweep, earlier: _Earlier, tracker: "Tracker", *, commit: str) -> None:
    """Write down which vault and which run are the folder's, and open that run."""
    folder, sweep, public = checked.folder, checked.plan.sweep, checked.data.public
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
        num_labels=checked.plan.size.num_labels,
        held_out_labels=checked.plan.size.held_out,
        choose_by=checked.plan.choose_by,
        count_epsilon=checked.plan.count_epsilon,
        **learned_facts(checked.plan, earlier.identity),
    )
    facts = {"dataset": public.name, "sweep": sweep.name, "sweep_id": sweep_id}
    facts["choose_by"] = checked.plan.choose_by.value
    parent = tracker.open_parent(
        sweep.name,
        tags={"git_commit": commit, **facts},
        run_id=folder.identity().parent_run_id,
    )
    folder.identify(parent_run_id=parent, tracking_uri=shown(tracker.uri))


def learned_facts(plan: Plan, earlier: SweepIdentity) -> dict[str, Any]:
    """Return what a sweep that learns may cost, as facts of its folder; nothing for any other.

    Plans of earlier starts may have been dearer.
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


def meanwhile(
    work: Callable[[], _Result], *, after: Iterable[Future[Any]] = ()
) -> "Future[_Result]":
    """Do `work` in a thread that holds nobody up at the end; returns what becomes of it.

    Args:
        work: What to do.
        after: What has to have ended before, well or not.
    """
    future: Future[_Result] = Future()

    def carry_out() -> None:
        wait(after)
        try:
            future.set_result(work())
        except BaseException as error:  # raised where the result is asked for
            future.set_exception(error)

    threading.Thread(target=carry_out, name="labeldp-meanwhile", daemon=True).start()
    return future


def load(*modules: str) -> None:
    """Import modules ahead of time; whoever needs one that can't be imported is told why."""
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:
            return

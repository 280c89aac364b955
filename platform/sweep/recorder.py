"""A Tune callback on the driver: it alone writes records, and then the tracking store.

A trial's record on disk comes first and alone decides whether a resumed sweep skips the trial.
Tracking may fail: missing runs are written from the records when it answers again.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ray import tune

from labeldp.mechanisms.guess_risk import gaussian_mu
from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.vault import Charge
from labeldp.platform.cluster import in_use
from labeldp.platform.records.progress import trial_name
from labeldp.platform.records.results import (
    REPORT_FILES,
    TrialRecord,
    dumps,
    kept_model,
    write_json,
)
from labeldp.platform.records.tracking_address import (
    FEATURE_TAG,
    LOCAL_SERVER,
    compared,
    links,
    shown,
)
from labeldp.platform.report.card import run_card
from labeldp.platform.report.finding import finding
from labeldp.platform.report.ledger import OF_ALL, read_folder, sentences, sweep_totals
from labeldp.platform.report.page import write_report
from labeldp.platform.report.pareto import front_rows, points, same_epsilon
from labeldp.platform.settings.configuration import flatten, provenance_of, to_yaml
from labeldp.platform.sweep.open_sweep import OpenSweep
from labeldp.platform.sweep.trial import forget
from labeldp.trainers.performance import NO_MEMORY

#: The state that `labeldp watch` shows is written at most this often.
STATE_SECONDS = 2.0
#: It is written so much more rarely that summing up a long ledger takes a small share of the time.
STATE_REST = 10
#: A tracking server that did not answer is tried again after this time.
RETRY_SECONDS = 60.0


class Unsaved:
    """Leaves nothing in Tune's snapshots: a sweep resumes from its records alone."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Recorder(Unsaved, tune.Callback):
    """Keeps every trial's record and mirrors it to tracking."""

    def __init__(self, sweep: OpenSweep) -> None:
        """Record the trials of a sweep; those that ended now are in `records`, by hash."""
        self.sweep = sweep
        self.records: dict[str, TrialRecord] = {}
        self._curves: dict[str, list[dict[str, float]]] = {}
        self._owed: set[str] = set()
        self._ask_again = self._tell_again = time.monotonic()
        self._begun = time.time()
        self._tracking_lost = False
        self.broken: Exception | None = None

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: object) -> None:
        """Tell the home; a trial that starts again after its worker died begins anew."""
        digest = trial.config["hash"]
        # A restarted trial sends its epochs again, from the first or from a kept state.
        self._curves[digest] = []
        self._owed.add(digest)
        with self.telling_why():  # Tune starts the trial when this has returned
            self.sweep.home.begin(self.sweep.authority, digest)
        self.write_state()

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Any],
        trial: Any,
        result: dict[str, Any],
        **info: object,
    ) -> None:
        """Store epochs, and the trial's end if it came."""
        digest = trial.config["hash"]
        self._curves.setdefault(digest, []).extend(result.get("epochs", ()))
        planned = self.sweep.plans[digest]
        self.sweep.progress.in_training(
            digest,
            planned.variant,
            epochs=len(self._curves[digest]),
            of=planned.config.trainer.epochs,
        )
        self.write_state()
        end = result.get("end")
        if end is not None and digest not in self.records:
            with self.telling_why():
                record = self._record(digest, **self._with_figures(digest, end))
            self._keep(record)

    def on_trial_recover(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Take a trial whose worker died off the lists of those in training, until it starts.

        One that was out of memory with a share of a GPU starts with a larger one. It reads the
        releases that it has, so that nothing is charged twice.
        """
        digest = trial.config["hash"]
        has = trial.placement_group_factory.required_resources
        share = has.get("GPU", 0.0)
        if 0 < share < 1 and any(words in (trial.get_error() or "") for words in NO_MEMORY):
            more = min(1.0, 2 * share)
            trial.update_resources({"cpu": has["CPU"], "gpu": more})
            self.sweep.progress.say(
                f"a trial was out of memory with {share:g} of a GPU; it starts again with {more:g} "
                "and the releases that it has"
            )
        self._curves.pop(digest, None)
        self.sweep.progress.waits(digest)
        self._tell_again = time.monotonic()
        self.write_state()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: object) -> None:
        """Record a trial whose worker died more often than it may."""
        digest = trial.config["hash"]
        if digest not in self.records:
            lines = (trial.get_error() and str(trial.get_error()).strip().splitlines()) or []
            why = lines[-1] if lines else "its worker died"
            reason = f"the worker died {trial.num_failures} times, the last time with: {why}"
            self._keep(self._record(digest, finished=False, reason=reason))

    def close(self, **totals: Any) -> bool:
        """Write missing runs and the sweep's own to tracking; returns whether it has everything.

        `totals` are as of `Tracker.close_parent`.
        """
        self.write_state(now=True)
        if self.replay(self.ended):
            with self._tracking():
                self.sweep.tracker.close_parent(**totals)
        return not self._tracking_lost

    @property
    def ended(self) -> dict[str, TrialRecord]:
        """Records of all trials that ended, those of an earlier start too."""
        return {**self.sweep.skipped, **self.records}

    def replay(self, records: Mapping[str, TrialRecord]) -> bool:
        """Write missing runs to tracking; returns whether it now has everything."""
        self._tracking_lost = False
        with self._tracking():
            self.sweep.tracker.reconcile()
        for digest, record in records.items():
            if digest in self.sweep.plans and not self._tracking_lost:
                missing = False
                with self._tracking():
                    missing = digest in self._owed or not self.sweep.tracker.run_id(digest)
                if missing:
                    self._mirror(record)
        return not self._tracking_lost

    def write_state(self, *, now: bool = False) -> None:
        """Write where the sweep stands, for `labeldp watch`; at most now and then."""
        if not now and time.monotonic() < self._tell_again:
            return
        sweep = self.sweep
        plan = sweep.plan
        with self.telling_why():
            charges = sweep.home.ledger()
        started = time.monotonic()
        totals = sweep_totals(charges, sweep.folder.identity(), delta=plan.delta)
        took = time.monotonic() - started
        running = [digest for digest in self._curves if digest not in self.records]
        if plan.budget is not None:
            most = plan.budget.epsilon
        else:
            most = 0.0 if plan.private is None else plan.private.epsilon_total
        state = {
            "driver": os.getpid(),
            "host": os.uname().nodename,
            "ended": now,
            "written": time.time(),
            "trials": plan.cost.trials,
            "skipped": len(sweep.skipped),
            "trials_ended": len(self.ended),
            "begun": self._begun,
            "running": [] if now else [self._in_training(digest) for digest in running],
            "metric": plan.choose_by.metric,
            "smaller_is_better": plan.choose_by.rank(1.0) < 0,
            "epsilon_spent": totals["epsilon_private"],
            "without_noise": math.isinf(totals["epsilon_total"]),
            "epsilon_planned": most,
            "delta": totals["delta"],
            # At the end the cluster may be what broke.
            "cluster": "" if now else in_use(),
        }
        with suppress(ValueError):  # a sweep goes on without the page that reads this file
            write_json(sweep.folder.path / "state.json", state)
        self._tell_again = time.monotonic() + max(STATE_SECONDS, STATE_REST * took)

    def _in_training(self, digest: str) -> dict[str, Any]:
        planned = self.sweep.plans[digest]
        return {
            "name": trial_name(planned.variant, planned.point),
            "epochs": len(self._curves[digest]),
            "of": max(1, planned.config.trainer.epochs),
        }

    def _with_figures(self, digest: str, end: dict[str, Any]) -> dict[str, Any]:
        if not end["finished"]:
            return end
        home = self.sweep.home
        try:
            found = home.figures(self.sweep.authority, digest, end["release_keys"])
        # Without figures a trial would look as if it had been audited and nothing was found.
        except ValueError as error:
            return {**end, "finished": False, "reason": str(error), "metrics": {}}
        metrics = {**end["metrics"], **found}
        mu = gaussian_mu(
            home.charges(end["release_keys"]),
            epsilon=metrics["epsilon"],
            delta=metrics["delta"],
        )
        return {**end, "metrics": metrics | ({} if mu is None else {"gaussian_mu": mu})}

    def _record(self, digest: str, **end: Any) -> TrialRecord:
        planned = self.sweep.plans[digest]
        bad = [name for name, value in end.get("metrics", {}).items() if math.isnan(value)]
        if bad:
            end |= {"finished": False, "reason": f"metric {bad[0]} is not a number", "metrics": {}}
        return TrialRecord(
            hash=digest,
            variant=planned.variant,
            config=flatten(planned.config),
            point=dict(planned.point),
            curves=self._curves.get(digest, []),
            features=provenance_of(planned.config, self.sweep.data.public.provenance).described(),
            **{**self.sweep.made_by, **end},  # the machine of a trial that told of it
        )

    def _keep(self, record: TrialRecord) -> None:
        with self.telling_why():
            # The record first: a driver that is killed behind this line has lost nothing, and
            # tracking is written from records.
            self.sweep.folder.keep(record)
            # Only a trial without a record is resumed from its state.
            forget(self.sweep.folder.checkpoints, record.hash)
            self.records[record.hash] = record
            self.sweep.progress.ended(record)
            if self._tracking_answers() and record.hash in self._owed:
                self._mirror(record)

    @contextmanager
    def telling_why(self) -> Iterator[None]:
        """Remember the error that broke the sweep: Tune passes on its text only."""
        try:
            yield
        except Exception as error:
            self.broken = error
            raise

    def _mirror(self, record: TrialRecord) -> None:
        planned = self.sweep.plans[record.hash]
        tags = {
            "git_commit": record.git_commit,
            "trainer": planned.config.method,
            "dataset": planned.config.data.name,
            "seed": str(planned.config.seed),
            "noise": planned.config.noise.source().kind.value,
            "line": planned.variant,
            "point": dumps(planned.point),
        }
        features = record.features_from.described()
        texts = self._texts(record)  # of the vault, whose errors are not tracking's
        with self._tracking():
            self.sweep.tracker.write(
                record,
                name=trial_name(planned.variant, planned.point),
                tags=tags | {f"{FEATURE_TAG}{name}": text for name, text in features.items()},
                texts=texts,
                data=(planned.config.data.name, self.sweep.data.public.fingerprint),
                model=kept_model(self.sweep.folder.models, record.hash)
                if record.finished
                else None,
            )
            self._owed.discard(record.hash)

    def _tracking_answers(self) -> bool:
        """Whether tracking answers; after a failure it is tried again now and then."""
        if not self._tracking_lost:
            return True
        if time.monotonic() < self._ask_again:
            return False
        return self.replay(self.records)

    def _texts(self, record: TrialRecord) -> dict[str, str]:
        charges = self.sweep.home.charges(record.release_keys)
        texts = {
            "config.yaml": to_yaml(self.sweep.plans[record.hash].config),
            "ledger.json": ledger_json(charges),
            # Of the machine that ran the trial; after a resume another one may write the run.
            "environment.txt": "".join(f"{k}: {v}\n" for k, v in record.environment.items()),
            "curves.json": dumps(record.curves),
        }
        if record.finished:
            num_labels = self.sweep.plan.size.num_labels
            texts["run_card.md"] = run_card(record, charges, num_labels=num_labels)
        return texts

    @contextmanager
    def _tracking(self) -> Iterator[None]:
        """Go on without tracking where it fails."""
        try:
            yield
        # Stores of artifacts have errors of any kind: no key, no network, no package.
        except Exception as error:
            if not self._tracking_lost:
                text = shown((str(error).strip() or type(error).__name__).splitlines()[0])
                self.sweep.progress.say(
                    f"tracking does not answer ({text}); the sweep continues, and "
                    f"{self.sweep.folder.path} keeps the results until tracking can be written"
                )
            self._tracking_lost = True
            self._ask_again = time.monotonic() + RETRY_SECONDS


def ledger_json(charges: Iterable[Charge]) -> str:
    """Return lines of the ledger as JSON: prices and mechanisms, without the labels' indices."""
    return dumps(
        [
            {
                "release": charge.key,
                "event": json.loads(write_event(charge.event)),
                "labels": "all" if charge.indices is None else len(charge.indices),
                "mechanism": charge.mechanism,
            }
            for charge in charges
        ],
        indent=1,
    )


# --- the report -----------------------------------------------------------------------------------


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
    write_report(
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

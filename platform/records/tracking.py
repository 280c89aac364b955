"""MLflow, written by the driver alone: a run per sweep, and a child run per trial.

The results folder can fill it again: a child run that a crash left incomplete is deleted and
written again, and each is written once.
"""

import logging
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# A server that is down must not delay a sweep for long: missing runs are written later.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
# Two lines of links for every run that ends; a sweep prints its own links, once.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
# Progress of artifact uploads, one line per file, hides the sweep's own.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run
from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING
from mlflow.exceptions import MlflowException
from mlflow.store.db.db_types import DATABASE_ENGINES
from mlflow.tracking import MlflowClient

from labeldp.mechanisms.randomness import is_private
from labeldp.platform.records.mlflow_model import MOST_UPLOADED_BYTES, log_model
from labeldp.platform.records.results import REPORT_FILES, TrialRecord
from labeldp.platform.records.tracking_address import (
    VIEW_TAG,
    check_file,
    file_of,
    shared_view,
    shown,
)
from labeldp.platform.settings.metrics import ChooseBy, tracked_figures
from labeldp.trainers.data.files import draft_of

for _name in ("alembic", "mlflow.store.db.utils"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# It logs a traceback when an interruption comes while it reads; the sweep reports that itself.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

#: Limits of MLflow's `log_batch`, which takes 1,000 things of all kinds together.
_BATCH_METRICS = 900
_BATCH_PARAMS = 100
_PARAM_LENGTH = 6000
#: Of a data set's digest, in MLflow.
_DIGEST_LENGTH = 36
_FINISHED = "FINISHED"
_FAILED = "FAILED"
_RUNNING = "RUNNING"
#: MLflow's error codes for a run that another store has, and for a deleted one.
_NO_SUCH_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
#: Tag of a run with the names of its metrics that are infinite, which SQL stores can't hold.
INFINITE = "infinite"
#: MLflow's tag of a run below another one.
_PARENT = "mlflow.parentRunId"


def _create_whole(uri: str) -> None:
    """Create a local store that does not exist as a draft, and then give it its name.

    MLflow creates tables step by step. A start that is killed meanwhile would leave a store that no
    later start can open, and processes that create one store together would crash.
    """
    store = file_of(uri)
    if store is None or store.exists() or not store.parent.is_dir():
        return
    draft = draft_of(store.absolute())
    MlflowClient(tracking_uri=f"sqlite:///{draft}").search_experiments(max_results=1)
    try:
        os.link(draft, store)
    except FileExistsError:  # another process was first
        pass
    except OSError:  # a disk without hard links
        draft.replace(store)
    draft.unlink(missing_ok=True)


@contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turn errors of a tracking store that does not answer as it should into `ValueError`."""
    try:
        yield
    except ValueError:  # our own
        raise
    except Exception as error:
        raise ValueError(_explain(uri, error)) from error


def _machine_monitor() -> Any:
    """Return MLflow's monitor of this machine; its import needs a package."""
    try:
        from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor
    except ImportError as error:
        raise ValueError(
            f"MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is set, but {error}; `pip install psutil`, or "
            "unset it"
        ) from error
    return SystemMetricsMonitor


def _all_runs(client: MlflowClient, experiment: str, query: str = "") -> list[Run]:
    """Return every run of an experiment that a query finds."""
    search = partial(client.search_runs, [experiment], query)
    found: list[Run] = list(page := search())
    while page.token:
        found += (page := search(page_token=page.token))
    return found


def _below(run_id: str) -> str:
    """Return the query for the runs of a sweep's trials."""
    return f"tags.`{_PARENT}` = '{run_id}'"


class Tracker:
    """One sweep's runs in a tracking store."""

    def __init__(self, *, uri: str, experiment: str, folder: Path | None = None) -> None:
        """Open the store, before any trial; create it and the experiment if they do not exist.

        `folder` takes artifacts where the store is a database without a server.

        Raises:
            ValueError: The store has a newer schema, is not writable or does not answer.
        """
        self.uri = uri
        self._children: dict[str, str] = {}
        self.parent_run_id = ""
        self._machine: Any = None
        check_file(uri)
        with explained(uri):
            _create_whole(uri)
            self._client = MlflowClient(tracking_uri=uri)
            self.experiment_id = self._open_experiment(experiment, folder)

    def _open_experiment(self, name: str, folder: Path | None) -> str:
        store = file_of(self.uri)
        artifacts = None
        if store is not None:
            folder = store.absolute().parent
        if folder is not None and self.uri.partition(":")[0].partition("+")[0] in DATABASE_ENGINES:
            # MLflow would put them below the current folder, for good.
            artifacts = (folder / "artifacts").as_uri()
        found = self._client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        place = found and str(found.artifact_location)
        if store is not None and place and place.startswith("file:") and place != artifacts:
            # MLflow's runs have absolute paths: of a store that was moved or copied, they are in
            # the folder where it was. The new experiment is filled from the results folder.
            assert found is not None
            old = str(found.experiment_id)
            self._client.rename_experiment(old, f"{name}, before the folder was moved ({old})")
            self._client.delete_experiment(old)
            found = None
        if found is None:
            return str(self._client.create_experiment(name, artifacts))
        return str(found.experiment_id)

    @staticmethod
    def probe(uri: str) -> None:
        """Check that a store answers, and leave nothing in it; raises `ValueError`."""
        with explained(uri):
            MlflowClient(tracking_uri=uri).search_experiments(max_results=1)

    def open_parent(self, name: str, tags: Mapping[str, str], run_id: str | None) -> str:
        """Open the sweep's own run: the one of an earlier start, or a new one; return its id."""
        with explained(self.uri):
            if run_id is None and "sweep_id" in tags:
                query = f"tags.sweep_id = '{tags['sweep_id']}'"
                begun = self._client.search_runs([self.experiment_id], query, max_results=1)
                run_id = str(begun[0].info.run_id) if begun else None
            before = run_id
            try:
                if run_id is not None:
                    self._client.update_run(run_id, status=_RUNNING)
                    # Somebody may have given its experiment another name.
                    self.experiment_id = str(self._client.get_run(run_id).info.experiment_id)
            except MlflowException as error:
                if error.error_code not in _NO_SUCH_RUN:
                    raise
                run_id = None
            if run_id is None:
                run = self._client.create_run(self.experiment_id, run_name=name, tags=dict(tags))
                run_id = str(run.info.run_id)
                for child in _all_runs(self._client, self.experiment_id, _below(before or run_id)):
                    self._client.set_tag(child.info.run_id, _PARENT, run_id)
            self.parent_run_id = run_id
            # Opens MLflow's pages for model training in place of those for agents.
            self._client.set_experiment_tag(
                self.experiment_id, "mlflow.experimentKind", "custom_model_development"
            )
            metric = ChooseBy(tags.get("choose_by", "test")).metric
            self._client.set_experiment_tag(self.experiment_id, VIEW_TAG, shared_view(metric))
            self.reconcile()
            # MLflow gives its switches no types.
            if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING.get():  # type: ignore[no-untyped-call]
                self._machine = _machine_monitor()(
                    run_id, resume_logging=True, tracking_uri=self.uri
                )
                self._machine.start()  # a thread that ends with the run, or with this process
        return run_id

    def reconcile(self) -> None:
        """Read which trials' runs were written; delete doubles, and those that are incomplete."""
        complete: dict[str, str] = {}
        for run in _all_runs(self._client, self.experiment_id, _below(self.parent_run_id)):
            run_id = run.info.run_id
            digest = run.data.tags.get("config_hash", "")
            # A run in any other state was being written when its driver died.
            if run.info.status not in (_FINISHED, _FAILED) or digest in complete:
                self._client.delete_run(run_id)
            else:
                complete[digest] = run_id
        self._children = complete

    def run_id(self, digest: str) -> str:
        """Run id of a trial; empty where it has none that is complete."""
        return self._children.get(digest, "")

    def write(
        self,
        record: TrialRecord,
        *,
        name: str,
        tags: Mapping[str, str],
        texts: Mapping[str, str],
        model: Path | None = None,
        data: tuple[str, str] | None = None,
    ) -> str:
        """Write the run of a trial: curves, numbers, configuration, texts by name, kept model.

        `data`: name and fingerprint of the public data. Infinite metrics are left out; a tag names
        them. It replaces a run that the trial had. Where it fails halfway, `reconcile` deletes it.
        """
        # Out of the list first: after a failure here nobody takes the old run for this record's.
        earlier = self._children.pop(record.hash, None)
        if earlier is not None:
            self._client.delete_run(earlier)
        every = {"config_hash": record.hash, _PARENT: self.parent_run_id, **tags}
        if record.reason:
            every["failure_reason"] = record.reason
        figures = tracked_figures(record.metrics)
        infinite = sorted(name for name, value in figures.items() if math.isinf(value))
        if infinite:
            every[INFINITE] = ", ".join(infinite)
        # The run is written at its end, so that a killed trial leaves none. It shows the time of
        # training.
        now = int(1000 * time.time())
        begun = now - int(1000 * record.seconds)
        run_id = str(self._client.create_run(self.experiment_id, begun, every, name).info.run_id)
        metrics = [
            Metric(name, value, now, int(epoch["epoch"]))
            for epoch in record.curves
            for name, value in epoch.items()
            if name != "epoch" and math.isfinite(value)
        ]
        metrics += [
            Metric(name, float(value), now, 0)
            for name, value in figures.items()
            if math.isfinite(value)
        ]
        params = [Param(key, str(value)[:_PARAM_LENGTH]) for key, value in record.config.items()]
        # All in one request where it fits: a server of a large sweep counts them.
        for number in range(1 + max(len(metrics) // _BATCH_METRICS, len(params) // _BATCH_PARAMS)):
            some, own = (
                slice(number * size, (number + 1) * size)
                for size in (_BATCH_METRICS, _BATCH_PARAMS)
            )
            self._client.log_batch(run_id, metrics=metrics[some], params=params[own])
        if data is not None:
            name, fingerprint = data
            source = Dataset(name, fingerprint[:_DIGEST_LENGTH], "labeldp", name)
            context = InputTag("mlflow.data.context", "training")
            self._client.log_inputs(run_id, [DatasetInput(source, [context])])
        for name, text in texts.items():
            self._client.log_text(run_id, text, name)
        if model is not None:
            # It may reveal labels: it saw them without noise, or a seed removes the noise.
            private = not is_private(record.metrics["epsilon"], record.noise)
            below = "private/model" if private else "model"
            log_model(self._client, run_id, model, below=below, most=MOST_UPLOADED_BYTES)
        self._client.set_terminated(run_id, _FINISHED if record.finished else _FAILED)
        self._children[record.hash] = run_id
        return run_id

    def close_parent(
        self,
        *,
        metrics: Mapping[str, float],
        files: Sequence[Path],
        texts: Mapping[str, str],
        finished: bool,
    ) -> None:
        """Write the sweep's own totals and its report."""
        if self._machine is not None:
            self._machine.finish()
        now = int(time.time() * 1000)
        # Totals that an earlier start has written are not written again.
        last = self._client.get_run(self.parent_run_id).data.metrics
        new = [
            Metric(name, float(value), now, 0)
            for name, value in metrics.items()
            if math.isfinite(value) and last.get(name) != value
        ]
        self._client.log_batch(self.parent_run_id, metrics=new)
        infinite = sorted(name for name, value in metrics.items() if math.isinf(value))
        if infinite:
            self._client.set_tag(self.parent_run_id, INFINITE, ", ".join(infinite))
        for path in files:
            self._client.log_artifact(self.parent_run_id, str(path))
        for name, text in texts.items():
            self._client.log_text(self.parent_run_id, text, name)
        status = _FINISHED if finished else _FAILED
        self._client.set_terminated(self.parent_run_id, status)


def registration(
    uri: str, name: str, *, parent_run_id: str, trial: str
) -> Callable[[Path, str, dict[str, Any]], str]:
    """Return what registers the published model of a trial as a version of `name`.

    It takes the model's folder, a card and tags, and returns the address in MLflow. `ValueError`
    before: the store has no registry or run of the trial, or takes no such name.
    """
    with explained(uri):
        client = MlflowClient(tracking_uri=uri)
        known = True
        try:
            client.get_registered_model(name)
        except MlflowException as error:
            known = False
            if error.error_code != _NO_SUCH_RUN[0]:
                raise
        experiment = client.get_run(parent_run_id).info.experiment_id
        of_trial = f"tags.config_hash = '{trial}' and {_below(parent_run_id)}"
        runs = client.search_runs([experiment], of_trial)
        if not runs:
            raise ValueError(f"{shown(uri)} has no run of trial {trial}; run the sweep again")

    def add(model: Path, card: str, tags: dict[str, Any]) -> str:
        # A folder of its own: an earlier version keeps its model.
        below = f"published/{secrets.token_hex(4)}"
        run = runs[0].info
        with explained(uri):
            log_model(client, run.run_id, model, below=below)
            if not known:
                client.create_registered_model(name)
            place = f"{run.artifact_uri}/{below}"
            made = client.create_model_version(name, place, run.run_id, tags, description=card)
        return f"models:/{name}/{made.version}"

    return add


def _explain(uri: str, error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text = text.replace(uri, shown(uri))
    uri = shown(uri)
    if getattr(error, "error_code", "") in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return (
            f"tracking server {uri} refuses us ({text}); check MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    if "schema" in str(error) or "revision" in str(error):
        text += "; another version of MLflow wrote it: use that one, or `mlflow db upgrade` a copy"
    return (
        f"tracking store {uri} can't be used ({text}); check that it is there and writable, or "
        "name another one with --tracking-uri or MLFLOW_TRACKING_URI"
    )


def latest_report(uri: str, experiment: str) -> dict[str, bytes]:
    """Return the files of the report that an experiment's latest sweep left in its store, by name.

    Raises:
        ValueError: The store or the experiment can't be read, or has no report of a sweep.
    """
    with explained(uri), tempfile.TemporaryDirectory() as folder:
        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(experiment)
        if found is None:
            names = ", ".join(e.name for e in client.search_experiments() if e.name != "Default")
            raise ValueError(
                f"{shown(uri)} has no experiment {experiment!r}; it has {names or 'none'}"
            )
        runs = _all_runs(client, found.experiment_id)
        sweeps = [run.info for run in runs if _PARENT not in run.data.tags]
        if not sweeps:
            raise ValueError(f"experiment {experiment!r} in {shown(uri)} holds no sweep")
        latest = max(sweeps, key=lambda run: run.start_time).run_id
        there = {file.path for file in client.list_artifacts(latest)}
        if not there.issuperset(REPORT_FILES):
            raise ValueError(
                f"the latest sweep of experiment {experiment!r} in {shown(uri)} has left no report "
                "there yet; name its results folder, of which a report can be made at any time"
            )
        return {
            name: Path(client.download_artifacts(latest, name, folder)).read_bytes()
            for name in REPORT_FILES
        }

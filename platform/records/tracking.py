"""MLflow, written by the driver alone: a parent run per sweep, a child run per trial.

Everything written here comes from what the driver holds and the results folder keeps, so a child
run that a crash left half written is deleted and written again, and none is written twice.
"""

import logging
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# A server that is down must not hold a sweep up for long: what is missed is written again later.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
# Two lines of pictures and links for every run that ends; a sweep prints its own links, once.
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
# Progress of artifact uploads, one line per file, drowns the sweep's own.
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from labeldp.mechanisms.randomness import is_private
from labeldp.platform.records.local_tracking import (
    TrackedTrial,
    children_of,
    clear_uploads,
    file_of,
    move_artifacts,
    one_at_a_time,
)
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracked_models import log_model
from labeldp.platform.records.tracking_address import TrackingUnusable as TrackingUnusable
from labeldp.platform.records.tracking_address import check_file as check_file
from labeldp.platform.records.tracking_address import default_uri as default_uri
from labeldp.platform.records.tracking_address import shown as shown
from labeldp.platform.records.tracking_page import NOTE, experiment_tags

for _name in ("alembic", "mlflow.store.db.utils"):
    logging.getLogger(_name).setLevel(logging.WARNING)
# What it logs with a traceback when an interruption comes while it reads; that is said elsewhere.
logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)

#: Limits of MLflow's `log_batch`.
_BATCH_METRICS, _BATCH_PARAMS, _PARAM_LENGTH = 1000, 100, 6000
_FINISHED, _FAILED, _RUNNING = "FINISHED", "FAILED", "RUNNING"
#: What MLflow says of a run that another store has, and of one that somebody deleted.
_NO_SUCH_RUN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


#: What MLflow's client raises when a store or server does not answer as it should.
TRACKING_ERRORS = (MlflowException, OSError, SQLAlchemyError, sqlite3.Error)


class Tracker:
    """One sweep's runs in a tracking store."""

    def __init__(
        self, *, uri: str, experiment: str, artifacts: Path, formerly: Path | None = None
    ) -> None:
        """Open the store, creating it and the experiment where they are not there.

        Doing so here, before the first trial, matters: processes that open a new SQLite store
        together crash.

        Args:
            uri: The store's address.
            experiment: The experiment's name.
            artifacts: Folder for artifacts, used where the store is a local file.
            formerly: That folder at the last start; another one if the results were moved.

        Raises:
            TrackingUnusable: The store is of a newer schema, can't be written or doesn't answer.
        """
        self.uri = uri
        artifacts = artifacts.absolute()
        check_file(uri)
        try:
            with one_at_a_time(uri):
                self._client = MlflowClient(tracking_uri=uri)
                self.experiment_id = self._open_experiment(experiment, artifacts)
                if file_of(uri) is not None:
                    move_artifacts(
                        uri, experiment=self.experiment_id, artifacts=artifacts, formerly=formerly
                    )
                    clear_uploads(artifacts)
        except Exception as error:  # MLflow's, SQLAlchemy's and the transport's own kinds
            raise TrackingUnusable(_explain(uri, error)) from error
        self._children: dict[str, str] = {}
        self._complete: set[str] = set()
        self.parent_run_id = ""

    def _open_experiment(self, name: str, artifacts: Path) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is None:
            location = artifacts.as_uri() if file_of(self.uri) is not None else None
            return str(self._client.create_experiment(name, location))
        if found.lifecycle_stage == "deleted":
            self._client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    @staticmethod
    def probe(uri: str) -> None:
        """Check that a store answers, and leave nothing in it.

        Args:
            uri: The store's address.

        Raises:
            TrackingUnusable: As for the constructor.
        """
        try:
            with one_at_a_time(uri):
                MlflowClient(tracking_uri=uri).search_experiments(max_results=1)
        except Exception as error:  # MLflow's, SQLAlchemy's and the transport's own kinds
            raise TrackingUnusable(_explain(uri, error)) from error

    def refuse_doubles(self, hashes: Sequence[str], *, sweep_id: str | None) -> None:
        """Refuse to write trials a second time whose sweep can't be told.

        Args:
            hashes: Of trials that a results folder holds without saying which sweep they are of.
            sweep_id: Tag of that sweep's run, as far as anybody knows.

        Raises:
            TrackingUnusable: The store holds one of them, in no run of that tag.
        """
        try:
            if sweep_id is not None and self._begun({"sweep_id": sweep_id}) is not None:
                return
            for digest in hashes:
                query = f"tags.config_hash = '{digest}'"
                if self._client.search_runs([self.experiment_id], query, max_results=1):
                    raise TrackingUnusable(
                        f"trial {digest} is in the results folder and in tracking store "
                        f"{shown(self.uri)}, but sweep.json, which says what belongs together, is "
                        "gone, and every run would be written twice; restore it from a copy, or "
                        "choose another folder with --results"
                    )
        except TRACKING_ERRORS as error:
            raise TrackingUnusable(_explain(self.uri, error)) from error

    def open_parent(self, name: str, tags: Mapping[str, str], run_id: str | None) -> str:
        """Open the sweep's own run: the one of an earlier start, or a new one.

        Raises:
            TrackingUnusable: The store stopped answering.
        """
        try:
            if run_id is None:
                run_id = self._begun(tags)
            if run_id is None or not self._reopened(run_id):
                run = self._client.create_run(self.experiment_id, run_name=name, tags=dict(tags))
                run_id = str(run.info.run_id)
            self.parent_run_id = run_id
            self._tag_experiment(experiment_tags())
            self.reconcile()
        except TRACKING_ERRORS as error:
            raise TrackingUnusable(_explain(self.uri, error)) from error
        return self.parent_run_id

    def _begun(self, tags: Mapping[str, str]) -> str | None:
        """The run of a start that ended before it could note which one is its own."""
        if "sweep_id" not in tags:
            return None
        query = f"tags.sweep_id = '{tags['sweep_id']}'"
        found = self._client.search_runs([self.experiment_id], query, max_results=1)
        return str(found[0].info.run_id) if found else None

    def _reopened(self, run_id: str) -> bool:
        """Set an earlier run to running again; False if this store has no such run (any more)."""
        try:
            self._client.update_run(run_id, status=_RUNNING)
        except MlflowException as error:
            if error.error_code in _NO_SUCH_RUN:
                return False
            raise
        return True

    def reconcile(self) -> None:
        """Learn which trials' runs are complete; delete those that were left half written."""
        self._children.clear()
        self._complete.clear()
        for child in self._tracked_trials():
            if child.status in (_FINISHED, _FAILED) and child.digest not in self._complete:
                self._children[child.digest] = child.run_id
                self._complete.add(child.digest)
            else:
                self._client.delete_run(child.run_id)

    def has(self, digest: str) -> bool:
        """Whether a trial's run is there, complete."""
        return digest in self._complete

    def run_id(self, digest: str) -> str:
        """Run id of a trial; empty where it has none."""
        return self._children.get(digest, "")

    def open_child(self, digest: str, *, name: str, tags: Mapping[str, str]) -> str:
        """Open a trial's run, to log to it while the trial runs."""
        self.forget(digest)
        every = {"config_hash": digest, "mlflow.parentRunId": self.parent_run_id, **tags}
        run = self._client.create_run(self.experiment_id, run_name=name, tags=every)
        self._children[digest] = run.info.run_id
        return str(run.info.run_id)

    def forget(self, digest: str) -> None:
        """Delete a trial's run, if there is one: the trial runs again."""
        run_id = self._children.get(digest)
        if run_id is not None:
            self._client.delete_run(run_id)
            del self._children[digest]
            self._complete.discard(digest)

    def log_curves(self, run_id: str, epochs: Sequence[Mapping[str, float]]) -> None:
        """Log one point per epoch of every curve."""
        now = int(time.time() * 1000)
        points = [
            Metric(name, value, now, int(epoch["epoch"]))
            for epoch in epochs
            for name, value in epoch.items()
            if name != "epoch"
        ]
        for start in range(0, len(points), _BATCH_METRICS):
            self._client.log_batch(run_id, metrics=points[start : start + _BATCH_METRICS])

    def close_child(
        self,
        record: TrialRecord,
        *,
        run_id: str,
        texts: Mapping[str, str],
        model: Path | None = None,
    ) -> None:
        """Write what a trial ended with: numbers, configuration, artifacts, status.

        Args:
            record: The trial's.
            run_id: Its run.
            texts: Artifacts by name.
            model: The folder of its kept model; None where none is.
        """
        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, 0) for name, value in record.metrics.items()]
        params = [Param(key, str(value)[:_PARAM_LENGTH]) for key, value in record.config.items()]
        reason = [RunTag("failure_reason", record.reason)] if record.reason else []
        # All in one request where it fits: a server of a large sweep counts them.
        first, rest = params[:_BATCH_PARAMS], params[_BATCH_PARAMS:]
        self._client.log_batch(run_id, metrics=metrics, params=first, tags=reason)
        for start in range(0, len(rest), _BATCH_PARAMS):
            self._client.log_batch(run_id, params=rest[start : start + _BATCH_PARAMS])
        self._log_texts(run_id, texts)
        if model is not None:
            told = not is_private(record.metrics["epsilon"], record.noise)
            log_model(self._client, run_id, model, private=told)
        self._client.set_terminated(run_id, _FINISHED if record.finished else _FAILED)
        self._complete.add(record.hash)

    def close_parent(
        self,
        *,
        metrics: Mapping[str, float],
        files: Sequence[Path],
        private: Sequence[Path] = (),
        texts: Mapping[str, str],
        finished: bool,
        note: str = "",
    ) -> None:
        """Write the sweep's own totals, its report, and `note` as its description.

        A start that was killed in here has written some of it. What is there is not written again;
        a total that has changed since then, by more trials, gets a point at the next step.
        """
        self._client.log_batch(self.parent_run_id, metrics=self._changed(metrics))
        for path in files:
            self._client.log_artifact(self.parent_run_id, str(path))
        for path in private:
            self._client.log_artifact(self.parent_run_id, str(path), "private")
        self._log_texts(self.parent_run_id, texts)
        if note:
            self._client.set_tag(self.parent_run_id, NOTE, note)
            self._tag_experiment({NOTE: note})
        status = _FINISHED if finished else _FAILED
        self._client.set_terminated(self.parent_run_id, status)

    def _tag_experiment(self, tags: Mapping[str, str]) -> None:
        """Write those tags of the experiment that it has not got."""
        there = self._client.get_experiment(self.experiment_id).tags
        for key, value in tags.items():
            if there.get(key) != value:
                self._client.set_experiment_tag(self.experiment_id, key, value)

    def _changed(self, metrics: Mapping[str, float]) -> list[Metric]:
        """Points for those of the parent's metrics whose last point is another one, or none."""
        last = self._client.get_run(self.parent_run_id).data.metrics
        now, changed = int(time.time() * 1000), []
        for name, value in metrics.items():
            # SQL stores keep the largest number for infinity.
            stored = max(-sys.float_info.max, min(float(value), sys.float_info.max))
            if name not in last:
                changed.append(Metric(name, float(value), now, 0))
            elif last[name] not in (stored, float(value)):
                points = self._client.get_metric_history(self.parent_run_id, name)
                step = 1 + max(point.step for point in points)
                changed.append(Metric(name, float(value), now, step))
        return changed

    def _log_texts(self, run_id: str, texts: Mapping[str, str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in texts.items():
                Path(folder, name).write_text(text)
            if texts:
                self._client.log_artifacts(run_id, folder)

    def _tracked_trials(self) -> list[TrackedTrial]:
        """The sweep's trials, the newest first: from a local store's tables, or by searching."""
        if file_of(self.uri) is not None:
            return children_of(self.uri, experiment=self.experiment_id, parent=self.parent_run_id)
        return self._searched_trials()

    def _searched_trials(self) -> list[TrackedTrial]:
        query = f"tags.`mlflow.parentRunId` = '{self.parent_run_id}'"
        found: list[TrackedTrial] = []
        token = None
        while True:
            page = self._client.search_runs(
                [self.experiment_id], query, max_results=1000, page_token=token
            )
            found.extend(
                TrackedTrial(
                    run_id=run.info.run_id,
                    status=run.info.status,
                    digest=run.data.tags.get("config_hash", ""),
                )
                for run in page
            )
            token = page.token
            if not token:
                return found


def _explain(uri: str, error: Exception) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    text, uri = text.replace(uri, shown(uri)), shown(uri)
    if getattr(error, "error_code", "") in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        return (
            f"tracking server {uri} refuses us ({text}); check MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    if "schema" in str(error) or "revision" in str(error):
        return (
            f"tracking store {uri} was written by another version of MLflow ({text}); use that "
            "version, upgrade a copy with `mlflow db upgrade`, or name another store with "
            "MLFLOW_TRACKING_URI"
        )
    return (
        f"tracking store {uri} can't be used ({text}); check that it is there and writable, or "
        "name another one with MLFLOW_TRACKING_URI"
    )

"""Tracking stores that are one SQLite file: made one at a time, with artifacts that move along.

MLflow writes absolute paths of artifacts into its store. A results folder that was moved would go
on writing into the place where it was, and a copied one into the folder that it was copied from.
"""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Making a new store takes MLflow seconds, on a swamped machine a minute.
TIME_LIMIT_SECONDS = 300.0
_PREFIX = "sqlite:///"
#: Tables and columns with places of artifacts, below their experiment's.
_PLACES = (("runs", "artifact_uri"), ("logged_models", "artifact_location"))
#: A parent's runs that nobody deleted, the newest first, as MLflow's search has them.
_CHILDREN = """
SELECT runs.run_uuid, runs.status, coalesce(hashes.value, '')
FROM tags AS parents
JOIN runs ON runs.run_uuid = parents.run_uuid
LEFT JOIN tags AS hashes ON hashes.run_uuid = runs.run_uuid AND hashes.key = 'config_hash'
WHERE parents.key = 'mlflow.parentRunId' AND parents.value = ?
AND runs.experiment_id = ? AND runs.lifecycle_stage = 'active'
ORDER BY runs.start_time DESC, runs.run_uuid
"""


@dataclass(frozen=True, kw_only=True)
class TrackedTrial:
    """What a store says of a trial's run.

    Attributes:
        run_id: The run.
        status: MLflow's word for how it ended, or that it runs.
        digest: The trial's hash; empty where the run does not say.
    """

    run_id: str
    status: str
    digest: str


def file_of(uri: str) -> Path | None:
    """Return the file of a local store, or None for any other."""
    plain = uri.partition("?")[0]
    return Path(plain.removeprefix(_PREFIX)) if plain.startswith(_PREFIX) else None


@contextmanager
def one_at_a_time(uri: str) -> Iterator[None]:
    """Hold the folder of a local store while it is opened: processes that make one together crash.

    The lock is on the folder itself and leaves nothing behind; it goes with the process.

    Raises:
        TimeoutError: Another process has held it for too long.
    """
    store = file_of(uri)
    try:
        folder = None if store is None else os.open(store.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # MLflow says what is wrong with it
        folder = None
    if folder is None:
        yield
        return
    end = time.monotonic() + TIME_LIMIT_SECONDS
    try:
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"another process has been opening it for {TIME_LIMIT_SECONDS:.0f} s; "
                        "end that one"
                    ) from error
                time.sleep(0.05)
        yield
    finally:
        os.close(folder)


def move_artifacts(uri: str, *, experiment: str, artifacts: Path, formerly: Path | None) -> None:
    """Have an experiment's artifacts found and written in `artifacts`, if that is where they are.

    They are if the store lies in the same results folder, if the results folder says that they were
    in the other place `formerly`, or if that other place is not there any more. Where a store is
    shared, and the experiment was begun by another results folder, its place is left as it is.

    Args:
        uri: Of a local store, which has the experiment.
        experiment: Its id.
        artifacts: The results folder's.
        formerly: Where this results folder's artifacts were at its last start.
    """
    store = file_of(uri)
    assert store is not None
    with closing(sqlite3.connect(store, timeout=60, isolation_level=None)) as connection:
        query = "SELECT artifact_location FROM experiments WHERE experiment_id = ?"
        (before,) = connection.execute(query, (experiment,)).fetchone()
        after = artifacts.as_uri()
        if before == after or not before.startswith("file:"):
            return
        beside = store.absolute().parent == artifacts.parent
        told = formerly is not None and before == formerly.as_uri()
        # The folder of artifacts is there after the first one only; the results folder is at once.
        if not (beside or told) and Path(unquote(urlsplit(before).path)).parent.exists():
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?",
            (after, experiment),
        )
        for table, column in _PLACES:
            connection.execute(
                f"UPDATE {table} SET {column} = ? || substr({column}, ?) "
                f"WHERE experiment_id = ? AND substr({column}, 1, ?) = ?",
                (after, len(before) + 1, experiment, len(before) + 1, f"{before}/"),
            )
        connection.execute("COMMIT")


def children_of(uri: str, *, experiment: str, parent: str) -> list[TrackedTrial]:
    """Return the trials of a sweep's run, the newest first, from the tables of a local store.

    MLflow's own search reads every metric, parameter and tag along, a hundred for each trial:
    twenty seconds of processor time for ten thousand trials, where three words of each are wanted.

    Args:
        uri: Of a local store.
        experiment: Its id.
        parent: The sweep's run.
    """
    store = file_of(uri)
    assert store is not None
    with closing(sqlite3.connect(store, timeout=60)) as connection:
        found = connection.execute(_CHILDREN, (parent, experiment)).fetchall()
    return [
        TrackedTrial(run_id=run_id, status=status, digest=digest)
        for run_id, status, digest in found
    ]


def clear_uploads(artifacts: Path) -> None:
    """Delete what a driver that was killed in the middle of writing artifacts left half written.

    Args:
        artifacts: Of a results folder that this driver holds: nobody else writes there.
    """
    for draft in artifacts.rglob(".artifact.uploading.*"):
        draft.unlink(missing_ok=True)

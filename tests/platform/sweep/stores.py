"""Tracking stores for tests: MLflow takes seconds to make a new one, so one is made and copied."""

import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri


@cache
def _empty_store() -> Path:
    folder = Path(mkdtemp(prefix="labeldp-store-"))
    Tracker.probe(default_uri(folder))
    return folder / "mlflow.db"


def new_store(folder: Path) -> str:
    """Put an empty store into `folder` and return its address."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_empty_store(), folder / "mlflow.db")
    return default_uri(folder)


def of_newer_schema(folder: Path) -> Path:
    """Put a store into `folder` that an MLflow of the future has written."""
    new_store(folder)
    path = folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    return path

"""Tracking stores for tests: MLflow takes seconds to make a new one, so one is made and copied."""

import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from labeldp.platform.records import tracking
from labeldp.platform.records.tracking_address import default_uri, file_of

_create_whole = tracking._create_whole


@cache
def _empty_store() -> Path:
    folder = Path(mkdtemp(prefix="labeldp-store-"))
    _create_whole(default_uri(folder))
    return folder / "mlflow.db"


def copy_store(uri: str) -> None:
    """Stand for `tracking._create_whole`: put an empty store where there is none."""
    store = file_of(uri)
    if store is not None and not store.exists() and store.parent.is_dir():
        shutil.copy(_empty_store(), store)


def new_store(folder: Path) -> str:
    """Put an empty store into `folder` and return its address."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_store(default_uri(folder))
    return default_uri(folder)


def of_newer_schema(folder: Path) -> Path:
    """Put a store into `folder` that an MLflow of the future has written."""
    new_store(folder)
    path = folder / "mlflow.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    return path

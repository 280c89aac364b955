"""Addresses of tracking stores: what they are, and what can be said of them without MLflow.

>>> shown("postgresql://labeldp:secret@db/mlflow")
'postgresql://labeldp:***@db/mlflow'
"""

import contextlib
import re
import sys
from pathlib import Path

from labeldp.trainers.regular_files import FileRefused, open_regular

#: What tags begin with that say what made the features of a run.
FEATURE_TAG = "features."


class TrackingUnusable(ValueError):
    """A tracking store or server that can't be used; the message says why and what to do."""


def default_uri(results: Path) -> str:
    """Address of the SQLite store beside a sweep's results."""
    return f"sqlite:///{results / 'mlflow.db'}"


def check_file(uri: str) -> None:
    """Refuse a SQLite store whose file is none; MLflow would try for minutes.

    Raises:
        TrackingUnusable: A folder, pipe, socket or device is there.
    """
    if not uri.startswith("sqlite:///"):
        return
    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    try:
        with contextlib.suppress(OSError):  # SQLite says more about those
            open_regular(path, most_bytes=sys.maxsize).close()
    except FileRefused as error:
        raise TrackingUnusable(f"tracking store {uri} can't be used: {error}") from error


def shown(uri: str) -> str:
    """Return a store's address as it may be shown and written down: without a password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)

"""Addresses of tracking stores: what they are, and what can be said of them without MLflow.

>>> shown("postgresql://labeldp:secret@db/mlflow")
'postgresql://labeldp:***@db/mlflow'
"""

import contextlib
import re
import sys
from pathlib import Path
from urllib.parse import unquote

from labeldp.trainers.data.regular_files import FileRefused, open_regular

#: What tags begin with that say what made the features of a run.
FEATURE_TAG = "features."
_OTHER_FOLDER = (
    "rename the folder or choose another with --results DIR, or name a store in another place with "
    "MLFLOW_TRACKING_URI"
)


class TrackingUnusable(ValueError):
    """A tracking store or server that can't be used; the message says why and what to do."""


def default_uri(results: Path) -> str:
    """Return the address of the SQLite store beside a sweep's results.

    Raises:
        TrackingUnusable: No address leads there: the folder's path has a question mark, or a
            percent sign and two digits behind it.
    """
    uri = f"sqlite:///{results / 'mlflow.db'}"
    if "?" in uri:
        raise TrackingUnusable(
            f"results folder {results} has a question mark in its path, and in the address of the "
            f"tracking store beside it that ends the path; {_OTHER_FOLDER}"
        )
    check_path(uri)
    return uri


def check_path(uri: str) -> None:
    """Refuse a SQLite store that is looked for elsewhere; MLflow would try for minutes.

    SQLAlchemy takes %20 in an address for a space. To write %2520 would lead there, but MLflow then
    makes an empty folder of that name beside it, and an older SQLAlchemy takes it as it is.

    Raises:
        TrackingUnusable: A percent sign with two hexadecimal digits behind it is in the path.
    """
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    escaped = re.search("%[0-9a-fA-F]{2}", path)
    if uri.startswith("sqlite:///") and escaped is not None:
        raise TrackingUnusable(
            f"tracking store {path} has {escaped[0]} in its path, which MLflow's engine reads as "
            f"an escaped {unquote(escaped[0])!r}: it would look elsewhere; {_OTHER_FOLDER}"
        )


def check_file(uri: str) -> None:
    """Refuse a SQLite store whose file is not a database; MLflow would try for minutes.

    Raises:
        TrackingUnusable: A folder, pipe, socket or device is there, or as `check_path`.
    """
    if not uri.startswith("sqlite:///"):
        return
    check_path(uri)
    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    try:
        with contextlib.suppress(OSError):  # SQLite says more about those
            open_regular(path, most_bytes=sys.maxsize).close()
    except FileRefused as error:
        raise TrackingUnusable(f"tracking store {uri} can't be used: {error}") from error


def file_of(uri: str) -> Path | None:
    """Return the file of a local store, or None for any other."""
    prefix, plain = "sqlite:///", uri.partition("?")[0]
    return Path(plain.removeprefix(prefix)) if plain.startswith(prefix) else None


def shown(uri: str) -> str:
    """Return a store's address as it may be shown and written down: without a password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)

"""Addresses of tracking stores, and links into MLflow's pages, without MLflow.

>>> shown("postgresql://labeldp:secret@db/mlflow")
'postgresql://labeldp:***@db/mlflow'
>>> links("http://127.0.0.1:5000", experiment="1", runs=["a"])["compare"]
'http://127.0.0.1:5000/#/compare-runs?runs=%5B%22a%22%5D&experiments=%5B%221%22%5D'
"""

import contextlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from labeldp.trainers.data.files import FileRefused, open_regular

#: Tags of a run that describe the origin of its features begin so.
FEATURE_TAG = "features."
#: The address at which `make ui` and, if the port is free, `labeldp ui` serve a local store.
LOCAL_SERVER = "http://127.0.0.1:5000"
#: MLflow's search for the runs of trials, and an order; by the default one, time, the page folds
#: trials under the sweep's own run, also those that were searched for.
_TRIALS = "tags.mlflow.parentRunId != ''"
_ORDER = "metrics.`epsilon`"
#: Browsers refuse a link with many more runs.
_MOST_COMPARED = 50
_SQLITE = "sqlite:///"


def default_uri(results: Path) -> str:
    """Return the address of the SQLite store in a results folder.

    Raises:
        ValueError: The address leads elsewhere, because of a character in the folder's path.
    """
    # SQLAlchemy ends a path at ?, and reads %20 as a space.
    if (odd := re.search(r"%[0-9a-fA-F]{2}|\?", str(results))) is not None:
        raise ValueError(
            f"the path of results folder {results} contains {odd[0]}, which breaks the address of "
            "its tracking store; rename the folder, choose another with --results DIR, or name a "
            "store elsewhere with MLFLOW_TRACKING_URI"
        )
    return f"{_SQLITE}{results / 'mlflow.db'}"


def check_file(uri: str) -> None:
    """Refuse a SQLite store whose file is not a database; MLflow would try for minutes.

    Raises:
        ValueError: A folder, pipe, socket or device is there.
    """
    path = file_of(uri)
    if path is None:
        return
    try:
        with contextlib.suppress(OSError):  # SQLite's messages for those are better
            open_regular(path, most_bytes=sys.maxsize).close()
    except FileRefused as error:
        raise ValueError(f"tracking store {uri} can't be used: {error}") from error


def file_of(uri: str) -> Path | None:
    """Return the file of a local store, or None for any other."""
    plain = uri.partition("?")[0]
    return Path(plain.removeprefix(_SQLITE)) if plain.startswith(_SQLITE) else None


def shown(uri: str) -> str:
    """Return a store's address without its password."""
    return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:***@", uri)


def links(server: str, *, experiment: str, runs: Sequence[str]) -> dict[str, str]:
    """Return addresses of a sweep's table, chart and comparison on a server."""
    # The first parameter opens MLflow's menu for model training instead of the one for agents.
    place = (
        f"{server.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"
        f"&searchFilter={quote(_TRIALS)}&orderByKey={quote(_ORDER)}&orderByAsc=true"
    )
    compared = quote(json.dumps(list(runs)[:_MOST_COMPARED], separators=(",", ":")))
    experiments = quote(json.dumps([experiment]))
    return {
        "table": place,
        "chart": f"{place}&compareRunsMode=CHART",
        "compare": f"{server.rstrip('/')}/#/compare-runs?runs={compared}&experiments={experiments}",
    }

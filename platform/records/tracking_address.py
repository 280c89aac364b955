"""Addresses of tracking stores, and links into MLflow's pages, without MLflow.

>>> shown("postgresql://labeldp:secret@db/mlflow")
'postgresql://labeldp:***@db/mlflow'
>>> links("http://127.0.0.1:5000", experiment="1", runs=["a"])["compare"]
'http://127.0.0.1:5000/#/compare-runs?runs=%5B%22a%22%5D&experiments=%5B%221%22%5D'
>>> json.loads(shared_view("accuracy"))["selectedColumns"][:2]
['metrics.`accuracy`', 'metrics.`epsilon`']
"""

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

from labeldp.trainers.data.files import FileRefused, open_regular

#: Tags of a run that describe the origin of its features begin so.
FEATURE_TAG = "features."
#: The address at which `make ui` and, if the port is free, `labeldp ui` serve a local store.
LOCAL_SERVER = "http://127.0.0.1:5000"
#: MLflow's search for the runs of trials, and an order; by the default one, time, the page folds
#: trials under the sweep's own run, also those that were searched for.
TRIALS = "tags.mlflow.parentRunId != ''"
_ORDER = "metrics.`epsilon`"
#: Tag of an experiment that holds its saved view, and the view's name in links.
VIEW_TAG = "mlflow.sharedViewState.labeldp"
_VIEW = "labeldp"
#: Browsers refuse a link with many more runs, and MLflow draws no more.
MOST_COMPARED = 100
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
    # A password may hold any of `:/@`, or be an argument of the address.
    plain = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", uri)
    return re.sub(r"(?i)([?&][^=&]*(?:password|secret|token|key)[^=&]*=)[^&\s]*", r"\1***", plain)


def shared_view(metric: str) -> str:
    """Return the saved view of a sweep's experiment, as its tag has it.

    The table has columns of `metric`, epsilon, epsilon_m and line; the charts are `metric` and
    epsilon_m against epsilon, of all runs. The columns stand outside of the view's state too, for
    readers of the tag.
    """
    columns = [f"metrics.`{name}`" for name in (metric, "epsilon", "epsilon_m")]
    columns.append("tags.`line`")
    charts = [
        {
            "uuid": f"{name} against epsilon",
            "type": "SCATTER",
            "metricSectionId": _VIEW,
            "isGenerated": False,
            "deleted": False,
            "runsCountToCompare": MOST_COMPARED,
            "xaxis": {"key": "epsilon", "type": "METRIC"},
            "yaxis": {"key": name, "type": "METRIC"},
        }
        for name in (metric, "epsilon_m")
    ]
    section = {"uuid": _VIEW, "name": "Accuracy and privacy", "display": True, "isReordered": True}
    state = {
        "searchFilter": TRIALS,
        "orderByKey": _ORDER,
        "orderByAsc": True,
        "selectedColumns": columns,
        "runsHiddenMode": "SHOW_ALL",
        "compareRunCharts": charts,
        "compareRunSections": [section],
        "isAccordionReordered": True,
    }
    view = {"name": "accuracy, epsilon, epsilon_m", "createdAt": 0, "state": json.dumps(state)}
    return json.dumps({**view, "selectedColumns": columns})


def compared(runs: Iterable[tuple[str, str, float]]) -> list[str]:
    """Return the ids of runs to compare, the first of each line and epsilon where there are many.

    `runs`: id, line and epsilon of each, the better ones first.
    """
    every = list(runs)
    if len(every) <= MOST_COMPARED:
        return [run_id for run_id, _, _ in every]
    first: dict[tuple[str, float], str] = {}
    for run_id, line, epsilon in every:
        first.setdefault((line, epsilon), run_id)
    return list(first.values())[:MOST_COMPARED]


def links(server: str, *, experiment: str, runs: Sequence[str]) -> dict[str, str]:
    """Return addresses of a sweep's table, chart and comparison on a server."""
    # The first parameter opens MLflow's menu for model training instead of the one for agents.
    place = (
        f"{server.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"
        f"&viewStateShareKey={_VIEW}"
    )
    chosen = quote(json.dumps(list(runs), separators=(",", ":")))
    experiments = quote(json.dumps([experiment]))
    return {
        "table": place,
        "chart": f"{place}&compareRunsMode=CHART",
        "compare": f"{server.rstrip('/')}/#/compare-runs?runs={chosen}&experiments={experiments}",
    }

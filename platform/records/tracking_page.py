"""Texts of MLflow's pages: names of runs, a sweep's description, links.

>>> links("http://127.0.0.1:5000", experiment="1", runs=["a"])["compare"]
'http://127.0.0.1:5000/#/compare-runs?runs=%5B%22a%22%5D&experiments=%5B%221%22%5D'
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from labeldp.platform.sweep.accuracy_figures import estimated_text
from labeldp.platform.sweep.sweep import PlannedTrial

#: Where `make ui` and, if the port is free, `labeldp ui` serve a local store.
LOCAL_SERVER = "http://127.0.0.1:5000"
#: MLflow refuses descriptions of an experiment above 5,000 characters.
_NOTE_LENGTH = 4500
#: Browsers do not take a link with many more runs.
_MOST_COMPARED = 50


def description(text: str, *, rows: Sequence[Mapping[str, Any]], run_id: str) -> str:
    """Return a sweep's description as Markdown: what it found, its best rows, its figure.

    Args:
        text: What it found, and cost.
        rows: Of the Pareto front, as in the sweep's JSON.
        run_id: The sweep's run, whose artifact the figure is.
    """
    figure = f"get-artifact?path=pareto.png&run_uuid={run_id}"
    head = [text, "", f"![accuracy against epsilon]({figure})", ""]
    table = [
        "| best at its epsilon | accuracy | epsilon | epsilon_m, proven |",
        "|---|---|---|---|",
        *map(_row, rows),
    ]
    tail = ["", f"[report.html](get-artifact?path=report.html&run_uuid={run_id}) has every row."]
    while sum(len(line) + 1 for line in (*head, *table, *tail)) > _NOTE_LENGTH:
        table.pop()
    return "\n".join([*head, *table, *tail])


def links(server: str, *, experiment: str, runs: Sequence[str]) -> dict[str, str]:
    """Return addresses of a sweep's table, charts and comparison on a server.

    Args:
        server: Its address.
        experiment: Id of the experiment.
        runs: Ids of the runs to compare.
    """
    # The parameter opens MLflow's menu for model training in place of that for agents.
    place = f"{server.rstrip('/')}/#/experiments/{experiment}/runs?workflowType=machine_learning"
    compared = quote(json.dumps(list(runs)[:_MOST_COMPARED], separators=(",", ":")))
    experiments = quote(json.dumps([experiment]))
    return {
        "table": place,
        "chart": f"{place}&compareRunsMode=CHART",
        "compare": f"{server.rstrip('/')}/#/compare-runs?runs={compared}&experiments={experiments}",
    }


def run_names(plans: Mapping[str, PlannedTrial]) -> dict[str, str]:
    """Name each trial by its line and by what differs among the trials of that line.

    Args:
        plans: Trials by hash.

    Returns:
        Hash -> name, such as `ALIBI epsilon=2 seed=1`.
    """
    values: dict[str, dict[str, set[str]]] = {}
    for trial in plans.values():
        for key, value in trial.point.items():
            values.setdefault(trial.variant, {}).setdefault(key, set()).add(_short(value))
    every = {key for axes in values.values() for key in axes}
    names = {}
    for digest, trial in plans.items():
        axes = values.get(trial.variant, {})
        differing = [key for key in trial.point if len(axes[key]) > 1]
        parts = [f"{_last(key, every)}={_short(trial.point[key])}" for key in differing]
        names[digest] = " ".join([trial.variant, *parts])
    return names


def whole_name(trial: PlannedTrial) -> str:
    """Name a trial by its line and all that it sets on its axes."""
    every = set(trial.point)
    parts = [f"{_last(key, every)}={_short(value)}" for key, value in trial.point.items()]
    return " ".join([trial.variant, *parts])


def _last(key: str, every: set[str]) -> str:
    """The last part of a key; as many as it takes to tell it from the others."""
    parts = key.split(".")
    for count in range(1, len(parts)):
        ending = ".".join(parts[-count:])
        if sum(f".{other}".endswith(f".{ending}") for other in every) == 1:
            return ending
    return key


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _row(row: Mapping[str, Any]) -> str:
    def cell(name: str, scale: float = 1.0, digits: str = ".3g") -> str:
        return f"{scale * row[name]:{digits}}" if name in row else ""

    accuracy = cell("accuracy", 100, ".1f")
    if not accuracy and "accuracy_estimated" in row:
        accuracy = estimated_text(row["accuracy_estimated"])
    proven = f"{cell('epsilon_m_low')} to {cell('epsilon_m_high')}"
    variant = str(row["variant"]).replace("|", r"\|")
    return f"| {variant} | {accuracy} | {cell('epsilon')} | {proven} |"

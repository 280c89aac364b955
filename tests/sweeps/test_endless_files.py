"""Every file that a user can name: what never ends is refused at once, exit 2 and a message."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.platform.cli.asked import run
from tests.sweeps.conftest import Door

pytestmark = pytest.mark.timeout(60)

#: Verb and what it reads, at `{}`; the ending says how.
VERBS = {
    "votes.npy": "epsilon pate --votes {} --aggregator gnmax --sigma2 4 --delta 1e-5",
    "confidences.csv": "audit memorization --confidences {} --canary-labels {} --true-labels {}",
    "sweep.py": "plan {}",
    "own.npz": "data check {}",
    "own.parquet": "data check {}",
    "own.npy": "data check {} --labels {}",
    "mlflow.db": "report x --tracking-uri sqlite:///{} --out OUT",
}
#: The same of a sweep.
SWEEPS = {
    "own.csv": ["data.name=own", "data.path={}"],
    "results/sweep.json": [],
    "results/trials/0123456789abcdef.json": [],
}
KINDS = ("pipe", "device", "folder", "socket")


@contextlib.contextmanager
def nothing_to_read(kind: str, path: Path) -> Iterator[None]:
    """Put what is not a file at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        elif kind == "folder":
            path.mkdir()
        else:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(os.path.relpath(path))  # absolute ones may be too long for a socket
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*VERBS, *SWEEPS])
def test_a_path_that_is_not_a_file_is_refused(name: str, kind: str, door: Door) -> None:
    path = door.here / name
    with nothing_to_read(kind, path):
        if name in VERBS:
            code, *told = run(*(word.format(path) for word in VERBS[name].split()))
            # `check` answers with a finding, whose exit code is 1; the others refuse.
            text = "".join(told)
            assert code == (1 if VERBS[name].startswith("data check") else 2), text
        else:
            settings = (word.format(path) for word in SWEEPS[name])
            text = door.refuse("--results", "results", *settings)
    assert "Traceback" not in text and path.name in text and f"is a {kind}" in text

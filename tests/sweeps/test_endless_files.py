"""Every file that a user can name: what never ends is refused at once, exit 2 and a message."""

import contextlib
import io
import os
import socket
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp.trainers.data.columns import MOST_CHARACTERS
from labeldp.trainers.data.files import memory_bytes
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


def test_an_archive_of_nothing_but_zeros_is_not_unpacked(door: Door) -> None:
    """As a bomb announces it: a directory of more bytes than any memory has."""
    member = io.BytesIO()
    np.save(member, np.zeros(3))
    with zipfile.ZipFile(door.here / "own.npz", "w") as archive:
        archive.writestr("features.npy", member.getvalue())
        archive.filelist[0].file_size = archive.filelist[0].compress_size = memory_bytes() + 1
    code, text, _ = run("data", "check", "own.npz")
    assert code == 1 and "bytes when unpacked" in text


def test_a_table_with_a_huge_string_is_refused(door: Door) -> None:
    text = [*"aba", "x" * 20_000_000] * 2
    pd.DataFrame({"text": text, "label": [0, 1] * 3 + [1, 1]}).to_parquet("own.parquet")
    found = door.refuse("data.name=own", "data.path=own.parquet")
    assert "row 3, column 'text' has 20,000,000" in found
    assert f"{MOST_CHARACTERS:,} characters at most" in found

"""Every file that a user can name: what never ends is refused at once, exit 2 and a message."""

import contextlib
import io
import os
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp.platform.cli import command_line, sweep_command
from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep import open_sweep
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import Preset, Sweep
from labeldp.trainers.data.columns import MOST_CHARACTERS
from labeldp.trainers.data.files import memory_bytes

pytestmark = pytest.mark.timeout(60)

SWEEP = Sweep(name="endless", base=TrialConfig(), smoke=Preset())

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
    "prior.npy": ["method=alibi_prior", "trainer.prior.source=file", "trainer.prior.path={}"],
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


def printed(call: Callable[[], int]) -> tuple[int, str]:
    """Return an exit code and all that was printed."""
    text = io.StringIO()
    with contextlib.redirect_stderr(text), contextlib.redirect_stdout(text):
        code = call()
    assert "Traceback" not in text.getvalue()
    return code, text.getvalue()


def command(*arguments: str) -> tuple[int, str]:
    """Run `labeldp`."""
    return printed(lambda: command_line.main(list(arguments)))


def sweep(*arguments: str) -> tuple[int, str]:
    """Run a sweep up to where Ray starts."""
    return printed(lambda: sweep_command.run(SWEEP, ["--results", "results", *arguments]))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def stop(address: object) -> None:
        raise TrackingUnusable("as far as this test goes")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(open_sweep, "connected", stop)
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*VERBS, *SWEEPS])
def test_a_path_that_is_not_a_file_is_refused(name: str, kind: str, here: Path) -> None:
    path = here / name
    with nothing_to_read(kind, path):
        if name in VERBS:
            code, text = command(*(word.format(path) for word in VERBS[name].split()))
        else:
            code, text = sweep(*(word.format(path) for word in SWEEPS[name]))
    # `check` answers with a finding, whose exit code is 1; the others refuse.
    checked = name in VERBS and VERBS[name].startswith("data check")
    assert code == (1 if checked else 2), text
    assert path.name in text and f"is a {kind}" in text


def test_an_archive_of_nothing_but_zeros_is_not_unpacked(here: Path) -> None:
    """As a bomb announces it: a directory of more bytes than any memory has."""
    member = io.BytesIO()
    np.save(member, np.zeros(3))
    with zipfile.ZipFile(here / "own.npz", "w") as archive:
        archive.writestr("features.npy", member.getvalue())
        archive.filelist[0].file_size = archive.filelist[0].compress_size = memory_bytes() + 1
    code, text = command("data", "check", str(here / "own.npz"))
    assert code == 1 and "bytes when unpacked" in text


def test_a_table_with_a_huge_string_is_refused(here: Path) -> None:
    text = [*"aba", "x" * 20_000_000] * 2
    pd.DataFrame({"text": text, "label": [0, 1] * 3 + [1, 1]}).to_parquet(here / "own.parquet")
    code, found = sweep("data.name=own", f"data.path={here / 'own.parquet'}")
    cause = "row 3, column 'text' has 20,000,000"
    assert code == 2 and cause in found and f"{MOST_CHARACTERS:,} characters at most" in found

"""Every file that a user can name: what never ends is refused at once, exit 2 and a message."""

import contextlib
import io
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from labeldp.platform.cli import command_line, sweep_command
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import TrackingUnusable
from labeldp.platform.sweep import open_sweep
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import Smoke, Sweep
from labeldp.trainers.data.columns import MOST_CHARACTERS
from labeldp.trainers.data.files import memory_bytes

pytestmark = pytest.mark.timeout(60)

SWEEP = Sweep(name="endless", base=TrialConfig(), smoke=Smoke())
QUICKSTART = str(Path(__file__).parents[3] / "sweeps" / "quickstart.py")

#: Verb and what it reads, at `{}`; the ending says how.
VERBS = {
    "votes.npy": "epsilon pate --votes {} --aggregator gnmax --sigma2 4 --delta 1e-5",
    "votes.npz": "calibrate pate --votes {} --epsilon 1 --delta 1e-5 --answer 1",
    "confidences.csv": "audit memorization --confidences {} --canary-labels {} --true-labels {}",
    "scores.npy": "audit one-run --scores {} --truth {}",
    "counts.csv": "audit vote-leakage --counts {} --noise-std 2 --teachers 3",
    "settings.yaml": f"plan {QUICKSTART} --config {{}}",
    "sweep.py": "plan {}",
    "own.npz": "data check {}",
    "own.parquet": "data check {}",
    "own.csv": "data check {}",
    "own.npy": "data check {} --labels {}",
    "mlflow.db": "report x --tracking-uri sqlite:///{} --out OUT",
}
KINDS = ("pipe", "device", "folder", "socket")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(open_sweep, "_tracking", _stop)
    return tmp_path


def _stop(*given: object, **settings: object) -> None:
    raise TrackingUnusable("as far as this test goes")


@contextlib.contextmanager
def nothing_to_read(kind: str, path: Path) -> Iterator[None]:
    """Put what is no file at `path`."""
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


def command(*arguments: str) -> tuple[int, str]:
    """Run `labeldp`; returns the exit code and all it said."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = command_line.main(list(arguments))
    return code, said.getvalue()


def sweep(*arguments: str) -> tuple[int, str]:
    """Run a sweep up to where Ray starts."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = sweep_command.run(SWEEP, ["--results", "results", *arguments])
    return code, said.getvalue()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VERBS)
def test_every_verb_refuses_what_is_no_file(name: str, kind: str, here: Path) -> None:
    path = here / name
    with nothing_to_read(kind, path):
        code, said = command(*(word.format(path) for word in VERBS[name].split()))
    # `check` answers with a finding, whose exit code is 1; the others refuse.
    assert code == (1 if name.startswith("own.") else 2), said
    assert str(path) in said and "Traceback" not in said
    assert f"is a {kind}" in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["own.npz", "own.parquet", "own.csv", "prior.npy"])
def test_sweeps_refuse_own_data_and_priors_that_are_no_file(
    name: str, kind: str, here: Path
) -> None:
    settings = ["data.name=own", f"data.path={here / name}"]
    if name == "prior.npy":
        settings = ["method=alibi_prior", "trainer.prior.source=file"]
        settings.append(f"trainer.prior.path={here / name}")
    with nothing_to_read(kind, here / name):
        code, said = sweep(*settings)
    assert code == 2 and f"{name} is a {kind}" in said and "Traceback" not in said


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sweep.json", "trials/0123456789abcdef.json"])
def test_results_folders_whose_records_are_none(name: str, kind: str, here: Path) -> None:
    with nothing_to_read(kind, here / "results" / name):
        code, said = sweep()
    # A device is named by a link here; that of `sweep.json` is refused for being one.
    link = kind == "device" and name == "sweep.json"
    told = ("is a link to /dev/zero",) if link else ("can't be read", f"is a {kind}")
    assert code == 2 and Path(name).name in said and all(words in said for words in told), said


def test_an_archive_of_nothing_but_zeros_is_not_unpacked(here: Path) -> None:
    """As a bomb announces it: a directory of more bytes than any memory has."""
    member = io.BytesIO()
    np.save(member, np.zeros(3))
    with zipfile.ZipFile(here / "own.npz", "w") as archive:
        archive.writestr("features.npy", member.getvalue())
        archive.filelist[0].file_size = archive.filelist[0].compress_size = memory_bytes() + 1
    code, said = command("data", "check", str(here / "own.npz"))
    assert code == 1 and "bytes when unpacked" in said
    code, said = command(*VERBS["scores.npy"].format(here / "own.npz", here / "own.npz").split())
    assert code == 2 and "bytes when unpacked" in said


@pytest.mark.parametrize("rows", [8, 20_000])
def test_a_table_with_a_huge_string_is_refused(rows: int, here: Path) -> None:
    """Its row gives it away in the footer, unless many short rows hide it; then its length does."""
    text = ["a", "b"] * (rows // 2)
    text[3] = "x" * 20_000_000
    pd.DataFrame({"text": text, "label": [0, 1] * (rows // 2)}).to_parquet(here / "own.parquet")
    code, said = sweep("data.name=own", f"data.path={here / 'own.parquet'}")
    told = "'text' holds 20," if rows == 8 else "row 3, column 'text' has 20,000,000"
    assert code == 2 and told in said
    assert f"{MOST_CHARACTERS:,} characters at most" in said and "Traceback" not in said


@pytest.mark.parametrize("kind", KINDS)
def test_sweeps_refuse_a_tracking_store_that_is_no_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # without the fixture, which stands in for tracking
    with nothing_to_read(kind, tmp_path / "runs.db"):
        uri = f"sqlite:///{tmp_path / 'runs.db'}"
        with pytest.raises(TrackingUnusable, match=rf"runs\.db is a {kind}"):
            Tracker(uri=uri, experiment="x", results=tmp_path)


def test_plan_looks_for_the_file_before_it_imports_anything_heavy() -> None:
    code = (
        "import sys; from labeldp.platform.cli.command_line import main; "
        "assert main(['plan', 'nosuch.py']) == 2; "
        "heavy = {'torch', 'ray', 'sklearn', 'mlflow', 'numpy'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "'nosuch.py' does not exist" in done.stderr

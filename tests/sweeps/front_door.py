"""A sweep's front door for tests: what is refused there touches nothing and says one line."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.command_line import main
from labeldp.platform.records import tracking
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep import open_sweep
from labeldp.platform.sweep.overrides import load_sweep
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import copy_store, new_store

QUICKSTART = str(Path(__file__).resolve().parents[2] / "sweeps" / "quickstart.py")


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below `folder`, but for the lock that says who was here last."""
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "driver.lock"
    }


@dataclass
class Door:
    """A place to run the quickstart's command line from."""

    here: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def results(self) -> Path:
        return self.here / "results" / "quickstart"

    def refuse(self, *arguments: str) -> tuple[int, str]:
        """Run, check that one line was said and nothing was changed, and return code and line."""
        before = contents(self.here)
        code = sweep_command.run(load_sweep(QUICKSTART), list(arguments))
        captured = self.capsys.readouterr()
        assert captured.out == ""
        assert "Traceback" not in captured.err
        lines = [line for line in captured.err.splitlines() if "error: " in line]
        assert len(lines) == 1, captured.err
        assert contents(self.here) == before
        return code, lines[0]

    def command(self, *arguments: str) -> tuple[int, str]:
        """Run `labeldp`, and return its exit code and all that it printed."""
        code = main(list(arguments))
        text = "".join(self.capsys.readouterr())
        assert "Traceback" not in text
        return code, text


@pytest.fixture
def door(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Door]:
    """A folder to start in: empty, or "used": with the results of an earlier start."""

    def not_reached(address: str | None) -> AbstractContextManager[object]:
        raise AssertionError("Ray is about to start")

    monkeypatch.setattr(open_sweep, "connected", not_reached)
    monkeypatch.setattr(tracking, "_create_whole", copy_store)
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)
    door = Door(here=tmp_path, capsys=capsys)
    if getattr(request, "param", "new") == "used":
        folder = ResultsFolder(door.results, sweep="quickstart")
        folder.identify(fingerprint="f" * 64, parent_run_id="0" * 32)
        folder.keep(a_record())
        new_store(door.results)
        (door.results / "vault.db").write_bytes(b"not looked at")
    terminate = signal.getsignal(signal.SIGTERM)
    yield door
    signal.signal(signal.SIGTERM, terminate)

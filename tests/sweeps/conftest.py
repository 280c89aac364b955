"""A sweep's front door: what is refused there touches nothing and says one line."""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from labeldp.platform.records import tracking
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep import open_sweep
from labeldp.platform.sweep.config_files import load_sweep
from tests.platform.cli.asked import swept
from tests.platform.sweep.examples import a_record, files_of
from tests.platform.sweep.stores import copy_store, new_store


class Door:
    """A place to run the quickstart's command line from."""

    def __init__(self, here: Path) -> None:
        self.here, self.results = here, here / "results" / "quickstart"

    def refuse(self, *arguments: str) -> str:
        """Run, check that one line was said and nothing was changed, and return the line."""
        before = files_of(self.here)
        ended, out, err = swept(QUICKSTART, *arguments)
        assert (ended, out) == (2, "") and "Traceback" not in err
        (line,) = [line for line in err.splitlines() if "error: " in line]
        assert files_of(self.here) == before
        return line


QUICKSTART = load_sweep("quickstart")


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def door(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Door]:
    """A folder to start in: empty, or "used": with the results of an earlier start."""

    def not_reached(address: str | None) -> AbstractContextManager[object]:
        raise AssertionError("Ray is about to start")

    monkeypatch.setattr(open_sweep, "connected", not_reached)
    monkeypatch.setattr(tracking, "_create_whole", copy_store)
    monkeypatch.chdir(tmp_path)
    door = Door(tmp_path)
    if getattr(request, "param", "new") == "used":
        folder = ResultsFolder(door.results, sweep="quickstart")
        folder.identify(fingerprint="f" * 64, parent_run_id="0" * 32)
        folder.keep(a_record())
        new_store(door.results)
        (door.results / "vault.db").write_bytes(b"not looked at")
    terminate = signal.getsignal(signal.SIGTERM)
    yield door
    signal.signal(signal.SIGTERM, terminate)

"""A driver killed while it closes its sweep, on a folder that others could read; then moved."""

import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records.results import write_json
from tests.faults.ending_sweep import RELEASES, TRIALS
from tests.faults.kills_at_the_end import check_totals, files
from tests.faults.sweep_runs import (
    ROOT,
    Driver,
    Ending,
    check_tracking,
    identity,
    own_environment,
)

pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster]

ENDING = Path(__file__).with_name("ending_sweep.py")
#: The first file of the sweep's own run: its numbers are written, its report is not.
AFTER_THE_TOTALS = ".artifact.uploading."


def modes(folder: Path) -> dict[str, str]:
    """Modes of all that is not for the owner alone."""
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}
    return {
        str(path): oct(mode)
        for path, mode in found.items()
        if mode != (0o700 if path.is_dir() else 0o600)
    }


@dataclass(frozen=True)
class Story:
    """A sweep that was killed at its end, and run again."""

    results: Path
    killed: int
    totals_before: dict[str, float]
    outcome: dict[str, Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory, cluster: Any) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp("ending")
    results = folder / "results"
    for name in ("trials", "artifacts/left", "private", "audits", "checkpoints"):
        (results / name).mkdir(parents=True, exist_ok=True)
    write_json(results / "sweep.json", {"sweep": "ending"})
    for name in ("report.html", "artifacts/left/a.txt", "private/audits.html", "driver.lock"):
        (results / name).write_text("")
    for path in (results, *results.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    there = ("--address", cluster.address)
    with Driver(results, *there, "--kill-at", AFTER_THE_TOTALS, sweep=ENDING) as driver:
        killed = driver.ended()
    before = check_totals(results)
    with Driver(results, *there, "--resume", "must", sweep=ENDING) as driver:
        outcome = driver.finish()
    yield Story(results, killed, before, outcome)


def test_it_was_killed_after_its_numbers_were_written(story: Story) -> None:
    assert story.killed == -9
    assert story.totals_before["finished"] == TRIALS
    assert story.totals_before["releases"] == RELEASES


def test_every_number_of_the_sweep_is_there_once(story: Story) -> None:
    assert check_totals(story.results) == story.totals_before
    check_tracking(story.results)
    assert story.outcome["skipped"] == TRIALS
    assert len(Ending.of(story.results).releases) == RELEASES


def test_all_files_are_their_owners_alone_whatever_was_there(story: Story) -> None:
    assert modes(story.results) == {}
    assert files(story.results)["report.html"] == 1


def test_a_moved_folder_goes_on_in_its_new_place_also_without_its_identity(
    story: Story, cluster: Any
) -> None:
    before = identity(story.results)
    moved = story.results.rename(story.results.with_name("moved"))
    (moved / "sweep.json").unlink()
    try:
        with Driver(moved, "--address", cluster.address, "seed=[0,1,2]", sweep=ENDING) as driver:
            outcome = driver.finish()
        assert (outcome["skipped"], outcome["finished"]) == (TRIALS, 1)
        assert not story.results.exists(), "something was written to the old place"
        assert identity(moved)["vault"] == before["vault"]
        check_tracking(moved)
        assert modes(moved) == {}
    finally:
        moved.rename(story.results)


def test_a_copy_is_refused_until_it_is_told(story: Story) -> None:
    copy = story.results.with_name("copy")
    shutil.copytree(story.results, copy)
    with Driver(copy, sweep=ENDING) as driver:
        assert driver.ended() == 2
        assert "is a copy of the vault" in driver.log and "--moved" in driver.log
        assert "Traceback" not in driver.log


def test_kills_at_any_of_the_last_writes_end_as_in_peace() -> None:
    """A few of the kills of `fault_table --at-the-end`, in a process that may be forked."""
    command = [sys.executable, "-m", "tests.benchmarks.fault_table", "--kills", "4", "--at-the-end"]
    done = subprocess.run(
        command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("| as in peace |") == 4, done.stdout

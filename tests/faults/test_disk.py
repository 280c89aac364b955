"""A disk that fills up, and a results folder that can't be written any more, under a sweep."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.faults.mischief import Mischief
from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, check_tracking, records, run_here

pytestmark = [pytest.mark.fault, pytest.mark.ray_cluster]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 24 MiB; who may not mount skips the test."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "labeldp-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=30)
    except OSError as error:
        pytest.skip(f"no disk can be mounted here: {error}")
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)


def fill(disk: Path) -> None:
    """Leave not a byte."""
    with open(disk / "filler", "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))


def test_a_full_disk_and_a_folder_in_the_way(
    cluster: Any, undisturbed: Ending, small_disk: Path
) -> None:
    results = small_disk / "results"
    trials, elsewhere = results / "trials", results / "elsewhere"
    command = ["--results", str(results), "--address", cluster.address]

    with Mischief(results, [(1, lambda: fill(small_disk))]):
        code, said = run_here(SWEEP, *command)
    assert code == 2, said
    assert "No space left on device" in said and "--resume auto" in said
    finished = len(records(results))
    # Whatever was charged is there with what it paid for, and nothing is torn.
    assert set(Ending.of(results).releases) <= set(undisturbed.releases)
    (small_disk / "filler").unlink()

    def put_a_file_in_the_way() -> None:
        trials.rename(elsewhere)
        trials.write_text("")

    with Mischief(results, [(finished + 1, put_a_file_in_the_way)]):
        code, said = run_here(SWEEP, *command)
    assert code == 2, said
    assert f"{trials}" in said and "can't be written" in said and "--resume auto" in said
    trials.unlink()
    elsewhere.rename(trials)
    assert len(records(results)) > finished

    code, said = run_here(SWEEP, *command, "--resume", "must")
    assert code == 0, said
    assert Ending.of(results) == undisturbed
    check_tracking(results)

"""Arrays in files: made once and read by all to the bit."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.trainers.models.features import Arrays, made_once

FORK = multiprocessing.get_context("fork")


def place_in(folder: Path, **key: object) -> dict[str, Any]:
    return {"folder": folder, "name": "numbers", "key": key}


def counting(made: list[int], arrays: Arrays) -> Callable[[], Arrays]:
    def make() -> Arrays:
        made.append(1)
        return arrays

    return make


def several() -> Arrays:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(7, 5)).astype(np.float32),
        rng.normal(size=3),
        np.asfortranarray(rng.integers(0, 9, size=(4, 6))),
        np.array(2.5),
    )


def test_readers_see_the_computed_bits(tmp_path: Path) -> None:
    made: list[int] = []
    first = made_once(counting(made, several()), **place_in(tmp_path))
    second = made_once(counting(made, several()), **place_in(tmp_path))
    assert made == [1]
    for found in (first, second):
        for one, other in zip(several(), found, strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
            assert one.shape == other.shape
            assert one.flags.f_contiguous == other.flags.f_contiguous
    (place,) = tmp_path.iterdir()
    assert sorted(file.name for file in place.iterdir()) == [f"0{n}.npy" for n in range(4)]


def test_other_and_half_written_arrays_are_made_anew(tmp_path: Path) -> None:
    made_once(several, **place_in(tmp_path, seed=1))
    made: list[int] = []
    for file in ("other", "00.npy"):
        for whole in tmp_path.glob(f"*/{file}"):  # the first is written last
            whole.unlink()
        made_once(counting(made, several()), **place_in(tmp_path, seed=1))
        made_once(counting(made, several()), **place_in(tmp_path, seed=2))
    assert made == [1, 1, 1]


def test_a_folder_that_cannot_be_used_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made: list[int] = []
    for _ in range(2):
        made_once(counting(made, several()), **place_in(tmp_path / "file" / "below"))
    assert made == [1, 1]


def never_done(folder: Path, begun: Any) -> None:
    def make() -> Arrays:
        begun.set()
        time.sleep(600)
        return (np.arange(5),)

    made_once(make, **place_in(folder))


def test_a_waiting_process_replaces_a_dead_one_within_its_limit(tmp_path: Path) -> None:
    begun = FORK.Event()
    other = FORK.Process(target=never_done, args=(tmp_path, begun))
    other.start()
    try:
        assert begun.wait(120)
        # A process that is not patient computes for itself.
        assert made_once(several, **place_in(tmp_path), patience=0.3)
        (written,) = tmp_path.glob("*/00.npy")
        written.unlink()
        found: list[Arrays] = []
        waiting = threading.Thread(
            target=lambda: found.append(made_once(several, **place_in(tmp_path)))
        )
        waiting.start()
        waiting.join(0.7)
        assert waiting.is_alive(), "it waits for the other process"
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
        waiting.join(60)
        assert found and found[0][0].tobytes() == several()[0].tobytes()
    finally:
        other.kill()
        other.join()

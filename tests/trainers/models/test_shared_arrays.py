"""Arrays in files: made once and read by all to the bit."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from labeldp.trainers.models.features import Arrays, made_once

FORK = multiprocessing.get_context("fork")


def place_in(folder: Path, **key: object) -> dict[str, Any]:
    return {"folder": folder, "name": "numbers", "key": key}


def several() -> Arrays:
    rng = np.random.default_rng(0)
    return (
        rng.normal(size=(7, 5)).astype(np.float32),
        rng.normal(size=3),
        np.asfortranarray(rng.integers(0, 9, size=(4, 6))),
        np.array(2.5),
    )


def test_readers_see_the_computed_bits(tmp_path: Path) -> None:
    make = Mock(side_effect=several)
    twice = [made_once(make, **place_in(tmp_path)) for _ in range(2)]
    assert make.call_count == 1
    for found in twice:
        for one, other in zip(several(), found, strict=True):
            assert one.dtype == other.dtype and one.tobytes() == other.tobytes()
            assert one.shape == other.shape
            assert one.flags.f_contiguous == other.flags.f_contiguous
    (place,) = tmp_path.iterdir()
    assert sorted(file.name for file in place.iterdir()) == [f"0{n}.npy" for n in range(4)]


def test_other_and_half_written_arrays_are_made_anew(tmp_path: Path) -> None:
    made_once(several, **place_in(tmp_path, seed=1))
    make = Mock(side_effect=several)
    for file in ("other", "00.npy"):
        for whole in tmp_path.glob(f"*/{file}"):  # the first is written last
            whole.unlink()
        made_once(make, **place_in(tmp_path, seed=1))
        made_once(make, **place_in(tmp_path, seed=2))
    assert make.call_count == 2 + 1


def test_a_folder_that_cannot_be_used_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    make = Mock(side_effect=several)
    for _ in range(2):
        made_once(make, **place_in(tmp_path / "file" / "below"))
    assert make.call_count == 2


def test_a_waiting_process_replaces_a_dead_one_within_its_limit(tmp_path: Path) -> None:
    begun = FORK.Event()

    def never_done() -> Arrays:
        begun.set()
        time.sleep(600)
        return ()

    other = FORK.Process(target=made_once, args=[never_done], kwargs=place_in(tmp_path))
    other.start()
    try:
        assert begun.wait(120)
        # A process that is not patient computes for itself.
        assert made_once(several, **place_in(tmp_path), patience=0.3)
        (written,) = tmp_path.glob("*/00.npy")
        written.unlink()
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(made_once, several, **place_in(tmp_path))
            with pytest.raises(TimeoutError):  # it waits for the other process
                waiting.result(0.7)
            other.kill()
            assert waiting.result(60)[0].tobytes() == several()[0].tobytes()
    finally:
        other.kill()
        other.join()

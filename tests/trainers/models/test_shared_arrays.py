"""Arrays in files: made once and read by all to the bit, and sent by name."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.trainers.data import own_files
from labeldp.trainers.data.labelled_data import (
    LabelledData,
    file_of,
    load_own,
    set_aside,
    take_rows,
)
from labeldp.trainers.data.own_files import HoldOut, OwnSource
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


ROWS, WIDTH = 500, 80


def saved(folder: Path, kind: type = np.float32) -> Path:
    random = np.random.default_rng(0)
    matrix = random.normal(3, 20, (ROWS, WIDTH)) * random.uniform(0.01, 10, WIDTH)
    matrix[:, 7] = 5.5
    np.save(folder / "X.npy", matrix.astype(kind))
    np.save(folder / "y.npy", random.integers(3, size=ROWS))
    return folder / "X.npy"


def loaded(path: Path, hold_out: HoldOut = HoldOut.NONE, limit: int | None = None) -> LabelledData:
    source = OwnSource(path=path, labels=path.with_name("y.npy"), hold_out=hold_out, classes=3)
    return load_own(source, limit=limit, folder=path.parent / "features")


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(own_files, "MAPPED_BYTES", 1)
    return monkeypatch


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("hold_out", HoldOut)
def test_features_are_the_same_in_a_file_and_in_memory(
    tmp_path: Path, kind: type, hold_out: HoldOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path, kind)
    held = loaded(path, hold_out)
    assert file_of(held.public.train_features) is None
    monkeypatch.setattr(own_files, "MAPPED_BYTES", 1)
    on_disk = loaded(path, hold_out)
    assert file_of(on_disk.public.train_features) is not None
    for part in ("train_features", "test_features"):
        ours, theirs = getattr(on_disk.public, part), getattr(held.public, part)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(on_disk.train_labels, held.train_labels)
    assert not on_disk.public.train_features[:, 7].any()


def test_they_are_pickled_by_name_alone(tmp_path: Path, mapped: pytest.MonkeyPatch) -> None:
    public = loaded(saved(tmp_path), HoldOut.PUBLIC).public
    sent = pickle.dumps(public)
    assert len(sent) < 20_000 < public.train_features.numel()
    arrived = pickle.loads(sent)
    assert torch.equal(arrived.train_features, public.train_features)
    assert arrived.fingerprint == public.fingerprint
    for file in (tmp_path / "features").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="is not on this machine"):
        pickle.loads(sent)


def test_rows_of_a_file_lie_in_a_file(tmp_path: Path, mapped: pytest.MonkeyPatch) -> None:
    data = loaded(saved(tmp_path))
    features = data.public.train_features
    assert file_of(features[:10]) is None
    rows = np.array([5, 3, 400])
    few = take_rows(features, rows)
    assert torch.equal(few, features[[5, 3, 400]]) and file_of(few) is not None
    apart = set_aside(data, share=0.2)
    assert file_of(apart.public.train_features) is not None
    assert apart.public.held_out_features is not None
    assert len(apart.public.held_out_features) == 100
    limited = loaded(saved(tmp_path), limit=50)
    assert file_of(limited.public.train_features) is not None
    assert len(limited.train_labels) == 50

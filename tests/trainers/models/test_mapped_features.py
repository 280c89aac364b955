"""mapped_features: features in files give what features in memory do, and are sent by name."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.trainers.data import own_files
from labeldp.trainers.data.labelled_data import LabelledData, load_own, set_aside
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from labeldp.trainers.models.mapped_features import file_of, take_rows

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


def test_they_are_pickled_by_name_and_never_twice(
    tmp_path: Path, mapped: pytest.MonkeyPatch
) -> None:
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


def test_files_are_written_once_and_anew_when_the_data_change(
    tmp_path: Path, mapped: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path)
    first = loaded(path).public.fingerprint
    files = {f: f.stat().st_mtime_ns for f in (tmp_path / "features").iterdir()}
    assert loaded(path).public.fingerprint == first
    assert files == {f: f.stat().st_mtime_ns for f in (tmp_path / "features").iterdir()}
    matrix = np.load(path)
    matrix[3] += 100
    np.save(path, matrix)
    assert loaded(path).public.fingerprint != first


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


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named_by_row_and_column(
    tmp_path: Path, mapped: pytest.MonkeyPatch, kind: type, bad: float
) -> None:
    path = saved(tmp_path, kind)
    matrix = np.load(path)
    matrix[401, 60] = bad
    np.save(path, matrix)
    for hold_out in HoldOut:
        with pytest.raises(ValueError, match=rf"features row 401, column 60 is {bad}"):
            loaded(path, hold_out)

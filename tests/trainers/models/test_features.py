"""Label-free features: their scale, constant columns, what is kept and read again."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.models.features import described_by_features, label_free_features
from labeldp.trainers.models.patches import PatchFeatures
from tests.trainers.small_data import small_images, small_table

SMALL = PatchFeatures(patch=3, centers=7, cells=2, dimensions=5, sampled_patches=300)


def test_features_are_centered_and_of_unit_size() -> None:
    for data, _ in (small_images(), small_table()):
        train = label_free_features(data, SMALL).train
        assert train.mean(0).abs().max() < 1e-4
        assert train.square().sum(1).mean() == pytest.approx(1, abs=1e-3)


def test_features_are_kept_by_content(tmp_path: Path) -> None:
    data, _ = small_images()
    folder = tmp_path / "kept"
    first = label_free_features(data, SMALL, folder=folder)
    (path,) = folder.glob("*.npy")
    # What is read next time is the file, not a new computation.
    stored = np.load(path)
    stored[0, 0] = 42.0
    np.save(path, stored)
    again = label_free_features(data, SMALL, folder=folder)
    assert again.train[0, 0] == 42.0
    assert torch.equal(again.train[1:], first.train[1:]) and torch.equal(again.test, first.test)
    again.train.zero_()  # a private copy: the file stays
    assert np.load(path)[0, 0] == 42.0
    label_free_features(data, replace(SMALL, seed=3), folder=folder)
    label_free_features(small_images(seed=5)[0], SMALL, folder=folder)
    assert len(list(folder.glob("*.npy"))) == 3


@pytest.mark.parametrize("kept", [False, True], ids=["fitted", "read from disk"])
def test_what_made_the_features_makes_them_again(tmp_path: Path, kept: bool) -> None:
    for data, _ in (small_images(), small_table()):
        if kept:
            label_free_features(data, SMALL, folder=tmp_path)
        described = described_by_features(data, SMALL, folder=tmp_path)
        raw = data.test_features.numpy()
        assert torch.equal(described.preprocessing(raw), described.test_features)
        assert described.fingerprint != data.fingerprint
        plain = json.loads(json.dumps(described.preprocessing.described()))
        restored = Preprocessing.restored(plain, described.preprocessing.arrays())
        assert torch.equal(restored(raw), described.test_features)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space left"):
        label_free_features(small_table()[0], folder=tmp_path)
    assert not list(tmp_path.iterdir())

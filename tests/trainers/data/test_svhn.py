"""svhn: files in the published format, and such as are cut off, damaged or something else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.io import savemat

from labeldp.trainers.data import published as module
from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.published import read_svhn
from tests.trainers.data_samples import images

#: As the files have them: the digit 0 is written 10.
LABELS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 1], dtype=np.uint8)


def write_svhn(path: Path, *, seed: int = 0, compressed: bool = True) -> NDArray[np.uint8]:
    """Write a small file as published, and return its pictures [N, 3, 32, 32]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = images(len(LABELS), 3, 32, 32, seed=seed)
    content = {"X": pictures.transpose(2, 3, 1, 0), "y": LABELS[:, None]}
    savemat(path, content, do_compression=compressed)
    return pictures


def test_both_files_make_the_set(tmp_path: Path) -> None:
    train = write_svhn(tmp_path / "SVHN/train_32x32.mat")
    test = write_svhn(tmp_path / "SVHN/test_32x32.mat", seed=1, compressed=False)
    data = load("svhn", root=tmp_path)
    assert torch.equal(data.public.train_features, torch.from_numpy(train))
    assert torch.equal(data.public.test_features, torch.from_numpy(test))
    assert data.train_labels.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 1]
    assert data.public.num_classes == 10


def test_a_file_that_is_cut_off_or_of_another_kind_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train_32x32.mat"
    write_svhn(path)
    good = path.read_bytes()
    for content in (b"", b"PK\x03\x04 something else", good[:200], good[:-3000]):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"train_32x32\.mat .*fetch it again"):
            read_svhn(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"digitStruct": np.zeros(3)}, "it holds digitStruct; X and y are in"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))}, r"y \(3, 1\)"),
        ({"X": np.zeros((28, 28, 3, 2), np.uint8), "y": np.ones((2, 1))}, r"X is \(28, 28, 3, 2\)"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))}, "X holds float64"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1], [0]])}, r"y\[1\] is none"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.5], [1]])}, r"y\[0\] is none"),
    ],
)
def test_what_the_published_files_do_not_hold(
    tmp_path: Path, content: dict[str, NDArray[Any]], message: str
) -> None:
    path = tmp_path / "test_32x32.mat"
    savemat(path, content)
    with pytest.raises(DataFileError, match=message) as caught:
        read_svhn(path)
    assert str(path) in str(caught.value)


def test_more_than_memory_holds_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train_32x32.mat"
    write_svhn(path)
    monkeypatch.setattr(module, "memory_bytes", lambda: 3072 * 11)
    with pytest.raises(DataFileError, match="12 pictures, more than this machine's memory"):
        read_svhn(path)

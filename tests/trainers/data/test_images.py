"""images: every published format, and files that are cut off, damaged or hostile."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.published import read_cifar_binary, read_cifar_pickle, read_idx
from tests.trainers.data_samples import (
    images,
    python2_batch,
    write_cifar_binary,
    write_idx,
    write_mnist,
    write_pickle,
)

LABELS = np.arange(10)


def test_idx_files_give_the_images_back(tmp_path: Path) -> None:
    for name, folder in (
        ("mnist", "MNIST"),
        ("fashion_mnist", "FashionMNIST"),
        ("kmnist", "KMNIST"),
    ):
        pixels = write_mnist(tmp_path, folder=folder)
        data = load(name, root=tmp_path)
        assert torch.equal(data.public.train_features, torch.from_numpy(pixels[:, None]))
        assert data.train_labels.tolist() == list(range(10)) * 2
        assert len(data.public.test_features) == len(data.public.test_labels) == 10


def test_damaged_idx_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "images"
    write_idx(path, images(5, 28, 28))
    path.write_bytes(path.read_bytes()[:-1])
    expected = "images has 3,935 bytes, but its header announces 5x28x28 entries, 3,936 bytes"
    with pytest.raises(DataFileError, match=expected):
        read_idx(path, dimensions=3)
    for content in (b"", b"\x1f\x8b\x08\x00 a gzip file", b"\x00\x00\x08\x03\x00"):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"starts with 00 00 08 03.*decompress"):
            read_idx(path, dimensions=3)
    # A header that announces more than any memory holds.
    path.write_bytes(b"\x00\x00\x08\x03" + b"\xff" * 12)
    with pytest.raises(DataFileError, match="4294967295x4294967295x4294967295"):
        read_idx(path, dimensions=3)


def test_labels_and_images_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_idx(tmp_path / "MNIST/raw/train-labels-idx1-ubyte", np.arange(7, dtype=np.uint8))
    with pytest.raises(ValueError, match="train_features has 20 rows and train_labels 7"):
        load("mnist", root=tmp_path)


def test_both_versions_of_cifar10_give_the_same_set(tmp_path: Path) -> None:
    for batch in range(6):
        pixels = images(10, 3, 32, 32, seed=batch)
        last = batch == 5
        write_cifar_binary(
            tmp_path / "bin/cifar-10-batches-bin" / _name("bin", batch, last), pixels, LABELS
        )
        write_pickle(
            tmp_path / "py/cifar-10-batches-py" / _name("py", batch, last),
            {"data": pixels.reshape(10, -1), "labels": LABELS.tolist(), "filenames": ["a.png"]},
        )
    binary, python = (load("cifar10", root=tmp_path / version) for version in ("bin", "py"))
    assert binary.public.fingerprint == python.public.fingerprint
    np.testing.assert_array_equal(binary.train_labels, python.train_labels)
    assert binary.train_labels.tolist() == LABELS.tolist() * 5
    assert binary.public.class_names is not None and binary.public.class_names[3] == "cat"
    first = torch.from_numpy(images(10, 3, 32, 32))
    assert torch.equal(python.public.train_features[:10], first)


def _name(version: str, batch: int, last: bool) -> str:
    suffix = ".bin" if version == "bin" else ""
    return ("test_batch" if last else f"data_batch_{batch + 1}") + suffix


def test_both_versions_of_cifar100_give_fine_labels(tmp_path: Path) -> None:
    fine, coarse = np.arange(100)[::-1], np.arange(100) // 5
    for part, seed in (("train", 0), ("test", 1)):
        pixels = images(100, 3, 32, 32, seed=seed)
        write_cifar_binary(tmp_path / "bin/cifar-100-binary" / f"{part}.bin", pixels, coarse, fine)
        content = {
            "data": pixels.reshape(100, -1),
            "fine_labels": fine.tolist(),
            "coarse_labels": coarse.tolist(),
        }
        write_pickle(tmp_path / "py/cifar-100-python" / part, content)
    binary, python = (load("cifar100", root=tmp_path / version) for version in ("bin", "py"))
    assert binary.train_labels.tolist() == python.train_labels.tolist() == fine.tolist()
    assert binary.public.fingerprint == python.public.fingerprint


def test_batches_as_python_2_wrote_them(tmp_path: Path) -> None:
    pixels = images(4, 3072)
    (tmp_path / "batch").write_bytes(python2_batch(pixels, [1, 0, 9, 3]))
    found, labels = read_cifar_pickle(tmp_path / "batch", label_key="labels")
    np.testing.assert_array_equal(found.reshape(4, -1), pixels)
    assert labels.tolist() == [1, 0, 9, 3]


def test_a_cut_off_binary_batch_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data_batch_1.bin"
    write_cifar_binary(path, images(3, 3, 32, 32), LABELS[:3])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataFileError, match=r"data_batch_1\.bin has 9,119 bytes.*3,073 bytes"):
        read_cifar_binary(path, label_bytes=1)
    path.write_bytes(b"")
    with pytest.raises(DataFileError, match="has 0 bytes"):
        read_cifar_binary(path, label_bytes=1)


def test_a_pickle_that_would_run_something_does_not(tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    write_pickle(tmp_path / "batch", {"data": Hostile(), "labels": [1]})
    with pytest.raises(DataFileError, match=r"batch: it names \w+\.system"):
        read_cifar_pickle(tmp_path / "batch", label_key="labels")
    assert not (tmp_path / "ran").exists()


def test_a_pickle_that_asks_for_all_memory_does_not_get_it(tmp_path: Path) -> None:
    hostile = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"\x8a\x06\xff\xff\xff\xff\xff\x7f\x85U\x01b\x87R."
    )
    (tmp_path / "batch").write_bytes(hostile)
    with pytest.raises(DataFileError, match="is not a batch of CIFAR"):
        read_cifar_pickle(tmp_path / "batch", label_key="labels")


def test_damaged_and_foreign_pickles_are_named(tmp_path: Path) -> None:
    path = tmp_path / "batch"
    good = python2_batch(images(4, 3072), [1, 0, 9, 3])
    for content in (b"", b"PK\x03\x04 something else", good[:-500], good[:40]):
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=r"batch .*bytes\) is not a batch.*fetch it again"):
            read_cifar_pickle(path, label_key="labels")
    with pytest.raises(DataFileError, match="fine_labels"):
        path.write_bytes(good)
        read_cifar_pickle(path, label_key="fine_labels")
    write_pickle(path, {"data": np.zeros((4, 10), dtype=np.uint8), "labels": [1]})
    with pytest.raises(DataFileError, match=r"uint8 pixels of shape \(4, 10\)"):
        read_cifar_pickle(path, label_key="labels")

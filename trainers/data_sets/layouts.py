"""How the data sets with a name lie on disk: folders, files with sizes and digests, readers.

Sizes and MD5s are the published ones. For the files of CIFAR-100's binary version none are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from labeldp.trainers.data_sets.files import PublishedFile, Splits, held_out
from labeldp.trainers.data_sets.images import (
    Batch,
    read_cifar_binary,
    read_cifar_pickle,
    read_idx_folder,
)
from labeldp.trainers.data_sets.movielens import read_movielens
from labeldp.trainers.data_sets.tables import read_adult


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way in which a set lies on disk.

    Attributes:
        folder: Below the root; empty for a set that comes with a library.
        files: What the folder holds, as published.
        read: Root -> arrays.
    """

    folder: str
    files: tuple[PublishedFile, ...]
    read: Callable[[Path], Splits]

    def missing(self, root: Path) -> list[Path]:
        """Return the files that are not below `root`."""
        return [path for file in self.files if not (path := root / file.path).is_file()]


CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


def _read_digits(_: Path) -> Splits:
    """Read the digits of scikit-learn: 8x8, with their 17 shades spread to 0..255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images[:, None] * (255 / 16)).astype(np.uint8)
    labels, test = digits.target.astype(np.int64), held_out(len(images))
    return Splits(
        train_features=images[~test],
        train_labels=labels[~test],
        test_features=images[test],
        test_labels=labels[test],
        num_classes=10,
    )


def _files(folder: str, *named: tuple[str, int, str | None]) -> tuple[PublishedFile, ...]:
    return tuple(
        PublishedFile(path=f"{folder}/{name}", size=size, md5=md5) for name, size, md5 in named
    )


def _idx(
    folder: str, digests: tuple[str, str, str, str], classes: tuple[str, ...] | None = None
) -> Layout:
    train_images, train_labels, test_images, test_labels = digests
    files = _files(
        folder,
        ("train-images-idx3-ubyte", 47_040_016, train_images),
        ("train-labels-idx1-ubyte", 60_008, train_labels),
        ("t10k-images-idx3-ubyte", 7_840_016, test_images),
        ("t10k-labels-idx1-ubyte", 10_008, test_labels),
    )
    return Layout(
        folder=folder,
        files=files,
        read=lambda root: read_idx_folder(root / folder, class_names=classes),
    )


def _cifar(
    files: tuple[PublishedFile, ...],
    read: Callable[[Path], Batch],
    *,
    num_classes: int,
    class_names: tuple[str, ...] | None = None,
) -> Layout:
    """Batches of training images and, last, the file of testing images."""

    def read_all(root: Path) -> Splits:
        *train, test = (read(root / file.path) for file in files)
        return Splits(
            train_features=np.concatenate([images for images, _ in train]),
            train_labels=np.concatenate([labels for _, labels in train]),
            test_features=test[0],
            test_labels=test[1],
            num_classes=num_classes,
            class_names=class_names,
        )

    return Layout(folder=files[0].path.partition("/")[0], files=files, read=read_all)


DIGITS = Layout(folder="", files=(), read=_read_digits)
MNIST = _idx(
    "MNIST/raw",
    (
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
)
FASHION_MNIST = _idx(
    "FashionMNIST/raw",
    (
        "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        "9018921c3c673c538a1fc5bad174d6f9",
        "8181f5470baa50b63fa0f6fddb340f0a",
        "15d484375f8d13e6eb1aabb0c3f46965",
    ),
    FASHION_CLASSES,
)
CIFAR10_BINARY = _cifar(
    _files(
        "cifar-10-batches-bin",
        ("data_batch_1.bin", 30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        ("data_batch_2.bin", 30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
        ("data_batch_3.bin", 30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        ("data_batch_4.bin", 30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        ("data_batch_5.bin", 30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
        ("test_batch.bin", 30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    partial(read_cifar_binary, label_bytes=1),
    num_classes=10,
    class_names=CIFAR10_CLASSES,
)
CIFAR10_PYTHON = _cifar(
    _files(
        "cifar-10-batches-py",
        ("data_batch_1", 31_035_704, "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", 31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", 31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", 31_035_696, "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", 31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        ("test_batch", 31_035_526, "40351d587109b95175f43aff81a1287e"),
    ),
    partial(read_cifar_pickle, label_key="labels"),
    num_classes=10,
    class_names=CIFAR10_CLASSES,
)
CIFAR100_BINARY = _cifar(
    _files(
        "cifar-100-binary",
        ("train.bin", 153_700_000, None),
        ("test.bin", 30_740_000, None),
    ),
    partial(read_cifar_binary, label_bytes=2),
    num_classes=100,
)
CIFAR100_PYTHON = _cifar(
    _files(
        "cifar-100-python",
        ("train", 155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
        ("test", 31_049_908, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    partial(read_cifar_pickle, label_key="fine_labels"),
    num_classes=100,
)
ADULT = Layout(
    folder="adult",
    files=_files(
        "adult",
        ("adult.data", 3_974_305, "5d7c39d7b8804f071cdd1f2a7c460872"),
        ("adult.test", 2_003_153, "35238206dfdf7f1fe215bbb874adecdc"),
    ),
    read=lambda root: read_adult(root / "adult"),
)
MOVIELENS_1M = Layout(
    folder="ml-1m",
    files=_files("ml-1m", ("ratings.dat", 24_594_131, None)),
    read=lambda root: read_movielens(root / "ml-1m"),
)

"""The data sets that `load` knows by name: what they are, where they lie, what gets them.

A set may lie on disk in more than one published layout. Nothing is downloaded but by `fetch`.

>>> find("mnits")
Traceback (most recent call last):
    ...
ValueError: there is no data set 'mnits'; did you mean mnist?
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labeldp.trainers.data_files import (
    DatasetMissing,
    PublishedFile,
    Splits,
    held_out,
    missing_files,
)
from labeldp.trainers.image_files import (
    CIFAR10_CLASSES,
    joined,
    read_cifar_binary,
    read_cifar_pickle,
    read_idx_folder,
)
from labeldp.trainers.tabular_files import read_adult

FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)


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


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set with a name.

    Attributes:
        name: What `load` calls it.
        description: One line for people.
        layouts: Where it may lie; the first that is complete is read.
        command: What gets it.
    """

    name: str
    description: str
    layouts: tuple[Layout, ...]
    command: str

    def layout(self, root: Path) -> Layout | None:
        """Return the layout that is complete below `root`, if there is one."""
        for layout in self.layouts:
            if not missing_files(root, layout.files):
                return layout
        return None

    def available(self, root: Path) -> bool:
        """Whether all of its files are there; what is in them `check` finds out."""
        return self.layout(root) is not None

    def read(self, root: Path) -> Splits:
        """Return the set's arrays.

        Raises:
            DatasetMissing: It is not below `root`, or not all of it.
            DataFileError: A file is damaged.
        """
        layout = self.layout(root)
        if layout is None:
            raise DatasetMissing(self._what_is_missing(root))
        return layout.read(root)

    def check(self, root: Path) -> list[str]:
        """Return what is wrong with the set on disk, against sizes and digests as published."""
        layout = self.layout(root)
        if layout is None:
            return [self._what_is_missing(root)]
        return [text for file in layout.files if (text := file.problem(root)) is not None]

    def _what_is_missing(self, root: Path) -> str:
        if not self.layouts:
            return f"{self.name} has no place of its own; {self.command}"
        # A layout that is there in part is the one that was meant.
        missing = min(
            (missing_files(root, layout.files) for layout in self.layouts if layout.files), key=len
        )
        folders = " or ".join(dict.fromkeys(layout.folder for layout in self.layouts))
        return (
            f"data set {self.name} is not in {root.absolute()}: {missing[0].absolute()} is missing"
            f"; get it with `{self.command}`, or set LABELDP_DATA (or root) to the folder that "
            f"holds {folders}"
        )


def find(name: str) -> DataSet:
    """Return the data set of that name.

    Raises:
        ValueError: There is none; the message says which comes near.
    """
    if name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(str(name), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(DATASETS)}"
    raise ValueError(f"there is no data set {name!r}; {hint}")


def _read_digits(_: Path) -> Splits:
    """Read the 8x8 digits that come with scikit-learn; their sixteen shades are spread to 255."""
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


def _idx(folder: str, digests: tuple[str, ...], classes: tuple[str, ...] | None = None) -> Layout:
    named = (
        ("train-images-idx3-ubyte", 47_040_016),
        ("train-labels-idx1-ubyte", 60_008),
        ("t10k-images-idx3-ubyte", 7_840_016),
        ("t10k-labels-idx1-ubyte", 10_008),
    )
    return Layout(
        folder=folder,
        files=tuple(
            PublishedFile(path=f"{folder}/{name}", size=size, md5=md5)
            for (name, size), md5 in zip(named, digests, strict=True)
        ),
        read=lambda root: read_idx_folder(root / folder, class_names=classes),
    )


def _read_cifar10_binary(root: Path) -> Splits:
    *train, test = (
        read_cifar_binary(root / file.path, label_bytes=1) for file in _CIFAR10_BINARY.files
    )
    return joined(train, test, num_classes=10, class_names=CIFAR10_CLASSES)


def _read_cifar10_python(root: Path) -> Splits:
    *train, test = (
        read_cifar_pickle(root / file.path, label_key="labels") for file in _CIFAR10_PYTHON.files
    )
    return joined(train, test, num_classes=10, class_names=CIFAR10_CLASSES)


def _read_cifar100_binary(root: Path) -> Splits:
    *train, test = (
        read_cifar_binary(root / file.path, label_bytes=2) for file in _CIFAR100_BINARY.files
    )
    return joined(train, test, num_classes=100)


def _read_cifar100_python(root: Path) -> Splits:
    *train, test = (
        read_cifar_pickle(root / file.path, label_key="fine_labels")
        for file in _CIFAR100_PYTHON.files
    )
    return joined(train, test, num_classes=100)


def _files(folder: str, *named: tuple[str, int, str | None]) -> tuple[PublishedFile, ...]:
    return tuple(
        PublishedFile(path=f"{folder}/{name}", size=size, md5=md5) for name, size, md5 in named
    )


# In each CIFAR layout the file of testing images comes last.
_CIFAR10_BINARY = Layout(
    folder="cifar-10-batches-bin",
    files=_files(
        "cifar-10-batches-bin",
        ("data_batch_1.bin", 30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        ("data_batch_2.bin", 30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
        ("data_batch_3.bin", 30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        ("data_batch_4.bin", 30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        ("data_batch_5.bin", 30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
        ("test_batch.bin", 30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    read=_read_cifar10_binary,
)
_CIFAR10_PYTHON = Layout(
    folder="cifar-10-batches-py",
    files=_files(
        "cifar-10-batches-py",
        ("data_batch_1", 31_035_704, "c99cafc152244af753f735de768cd75f"),
        ("data_batch_2", 31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
        ("data_batch_3", 31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
        ("data_batch_4", 31_035_696, "634d18415352ddfa80567beed471001a"),
        ("data_batch_5", 31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        ("test_batch", 31_035_526, "40351d587109b95175f43aff81a1287e"),
    ),
    read=_read_cifar10_python,
)
_CIFAR100_BINARY = Layout(
    folder="cifar-100-binary",
    files=_files(
        "cifar-100-binary",
        ("train.bin", 153_700_000, None),
        ("test.bin", 30_740_000, None),
    ),
    read=_read_cifar100_binary,
)
_CIFAR100_PYTHON = Layout(
    folder="cifar-100-python",
    files=_files(
        "cifar-100-python",
        ("train", 155_249_918, "16019d7e3df5f24257cddd939b257f8d"),
        ("test", 31_049_908, "f0ef6b0ae62326f3e7ffdfab6717acfc"),
    ),
    read=_read_cifar100_python,
)

_ALL = (
    DataSet(
        name="digits",
        description="1,797 handwritten digits, 8x8; comes with scikit-learn",
        layouts=(Layout(folder="", files=(), read=_read_digits),),
        command="make install",
    ),
    DataSet(
        name="mnist",
        description="70,000 handwritten digits, 28x28 (LeCun, Cortes, Burges)",
        layouts=(
            _idx(
                "MNIST/raw",
                (
                    "6bbc9ace898e44ae57da46a324031adb",
                    "a25bea736e30d166cdddb491f175f624",
                    "2646ac647ad5339dbf082846283269ea",
                    "27ae3e4e09519cfbb04c329615203637",
                ),
            ),
        ),
        command="labeldp data fetch mnist",
    ),
    DataSet(
        name="fashion_mnist",
        description="70,000 articles of clothing, 28x28 (Zalando, MIT license)",
        layouts=(
            _idx(
                "FashionMNIST/raw",
                (
                    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
                    "9018921c3c673c538a1fc5bad174d6f9",
                    "8181f5470baa50b63fa0f6fddb340f0a",
                    "15d484375f8d13e6eb1aabb0c3f46965",
                ),
                FASHION_CLASSES,
            ),
        ),
        command="labeldp data fetch fashion_mnist",
    ),
    DataSet(
        name="cifar10",
        description="60,000 photographs of 10 kinds of things, 32x32 (Krizhevsky 2009)",
        layouts=(_CIFAR10_PYTHON, _CIFAR10_BINARY),
        command="labeldp data fetch cifar10",
    ),
    DataSet(
        name="cifar100",
        description="60,000 photographs of 100 kinds of things, 32x32 (Krizhevsky 2009)",
        layouts=(_CIFAR100_PYTHON, _CIFAR100_BINARY),
        command="labeldp data fetch cifar100",
    ),
    DataSet(
        name="adult",
        description="48,842 rows of the census of 1994: above 50,000 dollars? (UCI, CC BY 4.0)",
        layouts=(
            Layout(
                folder="adult",
                files=_files(
                    "adult",
                    ("adult.data", 3_974_305, "5d7c39d7b8804f071cdd1f2a7c460872"),
                    ("adult.test", 2_003_153, "35238206dfdf7f1fe215bbb874adecdc"),
                ),
                read=lambda root: read_adult(root / "adult"),
            ),
        ),
        command="labeldp data fetch adult",
    ),
    DataSet(
        name="own",
        description="your own .npz or .parquet of images or of a table",
        layouts=(),
        command="name it with data.name=own data.path=FILE",
    ),
)

#: Name -> data set.
DATASETS: dict[str, DataSet] = {data_set.name: data_set for data_set in _ALL}

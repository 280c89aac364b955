"""Readers of the published data sets, one function for each format."""

import csv
import gzip
import importlib.util
import math
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import Columns
from labeldp.trainers.data.files import (
    DataFileError,
    DatasetMissing,
    file_size,
    first_line,
    memory_bytes,
    open_regular,
)
from labeldp.trainers.data.preprocessing import Places
from labeldp.trainers.data.splits import Splits, held_out

_PIXELS = 3 * 32 * 32
AGAIN = "it is cut off or damaged: fetch it again"
#: IDX's code for the only type of element that these sets have.
_UNSIGNED_BYTE = 8

#: Images uint8 [N, 3, 32, 32] and their labels [N].
Batch = tuple[NDArray[np.uint8], NDArray[Any]]


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Return the array of bytes in an IDX file."""
    size = file_size(path)
    header = 4 * (1 + dimensions)
    with open_regular(path) as file:
        start = file.read(header)
    magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if start[:4] != magic or len(start) < header:
        raise DataFileError(
            f"{path} starts with the bytes {start[:4].hex(' ') or '(none)'}; an IDX file of bytes "
            f"in {dimensions} dimensions starts with {magic.hex(' ')}: decompress it if it is "
            "compressed, or fetch it again"
        )
    shape = struct.unpack(f">{dimensions}I", start[4:])
    expected = header + math.prod(shape)
    if size != expected:
        raise DataFileError(
            f"{path} has {size:,} bytes, but its header announces {'x'.join(map(str, shape))} "
            f"entries, {expected:,} bytes: {AGAIN}"
        )
    return np.fromfile(path, dtype=np.uint8, offset=header).reshape(shape)


def read_idx_folder(folder: Path, *, class_names: tuple[str, ...] | None = None) -> Splits:
    """Return the four IDX files of MNIST or of a set that replaces it."""
    images = {
        part: read_idx(folder / f"{part}-images-idx3-ubyte", dimensions=3)[:, None]
        for part in ("train", "t10k")
    }
    labels = {
        part: read_idx(folder / f"{part}-labels-idx1-ubyte", dimensions=1)
        for part in ("train", "t10k")
    }
    return Splits(
        train_features=images["train"],
        train_labels=labels["train"],
        test_features=images["t10k"],
        test_labels=labels["t10k"],
        num_classes=10,
        class_names=class_names,
    )


def read_cifar_binary(path: Path, *, label_bytes: int) -> Batch:
    """Return images uint8 [N, 3, 32, 32] and labels [N] of a file of CIFAR's binary version."""
    size, record = file_size(path), label_bytes + _PIXELS
    if size == 0 or size % record:
        raise DataFileError(
            f"{path} has {size:,} bytes, not a whole number of records of {record:,} bytes "
            f"({size // record:,} records and {size % record:,} bytes): {AGAIN}"
        )
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, record)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1].copy()


def read_cifar_pickle(path: Path, *, label_key: str) -> Batch:
    """Return images uint8 [N, 3, 32, 32] and labels [N] of a file of CIFAR's Python version."""
    size = file_size(path)
    try:
        with open_regular(path) as file:
            content = _ArraysOnly(file, encoding="latin1").load()
        pixels = np.ascontiguousarray(content["data"])
        labels = np.asarray(content[label_key])
    except DataFileError as error:
        raise DataFileError(f"{path}: {error}") from error
    except Exception as error:  # damaged pickles raise nearly anything
        raise DataFileError(
            f"{path} ({size:,} bytes) is not a batch of CIFAR's Python version "
            f"({first_line(error)}): {AGAIN}"
        ) from error
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise DataFileError(
            f"{path} holds {pixels.dtype} pixels of shape {pixels.shape}; uint8 [N, {_PIXELS}] is "
            "what CIFAR's Python version holds"
        )
    return pixels.reshape(-1, 3, 32, 32), labels


class _ArraysOnly(pickle.Unpickler):
    """Builds lists, dictionaries, strings and arrays, and refuses whatever else a pickle names."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of four harmless things."""
        # NumPy 2 moved its internals; files of either age name the same function.
        module = module.replace("numpy._core", "numpy.core")
        allowed = {
            ("numpy.core.multiarray", "_reconstruct"): _empty_array,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): _encode,
        }
        if (module, name) not in allowed:
            raise DataFileError(
                f"it names {module}.{name}, which has no place in a file of images; do not open "
                "it, fetch it from its authors"
            )
        return allowed[module, name]


def _empty_array(*_: object) -> NDArray[np.uint8]:
    return np.empty(0, dtype=np.uint8)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    assert encoding == "latin1"
    return text.encode(encoding)


def read_digits(_: Path) -> Splits:
    """Read the digits of scikit-learn: 8x8, with their 17 shades spread to 0..255."""
    # From its own file: to import scikit-learn takes a second, which a plan has no other use for.
    package = importlib.util.find_spec("sklearn")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    images = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels, test = table[:, -1].astype(np.int64), held_out(len(images))
    return Splits(
        train_features=images[~test],
        train_labels=labels[~test],
        test_features=images[test],
        test_labels=labels[test],
        num_classes=10,
    )


ADULT_CLASSES = ("<=50K", ">50K")
#: Name -> whether it is a number.
ADULT_COLUMNS = {
    "age": True,
    "workclass": False,
    "fnlwgt": True,
    "education": False,
    "education-num": True,
    "marital-status": False,
    "occupation": False,
    "relationship": False,
    "race": False,
    "sex": False,
    "capital-gain": True,
    "capital-loss": True,
    "hours-per-week": True,
    "native-country": False,
}


def read_adult(folder: Path) -> Splits:
    """Return UCI Adult, training rows from `adult.data` and testing rows from `adult.test`.

    A missing entry, `?`, is a category like any other.
    """
    train, train_labels = read_adult_rows(folder / "adult.data")
    test, test_labels = read_adult_rows(folder / "adult.test")
    fitted = Columns.fit(train)
    return Splits(
        train_features=fitted(train, what="training features"),
        train_labels=train_labels,
        test_features=fitted(test, what="testing features"),
        test_labels=test_labels,
        num_classes=2,
        class_names=ADULT_CLASSES,
        preprocessing=fitted,
    )


def read_adult_rows(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the columns of one of Adult's files, numbers or strings [N], and its labels [N]."""
    # adult.test starts with a remark, and writes a point behind labels.
    table = _table(path, columns=len(ADULT_COLUMNS) + 1, comment="|", skipinitialspace=True)
    labels = table[len(ADULT_COLUMNS)].str.removesuffix(".")
    refuse_row(path, ~labels.isin(ADULT_CLASSES), "ends with no label of Adult, <=50K or >50K")
    columns: dict[str, NDArray[Any]] = {}
    for place, (name, numeric) in enumerate(ADULT_COLUMNS.items()):
        if numeric:
            whole = table[place].str.fullmatch("[0-9]+").astype(bool)
            refuse_row(path, ~whole, f"has no number in column {name!r}")
        columns[name] = table[place].to_numpy(dtype=np.float64 if numeric else str)
    return columns, (labels == ADULT_CLASSES[1]).to_numpy(dtype=np.int64)


def _table(path: Path, *, columns: int, **how: Any) -> Any:
    """Fields of a text file as a frame of text, NaN where a line has too few."""
    import pandas as pd

    try:
        with open_regular(path) as file:
            table = pd.read_csv(file, header=None, dtype=str, keep_default_na=False, **how)
    except FileNotFoundError as error:
        raise DatasetMissing(f"{path} is missing") from error
    except ValueError as error:  # pandas' and Unicode's own kinds derive from it
        raise DataFileError(f"{path} can't be read ({first_line(error)}): {AGAIN}") from error
    if table.shape[1] != columns:
        raise DataFileError(f"{path} has {table.shape[1]} columns and not {columns}: {AGAIN}")
    return table


def refuse_row(path: Path, bad: Any, what: str) -> None:
    """Refuse the first bad row; what it holds is not shown."""
    if bad.any():
        raise DataFileError(f"{path} row {np.asarray(bad).argmax()} {what}: {AGAIN}")


STARS = ("1", "2", "3", "4", "5")


def read_movielens(folder: Path) -> Splits:
    """Return the ratings of `ratings.dat`, one in five held out for testing.

    A row of features is (user, movie), as places counted from 1 among those of the training rows;
    a user or movie that only testing rows have is 0. Classes are stars less 1.
    """
    path = folder / "ratings.dat"
    # user::movie::stars::seconds, between whose colons lie empty fields.
    table = _table(path, columns=7, sep=":", quoting=csv.QUOTE_NONE, skip_blank_lines=False)
    whole = [table[place].str.fullmatch(r"[0-9]{1,18}", na=False) for place in (0, 2, 6)]
    refuse_row(
        path,
        ~np.all([*whole, table[4].isin(STARS)], axis=0),
        "is not user::movie::stars::seconds with 1 to 5 whole stars (other versions of MovieLens "
        "can be loaded as data.name=own)",
    )
    ids, stars = table[[0, 2]].to_numpy(dtype=np.int64), table[4].to_numpy(dtype=np.int64) - 1
    if len(stars) < 2:
        raise DataFileError(f"{path} holds {len(stars)} rating: {AGAIN}")
    test = held_out(len(stars))
    fitted = Places.fit(ids[~test])
    return Splits(
        train_features=fitted(ids[~test]),
        train_labels=stars[~test],
        test_features=fitted(ids[test]),
        test_labels=stars[test],
        num_classes=len(STARS),
        class_names=STARS,
        preprocessing=fitted,
    )


_PICTURE = (32, 32, 3)
#: How the files write the digit 0.
_ZERO = 10


def read_svhn(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 [N, 3, 32, 32] and labels [N], the digits themselves."""
    size = file_size(path)
    # Half a second that other sets have no use for.
    from scipy.io import loadmat, whosmat

    try:
        with open_regular(path) as file:
            announced = {name: shape for name, shape, _ in whosmat(file)}
            pixels, labels = announced.get("X", ()), announced.get("y")
            if pixels[:3] != _PICTURE or len(pixels) != 4 or labels != (pixels[3], 1):
                raise DataFileError(f"X is {pixels} and y {labels}, not (32, 32, 3, N) and (N, 1)")
            if pixels[3] * _PIXELS > memory_bytes():
                raise DataFileError(
                    f"it announces {pixels[3]:,} pictures, more than this machine's memory"
                )
            file.seek(0)
            content = loadmat(file, variable_names=["X", "y"])
    except Exception as error:  # damaged files raise nearly anything
        raise DataFileError(
            f"{path} ({size:,} bytes) is not a MATLAB file of SVHN's cropped digits "
            f"({first_line(error)}): {AGAIN}"
        ) from error
    images, digits = content["X"], content["y"][:, 0]
    if images.dtype != np.uint8:
        raise DataFileError(f"{path}: X holds {images.dtype}; uint8 is what SVHN's pixels are")
    refuse_row(path, ~np.isin(digits, range(1, _ZERO + 1)), "has none of the labels 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits.astype(np.int64) % _ZERO

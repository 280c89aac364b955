"""Images in the formats in which MNIST, Fashion-MNIST and the CIFAR sets are published.

IDX is a header of big-endian numbers and the bytes. CIFAR's binary version is records of one or two
label bytes and 3072 bytes of pixels; its Python version is a pickle, which is opened without giving
it the means to run anything.
"""

import gzip
import importlib.util
import math
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import DataFileError, Splits, file_size, held_out
from labeldp.trainers.data.regular_files import open_regular

_PIXELS = 3 * 32 * 32
_AGAIN = "it is cut off or damaged: fetch it again"
#: IDX's code for the only type of element that these sets have.
_UNSIGNED_BYTE = 8

#: Images uint8 [N, 3, 32, 32] and their labels [N].
Batch = tuple[NDArray[np.uint8], NDArray[Any]]


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Return the array of bytes in an IDX file.

    Args:
        path: The file, not compressed.
        dimensions: How many it must have: 3 for images, 1 for labels.

    Raises:
        DatasetMissing: It is not there.
        DataFileError: Another format, or not as long as its header says.
    """
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
            f"entries, {expected:,} bytes: {_AGAIN}"
        )
    return np.fromfile(path, dtype=np.uint8, offset=header).reshape(shape)


def read_idx_folder(folder: Path, *, class_names: tuple[str, ...] | None = None) -> Splits:
    """Return the four IDX files of MNIST or of a set that replaces it.

    Raises:
        DatasetMissing: One of them is not there.
        DataFileError: One is damaged.
    """
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
    """Return images uint8 [N, 3, 32, 32] and labels [N] of a file of CIFAR's binary version.

    Args:
        path: The file.
        label_bytes: 1 for CIFAR-10; 2 for CIFAR-100, where the fine label is the second.

    Raises:
        DatasetMissing: It is not there.
        DataFileError: No whole number of records.
    """
    size, record = file_size(path), label_bytes + _PIXELS
    if size == 0 or size % record:
        raise DataFileError(
            f"{path} has {size:,} bytes, which is no whole number of records of {record:,} bytes "
            f"({size // record:,} records and {size % record:,} bytes): {_AGAIN}"
        )
    records = np.fromfile(path, dtype=np.uint8).reshape(-1, record)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1].copy()


def read_cifar_pickle(path: Path, *, label_key: str) -> Batch:
    """Return images uint8 [N, 3, 32, 32] and labels [N] of a file of CIFAR's Python version.

    Args:
        path: The file.
        label_key: `labels` for CIFAR-10, `fine_labels` for CIFAR-100.

    Raises:
        DatasetMissing: It is not there.
        DataFileError: It is damaged, wants to run something, or holds something else.
    """
    size = file_size(path)
    try:
        with open_regular(path) as file:
            content = _ArraysOnly(file, encoding="latin1").load()
        pixels = np.ascontiguousarray(content["data"])
        labels = np.asarray(content[label_key])
    except DataFileError as error:
        raise DataFileError(f"{path}: {error}") from error
    except Exception as error:  # damaged pickles raise nearly anything
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataFileError(
            f"{path} ({size:,} bytes) is no batch of CIFAR's Python version ({first}): {_AGAIN}"
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
    """An array for the pickle to fill, whatever size it asks for."""
    return np.empty(0, dtype=np.uint8)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """Bytes that a newer Python wrote as text into an old protocol."""
    assert encoding == "latin1"
    return text.encode(encoding)


def read_digits(_: Path) -> Splits:
    """Read the digits of scikit-learn: 8x8, with their 17 shades spread to 0..255."""
    table = _table_of_digits()
    images = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels, test = table[:, -1].astype(np.int64), held_out(len(images))
    return Splits(
        train_features=images[~test],
        train_labels=labels[~test],
        test_features=images[test],
        test_labels=labels[test],
        num_classes=10,
    )


def _table_of_digits() -> NDArray[np.float64]:
    """Pixels and class of every digit [1797, 65], from scikit-learn's own file where it is known.

    To import scikit-learn for it takes a second, which `labeldp plan` has no other use for.
    """
    package = importlib.util.find_spec("sklearn")
    for place in package.submodule_search_locations or () if package is not None else ():
        file = Path(place, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            with gzip.open(file, "rt") as lines:
                return np.loadtxt(lines, delimiter=",")
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.column_stack([digits.data, digits.target])

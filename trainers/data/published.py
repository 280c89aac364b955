"""Merged."""

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
    file_size,
    first_line,
    memory_bytes,
    open_regular,
    read_lines,
)
from labeldp.trainers.data.preprocessing import Places
from labeldp.trainers.data.splits import Splits, held_out

_PIXELS = 3 * 32 * 32
_AGAIN = "it is cut off or damaged: fetch it again"
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
            f"entries, {expected:,} bytes: {_AGAIN}"
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
            f"({size // record:,} records and {size % record:,} bytes): {_AGAIN}"
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
            f"({first_line(error)}): {_AGAIN}"
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
    rows: list[list[str]] = []
    labels: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("|"):  # adult.test starts with a remark
            continue
        *fields, label = (part.strip() for part in line.split(","))
        if len(fields) != len(ADULT_COLUMNS):
            raise DataFileError(
                f"{path} line {number} has {len(fields) + 1} fields; Adult has "
                f"{len(ADULT_COLUMNS) + 1}: the file is cut off or damaged, fetch it again"
            )
        label = label.removesuffix(".")  # as adult.test writes them
        if label not in ADULT_CLASSES:
            raise DataFileError(f"{path} line {number} ends with no label of Adult, <=50K or >50K")
        rows.append(fields)
        labels.append(ADULT_CLASSES.index(label))
    if not rows:
        raise DataFileError(f"{path} holds no rows: fetch it again")
    columns: dict[str, NDArray[Any]] = {}
    for (name, numeric), values in zip(ADULT_COLUMNS.items(), zip(*rows, strict=True), strict=True):
        try:
            columns[name] = np.array(values, dtype=np.float64 if numeric else str)
        except ValueError as error:
            raise DataFileError(f"{path}, column {name!r}: {error}") from error
        if numeric and np.isnan(columns[name]).any():
            row = int(np.isnan(columns[name]).argmax())
            raise DataFileError(f"{path} row {row}, column {name!r} is nan: fetch it again")
    return columns, np.array(labels, dtype=np.int64)


STARS = ("1", "2", "3", "4", "5")
_COLUMNS = ("user", "movie", "stars", "seconds")
#: The range of int64.
_MOST_DIGITS = 18


def read_movielens(folder: Path) -> Splits:
    """Return the ratings of `ratings.dat`, one in five held out for testing.

    A row of features is (user, movie), as places counted from 1 among those of the training rows;
    a user or movie that only testing rows have is 0. Classes are stars less 1.
    """
    path = folder / "ratings.dat"
    ids, stars = _read_ratings(path)
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


def _read_ratings(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids of users and movies [N, 2] and stars less 1 [N]."""
    ids: list[tuple[int, int]] = []
    stars: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("::")
        if len(fields) != len(_COLUMNS):
            raise DataFileError(f"{path} line {number} {_what_is_wrong(line, fields)}")
        user, movie, rating, _ = fields
        if rating not in STARS:
            raise DataFileError(
                f"{path} line {number} has an unknown rating; MovieLens-1M knows {', '.join(STARS)}"
                " stars: other versions, with half stars, can be loaded as data.name=own"
            )
        if not (user.isascii() and user.isdigit() and movie.isascii() and movie.isdigit()):
            raise DataFileError(
                f"{path} line {number} has user {user!r} and movie {movie!r}; both must be whole "
                "numbers: the file is damaged, get it again"
            )
        if max(len(user), len(movie)) > _MOST_DIGITS:
            raise DataFileError(
                f"{path} line {number} has user {user[:24]} and movie {movie[:24]}; numbers have "
                f"{_MOST_DIGITS} digits at most: the file is damaged, get it again"
            )
        ids.append((int(user), int(movie)))
        stars.append(STARS.index(rating))
    if len(stars) < 2:
        raise DataFileError(f"{path} holds {len(stars)} ratings: get it again")
    return np.array(ids, dtype=np.int64), np.array(stars, dtype=np.int64)


def _what_is_wrong(line: str, fields: list[str]) -> str:
    if not line.strip():
        return "is empty; a line holds one rating, user::movie::stars::seconds: remove it"
    if len(fields) > len(_COLUMNS):
        return f"has {len(fields)} columns; there are {len(_COLUMNS)}, {'::'.join(_COLUMNS)}"
    return (
        f"has {len(fields)} of the {len(_COLUMNS)} columns {'::'.join(_COLUMNS)}; one is missing, "
        "the file is cut off or of another version (those separate columns by commas): get it again"
    )


_PICTURE = (32, 32, 3)
_BYTES_PER_ROW = 32 * 32 * 3
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
            _check_announced(announced)
            file.seek(0)
            content = loadmat(file, variable_names=["X", "y"])
        pixels, labels = content["X"], _as_digits(content["y"])
    except DataFileError as error:
        raise DataFileError(f"{path}: {error}") from error
    except Exception as error:  # damaged files raise nearly anything
        raise DataFileError(
            f"{path} ({size:,} bytes) is not a MATLAB file of SVHN's cropped digits "
            f"({first_line(error)}): it "
            "is cut off or damaged: fetch it again"
        ) from error
    if pixels.dtype != np.uint8:
        raise DataFileError(f"{path}: X holds {pixels.dtype}; uint8 is what SVHN's pixels are")
    return np.ascontiguousarray(pixels.transpose(3, 2, 0, 1)), labels


def _check_announced(shapes: dict[str, tuple[int, ...]]) -> None:
    """Refuse a file that announces something else than pictures with a label each."""
    pixels, labels = shapes.get("X"), shapes.get("y")
    if pixels is None or labels is None:
        raise DataFileError(
            f"it holds {', '.join(sorted(shapes)) or 'nothing'}; X and y are in the files of the "
            "cropped digits, train_32x32.mat and test_32x32.mat: fetch it again"
        )
    if len(pixels) != 4 or pixels[:3] != _PICTURE or labels != (pixels[3], 1):
        raise DataFileError(
            f"X is {pixels} and y {labels}; (32, 32, 3, N) and (N, 1) are what the files of the "
            "cropped digits hold"
        )
    if pixels[3] * _BYTES_PER_ROW > memory_bytes():
        raise DataFileError(f"it announces {pixels[3]:,} pictures, more than this machine's memory")


def _as_digits(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Labels 1..10 [N, 1] as digits 0..9 [N]; the value of a wrong one is not shown."""
    whole = labels[:, 0].astype(np.int64)
    bad = np.flatnonzero((whole != labels[:, 0]) | (whole < 1) | (whole > _ZERO))
    if len(bad):
        raise DataFileError(f"y[{bad[0]}] is none of the labels 1 to 10: fetch it again")
    return whole % _ZERO

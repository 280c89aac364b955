"""Readers of the published data sets, one function for each format.

Where a set comes without a split, one row in five is held out for testing.
"""

import csv
import gzip
import importlib.util
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import (
    DataFileError,
    DatasetMissing,
    check_unpacked,
    open_regular,
    readable,
)
from labeldp.trainers.data.preprocessing import Columns, Places, standardized
from labeldp.trainers.data.splits import Splits, held_out, of_amounts

if TYPE_CHECKING:
    import pandas as pd

_PIXELS = 3 * 32 * 32
AGAIN = "it is cut off or damaged: fetch it again"
#: IDX's code for the only type of element that these sets have.
_UNSIGNED_BYTE = 8

#: Images uint8 [N, 3, 32, 32] and their labels [N].
Batch = tuple[NDArray[np.uint8], NDArray[Any]]


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """Return the array of bytes in an IDX file."""
    header = 4 * (1 + dimensions)
    with open_regular(path) as file:
        content = np.fromfile(file, dtype=np.uint8)
    start = content[:header].tobytes()
    magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if start[:4] != magic or len(start) < header:
        raise DataFileError(
            f"{path} starts with the bytes {start[:4].hex(' ') or '(none)'}; an IDX file of bytes "
            f"in {dimensions} dimensions starts with {magic.hex(' ')}: decompress it if it is "
            "compressed, or fetch it again"
        )
    shape = struct.unpack(f">{dimensions}I", start[4:])
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise DataFileError(
            f"{path} has {len(content):,} bytes, but its header announces "
            f"{'x'.join(map(str, shape))} entries, {expected:,} bytes: {AGAIN}"
        )
    return content[header:].reshape(shape)


def read_idx_folder(folder: Path, *, class_names: tuple[str, ...] | None = None) -> Splits:
    """Return the four IDX files of MNIST or of a set that replaces it."""
    train, test = (
        (
            read_idx(folder / f"{part}-images-idx3-ubyte", dimensions=3)[:, None],
            read_idx(folder / f"{part}-labels-idx1-ubyte", dimensions=1),
        )
        for part in ("train", "t10k")
    )
    return of_batches([train], test, class_names=class_names)


def of_batches(
    train: Sequence[Batch],
    test: Batch,
    *,
    num_classes: int = 10,
    class_names: tuple[str, ...] | None = None,
) -> Splits:
    """Return batches of training images and one of testing images as a data set."""
    return Splits(
        train_features=np.concatenate([images for images, _ in train]),
        train_labels=np.concatenate([labels for _, labels in train]),
        test_features=test[0],
        test_labels=test[1],
        num_classes=num_classes,
        class_names=class_names,
    )


def read_cifar_binary(path: Path, *, label_bytes: int) -> Batch:
    """Return images uint8 [N, 3, 32, 32] and labels [N] of a file of CIFAR's binary version."""
    with open_regular(path) as file:
        content = np.fromfile(file, dtype=np.uint8)
    size = len(content)
    record = label_bytes + _PIXELS
    if size == 0 or size % record:
        raise DataFileError(
            f"{path} has {size:,} bytes, not a whole number of records of {record:,} bytes "
            f"({size // record:,} records and {size % record:,} bytes): {AGAIN}"
        )
    records = content.reshape(-1, record)
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), records[:, label_bytes - 1].copy()


_CIFAR10_CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)


def read_cifar10(folder: Path) -> Splits:
    """Return CIFAR-10 in its binary version, five batches for training and one for testing."""
    names = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
    *train, test = (read_cifar_binary(folder / f"{name}.bin", label_bytes=1) for name in names)
    return of_batches(train, test, class_names=_CIFAR10_CLASSES)


def read_cifar100(folder: Path) -> Splits:
    """Return CIFAR-100 in its binary version, with the fine ones of its two labels."""
    train, test = (
        read_cifar_binary(folder / f"{name}.bin", label_bytes=2) for name in ("train", "test")
    )
    return of_batches([train], test, num_classes=100)


def read_digits(_: Path) -> Splits:
    """Read the digits of scikit-learn: 8x8, with their 17 shades spread to 0..255."""
    # From its own file: to import scikit-learn takes a second, which a plan has no other use for.
    package = importlib.util.find_spec("sklearn")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines, delimiter=",")
    images = np.rint(table[:, :-1].reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    labels = table[:, -1].astype(np.int64)
    test = held_out(len(images))
    return of_batches([(images[~test], labels[~test])], (images[test], labels[test]))


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
    return Splits(
        train_labels=train_labels,
        test_labels=test_labels,
        num_classes=2,
        class_names=ADULT_CLASSES,
        **standardized(Columns.fit(train), train, test),
    )


def read_adult_rows(path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """Return the columns of one of Adult's files, numbers or strings [N], and its labels [N]."""
    # adult.test starts with a remark, and writes a point behind labels.
    names = (*ADULT_COLUMNS, "income")
    table = _frame(path, names=names, comment="|", skipinitialspace=True)
    labels = table["income"].str.removesuffix(".")
    refuse_row(path, ~labels.isin(ADULT_CLASSES), "ends with no label of Adult, <=50K or >50K")
    columns = {
        name: _numbers(path, table, name) if numeric else table[name].to_numpy(dtype=str)
        for name, numeric in ADULT_COLUMNS.items()
    }
    return columns, (labels == ADULT_CLASSES[1]).to_numpy(dtype=np.int64)


def refuse_row(path: Path, bad: "pd.Series[bool] | NDArray[np.bool_]", what: str) -> None:
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
    how = {"sep": ":", "quoting": csv.QUOTE_NONE, "skip_blank_lines": False}
    table = _frame(path, names=range(7), **how)
    whole = [table[place].str.fullmatch(r"[0-9]{1,18}", na=False) for place in (0, 2, 6)]
    refuse_row(
        path,
        ~np.all([*whole, table[4].isin(STARS)], axis=0),
        "is not user::movie::stars::seconds with 1 to 5 whole stars (other versions of MovieLens "
        "can be loaded as data.name=own)",
    )
    ids = table[[0, 2]].to_numpy(dtype=np.int64)
    stars = table[4].to_numpy(dtype=np.int64) - 1
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


def read_svhn_folder(folder: Path) -> Splits:
    """Return SVHN's cropped digits."""
    train, test = (read_svhn(folder / f"{part}_32x32.mat") for part in ("train", "test"))
    return of_batches([train], test)


def read_svhn(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 [N, 3, 32, 32] and labels [N], the digits themselves."""
    # Half a second that other sets have no use for.
    from scipy.io import loadmat, whosmat

    with readable(path, "a MATLAB file", fix=AGAIN), open_regular(path) as file:
        announced = {name: shape for name, shape, _ in whosmat(file)}
        pixels = announced.get("X", ())
        labels = announced.get("y")
        if pixels[:3] != _PICTURE or len(pixels) != 4 or labels != (pixels[3], 1):
            raise DataFileError(
                f"{path} does not hold SVHN's cropped digits (X is {pixels} and y {labels}, not "
                f"(32, 32, 3, N) and (N, 1)): {AGAIN}"
            )
        check_unpacked(path, 8 * pixels[3] * _PIXELS)  # of whatever type they are
        file.seek(0)
        content = loadmat(file, variable_names=["X", "y"])
    images = content["X"]
    digits = content["y"][:, 0]
    if images.dtype != np.uint8:
        raise DataFileError(f"{path}: X holds {images.dtype}; uint8 is what SVHN's pixels are")
    refuse_row(path, ~np.isin(digits, range(1, _ZERO + 1)), "has none of the labels 1 to 10")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits.astype(np.int64) % _ZERO


# A table of amounts and a log of advertisements.

#: Categories of a column of text: the most frequent values of the training rows, and no others.
_MOST_FREQUENT = 30
#: Rows of a log that are read.
_MOST_ROWS = 300_000
NO_YES = ("no", "yes")

HOUSING_COLUMNS = (
    "longitude",
    "latitude",
    "median_age",
    "rooms",
    "bedrooms",
    "population",
    "households",
    "median_income",
    "median_value",
)
#: Dollars; the file has larger values as the upper bound.
HOUSING_BOUNDS = (0.0, 500_001.0)
DISPLAY_NUMBERS = tuple(f"integer_{place}" for place in range(1, 14))
DISPLAY_TEXTS = tuple(f"category_{place}" for place in range(1, 27))


def read_housing(folder: Path) -> Splits:
    """Return California housing: amounts are median values of houses, in dollars."""
    path = folder / "cal_housing.data"
    table = _frame(path, names=HOUSING_COLUMNS)
    columns = {name: _numbers(path, table, name) for name in HOUSING_COLUMNS}
    amounts = columns.pop("median_value")
    test = held_out(len(amounts))
    labels = of_amounts(amounts[~test], amounts[test], bounds=HOUSING_BOUNDS)
    return Splits(**labels, **_features(columns, test))


def read_criteo_display(folder: Path) -> Splits:
    """Return Criteo's sample of display advertisements: clicked or not.

    Numbers are counts: their logarithms are taken.
    """
    path = folder / "dac_sample.txt"
    names = ("label", *DISPLAY_NUMBERS, *DISPLAY_TEXTS)
    table = _frame(path, names=names, sep="\t", nrows=_MOST_ROWS)
    columns = {name: _numbers(path, table, name, gaps=True) for name in DISPLAY_NUMBERS}
    columns = {name: np.log1p(np.maximum(each, -0.5)) for name, each in columns.items()}
    columns |= {name: table[name].to_numpy(dtype=str) for name in DISPLAY_TEXTS}
    refuse_row(path, ~table["label"].isin(["0", "1"]), "has neither 0 nor 1 in column 'label'")
    labels = (table["label"] == "1").to_numpy(dtype=np.int64)
    test = held_out(len(labels))
    return Splits(
        train_labels=labels[~test],
        test_labels=labels[test],
        num_classes=2,
        class_names=NO_YES,
        **_features(columns, test),
    )


def _features(columns: Mapping[str, NDArray[Any]], test: NDArray[np.bool_]) -> dict[str, Any]:
    train, rest = ({name: each[part] for name, each in columns.items()} for part in (~test, test))
    fitted_to = dict(train)
    for name, column in train.items():
        if column.dtype.kind == "U":
            values, counts = np.unique(column, return_counts=True)
            ordered = values[np.argsort(-counts, kind="stable")]
            # Rare values are none of the categories, as they are in rows to predict.
            rare = np.isin(column, ordered[_MOST_FREQUENT:])
            fitted_to[name] = np.where(rare, ordered[0], column)
    return standardized(Columns.fit(fitted_to), train, rest)


def _frame(path: Path, **how: Any) -> "pd.DataFrame":
    """Fields of a text file as a frame of text, empty where a line has none."""
    import pandas as pd

    if not path.exists():
        raise DatasetMissing(f"{path} is missing")
    with readable(path, "text", fix=AGAIN), open_regular(path) as file:
        table = pd.read_csv(file, dtype=str, keep_default_na=False, index_col=False, **how)
    if len(table) < 2:
        raise DataFileError(f"{path} has {len(table)} rows: {AGAIN}")
    return table


def _numbers(
    path: Path, table: "pd.DataFrame", name: str, *, gaps: bool = False
) -> NDArray[np.float64]:
    """A column of numbers [N]; with `gaps` NaN where a field is empty."""
    import pandas as pd

    found = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    bad = ~np.isfinite(found) & ~(gaps & (table[name] == "").to_numpy())
    refuse_row(path, bad, f"has no number in column {name!r}")
    return np.asarray(found)

"""Small data sets in the formats that the real ones are published in, written for tests."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.preprocessing import Preprocessing


def read_back(preprocessing: Preprocessing) -> Preprocessing:
    """What comes out of the two files of a model."""
    plain = json.loads(json.dumps(preprocessing.described(), allow_nan=False))
    arrays = {name: np.array(array) for name, array in preprocessing.arrays().items()}
    return Preprocessing.restored(plain, arrays)


def images(count: int, *shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def write_idx(path: Path, values: NDArray[np.uint8]) -> None:
    """Write bytes with the header that MNIST's files have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    magic = struct.pack(">I", 0x0800 + values.ndim)
    path.write_bytes(magic + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes())


def write_mnist(root: Path, *, folder: str = "MNIST") -> NDArray[np.uint8]:
    """Write four IDX files, labels 0..9 in turn, and return the training images [N, 28, 28]."""
    raw = root / folder / "raw"
    for part, count, seed in (("train", 20, 0), ("t10k", 10, 1)):
        write_idx(raw / f"{part}-images-idx3-ubyte", images(count, 28, 28, seed=seed))
        write_idx(raw / f"{part}-labels-idx1-ubyte", (np.arange(count) % 10).astype(np.uint8))
    return images(20, 28, 28)


def write_cifar_binary(
    path: Path, pixels: NDArray[np.uint8], *labels: NDArray[np.integer[Any]]
) -> None:
    """Write records of label bytes and 3072 bytes of pixels [N, 3, 32, 32]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = [label.astype(np.uint8)[:, None] for label in labels]
    path.write_bytes(np.concatenate([*columns, pixels.reshape(len(pixels), -1)], axis=1).tobytes())


ADULT_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Single, Clerical, Other, White, Male, 2174, 0, 40, Chile, <=50K
50, Private, 83311, Bachelors, 13, Married, Manager, Wife, White, Female, 0, 0, 13, Peru, >50K
38, ?, 215646, HS-grad, 9, Divorced, Cleaner, Other, Black, Male, 0, 0, 40, Peru, <=50K

"""
ADULT_TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Single, Clerical, Wife, Black, Male, 0, 0, 40, Chile, <=50K.
38, Never-worked, 89814, HS-grad, 9, Married, Cleaner, Other, White, Male, 0, 0, 50, Peru, >50K.

"""


def write_adult(root: Path, *, train: str = ADULT_TRAIN, test: str = ADULT_TEST) -> None:
    (root / "adult").mkdir(parents=True, exist_ok=True)
    (root / "adult" / "adult.data").write_text(train)
    (root / "adult" / "adult.test").write_text(test)

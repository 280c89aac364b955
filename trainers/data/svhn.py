"""SVHN's cropped digits (Netzer et al. 2011): two MATLAB files of photographs of house numbers.

Each holds the pixels `X`, uint8 [32, 32, 3, N], and the labels `y` [N, 1]: 1 to 9, and 10 for the
digit 0. What a file announces is looked at before its pixels are read.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import DataFileError, file_size
from labeldp.trainers.data.regular_files import memory_bytes, open_regular

_PICTURE = (32, 32, 3)
_BYTES_PER_ROW = 32 * 32 * 3
#: How the files write the digit 0.
_ZERO = 10


def read_svhn(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images uint8 [N, 3, 32, 32] and labels [N], the digits themselves.

    Raises:
        DatasetMissing: It is not there.
        DataFileError: It is cut off or damaged, or holds something else.
    """
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
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataFileError(
            f"{path} ({size:,} bytes) is no MATLAB file of SVHN's cropped digits ({first}): it is "
            "cut off or damaged: fetch it again"
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

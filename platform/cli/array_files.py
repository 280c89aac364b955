"""Arrays from files named on the command line: `.npy`, `.npz[:key]`; never pickle."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.own_files import npy_array, npz_arrays


def read_array(address: str, *, what: str) -> NDArray[Any]:
    """Return the array at `FILE.npy`, `FILE.npz` or `FILE.npz:key`."""
    path, archive, key = address.partition(".npz:")
    file = Path(path + (".npz" if archive else ""))
    try:
        array = _of_archive(file, key) if file.suffix == ".npz" else npy_array(file)
    except OSError as error:
        raise ValueError(f"{what}: {unreadable(file, error)}") from error
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    real = np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    if not (real or array.dtype == bool):
        raise ValueError(f"{what}: {file} holds {array.dtype} values; real numbers are needed")
    if array.size == 0:
        raise ValueError(f"{what}: {file} is empty; it must hold at least one number")
    return array


def _of_archive(file: Path, key: str) -> NDArray[Any]:
    arrays = npz_arrays(file)
    names = ", ".join(arrays) or "nothing"
    if key and key not in arrays:
        raise ValueError(f"{file} holds no {key!r}; it holds {names}")
    if not key and len(arrays) != 1:
        raise ValueError(f"{file} holds {names}; name one as {file.name}:KEY")
    return arrays[key or names]


def unreadable(path: str | Path, error: OSError) -> str:
    """Return a file that the system does not open in words."""
    return f"{path} can't be read: {error.strerror or str(error) or 'unknown reason'}"

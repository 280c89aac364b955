"""Arrays from files named on the command line: `.npy`, `.npz[:key]`, `.csv`; never pickle."""

import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.files import FileRefused, check_unpacked, open_regular


class ArrayFileError(ValueError):
    """A file that can't be read as an array; the message names it and the cause."""


def read_array(address: str, *, what: str) -> NDArray[Any]:
    """Return the array at `FILE.npy`, `FILE.npz`, `FILE.npz:key` or `FILE.csv`."""
    path, archive, key = address.partition(".npz:")
    path += ".npz" if archive else ""
    try:
        array = _csv_numbers(path) if path.endswith(".csv") else _numpy_array(path, key)
    except OSError as error:
        raise ArrayFileError(f"{what}: {unreadable(path, error)}") from error
    except (ArrayFileError, FileRefused) as error:
        raise ArrayFileError(f"{what}: {error}") from error
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        raise ArrayFileError(
            f"{what}: {path} holds no array that can be read ({first_line(error)}); save it with "
            "numpy.save or numpy.savez, without Python objects"
        ) from error
    real = np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    if not (real or array.dtype == bool):
        raise ArrayFileError(f"{what}: {path} holds {array.dtype} values; real numbers are needed")
    if array.size == 0:
        raise ArrayFileError(f"{what}: {path} is empty; it must hold at least one number")
    return array


def _csv_numbers(path: str) -> NDArray[Any]:
    with warnings.catch_warnings(), TextIOWrapper(open_regular(path)) as text:
        warnings.simplefilter("ignore")  # of an empty file, which is refused later
        array: NDArray[Any] = np.loadtxt(text, delimiter=",", ndmin=1, dtype=float)
    whole = array.astype(np.int64) if np.isfinite(array).all() else array
    return whole if np.array_equal(whole, array) else array


def _numpy_array(path: str, key: str) -> NDArray[Any]:
    # Opened here, since np.load leaves a damaged archive open.
    with open_regular(path) as file:
        loaded: Any = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded as archive:
            check_unpacked(path, sum(member.file_size for member in archive.zip.infolist()))
            names = ", ".join(archive.files) or "nothing"
            if key and key not in archive.files:
                raise ArrayFileError(f"{path} holds no {key!r}; it holds {names}")
            if not key and len(archive.files) != 1:
                raise ArrayFileError(f"{path} holds {names}; name one as {Path(path).name}:KEY")
            array: NDArray[Any] = archive[key or archive.files[0]]
            return array


def unreadable(path: str | Path, error: OSError) -> str:
    """Return a file that the system does not open in words."""
    return f"{path} can't be read: {error.strerror or str(error) or 'unknown reason'}"


def first_line(error: Exception) -> str:
    """Return the first line of an error, or its kind."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]

"""Arrays from files named on the command line: `.npy`, `.npz[:key]`, `.csv`; never pickle."""

import warnings
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.regular_files import FileRefused, check_unpacked, open_regular


class ArrayFileError(ValueError):
    """A file that can't be read as an array; the message names it and says why."""


def read_array(address: str, *, what: str) -> NDArray[Any]:
    """Return the array at `FILE.npy`, `FILE.npz`, `FILE.npz:key` or `FILE.csv`.

    Args:
        address: File, and for an archive of several arrays the key after a colon.
        what: What it is to hold, for messages.

    Raises:
        ArrayFileError: Not there, no regular file, damaged, larger than this machine's memory, of
            Python objects, or the key is missing.
    """
    path, _, key = address.partition(":") if ".npz:" in address else (address, "", "")
    try:
        if path.endswith(".csv"):
            with warnings.catch_warnings(), TextIOWrapper(open_regular(path)) as text:
                warnings.simplefilter("ignore")  # of an empty file, which is refused below
                array: Any = np.loadtxt(text, delimiter=",", ndmin=1, dtype=float)
            whole = array.astype(np.int64) if np.isfinite(array).all() else array
            array = whole if np.array_equal(whole, array) else array
        else:
            # Opened here, since np.load leaves a damaged archive open.
            with open_regular(path) as file:
                loaded = np.load(file, allow_pickle=False)
                array = loaded if isinstance(loaded, np.ndarray) else _member(loaded, path, key)
    except OSError as error:
        reason = error.strerror or str(error) or "it can't be read"
        raise ArrayFileError(f"{what}: {path} can't be read: {reason}") from error
    except (ArrayFileError, FileRefused) as error:
        raise ArrayFileError(f"{what}: {error}") from error
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ArrayFileError(
            f"{what}: {path} holds no array that can be read ({first}); save it with numpy.save or "
            "numpy.savez, without Python objects"
        ) from error
    real = np.issubdtype(array.dtype, np.integer) or np.issubdtype(array.dtype, np.floating)
    if not (real or array.dtype == bool):
        raise ArrayFileError(f"{what}: {path} holds {array.dtype} values; real numbers are needed")
    if array.size == 0:
        raise ArrayFileError(f"{what}: {path} is empty; it must hold at least one number")
    result: NDArray[Any] = array
    return result


def _member(archive: Any, path: str, key: str) -> NDArray[Any]:
    with archive:
        check_unpacked(path, sum(member.file_size for member in archive.zip.infolist()))
        if key:
            if key not in archive.files:
                raise ArrayFileError(f"{path} holds no {key!r}; it holds {_names(archive.files)}")
            named: NDArray[Any] = archive[key]
            return named
        if len(archive.files) != 1:
            raise ArrayFileError(
                f"{path} holds {_names(archive.files)}; name one as {Path(path).name}:KEY"
            )
        only: NDArray[Any] = archive[archive.files[0]]
        return only


def _names(files: list[str]) -> str:
    return ", ".join(files) or "nothing"

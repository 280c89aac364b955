"""Arrays in files that processes on one machine share: made once by one of them, or sent by name.

`made_once`: directions of a kernel, groups of k-means, made of public inputs alone. One process
computes while the others wait for the file; if it dies, the next one does. A file is whole or not
there at all, and carries a digest that every reader checks. A reader sees the very bits that were
computed: a release is addressed by them, and other bits would be another release, which is paid.

`take_rows`: a tensor of features in a file knows its file (`UntypedStorage.filename`). Pickled, it
is a name and a shape: every process maps the same pages.
"""

import hashlib
import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.data.files import FileRefused, open_regular, whole_file
from labeldp.trainers.data.own_data import write_once

Arrays: TypeAlias = tuple[NDArray[Any], ...]

#: How long one process waits for another at most: ten times what the slowest of these arrays take
#: on a busy machine. Afterwards it computes for itself, which costs time and nothing else.
PATIENCE_SECONDS = 900.0
#: Arrays begin at multiples of it, as torch's own do: the order in which a processor adds numbers
#: up may depend on that, and with it the last digits.
_ALIGNED = 64
_DIGEST_BYTES = hashlib.sha256().digest_size
_CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where arrays are kept: in a `folder` that the processes share, or nowhere (None).

    `key` is all that decides their content, as JSON takes it; no label is among it.
    """

    folder: Path | None
    name: str
    key: Mapping[str, object]

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key."""
        return hashlib.sha256(json.dumps(self.key, sort_keys=True).encode()).digest()

    def file(self, folder: Path) -> Path:
        """The file in a folder."""
        return folder / f"{self.name}-{self.digest.hex()[:32]}.arrays"


def made_once(
    make: Callable[[], Arrays], *, place: Place, patience: float = PATIENCE_SECONDS
) -> Arrays:
    """Return the arrays of `make`, made by the first process that requests them; read-only.

    A process waits `patience` seconds for another at most. A folder that can't be written, locked
    or read costs time and stops nothing.
    """
    if place.folder is None:
        return _read_only(make())
    path = place.file(place.folder)
    kept = _read(path, place.digest)
    if kept is not None:
        return kept
    lock = FileLock(path.with_suffix(".lock"), timeout=patience, poll_interval=0.2, mode=0o600)
    with suppress(OSError):  # `filelock.Timeout` is one
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        # Another process may have written it meanwhile.
        return _read(path, place.digest) or _made(make, path, place.digest)
    finally:
        if lock.is_locked:
            # A process that waits sees that its file has no name any more, and locks a new one.
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()


def _read_only(arrays: Arrays) -> Arrays:
    for array in arrays:
        array.setflags(write=False)
    return arrays


def _made(make: Callable[[], Arrays], path: Path, digest: bytes) -> Arrays:
    """Make arrays, keep them, and return them as they are read, or as made where they can't be."""
    arrays = _read_only(make())
    try:
        with whole_file(path) as file:
            for array in arrays:
                file.write(b"\0" * (-file.tell() % _ALIGNED))
                np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
            file.flush()
            with open(file.name, "rb") as written:
                signed = hashlib.file_digest(written, lambda: hashlib.sha256(digest))
            file.write(signed.digest())
    except OSError:
        return arrays
    return _read(path, digest) or arrays


def _read(path: Path, digest: bytes) -> Arrays | None:
    """Arrays mapped from a file; None where there is none that is whole and of this key."""
    try:
        with open_regular(path) as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            end = len(content) - _DIGEST_BYTES
            found = hashlib.sha256(digest)
            with memoryview(content) as view:
                found.update(view[: max(end, 0)])
            if end < 0 or found.digest() != content[end:]:
                return None
            return tuple(_mapped(file, content, end=end))
    except (OSError, FileRefused, ValueError):  # an empty file can't be mapped
        return None


def _mapped(file: IO[bytes], content: mmap.mmap, *, end: int) -> Iterator[NDArray[Any]]:
    """Each array of a file, where it lies."""
    at = 0
    while at < end:
        file.seek(at)
        assert np.lib.format.read_magic(file) == (1, 0), "it is what was written"
        shape, turned, kind = np.lib.format.read_array_header_1_0(file)
        values = np.frombuffer(content, kind, int(np.prod(shape)), file.tell())
        at = file.tell() + values.nbytes
        at += -at % _ALIGNED
        yield values.reshape(shape, order="F" if turned else "C")


@dataclass(frozen=True, kw_only=True)
class FileOfFeatures:
    """A tensor that is sent as the name of its file, single precision, row after row [N, D]."""

    file: str
    shape: tuple[int, ...]

    def tensor(self) -> Tensor:
        """Map the file."""
        if not Path(self.file).is_file():
            raise ValueError(
                f"{self.file} is not on this machine: features that are too large for memory are "
                "shared as a file; run on one machine, or keep the results in a folder that all "
                "of them see"
            )
        size = int(np.prod(self.shape))
        flat = torch.from_file(self.file, shared=True, size=size, dtype=torch.float32)
        return flat.view(self.shape)


def as_tensor(array: NDArray[Any]) -> Tensor:
    """Return an array as a tensor, one that lies in a file as one that knows it."""
    if isinstance(array, np.memmap) and array.mode == "r+" and len(array):
        return FileOfFeatures(file=str(array.filename), shape=array.shape).tensor()
    return torch.from_numpy(array)


def file_of(features: Any) -> FileOfFeatures | None:
    """The file of these features and nothing else; None in memory, and for a part of a file."""
    if not isinstance(features, Tensor):
        return None
    storage = features.untyped_storage()
    name = storage.filename
    if name is None or storage.nbytes() > features.numel() * features.element_size():
        return None
    return FileOfFeatures(file=str(name), shape=tuple(features.shape))


def take_rows(features: Tensor, rows: NDArray[np.integer[Any]]) -> Tensor:
    """Return some rows [M, ...]; of features in a file they lie in another one beside it."""
    found = file_of(features)
    if found is None or len(rows) == 0:
        return features[torch.from_numpy(rows)]
    base = Path(found.file)
    digest = hashlib.sha256(np.ascontiguousarray(rows).data)
    file = base.with_name(f"{base.stem}-{digest.hexdigest()[:16]}{base.suffix}")
    step = max(1, _CHUNK_NUMBERS // found.shape[1])

    def chunks() -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(rows), step):
            yield features[torch.from_numpy(rows[start : start + step])].numpy()

    shape = (len(rows), *found.shape[1:])
    write_once(file, chunks, size=4 * int(np.prod(shape)))
    return FileOfFeatures(file=str(file), shape=shape).tensor()

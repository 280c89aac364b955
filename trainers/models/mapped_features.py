"""Features that lie in a file and not in memory: as tensors, some rows of them, sent by their name.

A tensor of this kind knows its file (`UntypedStorage.filename`). Where it is pickled, its name and
shape are: every process on the machine maps the same pages.

>>> take_rows(torch.tensor([[1.0], [2.0]]), np.array([1])).tolist()
[[2.0]]
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.data.own_features import write_once

_CHUNK_NUMBERS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class FileOfFeatures:
    """A tensor that is not sent, but found.

    Attributes:
        file: Single precision, row after row.
        shape: Of all of them, [N, D].
    """

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
    """Which file holds these features and nothing else; None in memory, and for a part of it."""
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

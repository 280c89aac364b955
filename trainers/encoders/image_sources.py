"""Images to embed: a data set by its name, an array of a file, or a folder of files.

Their order is fixed: of a data set training images, then testing images; of an array as they lie;
of a folder by path.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.catalog import DATASETS, find
from labeldp.trainers.data.files import (
    DataFileError,
    checked_images,
    data_root,
    digest_of_images,
    images_of,
)
from labeldp.trainers.data.own_files import npy_array, npz_arrays
from labeldp.trainers.data.regular_files import FileRefused, open_regular

if TYPE_CHECKING:  # listing images is quick without it
    from torch import Tensor

#: Files of a folder that are taken for images.
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
#: Names of arrays of images in an `.npz`; of several, in this order.
_ARRAYS = (("train_features", "test_features"), ("features",), ("images",))


class ImageSource(Protocol):
    """Images in a fixed order."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def digest(self) -> str:
        """Return the SHA-256 of all of them."""

    def batches(self, size: int) -> "Iterator[Tensor | list[Tensor]]":
        """Return them some at a time: bytes [B, C, H, W], or B of [C, H, W]."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ArraySource:
    """Images in memory: parts of one shape, uint8 [N, C, H, W] each."""

    parts: tuple[NDArray[np.uint8], ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return sum(map(len, self.parts))

    def digest(self) -> str:
        """Return the SHA-256 of all of them."""
        return digest_of_images(*self.parts)

    def batches(self, size: int) -> "Iterator[Tensor]":
        """Return them some at a time: bytes [B, C, H, W]."""
        import torch

        for part in self.parts:
            for start in range(0, len(part), size):
                some = part[start : start + size]
                yield torch.from_numpy(some if some.flags.writeable else some.copy())


@dataclass(frozen=True, kw_only=True, eq=False)
class FolderSource:
    """Files of images in a folder, by path."""

    folder: Path
    files: tuple[Path, ...]

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.files)

    @property
    def names(self) -> list[str]:
        """Of the files, below the folder."""
        return [file.relative_to(self.folder).as_posix() for file in self.files]

    def digest(self) -> str:
        """Return the SHA-256 of all files' contents, in order."""
        digest = hashlib.sha256(b"files")
        for file in self.files:
            with open_regular(file) as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        return digest.hexdigest()

    def batches(self, size: int) -> "Iterator[list[Tensor]]":
        """Return them some at a time: B of [3, H, W]."""
        for start in range(0, len(self.files), size):
            yield [_read_image(file) for file in self.files[start : start + size]]


def image_source(named: str, *, root: Path | None = None) -> ImageSource:
    """Return the images that a user names."""
    place = Path(named).expanduser()
    if place.is_dir():
        return _of_folder(place)
    if place.suffix.lower() in (".npy", ".npz"):
        return ArraySource(parts=_of_file(place))
    if named not in DATASETS and ("/" in named or place.suffix):
        raise DataFileError(
            f"{named} is no folder, no .npz or .npy, and no data set; check where the images are"
        )
    if named == "own":
        raise ValueError("name the file of your images itself: labeldp embed IMAGES.npz")
    return ArraySource(parts=images_of(named, find(named).read(data_root(root))))


def _of_folder(folder: Path) -> FolderSource:
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    files = tuple(path for path in found if path.is_file())
    if not files:
        raise DataFileError(
            f"{folder} holds no image: no file in it ends in {', '.join(ENDINGS)}; name the folder "
            "that does"
        )
    return FolderSource(folder=folder, files=files)


def _of_file(file: Path) -> tuple[NDArray[np.uint8], ...]:
    if not file.exists():
        raise DataFileError(f"{file.absolute()} is not there; check where the images are")
    if file.suffix.lower() == ".npy":
        return checked_images(file, npy_array(file))
    arrays = npz_arrays(file)
    for names in _ARRAYS:
        if set(names) <= set(arrays):
            return checked_images(file, *(arrays[name] for name in names))
    raise DataFileError(
        f"{file} holds {', '.join(arrays) or 'nothing'}; images are called features or images, or "
        "train_features and test_features"
    )


def _read_image(file: Path) -> "Tensor":
    """An image as bytes [3, H, W]."""
    import torch
    from PIL import Image

    try:
        with open_regular(file) as opened, Image.open(opened) as image:
            pixels = np.asarray(image.convert("RGB"))
    except (OSError, FileRefused, SyntaxError, ValueError) as error:
        raise DataFileError(
            f"{file} can't be read as an image ({str(error)[:200]}); repair it, or take it away"
        ) from error
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())

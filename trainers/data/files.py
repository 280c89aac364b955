"""What every reader of data files shares: errors, published files, and the arrays they hold.

Nothing here needs torch, so that listing and checking data sets stays quick.

>>> fixed_order(5, seed=0).tolist()
[3, 2, 1, 0, 4]
"""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.trainers.data.regular_files import FileRefused, open_regular

if TYPE_CHECKING:  # it knows of readers, which import this
    from labeldp.trainers.data.preprocessing import Step
    from labeldp.trainers.encoders.provenance import FeatureProvenance

#: Of the rows that come without a split, one in so many is held out for testing.
HELD_OUT = 5
#: Where the seeds of further choices begin, away from those of other orders of the same rows.
_HOLD_OUT_SEEDS = 1_000_000


class DatasetMissing(FileNotFoundError, ValueError):
    """A data set is not where it was looked for; the message names the place and what gets it."""


class DataFileError(ValueError):
    """A file of data that is cut off, damaged or of another kind; the message names it."""


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file as its authors publish it.

    Attributes:
        size: Bytes.
    """

    path: str
    size: int
    md5: str | None = None

    def problem(self, root: Path) -> str | None:
        """What is different about the file below `root`; None if it is as published."""
        path = root / self.path
        try:
            size = file_size(path)
        except (DatasetMissing, FileRefused) as error:
            return str(error)
        if size != self.size:
            return f"{path} has {size:,} bytes, the published file {self.size:,}: fetch it again"
        if self.md5 is None:
            return None
        with open_regular(path) as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found == self.md5:
            return None
        return (
            f"{path} has MD5 {found}, the published file {self.md5}: fetch it again, or, if it was "
            "re-encoded on purpose, say so beside every number"
        )


@dataclass(frozen=True, kw_only=True)
class Splits:
    """A data set as arrays, before anything is checked.

    Attributes:
        train_features: uint8 [N, C, H, W] or float32 [N, D].
        train_labels: True labels [N]; never shown.
        test_features: Like the training features [M, ...]; no rows without a public test split.
        test_labels: Public labels [M].
        preprocessing: What made the features of rows as people have them; None where features are
            such rows, or images.
        provenance: Which encoder made the features; None where none did.
    """

    train_features: NDArray[Any]
    train_labels: NDArray[Any] = field(repr=False)
    test_features: NDArray[Any]
    test_labels: NDArray[Any]
    num_classes: int
    class_names: tuple[str, ...] | None = None
    preprocessing: "Step | None" = None
    provenance: "FeatureProvenance | None" = None


def data_root(root: str | os.PathLike[str] | None) -> Path:
    """Return the folder of the data sets: `root`, else LABELDP_DATA, else `data` right here."""
    return Path(root or os.environ.get("LABELDP_DATA") or "data").expanduser()


def fixed_order(count: int, *, seed: int) -> NDArray[np.intp]:
    """Return 0..count-1 shuffled, the same on every machine and in every version of NumPy.

    NumPy promises never to change the raw stream of a bit generator, but not what `permutation`
    makes of it.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")


def held_out(count: int, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return which of `count` rows are for testing, where nobody has said: one in five [count].

    Args:
        count: N.
        seed: Numbers several choices; public.
    """
    test = np.zeros(count, dtype=bool)
    order = fixed_order(count, seed=seed and _HOLD_OUT_SEEDS + seed)
    test[order[: max(1, count // HELD_OUT)]] = True
    return test


def read_lines(path: Path) -> list[str]:
    """Lines of a file of text that is there; bytes that are no text become question marks."""
    try:
        with open_regular(path) as file:
            return file.read().decode(errors="replace").splitlines()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetMissing(f"{path} is missing") from error


def file_size(path: Path) -> int:
    """Bytes of a regular file that is there."""
    try:
        with open_regular(path) as file:
            return os.fstat(file.fileno()).st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise DatasetMissing(f"{path} is missing") from error


def channels_first(where: Path | str, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return images [N, C, H, W] of [N, H, W], [N, C, H, W] or [N, H, W, C], with C = 1 or 3."""
    if images.ndim == 3:
        return np.ascontiguousarray(images[:, None])
    if images.shape[1] in (1, 3):
        return np.ascontiguousarray(images)
    if images.shape[3] in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    raise DataFileError(
        f"{where}: images have shape {images.shape}; with 1 or 3 channels that is [N, C, H, W] or "
        "[N, H, W, C]"
    )


def checked_images(where: Path | str, *parts: NDArray[Any]) -> tuple[NDArray[np.uint8], ...]:
    """Return parts of one set of images, uint8 [N, C, H, W] each; refuses other arrays."""
    for part in parts:
        if part.dtype != np.uint8 or part.ndim not in (3, 4) or not part.size:
            raise DataFileError(
                f"{where} holds {part.dtype} of shape {part.shape}, and no images; they are uint8 "
                "[N, H, W], [N, C, H, W] or [N, H, W, C] with 1 or 3 channels (for images in 0..1: "
                "(255 * images).round().astype(numpy.uint8))"
            )
    found = tuple(channels_first(where, part) for part in parts)
    if len({part.shape[1:] for part in found}) > 1:
        raise DataFileError(
            f"{where}: training images have shape {found[0].shape[1:]} and testing ones "
            f"{found[1].shape[1:]}; they must agree"
        )
    return found


def images_of(name: str, splits: Splits) -> tuple[NDArray[np.uint8], ...]:
    """Return a data set's images: those for training, then those for testing."""
    parts = (splits.train_features, splits.test_features)
    return checked_images(name, *(part for part in parts if len(part)))


def digest_of_images(*parts: NDArray[np.uint8]) -> str:
    """Return the SHA-256 of images [N, C, H, W], however they are cut into parts."""
    digest = hashlib.sha256(f"uint8 {parts[0].shape[1:]}".encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def held_out_count(count: int, *, share: float) -> int:
    """Return how many of `count` training examples a share is."""
    _validate.between(0, 1, held_out_share=share)
    held = round(share * count)
    if not 2 <= held <= count - 2:
        raise ValueError(
            f"held_out_share is {share}, but of {count} training examples that is {held}; at least "
            "two must be held out and two be left"
        )
    return held

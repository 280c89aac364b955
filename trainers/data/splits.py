"""A data set as arrays: its splits, images, size and origin, and checks of all of them.

Nothing here needs torch, so that listing, checking and pricing data sets stays quick.

Training on an encoder's vectors is training on all that the encoder has seen. Results with and
without such outside data can't be compared; hence the leagues. `FEATURES.npy.json`, beside a file
of features, states how they were made, and is refused beside another file.

>>> fixed_order(5, seed=0).tolist()
[3, 2, 1, 0, 4]
>>> arrays = Splits(
...     train_features=np.zeros((4, 2), np.float32), train_labels=np.array([0, 1, 1, 0]),
...     test_features=np.zeros((0, 2), np.float32), test_labels=np.array([], int), num_classes=2,
... )
>>> size_of("mine", arrays, limit=3).num_labels
3
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

import labeldp
from labeldp.mechanisms import _validate
from labeldp.mechanisms._validate import Array
from labeldp.mechanisms.amounts import LEVELS, to_levels
from labeldp.trainers.base import PRETRAINED
from labeldp.trainers.data.columns import refuse_infinite
from labeldp.trainers.data.files import (
    ANY_SIZE,
    DataFileError,
    open_regular,
    read_bytes,
    whole_file,
)
from labeldp.trainers.data.stored import Step

#: Of a text that people see beside results.
LONGEST_TEXT = 200
#: Stands for an origin that is unknown.
UNSAID = "not stated"


class League(StrEnum):
    """The outside data that a result's features have seen.

    NONE: nothing. PUBLIC_ENCODER: what an encoder was trained on; also where that is not
    stated. NOT_STATED: the user's own matrix of numbers, with nothing beside it.
    """

    NONE = "none"
    PUBLIC_ENCODER = "public-encoder"
    NOT_STATED = "not-stated"

    @property
    def words(self) -> str:
        """As people read it."""
        return _WORDS[self]


_WORDS = {
    League.NONE: "no outside data",
    League.PUBLIC_ENCODER: "public encoder",
    League.NOT_STATED: "not stated (features of the user's own, without a record of their origin)",
}


@dataclass(frozen=True, kw_only=True)
class FeatureProvenance:
    """The origin of the features that models see; all of it may be published.

    `weights` is their SHA-256.
    """

    league: League = League.NONE
    encoder: str = ""
    weights: str = ""
    preparation: str = ""
    trained_on: str = ""
    trained_by: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "league", League(self.league))
        for entry in fields(self):
            text = getattr(self, entry.name)
            if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.isprintable():
                raise ValueError(
                    f"{entry.name} is {text!r:.80}; it is shown beside results, and must be one "
                    f"line of {LONGEST_TEXT} characters at most"
                )

    @property
    def words(self) -> str:
        """League, encoder and training in a line."""
        if not self.encoder:
            return self.league.words
        trained = f"trained on {self.trained_on or UNSAID}, by {self.trained_by or UNSAID}"
        how = f"weights {self.weights[:8]}" if self.weights else self.preparation
        return f"{self.league.words}: {self.encoder} ({how}), {trained}"

    def described(self) -> dict[str, str]:
        """Return the fields that are set, for JSON."""
        return {
            entry.name: str(value) for entry in fields(self) if (value := getattr(self, entry.name))
        }

    @classmethod
    def restored(cls, described: Mapping[str, Any]) -> "FeatureProvenance":
        """Return what `described` was taken of."""
        known = [entry.name for entry in fields(cls)]
        return cls(**{name: described[name] for name in known if name in described})

    def same_encoder(self, other: "FeatureProvenance") -> bool:
        """Whether the same encoder with the same weights and preparation made both."""
        mine, others = ((each.encoder, each.weights, each.preparation) for each in (self, other))
        return mine == others


def fine_tuned(address: str) -> FeatureProvenance:
    """Return the origin of a network that starts from `pretrained:NAME`."""
    return FeatureProvenance(
        league=League.PUBLIC_ENCODER,
        encoder=address,
        preparation="fine-tuned",
        trained_on=f"{address.removeprefix(PRETRAINED)} with its labels, public by the user's word",
        trained_by="the user, by labeldp",
    )


#: Of data sets by name, tables and images as they are.
NO_OUTSIDE_DATA = FeatureProvenance(league=League.NONE)


class EmbeddingRefused(ValueError):
    """Features, or a record of them, that can't be used; the message names the fix."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingRecord:
    """How a file of features was made.

    `inputs` is the SHA-256 of the images, `key` a hash of all that decides the features, `sha256`
    that of the file.
    """

    provenance: FeatureProvenance
    inputs: str
    rows: int
    dimensions: int
    key: str
    sha256: str
    labeldp: str = labeldp.__version__
    format: Literal[1] = 1

    def write(self, file: Path) -> None:
        """Write it beside a file of features, whole."""
        with whole_file(record_place(file)) as opened:
            opened.write(TypeAdapter(EmbeddingRecord).dump_json(self, indent=1))


def record_place(file: Path) -> Path:
    """Return where the record of a file of features lies."""
    return file.with_name(file.name + ".json")


def checked_record(file: Path) -> EmbeddingRecord | None:
    """Return the record beside a file, which was written of this file; None without a record."""
    place = record_place(file)
    if not os.path.lexists(place):
        return None
    try:
        record = TypeAdapter(EmbeddingRecord).validate_json(read_bytes(place))
    except (OSError, ValueError) as error:
        raise EmbeddingRefused(
            f"{place} should name what made {file.name}, and can't be read "
            f"({' '.join(str(error).split())[:200]}); make the features again (`labeldp embed ... "
            "--replace`), or take it away"
        ) from error
    found = sha256_of(file)
    if found != record.sha256:
        raise EmbeddingRefused(
            f"{file} has SHA-256 {found[:16]}..., and {place.name} beside it was written of a file "
            f"with {record.sha256[:16]}...: another file lies under that name, or it is damaged; "
            "put the right one there, make it again (`labeldp embed ... --replace`), or, if it was "
            "made elsewhere, take the .json away"
        )
    return record


def sha256_of(file: Path, *, most_bytes: int = ANY_SIZE) -> str:
    """Return the SHA-256 of a file that may be larger than memory."""
    with open_regular(file, most_bytes=most_bytes) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


#: Of the rows that come without a split, one in so many is held out for testing.
HELD_OUT = 5
#: Where the seeds of further choices begin, away from those of other orders of the same rows.
_HOLD_OUT_SEEDS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Splits:
    """A data set as arrays, before anything is checked.

    Attributes:
        train_features: uint8 [N, C, H, W] or float32 [N, D].
        train_labels: True labels [N]; never shown.
        test_features: Like the training features [M, ...]; no rows without a public test split.
        test_labels: Public labels [M].
        preprocessing: Turns raw rows into these features; None where features are
            such rows, or images.
        provenance: Encoder of the features; None without one.
        bounds: Of amounts, whose levels are the labels; None where labels are classes.
        test_amounts: Public amounts as they are [M], beyond the bounds too.
    """

    train_features: NDArray[Any]
    train_labels: NDArray[Any] = field(repr=False)
    test_features: NDArray[Any]
    test_labels: NDArray[Any]
    num_classes: int
    class_names: tuple[str, ...] | None = None
    preprocessing: Step | None = None
    provenance: FeatureProvenance | None = None
    bounds: tuple[float, float] | None = None
    test_amounts: NDArray[np.float64] | None = None


def of_amounts(train: Array, test: Array, *, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return what `Splits` has of secret amounts [N] and public ones [M] between public bounds."""
    return {
        "train_labels": to_levels(train, bounds=bounds),
        "test_labels": to_levels(test, bounds=bounds),
        "test_amounts": np.asarray(test, dtype=np.float64),
        "num_classes": LEVELS,
        "bounds": bounds,
    }


def fixed_order(count: int, *, seed: int) -> NDArray[np.intp]:
    """Return 0..count-1 shuffled, the same on every machine and in every version of NumPy.

    NumPy promises never to change the raw stream of a bit generator, but not what `permutation`
    makes of it.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")


def held_out(count: int, *, seed: int = 0) -> NDArray[np.bool_]:
    """Return which of `count` rows are for testing, where no split is given: one in five [count].

    The seed is public and numbers several choices.
    """
    test = np.zeros(count, dtype=bool)
    order = fixed_order(count, seed=seed and _HOLD_OUT_SEEDS + seed)
    test[order[: max(1, count // HELD_OUT)]] = True
    return test


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


def _channels_first(where: Path | str, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
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
                f"{where} holds {part.dtype} of shape {part.shape}; images are uint8 "
                "[N, H, W], [N, C, H, W] or [N, H, W, C] with 1 or 3 channels (for images in 0..1: "
                "(255 * images).round().astype(numpy.uint8))"
            )
    found = tuple(_channels_first(where, part) for part in parts)
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


@dataclass(frozen=True, kw_only=True)
class DataSize:
    """The public size of a data set: N labels to train on, H held out, K classes.

    Attributes:
        has_test_split: Whether there are public labels to measure accuracy on.
        amounts: Whether the classes are levels of amounts.
        shape: Of an example; empty where it is not known.
        num_test: Number of public test examples.
    """

    num_classes: int
    num_labels: int
    has_test_split: bool
    held_out: int = 0
    amounts: bool = False
    shape: tuple[int, ...] = ()
    num_test: int = 0


def size_of(name: str, splits: Splits, *, limit: int | None = None) -> DataSize:
    """Return how large a data set is; what `labelled` refuses is refused."""
    features = {"train": splits.train_features, "test": splits.test_features}
    classes = splits.num_classes
    test_labels = checked_public(name, classes, features, splits.test_labels)
    labels = checked_labels(
        splits.train_labels, splits.train_features, classes, name=name, part="train"
    )
    return DataSize(
        num_classes=classes,
        num_labels=len(labels) if limit is None else min(limit, len(labels)),
        has_test_split=len(test_labels) > 0,
        amounts=splits.bounds is not None,
        shape=splits.train_features.shape[1:],
        num_test=len(test_labels),
    )


def checked_public(
    name: str, num_classes: int, features: Mapping[str, Any], test_labels: NDArray[Any]
) -> NDArray[np.int64]:
    """Return public test labels [M]; refuse features, by part, that do not fit together."""
    _validate.whole(num_classes=num_classes, minimum=2)
    train = features["train"]
    for part, rows in features.items():
        _check_features(rows, name=f"{name}: {part}_features", may_be_empty=part == "test")
        if train.shape[1:] != rows.shape[1:]:
            raise ValueError(
                f"{name}: a row of train_features has shape {tuple(train.shape[1:])} and one of "
                f"{part}_features {tuple(rows.shape[1:])}; they must agree"
            )
    if not len(features["test"]) and not len(test_labels):
        return np.zeros(0, dtype=np.int64)
    return checked_labels(
        test_labels, features["test"], num_classes, name=name, part="test", secret=False
    )


def checked_labels(
    labels: object, features: Any, num_classes: int, *, name: str, part: str, secret: bool = True
) -> NDArray[np.int64]:
    """Return labels, one for each row of features [N]."""
    checked = _validate.labels(
        labels, num_classes=num_classes, name=f"{name}: {part}_labels", secret=secret
    )
    if len(features) != len(checked):
        raise ValueError(
            f"{name}: {part}_features has {len(features)} rows and {part}_labels {len(checked)}; "
            "there must be one label per row"
        )
    return checked.astype(np.int64)


def fingerprint_of(num_classes: int, features: Iterable[Any], test_labels: NDArray[Any]) -> str:
    """Return the SHA-256 of features [N, ...], K and public test labels."""
    digest = hashlib.sha256(str(num_classes).encode())
    for part in features:
        kind = str(part.dtype).removeprefix("torch.")
        digest.update(f"torch.{kind}{tuple(part.shape)}".encode())
        digest.update(np.ascontiguousarray(part).data)
    digest.update(np.asarray(test_labels).astype(np.int64).tobytes())
    return digest.hexdigest()


def _check_features(features: Any, *, name: str, may_be_empty: bool) -> None:
    kind = str(features.dtype).removeprefix("torch."), features.ndim
    if kind not in (("uint8", 4), ("int64", 2), ("float32", 2)):
        raise ValueError(
            f"{name} is {features.dtype} of shape {tuple(features.shape)}; images must be uint8 "
            "[N, C, H, W], tables float32 [N, D], identifiers int64 [N, D]"
        )
    if 0 in features.shape[may_be_empty:]:
        raise ValueError(f"{name} has shape {tuple(features.shape)}; it must not be empty")
    array = np.asarray(features)
    if kind == ("int64", 2) and array.size and array.min() < 0:
        row = (array < 0).any(axis=1).argmax()
        raise ValueError(f"{name} row {row} is {array[row].tolist()}; identifiers count from 0")
    refuse_infinite(array, what=name, missing=False)

"""Data sets with public features and secret labels.

`load` gives public things and training labels apart: the labels belong into a `LabelVault` at once.

>>> data = load("digits", limit=100)
>>> data.public
PublicData(name='digits', num_classes=10, train=[100, 1, 8, 8], test=[359, 1, 8, 8])
>>> data
LabelledData(public=PublicData(name='digits', ...), train_labels=<100 secret>)
"""

import math
import os
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms import _validate
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.own_data import read_own
from labeldp.trainers.data.own_files import OwnSource
from labeldp.trainers.data.preprocessing import NOTHING, Preprocessing, as_given
from labeldp.trainers.data.splits import (
    NO_OUTSIDE_DATA,
    FeatureProvenance,
    Splits,
    checked_labels,
    checked_public,
    digest_of_images,
    fingerprint_of,
    fixed_order,
    held_out_count,
)

_CHUNK_ROWS = 8192
#: Seeds of the order that held-out examples are taken from; a limit's order has the seed 1.
_HELD_OUT_SEEDS = 2


class FeatureKind(Enum):
    """The kind of a row of features; IDENTIFIERS are places in lists, with a column per list."""

    IMAGE = "image"
    TABULAR = "tabular"
    IDENTIFIERS = "identifiers"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublicData:
    """All of a data set that everyone may see.

    Attributes:
        train_features: uint8 [N, C, H, W] for images, float32 [N, D] for tables, int64 [N, D] for
            identifiers, counted from 0.
        test_features: Likewise [M, ...]; no rows without a public test split.
        test_labels: Public labels, int64 [M]; none likewise.
        held_out_features: Of examples whose labels nobody trains on and nobody sees, which accuracy
            is estimated on [H, ...]; None where there are none.
        held_out_places: Their places among all examples [H], if these are known.
        preprocessing: Turns raw rows into these features, fitted on public
            features alone; without steps, rows are taken as they are.
        features_folder: Where features that are computed of these are kept; None for nowhere.
        bounds, test_amounts: As in `Splits`, where the classes are levels of amounts.
    """

    name: str
    num_classes: int
    train_features: Tensor
    test_features: Tensor
    test_labels: NDArray[np.int64]
    class_names: tuple[str, ...] | None = None
    held_out_features: Tensor | None = None
    held_out_places: NDArray[np.intp] | None = None
    preprocessing: Preprocessing = NOTHING
    provenance: FeatureProvenance = NO_OUTSIDE_DATA
    features_folder: Path | None = None
    bounds: tuple[float, float] | None = None
    test_amounts: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for part, features in self.parts.items():
            if not isinstance(features, Tensor):
                raise ValueError(
                    f"{self.name}: {part}_features is a {type(features).__name__}; it must be a "
                    "torch tensor (torch.from_numpy makes one)"
                )
            # A view is sent to other processes with all that it is a view of: a table's column of
            # labels, say.
            if features.untyped_storage().nbytes() > features.numel() * features.element_size():
                own = features.clone(memory_format=torch.contiguous_format)
                object.__setattr__(self, f"{part}_features", own)
        labels = checked_public(self.name, self.num_classes, self.parts, self.test_labels)
        object.__setattr__(self, "test_labels", labels)
        if not self.preprocessing.steps:
            object.__setattr__(self, "preprocessing", as_given(self.train_features))
        if self.preprocessing.shape != tuple(self.train_features.shape[1:]):
            raise ValueError(
                f"{self.name}: its preprocessing makes rows of shape {self.preprocessing.shape}, "
                f"and a row of train_features has {tuple(self.train_features.shape[1:])}; "
                "give the preprocessing that made the features"
            )
        if self.class_names is not None and len(self.class_names) != self.num_classes:
            raise ValueError(
                f"{self.name}: there are {len(self.class_names)} class_names for "
                f"{self.num_classes} classes; give one each or none"
            )

    def __repr__(self) -> str:
        shown = [f"{part}={list(x.shape)}" for part, x in self.parts.items() if len(x)]
        return f"PublicData(name={self.name!r}, num_classes={self.num_classes}, {', '.join(shown)})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take arrays from an object store as our own: there they are read-only, torch warns."""
        self.__dict__.update(state, test_labels=state["test_labels"].copy())

    def only(self, places: NDArray[np.intp]) -> "PublicData":
        """Return the data with some of the training rows [M]."""
        some = self.train_features[torch.from_numpy(places)]
        return replace(self, train_features=some, held_out_places=None)

    @property
    def kind(self) -> FeatureKind:
        """Images, a table or identifiers."""
        if self.train_features.ndim == 4:
            return FeatureKind.IMAGE
        floating = self.train_features.is_floating_point()
        return FeatureKind.TABULAR if floating else FeatureKind.IDENTIFIERS

    @cached_property
    def cardinalities(self) -> tuple[int, ...] | None:
        """How long the list of each column of identifiers is [D]; None for other features."""
        if self.kind is not FeatureKind.IDENTIFIERS:
            return None
        parts = [features.amax(0) for features in self.parts.values() if len(features)]
        longest = torch.stack(parts).amax(0)
        return tuple((longest + 1).tolist())

    @property
    def has_test_split(self) -> bool:
        """Whether there are public labels to measure accuracy on."""
        return len(self.test_labels) > 0

    def test_accuracy(self, guesses: NDArray[np.integer[Any]]) -> float:
        """Share of right guesses [M] on the public test split; NaN where there is none."""
        return float((guesses == self.test_labels).mean()) if self.has_test_split else math.nan

    def require_numbers(self, *, user: str) -> None:
        """Refuse identifiers for a user that would take them for numbers."""
        if self.kind is FeatureKind.IDENTIFIERS:
            raise ValueError(
                f"{self.name} holds identifiers, which are names and not numbers: {user} can't use "
                "them; take method=recommender or model=two_branch, and data.features=as_they_are"
            )

    @cached_property
    def digests_of_images(self) -> tuple[str, ...]:
        """SHA-256 that an encoder of these images may state: 64 hexadecimal digits.

        They are of the training images, and of these with the held-out ones in their old places.
        """
        training = self.train_features.cpu().numpy()
        if self.held_out_features is None or self.held_out_places is None:
            return (digest_of_images(training),)
        held_out = self.held_out_features.cpu().numpy()
        count = len(training) + len(held_out)
        whole = np.empty((count, *training.shape[1:]), training.dtype)
        whole[self.held_out_places] = held_out
        whole[np.setdiff1d(np.arange(count), self.held_out_places)] = training
        return digest_of_images(training), digest_of_images(whole)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of features, K and public test labels: 64 hexadecimal digits.

        Nothing secret is in them: labels that are held out and not public are not here at all.
        """
        return fingerprint_of(self.num_classes, self.parts.values(), self.test_labels)

    @property
    def parts(self) -> dict[str, Tensor]:
        """All features there are, in the order in which the fingerprint reads them."""
        parts = {"train": self.train_features, "test": self.test_features}
        held_out = self.held_out_features
        return parts if held_out is None else {**parts, "held_out": held_out}

    @cached_property
    def pixels(self) -> "Pixels | None":
        """Mean and deviation of each channel of the training images; None for other features."""
        return Pixels.of(self.train_features) if self.kind is FeatureKind.IMAGE else None


def normalize(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return uint8 images [B, C, H, W] as float32: divided by 255, each channel standardized.

    `mean` and `std` are of pixels in [0, 1], each [C], on the images' device.
    """
    center, spread = (255.0 * statistic.view(1, -1, 1, 1) for statistic in (mean, std))
    return images.float().sub_(center).div_(spread)


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """Mean and standard deviation of each channel of images [C], of pixels in [0, 1].

    A channel that never changes has a deviation of 1, so that it divides.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, images: Tensor) -> "Pixels":
        """Return the statistics of images, uint8 [N, C, H, W]."""
        values = torch.arange(256, dtype=torch.float64) / 255
        means = []
        stds = []
        for channel in images.unbind(1):
            # Counts of 256 values are exact, and need no floating-point copy of the images.
            counts = torch.zeros(256, dtype=torch.int64)
            for rows in torch.split(channel, _CHUNK_ROWS):
                counts += torch.bincount(rows.flatten(), minlength=256)
            share = counts.double() / channel.numel()
            mean = (share * values).sum()
            variance = (share * (values - mean) ** 2).sum()
            means.append(float(mean))
            stds.append(float(variance.sqrt()) or 1.0)
        return cls(mean=tuple(means), std=tuple(stds))

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return mean and deviation as tensors, for `normalize`."""
        return torch.tensor(self.mean, device=device), torch.tensor(self.std, device=device)

    def normalized(self, images: Tensor) -> Tensor:
        """Return images uint8 [B, C, H, W] as float32, each channel standardized."""
        return normalize(images, *self.on(images.device))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LabelledData:
    """A data set as it is read: public features, and the training labels for the vault.

    Attributes:
        public: All that everyone may see.
        train_labels: True labels, int64 [N]. Hand them to a `LabelVault` and forget them.
        held_out_labels: True labels of `held_out_features`, int64 [H], as secret as the others.
    """

    public: PublicData
    train_labels: NDArray[np.int64]
    held_out_labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        name = self.public.name
        for part in ("train", "held_out"):
            labels = getattr(self, f"{part}_labels")
            features = getattr(self.public, f"{part}_features")
            if labels is None and features is None:
                continue
            classes = self.public.num_classes
            checked = checked_labels(labels, features, classes, name=name, part=part)
            object.__setattr__(self, f"{part}_labels", checked)

    def __repr__(self) -> str:
        return (
            f"LabelledData(public=PublicData(name={self.public.name!r}, ...), "
            f"train_labels=<{len(self.train_labels)} secret>)"
        )


def load(
    name: str, *, root: str | os.PathLike[str] | None = None, limit: int | None = None
) -> LabelledData:
    """Read a data set from disk; nothing is downloaded."""
    return labelled(name, find(name).read(data_root(root)), limit=limit)


def load_own(source: OwnSource) -> LabelledData:
    """Read a user's own files, as a sweep does."""
    return labelled("own", read_own(source))


def labelled(name: str, splits: Splits, *, limit: int | None = None) -> LabelledData:
    """Return arrays as a checked data set."""
    if limit is not None:
        _validate.whole(limit=limit, minimum=1)
    public = public_part(name, splits)
    data = LabelledData(public=public, train_labels=splits.train_labels)
    if limit is None or limit >= len(data.train_labels):
        return data
    rows = fixed_order(len(data.train_labels), seed=1)[:limit]
    return LabelledData(public=public.only(rows), train_labels=data.train_labels[rows])


def public_part(name: str, splits: Splits) -> PublicData:
    """Return all of a data set's arrays but the training labels."""
    return PublicData(
        name=name,
        num_classes=splits.num_classes,
        train_features=torch.from_numpy(splits.train_features),
        test_features=torch.from_numpy(splits.test_features),
        test_labels=splits.test_labels,
        class_names=splits.class_names,
        preprocessing=Preprocessing(steps=tuple(filter(None, [splits.preprocessing]))),
        provenance=splits.provenance or NO_OUTSIDE_DATA,
        bounds=splits.bounds,
        test_amounts=splits.test_amounts,
    )


def set_aside(data: LabelledData, *, share: float, seed: int = 0) -> LabelledData:
    """Take a share of the training examples out of the training.

    Args:
        data: Without held-out labels so far.
        share: Of the training examples, in (0, 1).
        seed: Numbers several choices; public.

    Returns:
        The others as training examples, in their order, and these as held-out ones.
    """
    count = len(data.train_labels)
    held = held_out_count(count, share=share)
    order = fixed_order(count, seed=_HELD_OUT_SEEDS + seed)
    out = np.sort(order[:held])
    rest = np.sort(order[held:])
    features = data.public.train_features
    public = replace(
        data.public,
        train_features=features[torch.from_numpy(rest)],
        held_out_features=features[torch.from_numpy(out)],
        held_out_places=out,
    )
    return LabelledData(
        public=public,
        train_labels=data.train_labels[rest],
        held_out_labels=data.train_labels[out],
    )

"""Features that no label goes into: computed once, kept by content, free of any privacy cost.

In label privacy the features are public, so whatever is learned from them alone costs nothing. For
images these are patches described by k-means (`PatchFeatures`) or by random patches
(`RandomPatchFeatures`), for tables standardized columns.

>>> table = torch.arange(8.0).view(4, 2)
>>> data = PublicData(name="table", num_classes=2, train_features=table, test_features=table[:2],
...                   test_labels=np.array([0, 1]))
>>> features = label_free_features(data)
>>> features.train.mean(0), round(float(features.train.square().sum(1).mean()), 6)
(tensor([0., 0.]), 1.0)
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.trainers.data.labelled_data import FeatureKind, PublicData
from labeldp.trainers.data.preprocessing import Step
from labeldp.trainers.encoders.encoded_images import EncodedImages
from labeldp.trainers.models.patches import (
    PatchEncoder,
    PatchFeatures,
    RandomPatchFeatures,
    RandomPatchStep,
)
from labeldp.trainers.settings.base import FeatureSet

__all__ = [
    "Features",
    "PatchFeatures",
    "RandomPatchFeatures",
    "described_by_features",
    "image_features",
    "label_free_features",
]

#: Counted up when the same settings give other features, so that stale files are not read.
_VERSION = 1
#: Of an encoder of patches.
_MATRICES = ("mean", "whitening", "centers", "shift", "projection")
#: What steps say beside their matrices.
_DESCRIBED = ("patch", "cells", "threshold", "precision")
#: How images are described.
ImageFeatures: TypeAlias = PatchFeatures | RandomPatchFeatures


@dataclass(frozen=True, kw_only=True, eq=False)
class PatchStep(EncodedImages[PatchEncoder]):
    """Images described by an encoder of patches, as a step of a preprocessing."""

    kind: ClassVar[str] = "patches"

    def described(self) -> dict[str, Any]:
        """Return what is no array."""
        return {"patch": self.encoder.patch, "cells": self.encoder.cells}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the encoder's matrices by name; those that lie in columns turned over, as `.T`.

        Products of a matrix that lies in rows and one that lies in columns differ in their last
        bits.
        """
        found = {}
        for name in _MATRICES:
            matrix = getattr(self.encoder, name).numpy()
            if matrix.flags.c_contiguous:
                found[name] = matrix
            else:
                found[f"{name}.T"] = np.ascontiguousarray(matrix.T)
        return found

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "PatchStep":
        """Return what `described` and `arrays` were taken of."""
        matrices = {
            name: torch.from_numpy(np.array(arrays[name]))
            if name in arrays
            else torch.from_numpy(np.array(arrays[f"{name}.T"])).T
            for name in _MATRICES
        }
        return cls(
            encoder=PatchEncoder(patch=described["patch"], cells=described["cells"], **matrices)
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledStep:
    """Columns centered and scaled to a mean squared norm of 1 in all, likewise.

    Attributes:
        center: Mean of each column of the training rows, single precision [D].
        factor: What is multiplied with afterwards [D].
    """

    kind: ClassVar[str] = "scaled"

    center: Tensor
    factor: Tensor

    @classmethod
    def fit(cls, train: Tensor) -> "ScaledStep":
        """Learn from the training rows [N, D]."""
        std, mean = torch.std_mean(train.double(), 0, correction=0)
        varying = std > 0
        scale = torch.where(varying, 1 / std, 0.0) / varying.sum().clamp(min=1).sqrt()
        return cls(center=mean.float(), factor=scale.float())

    def __call__(self, rows: Any) -> Tensor:
        """Return features, single precision [N, D], of numbers [N, D]."""
        return (torch.as_tensor(rows) - self.center) * self.factor

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row that comes out."""
        return (len(self.center),)

    def described(self) -> dict[str, Any]:
        """Return what is no array: nothing."""
        return {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name."""
        return {"center": self.center.numpy(), "factor": self.factor.numpy()}

    @classmethod
    def restored(
        cls, described: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "ScaledStep":
        """Return what `arrays` were taken of."""
        del described
        center, factor = (torch.from_numpy(np.array(arrays[name])) for name in ("center", "factor"))
        return cls(center=center, factor=factor)


@dataclass(frozen=True, kw_only=True)
class Features:
    """Features of a data set.

    Attributes:
        train: Single precision [N, D].
        test: Single precision [M, D].
        step: What makes them of the set's own features, and of further rows.
    """

    train: Tensor
    test: Tensor
    step: Step


def image_features(which: FeatureSet) -> ImageFeatures:
    """Return how images are described.

    Args:
        which: PATCHES or RANDOM_PATCHES; images AS_THEY_ARE need no description.
    """
    return RandomPatchFeatures() if which is FeatureSet.RANDOM_PATCHES else PatchFeatures()


def described_by_features(
    data: PublicData, settings: ImageFeatures | None = None, *, folder: Path | None = None
) -> PublicData:
    """Return the same data, its features replaced by label-free ones; see `label_free_features`."""
    found = label_free_features(data, settings, folder=folder)
    return replace(
        data,
        train_features=found.train,
        test_features=found.test,
        preprocessing=data.preprocessing.then(found.step),
    )


def label_free_features(
    data: PublicData, settings: ImageFeatures | None = None, *, folder: Path | None = None
) -> Features:
    """Describe public data by features that are learned from the training features alone.

    Args:
        data: Images or a table.
        settings: How images are described; the defaults of k-means patches if not given. Tables
            need none.
        folder: Where features are kept, for the next who asks for the same of the same data; None
            for nowhere. Several processes may ask at once.
    """
    data.require_numbers(user="data.features=patches")
    settings = settings or PatchFeatures()
    files = None if folder is None else _Files.of(folder, _key(data, settings))
    kept = None if files is None else files.read(len(data.train_features))
    if kept is not None:
        return kept
    train, test = data.train_features.cpu(), data.test_features.cpu()
    step: PatchStep | RandomPatchStep | ScaledStep
    if data.kind is FeatureKind.TABULAR:
        step = ScaledStep.fit(train)
    elif isinstance(settings, RandomPatchFeatures):
        step = RandomPatchStep(encoder=settings.fit(train))
    else:
        step = PatchStep(encoder=settings.fit(train))
    features = Features(train=step(train), test=step(test), step=step)
    if files is not None:
        files.write(features, step)
    return features


@dataclass(frozen=True, kw_only=True)
class _Files:
    """Where features are kept: their values, and beside them the step that made them."""

    values: Path
    step: Path

    @classmethod
    def of(cls, folder: Path, key: str) -> "_Files":
        return cls(values=folder / f"features-{key}.npy", step=folder / f"features-{key}.step.npz")

    def read(self, examples: int) -> Features | None:
        """Features of a set with so many training examples; None if they are not all here."""
        if not (self.values.exists() and self.step.exists()):
            return None
        with np.load(self.step, allow_pickle=False) as archive:
            arrays = dict(archive)
        kinds = (PatchStep, "patch"), (RandomPatchStep, "kernels")
        kind = next((kind for kind, mark in kinds if mark in arrays), ScaledStep)
        described = {name: arrays[name].item() for name in _DESCRIBED if name in arrays}
        # Copied on write: processes on one machine share the pages.
        values = torch.from_numpy(np.load(self.values, mmap_mode="c", allow_pickle=False))
        step: Step = kind.restored(described, arrays)
        return Features(train=values[:examples], test=values[examples:], step=step)

    def write(self, features: Features, step: PatchStep | RandomPatchStep | ScaledStep) -> None:
        """Keep them, for readers who want both files."""
        values = torch.cat((features.train, features.test)).numpy()
        _write(self.values, lambda file: np.save(file, values, allow_pickle=False))
        parts: dict[str, Any] = {**step.arrays(), **step.described()}
        _write(self.step, lambda file: np.savez(file, **parts))


def _key(data: PublicData, settings: ImageFeatures) -> str:
    text = f"{_VERSION} {data.fingerprint} {settings!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write(path: Path, save: Callable[[IO[bytes]], None]) -> None:
    """Write under another name first: nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            save(file)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

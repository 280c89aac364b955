"""Features that no label goes into: computed once, kept by content, free of any privacy cost.

In label privacy the features are public, so whatever is learned from them alone costs nothing. For
images these are patches described by k-means (`PatchFeatures`), for tables standardized columns.

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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labeldp.trainers.data import FeatureKind, PublicData
from labeldp.trainers.patch_encoder import PatchFeatures

__all__ = ["Features", "PatchFeatures", "label_free_features"]

#: Counted up when the same settings give other features, so that stale files are not read.
_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Features:
    """Features of a data set.

    Attributes:
        train: Single precision [N, D].
        test: Single precision [M, D].
    """

    train: Tensor
    test: Tensor


def label_free_features(
    data: PublicData, settings: PatchFeatures | None = None, *, folder: Path | None = None
) -> Features:
    """Describe public data by features that are learned from the training features alone.

    Args:
        data: Images or a table.
        settings: How images are described; the defaults if not given. Tables need none.
        folder: Where features are kept, for the next who asks for the same of the same data; None
            for nowhere. Several processes may ask at once.

    Raises:
        ValueError: Images too small for the settings, or identifiers.
    """
    data.require_numbers(user="data.features=patches")
    settings = settings or PatchFeatures()
    examples = len(data.train_features)
    path = None if folder is None else folder / f"features-{_key(data, settings)}.npy"
    if path is not None and path.exists():
        # Copied on write: processes on one machine share the pages.
        values = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        return Features(train=values[:examples], test=values[examples:])
    train, test = data.train_features.cpu(), data.test_features.cpu()
    if data.kind is FeatureKind.IMAGE:
        encoder = settings.fit(train)
        features = Features(train=encoder(train), test=encoder(test))
    else:
        features = _standardized(train, test)
    if path is not None:
        _write(path, torch.cat((features.train, features.test)))
    return features


def _standardized(train: Tensor, test: Tensor) -> Features:
    """Center and scale columns [N, D] by the training rows; a mean squared norm of 1 in all."""
    std, mean = torch.std_mean(train.double(), 0, correction=0)
    varying = std > 0
    scale = torch.where(varying, 1 / std, 0.0) / varying.sum().clamp(min=1).sqrt()
    center, factor = mean.float(), scale.float()
    return Features(train=(train - center) * factor, test=(test - center) * factor)


def _key(data: PublicData, settings: PatchFeatures) -> str:
    text = f"{_VERSION} {data.fingerprint} {settings!r}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write(path: Path, values: Tensor) -> None:
    """Write under another name first: nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.save(file, values.numpy(), allow_pickle=False)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

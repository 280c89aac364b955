"""A file of embeddings in place of a data set's images, and where own features come from.

Embeddings of a data set with a name (`labeldp embed cifar10 ...`) hold its training images and then
its testing ones; its labels stay what they are. Embeddings of own images are own data: features in
an `.npy`. What lies beside either says which encoder made it, and which league results are in.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import refuse_not_finite
from labeldp.trainers.data.files import DataFileError, DatasetMissing, Splits
from labeldp.trainers.data.own_features import prepared
from labeldp.trainers.data.own_files import MappedRows, OwnSource, RawFeatures, npy_array
from labeldp.trainers.encoders.embedding_record import (
    EmbeddingRecord,
    EmbeddingRefused,
    checked_record,
)
from labeldp.trainers.encoders.image_sources import digest_of_images, images_of
from labeldp.trainers.encoders.provenance import NO_OUTSIDE_DATA, FeatureProvenance, League

#: Files of arrays, whose matrices may be anybody's embeddings.
_ARRAYS = (".npy", ".npz")


def with_embeddings(
    name: str, splits: Splits, named: str | Path, *, folder: Path | None = None
) -> Splits:
    """Return a data set whose features are embeddings from a file, standardized.

    Args:
        name: Of the data set.
        splits: As it is read.
        named: An `.npy` of N + M vectors: of the training rows, then of the testing ones.
        folder: Where features go that are too large for memory; a temporary one if not given.

    Raises:
        DatasetMissing: There is no such file.
        EmbeddingRefused: It is of other images, another file than is said beside it, or no matrix.
        ValueError: Numbers that are not finite.
    """
    file = Path(named).expanduser()
    if not file.exists():
        raise DatasetMissing(
            f"{file.absolute()} is not there; check data.embeddings, or make it: labeldp embed "
            f"{name} --encoder E -o {file.name}"
        )
    if file.suffix.lower() != ".npy":
        raise DataFileError(f"data.embeddings is {named}; it must be an .npy of vectors [N, D]")
    matrix = npy_array(file, mapped=True)
    train, test = len(splits.train_labels), len(splits.test_labels)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.floating) or not matrix.shape[1]:
        raise EmbeddingRefused(
            f"{file} holds {matrix.dtype} of shape {matrix.shape}; embeddings are floating-point "
            "numbers [N, D], a vector for each image"
        )
    if len(matrix) != train + test:
        raise EmbeddingRefused(
            f"{file} holds {len(matrix):,} vectors, but {name} has {train:,} training and {test:,} "
            "testing rows; it must hold one for each of them, in this order, as `labeldp embed "
            f"{name}` writes them"
        )
    made_by = _checked(name, splits, file)
    parts = _cut(matrix, train, where=file)
    features = prepared(*parts, where=file, folder=folder)
    return replace(
        splits,
        train_features=features.train,
        test_features=features.test,
        preprocessing=features.preprocessing,
        provenance=made_by,
    )


def own_provenance(source: OwnSource, features: NDArray[Any]) -> FeatureProvenance:
    """Return where own features come from, as far as what lies beside their files says.

    Args:
        source: The files.
        features: As they were read, of training.

    Raises:
        EmbeddingRefused: A file is not the one that is spoken of beside it; or the rows for
            testing come from elsewhere than those for training.
    """
    named = (source.path, source.test_path)
    files = [Path(each).expanduser() for each in named if each is not None]
    if features.ndim != 2 or any(file.suffix.lower() not in _ARRAYS for file in files):
        return NO_OUTSIDE_DATA
    records = {file: checked_record(file) for file in files}
    said = [record.provenance for record in records.values() if record is not None]
    if not said:
        return FeatureProvenance(league=League.NOT_STATED)
    _check_alike(records)
    return said[0]


def _checked(name: str, splits: Splits, file: Path) -> FeatureProvenance:
    """What made a file of embeddings, if it is one of these images."""
    record = checked_record(file)
    if record is None:
        return FeatureProvenance(league=League.NOT_STATED)
    if record.inputs != digest_of_images(*images_of(name, splits)):
        raise EmbeddingRefused(
            f"{file} holds embeddings of other images than those of {name} here (another SHA-256 "
            f"of the images); make them of these: labeldp embed {name} --encoder "
            f"{record.provenance.encoder} -o FILE.npy"
        )
    return record.provenance


def _cut(matrix: NDArray[Any], train: int, *, where: Path) -> tuple[RawFeatures, RawFeatures]:
    """Rows for training, and the others; what is mapped stays so."""
    if isinstance(matrix, np.memmap):
        every = np.arange(len(matrix))
        first = MappedRows(matrix=matrix, rows=every[:train])
        if train == len(matrix):
            return first, np.empty((0, matrix.shape[1]), dtype=np.float32)
        return first, MappedRows(matrix=matrix, rows=every[train:])
    refuse_not_finite(matrix, what=f"{where}:")
    return matrix[:train], matrix[train:]


def _check_alike(records: Mapping[Path, EmbeddingRecord | None]) -> None:
    (first, one), *others = records.items()
    for file, other in others:
        if one is None or other is None:
            silent = first if one is None else file
            raise EmbeddingRefused(
                f"{silent} comes without a word of what made it, and the other file of this data "
                "set with one; make both by one encoder: labeldp embed"
            )
        if not one.provenance.same_encoder(other.provenance):
            raise EmbeddingRefused(
                f"{first} was made by {one.provenance.encoder} and {file} by "
                f"{other.provenance.encoder}, or with other weights or another preparation; make "
                "both by one encoder"
            )

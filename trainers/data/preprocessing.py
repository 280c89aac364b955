"""Preprocessing: from rows as people have them to features as models see them, part of every model.

It is fitted on public training features alone, without any label, and costs no privacy. A model
of a table's raw columns predicts from raw columns: the means, the categories or the encoder of
patches that the training rows gave prepare them in the same way, bit for bit.

>>> import json, numpy as np
>>> from labeldp.trainers.data.columns import Numbers
>>> fitted = Numbers.fit(np.array([[1.0], [3.0]]))
>>> preprocessing = Preprocessing(steps=(fitted,))
>>> preprocessing(np.array([[5]]))
tensor([[3.]])
>>> again = Preprocessing.restored(
...     json.loads(json.dumps(preprocessing.described())), preprocessing.arrays()
... )
>>> again([[5.0]])
tensor([[3.]])
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labeldp.trainers.data.columns import RowsRefused, matrix_of, refuse_infinite
from labeldp.trainers.data.kept_objects import Kept, packed
from labeldp.trainers.data.stored import Step, Stored

if TYPE_CHECKING:  # listing and checking data sets stays quick without it
    from torch import Tensor

#: Place of an identifier that no training row has.
UNKNOWN = 0


@dataclass(frozen=True, kw_only=True)
class AsTheyAre(Step):
    """Rows that are features: of numbers, or of identifiers that are places already."""

    kind: ClassVar[str] = "as_they_are"

    columns: int
    identifiers: bool = False

    def __call__(self, rows: object) -> NDArray[Any]:
        """Return rows [N, D] as float32, or identifiers as int64."""
        matrix = matrix_of(rows, width=self.columns)
        if self.identifiers:
            return _identifiers(matrix)
        refuse_infinite(matrix, what="features", missing=False)
        return matrix.astype(np.float32)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (self.columns,)


@dataclass(frozen=True, kw_only=True)
class Images(Step):
    """Images of bytes, brought into the order that networks take; pixels are scaled in there."""

    kind: ClassVar[str] = "images"

    channels: int
    height: int
    width: int

    def __call__(self, rows: object) -> NDArray[np.uint8]:
        """Return images uint8 [N, C, H, W], of those, [N, H, W, C] or, for C=1, [N, H, W]."""
        images = np.asarray(rows)
        if images.dtype != np.uint8:
            raise RowsRefused(
                f"images are {images.dtype}; they must be uint8, 0 to 255, as the training's were "
                "(for images in 0..1: (255 * images).round().astype(numpy.uint8))"
            )
        one = images.shape[1:]
        if one == self.shape:
            return np.ascontiguousarray(images)
        if one == (self.height, self.width, self.channels):
            return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        if self.channels == 1 and one == (self.height, self.width):
            return np.ascontiguousarray(images[:, None])
        raise RowsRefused(
            f"images have shape {images.shape}; the training's were [N, {self.channels}, "
            f"{self.height}, {self.width}] (channels may also come last): bring them to that size"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output image."""
        return (self.channels, self.height, self.width)


@dataclass(frozen=True, kw_only=True, eq=False)
class Places(Step):
    """Identifiers as places, counted from 1, among those of the training rows; others are 0.

    `known` are those of all columns, one column after another, `counts` [D] how many each has.
    """

    kind: ClassVar[str] = "places"

    known: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, train: NDArray[np.int64]) -> "Places":
        """Learn the identifiers of the training rows [N, D]."""
        columns = [np.unique(column) for column in train.T]
        return cls(known=np.concatenate(columns), counts=np.array(list(map(len, columns))))

    def __call__(self, rows: object) -> NDArray[np.int64]:
        """Return places int64 [N, D] of identifiers [N, D]."""
        matrix = _identifiers(matrix_of(rows, width=len(self.counts)))
        places = np.empty(matrix.shape, dtype=np.int64)
        columns = np.split(self.known, np.cumsum(self.counts)[:-1])
        for number, (known, ids) in enumerate(zip(columns, matrix.T, strict=True)):
            nearest = np.searchsorted(known, ids).clip(max=len(known) - 1)
            places[:, number] = np.where(known[nearest] == ids, nearest + 1, UNKNOWN)
        return places

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row."""
        return (len(self.counts),)


@dataclass(frozen=True, kw_only=True, eq=False)
class SklearnStep(Kept, Step):
    """Fitted transformers of scikit-learn, such as the first steps of a `Pipeline`."""

    kind: ClassVar[str] = "sklearn"
    kept: ClassVar[str] = "transformers"

    transformers: Any

    @classmethod
    def of(cls, transformers: object) -> "SklearnStep":
        """Return the step of fitted transformers."""
        for part in _parts(transformers):
            selects = type(part).__module__.startswith("sklearn.feature_selection.")
            selects = selects and type(part).__name__ != "VarianceThreshold"
            tags = part.__sklearn_tags__()
            predicts = tags.estimator_type in ("classifier", "regressor")
            if selects or predicts or tags.target_tags.required:
                raise ValueError(
                    f"{type(part).__name__} learns from labels, and no release pays for that: the "
                    "model would not be private; take a transformer of features alone"
                )
        packed(transformers)  # or refuse
        return cls(transformers=transformers)

    def __call__(self, rows: object) -> Any:
        """Return what the transformers make of rows."""
        try:
            return self.transformers.transform(rows)
        except (KeyError, TypeError, ValueError) as error:
            raise RowsRefused(f"scikit-learn's transformers refuse the rows: {error}") from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Nothing: the step after it knows."""
        return ()


def _parts(value: object) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in _parts(each)]
    if not hasattr(value, "__sklearn_tags__") or isinstance(value, type):
        return []
    if type(value).__name__ == "IterativeImputer":  # its regressors learn features from features
        return [value]
    return [value, *_parts(vars(value))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Preprocessing(Stored):
    """Steps from rows as people have them to features."""

    kind: ClassVar[str] = "preprocessing"

    steps: tuple[Step, ...]

    def __call__(self, rows: object) -> Any:
        """Return features [N, ...] of raw rows as a tensor: as the training had them, bit for bit.

        Those of models of sparse columns are `SparseRows`.
        """
        import torch

        features = self.rows(rows)
        if not isinstance(features, np.ndarray):
            return features
        # torch warns of read-only arrays.
        return torch.from_numpy(np.require(features, requirements=["C", "W"]))

    def rows(self, rows: Any) -> Any:
        """Return them as an array, unless a step computes in torch."""
        for step in self.steps:
            rows = step(rows)
        assert tuple(rows.shape[1:]) == self.shape
        return rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one output row; () without steps."""
        return self.steps[-1].shape if self.steps else ()

    def then(self, step: Step) -> "Preprocessing":
        """Return these steps and a further one."""
        return Preprocessing(steps=(*self.steps, step))


#: Without steps: what is given where the origin of features is not stated.
NOTHING = Preprocessing(steps=())


def as_given(features: "Tensor") -> Preprocessing:
    """Return the preprocessing of data whose rows are features [N, ...] as they come."""
    if features.ndim == 4:
        channels, height, width = features.shape[1:]
        return Preprocessing(steps=(Images(channels=channels, height=height, width=width),))
    identifiers = not features.is_floating_point()
    return Preprocessing(steps=(AsTheyAre(columns=features.shape[1], identifiers=identifiers),))


def _identifiers(matrix: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers from 0, as int64 [N, D]; the first row that holds another number is named."""
    with np.errstate(invalid="ignore"):
        whole = matrix.astype(np.int64)
    bad = np.flatnonzero(((whole != matrix) | (whole < 0)).any(axis=1))
    if len(bad):
        raise RowsRefused(
            f"row {bad[0]} is {matrix[bad[0]].tolist()}; identifiers are whole numbers from 0"
        )
    return whole

"""set_size: what a plan counts is what is loaded, and what is no data set is none in either."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from labeldp.trainers.data.labelled_data import labelled
from labeldp.trainers.data.splits import Splits, size_of

TABLE = Splits(
    train_features=np.arange(12, dtype=np.float32).reshape(6, 2),
    train_labels=np.array([0, 1, 2, 0, 1, 2]),
    test_features=np.ones((2, 2), dtype=np.float32),
    test_labels=np.array([0, 2]),
    num_classes=3,
)
NO_TEST = {"test_features": np.zeros((0, 2), np.float32), "test_labels": np.zeros(0, np.int64)}
NAN = np.array([[0, 1], [2, np.nan]] * 3, dtype=np.float32)


@pytest.mark.parametrize("limit", [None, 4, 60])
@pytest.mark.parametrize("changes", [{}, NO_TEST], ids=["split", "none"])
def test_sizes_are_those_of_what_is_loaded(changes: dict[str, Any], limit: int | None) -> None:
    splits = replace(TABLE, **changes)
    size, data = size_of("small", splits, limit=limit), labelled("small", splits, limit=limit)
    assert size.num_labels == len(data.train_labels) == len(data.public.train_features)
    assert size.num_classes == data.public.num_classes
    assert size.has_test_split == data.public.has_test_split


@pytest.mark.parametrize(
    "changes",
    [
        {"num_classes": 1},
        {"train_features": NAN},
        {"train_features": NAN.astype(np.float64)},
        {"train_features": np.full((6, 2), -1)},
        {"train_features": np.zeros((0, 2), np.float32)},
        {"train_features": np.zeros((6, 3), np.float32)},
        {"train_labels": np.array([0, 1, 2, 0, 1, 3])},
        {"train_labels": np.array([0, 1, 2])},
        {"train_labels": np.zeros(6, np.int64)},
        {"test_labels": np.array([0, 3])},
        {"test_labels": np.array([0])},
        {"test_features": NO_TEST["test_features"]},
    ],
    ids=str,
)
def test_both_refuse_in_the_same_words(changes: dict[str, Any]) -> None:
    splits = replace(TABLE, **changes)
    said = []
    for read in (size_of, labelled):
        with pytest.raises(ValueError) as caught:
            read("small", splits)
        said.append(str(caught.value).replace("torch.", ""))
    assert said[0] == said[1]

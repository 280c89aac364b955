"""adult: the data set as published, and files that are damaged."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import load
from tests.trainers.data_samples import ADULT_TEST, ADULT_TRAIN, write_adult


def test_adult_as_published(tmp_path: Path) -> None:
    write_adult(tmp_path)
    data = load("adult", root=tmp_path)
    assert data.train_labels.tolist() == [0, 1, 0]
    assert data.public.test_labels.tolist() == [0, 1]
    assert data.public.class_names == ("<=50K", ">50K")
    # 6 numbers; categories of the 8 other columns in the training rows, `?` among them.
    assert data.public.train_features.shape == (3, 6 + 3 + 2 + 3 + 3 + 2 + 2 + 2 + 2)
    train, test = data.public.train_features.numpy(), data.public.test_features.numpy()
    ages = np.array([39, 50, 38])
    np.testing.assert_allclose(train[:, 0], (ages - ages.mean()) / ages.std(), rtol=1e-6)
    np.testing.assert_allclose(
        test[:, 0], (np.array([25, 38]) - ages.mean()) / ages.std(), rtol=1e-6
    )
    assert train[:, 1:4].tolist() == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]  # ?, Private, State-gov
    assert test[:, 1:4].tolist() == [[0, 1, 0], [0, 0, 0]]  # nobody to learn from never worked


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (ADULT_TRAIN[:-40], ADULT_TEST, r"adult\.data line 3 has \d+ fields; Adult has 15"),
        (
            ADULT_TRAIN,
            ADULT_TEST.replace(">50K.", "50K."),
            r"adult\.test line 3 ends with no label",
        ),
        (ADULT_TRAIN.replace("50, Private", "old, Private"), ADULT_TEST, "column 'age'.*'old'"),
        (
            ADULT_TRAIN.replace("50, Private", "nan, Private"),
            ADULT_TEST,
            r"adult\.data row 1, column 'age' is nan",
        ),
        (ADULT_TRAIN, "|1x3 Cross validator\n", r"adult\.test holds no rows"),
        ("\x00\xff\n", ADULT_TEST, "line 1 has 1 fields"),
    ],
)
def test_damaged_adult_files_are_named(tmp_path: Path, train: str, test: str, message: str) -> None:
    write_adult(tmp_path, train=train, test=test)
    with pytest.raises(ValueError, match=message):
        load("adult", root=tmp_path)


def test_a_label_that_is_no_label_is_not_repeated(tmp_path: Path) -> None:
    write_adult(tmp_path, train=ADULT_TRAIN.replace("<=50K", "secret"))
    with pytest.raises(DataFileError) as caught:
        load("adult", root=tmp_path)
    assert "secret" not in str(caught.value)

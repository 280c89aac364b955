"""tables: encoding against a slow one, Adult's quirks, what is refused."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.trainers.data import load
from labeldp.trainers.data_sets.files import DataFileError
from labeldp.trainers.data_sets.tables import MOST_CATEGORIES, encode, standardize
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
            "row 1, column 'age' is nan",
        ),
        (ADULT_TRAIN, "|1x3 Cross validator\n", r"adult\.test holds no rows"),
        ("\x00\xff\n", ADULT_TEST, "line 1 has 1 fields"),
    ],
)
def test_damaged_adult_files_are_named(tmp_path: Path, train: str, test: str, message: str) -> None:
    write_adult(tmp_path, train=train, test=test)
    with pytest.raises(ValueError, match=message):
        load("adult", root=tmp_path)


def test_encoding_agrees_with_a_slow_one() -> None:
    random = np.random.default_rng(0)
    train = {"x": random.normal(5, 3, 200), "c": random.choice(["a", "bb", "c"], 200)}
    test = {"x": random.normal(5, 3, 50), "c": random.choice(["0", "bb", "c", "z"], 50)}
    slow = [
        [(x - np.mean(train["x"])) / np.std(train["x"]), c == "a", c == "bb", c == "c"]
        for x, c in zip(test["x"], test["c"], strict=True)
    ]
    np.testing.assert_allclose(encode(train, test)[1], np.array(slow, dtype=float), rtol=1e-5)


def test_standardizing_is_by_the_training_rows_in_every_chunk() -> None:
    random = np.random.default_rng(1)
    train, test = random.normal(1e4, 2, (70_000, 2)), random.normal(1e4, 2, (100, 2))
    ours, theirs = standardize(train, test)
    np.testing.assert_allclose(ours, (train - train.mean(0)) / train.std(0), atol=1e-5)
    np.testing.assert_allclose(theirs, (test - train.mean(0)) / train.std(0), atol=1e-5)
    assert ours.dtype == theirs.dtype == np.float32


def test_a_column_that_never_changes_becomes_zeros() -> None:
    train, test = np.full((10, 1), 0.1), np.array([[0.1], [5.0]])
    ours, theirs = standardize(train, test)
    assert not ours.any() and not theirs.any()


def test_numbers_that_are_none_are_named_by_row_and_column() -> None:
    train = np.zeros((70_000, 3), dtype=np.float32)
    train[68_001, 2] = np.nan
    with pytest.raises(ValueError, match="training features row 68001, column 2 is nan"):
        standardize(train, train[:5])
    with pytest.raises(ValueError, match="testing features row 1, column 'b' is -inf"):
        standardize(train[:5, :1], np.array([[0.0], [-np.inf]]), names=["b"])
    with pytest.raises(ValueError, match="column 0 holds numbers too large"):
        standardize(np.array([[1e200], [-1e200]]), np.zeros((1, 1)))


def test_a_column_of_identifiers_is_refused() -> None:
    names = np.array([f"person {i}" for i in range(MOST_CATEGORIES + 1)])
    with pytest.raises(ValueError, match="column 'id' has 1001 categories in 1001 rows"):
        encode({"id": names}, {"id": names})


def test_a_label_that_is_no_label_is_not_repeated(tmp_path: Path) -> None:
    write_adult(tmp_path, train=ADULT_TRAIN.replace("<=50K", "secret"))
    with pytest.raises(DataFileError) as caught:
        load("adult", root=tmp_path)
    assert "secret" not in str(caught.value)

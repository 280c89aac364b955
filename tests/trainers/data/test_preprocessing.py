"""preprocessing: raw rows become the features that the training had, bit for bit."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from pyarrow import parquet

from labeldp.trainers.data.columns import RowsRefused
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.data.preprocessing import AsTheyAre, Places, Preprocessing, as_given
from labeldp.trainers.data.published import read_adult_rows
from tests.trainers.data_samples import write_adult
from tests.trainers.small_data import small_table

RANDOM = np.random.default_rng(0)
TABLE = RANDOM.normal(3, 5, (40, 4)) * [1, 10, 100, 0]


def read_back(preprocessing: Preprocessing) -> Preprocessing:
    """What comes out of the two files of a model."""
    plain = json.loads(json.dumps(preprocessing.described(), allow_nan=False))
    arrays = {name: np.array(array) for name, array in preprocessing.arrays().items()}
    return Preprocessing.restored(plain, arrays)


def assert_raw_rows_become(data: PublicData, raw: Any, *, train: Any = None) -> None:
    for preprocessing in (data.preprocessing, read_back(data.preprocessing)):
        assert torch.equal(preprocessing(raw), data.test_features)
        assert preprocessing(raw).dtype == data.test_features.dtype
        if train is not None:
            assert torch.equal(preprocessing(train), data.train_features)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_])
def test_an_own_matrix_bit_for_bit(tmp_path: Path, kind: type[Any]) -> None:
    table: NDArray[Any] = TABLE.astype(kind)
    np.savez(
        tmp_path / "own.npz",
        train_features=table[:30],
        test_features=table[30:],
        train_labels=np.arange(30) % 2,
        test_labels=np.arange(10) % 2,
        num_classes=2,
    )
    data = load("own", path=tmp_path / "own.npz").public
    assert_raw_rows_become(data, table[30:], train=table[:30])
    assert_raw_rows_become(data, pd.DataFrame(table[30:]))
    with pytest.raises(RowsRefused, match="had 4 columns"):
        data.preprocessing(table[30:, :3])
    with pytest.raises(ValueError, match="row 0, column 1 is inf"):
        data.preprocessing(np.where(np.eye(4, k=1), np.inf, 1.0)[:3])


def test_an_own_table_bit_for_bit(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "size": TABLE[:, 0],
            "same": np.full(40, 0.1),
            "color": RANDOM.choice(["red", "green", "blau, und"], 40),
            "old": TABLE[:, 1] > 0,
            "label": np.arange(40) % 2,
            "split": np.where(np.arange(40) < 30, "train", "test"),
        }
    )
    table = pa.Table.from_pandas(frame).replace_schema_metadata({"num_classes": "2"})
    parquet.write_table(table, tmp_path / "own.parquet")
    data = load("own", path=tmp_path / "own.parquet").public
    assert_raw_rows_become(data, frame[30:], train=frame[:30])
    bare = frame[30:].drop(columns=["label", "split"])[["old", "color", "same", "size"]]
    assert_raw_rows_become(data, bare)
    new = data.preprocessing(bare.assign(color="never seen"))
    assert not new[:, 2:5].any() and new.shape == data.test_features.shape
    for changed, message in (
        (bare.assign(size="large"), "column 'size' holds text"),
        (bare.assign(color=1.5), "column 'color' holds numbers"),
        (bare.assign(size=pd.Timestamp("2020-01-01")), "column 'size' holds dates"),
        (bare.assign(size=np.inf), "row 0, column 'size' is inf"),
        (bare.drop(columns="old"), "no column 'old'"),
    ):
        with pytest.raises(ValueError, match=message):
            data.preprocessing(changed)


def test_adult_bit_for_bit(tmp_path: Path) -> None:
    write_adult(tmp_path)
    data = load("adult", root=tmp_path).public
    files = (tmp_path / "adult" / f"adult.{part}" for part in ("data", "test"))
    train, test = (read_adult_rows(file)[0] for file in files)
    assert_raw_rows_become(data, test, train=train)


@pytest.mark.parametrize("hold_out", HoldOut)
def test_own_images_in_any_order_of_channels(tmp_path: Path, hold_out: HoldOut) -> None:
    images = RANDOM.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", features=images, labels=np.arange(20) % 2, num_classes=2)
    data = load("own", path=tmp_path / "own.npz", hold_out=hold_out).public
    first = images.transpose(0, 3, 1, 2)
    for raw in (images, first):
        assert torch.equal(data.preprocessing(raw), torch.from_numpy(first.copy()))
    with pytest.raises(RowsRefused, match=r"shape \(20, 5, 6, 3\)"):
        data.preprocessing(images.transpose(0, 2, 1, 3))
    with pytest.raises(RowsRefused, match=r"images are float64.*must be uint8"):
        data.preprocessing(images / 255)


def test_identifiers_become_places_and_unknown_ones_zero() -> None:
    fitted = Preprocessing(steps=(Places.fit(np.array([[7, 100], [3, 200], [7, 300]])),))
    for preprocessing in (fitted, read_back(fitted)):
        assert preprocessing([[3, 300], [7, 5], [8, 100]]).tolist() == [[1, 3], [2, 0], [0, 1]]
    with pytest.raises(RowsRefused, match=r"row 1 is \[1\.5, 2\.0\]; identifiers are whole"):
        fitted([[1, 2], [1.5, 2]])
    own = as_given(torch.tensor([[1, 2]]))
    assert own([[5, 6]]).dtype == torch.int64
    with pytest.raises(RowsRefused, match="identifiers are whole numbers from 0"):
        own([[5, -6]])


def test_what_made_the_features_is_not_part_of_their_fingerprint() -> None:
    data, _ = small_table()
    same = PublicData(
        name="same",
        num_classes=data.num_classes,
        train_features=data.train_features,
        test_features=data.test_features,
        test_labels=data.test_labels,
        preprocessing=Preprocessing(
            steps=(AsTheyAre(columns=4), AsTheyAre(columns=data.train_features.shape[1]))
        ),
    )
    assert same.fingerprint == data.fingerprint


def test_features_of_another_width_than_the_preprocessing_makes_are_refused() -> None:
    data, _ = small_table()
    with pytest.raises(ValueError, match=r"makes rows of shape \(99,\)"):
        PublicData(
            name="wrong",
            num_classes=data.num_classes,
            train_features=data.train_features,
            test_features=data.test_features,
            test_labels=data.test_labels,
            preprocessing=Preprocessing(steps=(AsTheyAre(columns=99),)),
        )


def test_a_step_of_another_version_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="step 0 of the preprocessing is of kind 'magic'"):
        Preprocessing.restored({"steps": [{"kind": "magic"}]}, {})

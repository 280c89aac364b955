"""own_data: the user's own arrays and tables, split or not, and every way to get them wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from pyarrow import parquet

from labeldp.trainers.data import FeatureKind, LabelledData, load
from labeldp.trainers.data_files import DataFileError, DatasetMissing
from tests.trainers.data_samples import images

TABLE = np.arange(60, dtype=np.float64).reshape(20, 3) ** 2
LABELS = np.arange(20) % 2


def from_npz(folder: Path, **arrays: Any) -> LabelledData:
    np.savez(folder / "mine.npz", **arrays)
    return load("own", path=folder / "mine.npz")


def from_parquet(folder: Path, *, label_column: str | None = None, **columns: Any) -> LabelledData:
    parquet.write_table(pa.table(columns), folder / "mine.parquet")
    return load("own", path=folder / "mine.parquet", label_column=label_column)


def four(**changes: Any) -> dict[str, Any]:
    arrays = {
        "train_features": TABLE,
        "train_labels": LABELS,
        "test_features": TABLE[:5],
        "test_labels": LABELS[:5],
    }
    return {**arrays, **changes}


def test_a_table_in_four_arrays(tmp_path: Path) -> None:
    data = from_npz(tmp_path, **four())
    expected = (TABLE - TABLE.mean(0)) / TABLE.std(0)
    np.testing.assert_allclose(data.public.train_features, expected, rtol=1e-5)
    np.testing.assert_allclose(data.public.test_features, expected[:5], rtol=1e-5)
    assert data.public.kind is FeatureKind.TABULAR
    assert data.public.num_classes == 2
    assert data.public.name == "own"
    assert data.train_labels.tolist() == LABELS.tolist()


def test_whole_numbers_and_truth_values_are_a_table_too(tmp_path: Path) -> None:
    for kind in (np.int8, np.uint8, np.float16, bool):
        features = (np.arange(20).reshape(10, 2) % 5 > 2).astype(kind)
        data = from_npz(tmp_path, features=features, labels=LABELS[:10])
        assert data.public.train_features.dtype == torch.float32


def test_one_row_in_five_is_held_out_where_nobody_says(tmp_path: Path) -> None:
    data = from_npz(tmp_path, features=TABLE, labels=LABELS)
    again = from_npz(tmp_path, features=TABLE, labels=LABELS)
    assert (len(data.public.train_features), len(data.public.test_features)) == (16, 4)
    assert data.public.fingerprint == again.public.fingerprint


def test_a_split_of_the_users_own(tmp_path: Path) -> None:
    split = np.array(["train", "train", "test", "train"] * 5)
    data = from_npz(tmp_path, features=TABLE, labels=LABELS, split=split)
    assert data.train_labels.tolist() == LABELS[split == "train"].tolist()
    assert data.public.test_labels.tolist() == LABELS[split == "test"].tolist()


@pytest.mark.parametrize("shape", [(10, 12), (1, 10, 12), (10, 12, 1)])
def test_gray_images_in_any_order_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = images(20, *shape)
    data = from_npz(tmp_path, **four(train_features=pixels, test_features=pixels[:5]))
    assert data.public.kind is FeatureKind.IMAGE
    expected = torch.from_numpy(pixels.reshape(20, 1, 10, 12))
    assert torch.equal(data.public.train_features, expected)


def test_color_images_in_both_orders_of_axes(tmp_path: Path) -> None:
    pixels = images(20, 3, 10, 12)
    last = pixels.transpose(0, 2, 3, 1)
    one = from_npz(tmp_path, **four(train_features=pixels, test_features=pixels[:5]))
    two = from_npz(tmp_path, **four(train_features=last, test_features=last[:5]))
    assert one.public.fingerprint == two.public.fingerprint


def test_classes_that_the_file_names(tmp_path: Path) -> None:
    sparse = np.where(LABELS == 1, 4, 0)
    data = from_npz(tmp_path, features=TABLE, labels=sparse, num_classes=5)
    assert data.public.num_classes == 5
    named = from_npz(tmp_path, features=TABLE, labels=LABELS, class_names=["no", "yes", "maybe"])
    assert named.public.num_classes == 3
    assert named.public.class_names == ("no", "yes", "maybe")


def bad(values: NDArray[Any], place: Any, value: float) -> NDArray[Any]:
    changed = values.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "holds nothing; it must hold train_features"),
        ({"x": TABLE}, "holds x; it must hold"),
        (four(train_labels=LABELS[:7]), r"shape \(20, 3\) and labels \(7,\)"),
        (four(test_labels=np.zeros((5, 1), dtype=int)), "labels must be"),
        (four(train_labels=LABELS * 1.0), "train_labels are of type float64"),
        (four(train_labels=bad(LABELS, 4, -1)), r"train_labels\[4\] is -1"),
        (four(train_labels=LABELS + 1, test_labels=LABELS[:5] + 1), "no row has the label 0"),
        (four(train_labels=bad(LABELS, 0, 10**9)), "no row has the label 2, but some have 1000000"),
        (four(train_labels=LABELS * 0, test_labels=LABELS[:5] * 0), "all labels are 0"),
        (four(train_labels=LABELS * 0), "all 20 training labels are the same"),
        (four(train_labels=np.array(["a", "b"] * 10)), "of type <U1"),
        (four(num_classes=1), "num_classes is 1"),
        (four(num_classes=2.0), "must be one whole number"),
        (four(class_names=["a"], num_classes=2), "1 class_names for 2 classes"),
        (four(train_features=bad(TABLE, (7, 2), np.nan)), "row 7, column 2 is nan"),
        (four(test_features=bad(TABLE[:5], (1, 0), np.inf)), "testing features row 1, column 0"),
        (four(test_features=TABLE[:5, :2]), "they must agree"),
        (four(train_features=TABLE[:, :0], test_features=TABLE[:5, :0]), "real numbers"),
        (four(train_features=TABLE[:0], train_labels=LABELS[:0]), "there are no rows"),
        (four(train_features=TABLE.astype(str), test_features=TABLE[:5]), "real numbers"),
        (four(train_features=TABLE * 1j, test_features=TABLE[:5]), "real numbers"),
        (four(train_features=np.ones((20, 4, 4)), test_features=np.ones((5, 4, 4))), "uint8"),
        (four(train_features=images(20, 8, 8, 4), test_features=images(5, 8, 8, 4)), "1 or 3"),
        ({"features": bad(TABLE, (19, 1), np.nan), "labels": LABELS}, "row 19, column 1 is nan"),
        ({"features": TABLE, "labels": bad(LABELS, 13, -5)}, r"labels\[13\] is -5"),
        ({"features": TABLE, "labels": bad(LABELS, 13, 7), "num_classes": 3}, r"labels\[13\] is 7"),
        ({"features": TABLE, "labels": LABELS, "split": ["test"] * 20}, "all rows of split"),
        ({"features": TABLE, "labels": LABELS, "split": ["train"] * 3}, r"it must be \[20\]"),
        (
            {"features": TABLE, "labels": LABELS, "split": ["train", "dev"] * 10},
            "split row 1 is .*dev",
        ),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_npz(tmp_path, **arrays)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"nowhere\.npz is not there; check data\.path"):
        load("own", path=tmp_path / "nowhere.npz")
    for name in ("mine.npz", "mine.parquet"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut off")
        with pytest.raises(DataFileError, match=rf"{name} \(12 bytes\) can't be read"):
            load("own", path=tmp_path / name)
    (tmp_path / "mine.csv").write_text("1,2\n")
    with pytest.raises(DataFileError, match=r"is no \.npz or \.parquet"):
        load("own", path=tmp_path / "mine.csv")
    with pytest.raises(DataFileError, match="no Python objects"):
        from_npz(tmp_path, **four(train_labels=np.array([0, "b"] * 10, dtype=object)))
    with pytest.raises(ValueError, match=r"label_column is for \.parquet"):
        load("own", path=tmp_path / "mine.npz", label_column="y")


def test_a_table_in_parquet(tmp_path: Path) -> None:
    colors = ["red", "green"] * 10
    data = from_parquet(
        tmp_path,
        label_column="bought",
        age=pa.array(range(20), type=pa.int16()),
        color=pa.array(colors).dictionary_encode(),
        member=[True, False] * 10,
        bought=["no", "yes"] * 10,
        split=["train", "train", "train", "test"] * 5,
    )
    assert data.public.class_names == ("no", "yes")
    assert data.public.train_features.shape == (15, 1 + 2 + 2)
    # Green, red, False, True: everyone who is red is a member.
    assert data.public.test_features[0, 1:].tolist() == [1, 0, 1, 0]
    assert data.public.test_labels.tolist() == [1] * 5


def test_labels_of_whole_numbers_in_parquet(tmp_path: Path) -> None:
    data = from_parquet(tmp_path, x=TABLE[:, 0], label=LABELS)
    assert data.public.num_classes == 2
    assert data.public.class_names is None
    assert len(data.public.test_labels) == 4


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0], "lable": [0, 1]}, "no column 'label'; did you mean 'lable'"),
        ({"x": [1.0, 2.0], "y": [0, 1]}, r"set data\.label_column \(columns: x, y\)"),
        ({"label": [0, 1]}, "no column of features"),
        ({"x": [1.0], "label": [0]}, "has 1 rows"),
        ({"x": [1.0, None, 3.0], "label": [0, 1, 0]}, "row 1, column 'x' has no value"),
        ({"x": [1.0, 2.0, 3.0], "label": ["a", "b", None]}, "row 2, column 'label' has no value"),
        ({"x": [1.0, 2.0, float("nan")], "label": [0, 1, 0]}, "row 2, column 'x' is nan"),
        ({"x": [1.0, 2.0], "label": [0.0, 1.0]}, "of type float64"),
        ({"x": [1.0, 2.0], "label": [0, -1]}, r"labels\[1\] is -1"),
        ({"x": [1.0, 2.0], "label": ["a", "a"]}, "all labels are 0"),
        ({"x": [[1], [2]], "label": [0, 1]}, "column 'x' is of type list"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_parquet(tmp_path, **columns)

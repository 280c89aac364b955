"""own_data: the user's own arrays and tables, split or not, and every way to get them wrong."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from numpy.typing import NDArray
from pyarrow import parquet

from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.labelled_data import FeatureKind, LabelledData, load
from labeldp.trainers.data.own_files import HoldOut
from tests.trainers.data_samples import images

TABLE = np.arange(60, dtype=np.float64).reshape(20, 3) ** 2
LABELS = np.arange(20) % 2


def from_npz(
    folder: Path,
    *,
    hold_out: HoldOut | None = None,
    classes: int | tuple[str, ...] | None = None,
    **arrays: Any,
) -> LabelledData:
    np.savez(folder / "mine.npz", **arrays)
    return load("own", path=folder / "mine.npz", hold_out=hold_out, classes=classes)


def from_parquet(
    folder: Path,
    *,
    label_column: str | None = None,
    hold_out: HoldOut | None = HoldOut.PUBLIC,
    classes: int | tuple[str, ...] | None = None,
    metadata: dict[str, str] | None = None,
    **columns: Any,
) -> LabelledData:
    table = pa.table(columns).replace_schema_metadata(metadata)
    parquet.write_table(table, folder / "mine.parquet")
    return load(
        "own",
        path=folder / "mine.parquet",
        label_column=label_column,
        hold_out=hold_out,
        classes=classes,
    )


def four(**changes: Any) -> dict[str, Any]:
    arrays = {
        "train_features": TABLE,
        "train_labels": LABELS,
        "test_features": TABLE[:5],
        "test_labels": LABELS[:5],
        "num_classes": 2,
    }
    return {**arrays, **changes}


def whole(**changes: Any) -> dict[str, Any]:
    """A file without a split."""
    return {"features": TABLE, "labels": LABELS, "num_classes": 2, **changes}


def test_a_table_in_four_arrays(tmp_path: Path) -> None:
    data = from_npz(tmp_path, **four())
    expected = (TABLE - TABLE.mean(0)) / TABLE.std(0)
    np.testing.assert_allclose(data.public.train_features, expected, rtol=1e-5)
    np.testing.assert_allclose(data.public.test_features, expected[:5], rtol=1e-5)
    assert data.public.kind is FeatureKind.TABULAR
    assert data.public.num_classes == 2
    assert data.public.name == "own"
    assert data.train_labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_labels_are_not_published_without_a_word(tmp_path: Path, kind: str) -> None:
    with pytest.raises(DataFileError, match="brings no test split") as refused:
        if kind == "npz":
            from_npz(tmp_path, **whole())
        else:
            from_parquet(tmp_path, hold_out=None, classes=2, x=TABLE[:, 0], label=LABELS)
    for way_out in ("mark rows as train or test", "data.hold_out=public", "data.hold_out=none"):
        assert way_out in str(refused.value)


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_without_public_labels_all_rows_train(tmp_path: Path, kind: str) -> None:
    if kind == "npz":
        data = from_npz(tmp_path, hold_out=HoldOut.NONE, **whole())
    else:
        columns: dict[str, Any] = {"x": TABLE[:, 0], "label": LABELS}
        data = from_parquet(tmp_path, hold_out=HoldOut.NONE, classes=2, **columns)
    assert data.train_labels.tolist() == LABELS.tolist()
    assert len(data.public.train_features) == 20
    assert not data.public.has_test_split
    assert math.isnan(data.public.test_accuracy(np.empty(0, dtype=int)))


def test_the_fingerprint_says_nothing_of_secret_labels(tmp_path: Path) -> None:
    one = from_npz(tmp_path, hold_out=HoldOut.NONE, **whole())
    other = from_npz(tmp_path, hold_out=HoldOut.NONE, **whole(labels=1 - LABELS))
    assert one.public.fingerprint == other.public.fingerprint
    published = from_npz(tmp_path, hold_out=HoldOut.PUBLIC, **whole())
    assert published.public.fingerprint != one.public.fingerprint


@pytest.mark.parametrize("said", [HoldOut.PUBLIC, HoldOut.NONE])
def test_a_split_and_a_word_on_holding_out_contradict_each_other(
    tmp_path: Path, said: HoldOut
) -> None:
    split = np.array(["train", "train", "test", "train"] * 5)
    for arrays in (four(), whole(split=split)):
        with pytest.raises(DataFileError, match=f"hold_out is {said}, but .* of its own"):
            from_npz(tmp_path, hold_out=said, **arrays)


def test_a_split_of_the_users_own(tmp_path: Path) -> None:
    split = np.array(["train", "train", "test", "train"] * 5)
    data = from_npz(tmp_path, **whole(split=split))
    assert data.train_labels.tolist() == LABELS[split == "train"].tolist()
    assert data.public.test_labels.tolist() == LABELS[split == "test"].tolist()


@pytest.mark.parametrize("shape", [(10, 12), (1, 10, 12), (10, 12, 1)])
def test_gray_images_in_any_order_of_axes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = images(20, *shape)
    data = from_npz(tmp_path, **four(train_features=pixels, test_features=pixels[:5]))
    assert data.public.kind is FeatureKind.IMAGE
    expected = torch.from_numpy(pixels.reshape(20, 1, 10, 12))
    assert torch.equal(data.public.train_features, expected)


def test_classes_that_the_file_or_the_user_states(tmp_path: Path) -> None:
    sparse = np.where(LABELS == 1, 4, 0)
    bare: dict[str, Any] = {"features": TABLE, "labels": LABELS, "hold_out": HoldOut.NONE}
    data = from_npz(tmp_path, **{**bare, "labels": sparse}, num_classes=5)
    assert data.public.num_classes == 5
    names = ("no", "yes", "maybe")
    statements: list[dict[str, Any]] = [
        {"class_names": names},
        {"classes": names},
        {"classes": 3, "class_names": names},
    ]
    for said in statements:
        named = from_npz(tmp_path, **bare, **said)
        assert named.public.num_classes == 3
        assert named.public.class_names == names


@pytest.mark.parametrize("labels", [LABELS, LABELS * 0, np.where(LABELS == 1, 6, 0)])
def test_classes_are_never_read_off_the_labels(tmp_path: Path, labels: NDArray[Any]) -> None:
    bare: dict[str, Any] = {"features": TABLE, "labels": labels, "hold_out": HoldOut.PUBLIC}
    for arrays in (bare, {k: v for k, v in four().items() if k != "num_classes"}):
        with pytest.raises(DataFileError, match=r"how many classes .* data\.classes=K"):
            from_npz(tmp_path, **arrays)


def test_statements_about_the_classes_must_agree(tmp_path: Path) -> None:
    for said in (3, ("no", "yes", "maybe")):
        with pytest.raises(DataFileError, match="they must agree"):
            from_npz(tmp_path, classes=said, **four())
    with pytest.raises(ValueError, match="at least two, each once"):
        from_npz(tmp_path, classes=("yes", "yes"), **four())


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
        (four(train_labels=LABELS * 1.0), "train_labels is of type float64"),
        (four(train_labels=bad(LABELS, 4, -1)), r"train_labels\[4\] is none of"),
        (four(train_labels=LABELS + 1), r"train_labels\[1\] is none.*10 of 20 do not"),
        (four(train_labels=bad(LABELS, 0, 10**9)), r"train_labels\[0\] is none of the classes"),
        (four(train_labels=LABELS * 0), "all 20 training labels are the same"),
        (four(train_labels=np.array(["a", "b"] * 10)), "array 'labels' holds names of classes"),
        (four(num_classes=1), "num_classes is 1"),
        (four(num_classes=2.0), "must be one whole number"),
        (four(class_names=["a"], num_classes=2), "1 class_names for 2 classes"),
        (four(train_features=bad(TABLE, (7, 2), np.inf)), "row 7, column 2 is inf"),
        (four(test_features=bad(TABLE[:5], (1, 0), np.inf)), "testing features row 1, column 0"),
        (four(test_features=TABLE[:5, :2]), "they must agree"),
        (four(train_features=TABLE[:, :0], test_features=TABLE[:5, :0]), "real numbers"),
        (four(train_features=TABLE[:0], train_labels=LABELS[:0]), "there are no rows"),
        (four(train_features=TABLE.astype(str), test_features=TABLE[:5]), "real numbers"),
        (four(train_features=TABLE * 1j, test_features=TABLE[:5]), "real numbers"),
        (four(train_features=np.ones((20, 4, 4)), test_features=np.ones((5, 4, 4))), "uint8"),
        (four(train_features=images(20, 8, 8, 4), test_features=images(5, 8, 8, 4)), "1 or 3"),
        (whole(features=bad(TABLE, (19, 1), np.inf)), "row 19, column 1 is inf"),
        (whole(labels=bad(LABELS, 13, -5)), r"labels\[13\] is none of"),
        (whole(labels=bad(LABELS, 13, 7), num_classes=3), r"labels\[13\] is none of"),
        (whole(split=["test"] * 20), "all rows of split"),
        (whole(split=["train"] * 3), r"it must be \[20\]"),
        (whole(split=["train", "dev"] * 10), "split row 1 is .*dev"),
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
    (tmp_path / "mine.xlsx").write_text("1,2\n")
    with pytest.raises(DataFileError, match=r"is none of \.csv, \.npy, \.npz, \.parquet"):
        load("own", path=tmp_path / "mine.xlsx")
    with pytest.raises(DataFileError, match="no Python objects"):
        from_npz(tmp_path, **four(train_labels=np.array([0, "b"] * 10, dtype=object)))
    with pytest.raises(ValueError, match=r"label_column is for tables with names"):
        load("own", path=tmp_path / "mine.npz", label_column="y")


def test_a_table_in_parquet(tmp_path: Path) -> None:
    colors = ["red", "green"] * 10
    data = from_parquet(
        tmp_path,
        label_column="bought",
        hold_out=None,
        classes=("no", "yes"),
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


def test_names_of_classes_count_in_the_order_in_which_they_are_stated(tmp_path: Path) -> None:
    columns: dict[str, Any] = {"x": TABLE[:, 0], "label": ["no", "yes"] * 10}
    stated = {"class_names": '["yes", "no", "maybe"]'}
    statements: list[dict[str, Any]] = [
        {"classes": ("yes", "no", "maybe")},
        {"metadata": stated},
    ]
    for said in statements:
        data = from_parquet(tmp_path, hold_out=HoldOut.NONE, **said, **columns)
        assert data.train_labels.tolist() == (1 - LABELS).tolist()
        assert data.public.class_names == ("yes", "no", "maybe")
    counted: dict[str, Any] = {"metadata": {"num_classes": "4"}, "x": TABLE[:, 0], "label": LABELS}
    assert from_parquet(tmp_path, **counted).public.num_classes == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "does not say how many classes"),
        ({"classes": 2}, "holds names of classes, which are not read from"),
        ({"classes": ("no", "maybe")}, "row 1, column 'label' holds none of"),
        ({"metadata": {"class_names": "no, yes"}}, "class_names must be a JSON list"),
        ({"metadata": {"num_classes": "[2]"}}, "num_classes a whole number"),
    ],
)
def test_names_of_classes_are_never_read_off_the_labels(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataFileError, match=message):
        from_parquet(tmp_path, **settings, x=TABLE[:, 0], label=["no", "yes"] * 10)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1.0, 2.0], "lable": [0, 1]}, "no column 'label'; did you mean 'lable'"),
        ({"x": [1.0, 2.0], "y": [0, 1]}, r"set data\.label_column \(columns: x, y\)"),
        ({"label": [0, 1]}, "no column of features"),
        ({"x": [1.0], "label": [0]}, "has 1 rows"),
        ({"x": [1.0, 2.0, 3.0], "label": ["a", "b", None]}, "column 'label' has no value in row 2"),
        ({"x": [1.0, 2.0, float("inf")], "label": [0, 1, 0]}, "row 2, column 'x' is inf"),
        ({"x": [1.0, 2.0], "label": [0.0, 1.0]}, "of type float64"),
        ({"x": [1.0, 2.0], "label": [0.0, float("inf")]}, "of type float64"),
        ({"x": [1.0, 2.0], "label": [0, -1]}, r"labels\[1\] is none of"),
        ({"x": [1.0, 2.0, 3.0], "label": ["a", "a", "a"]}, "2 training labels are the same"),
        ({"x": [[1], [2]], "label": [0, 1]}, "column 'x' is of type list"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_parquet(tmp_path, classes=("a", "b"), **columns)


def test_no_message_shows_a_label(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels\[13\] .*1 of 20") as caught:
        from_npz(tmp_path, hold_out=HoldOut.NONE, **whole(labels=bad(LABELS, 13, 8391)))
    assert "8391" not in str(caught.value)
    with pytest.raises(ValueError, match=r"train_labels\[13\] .*1 of 20") as caught:
        from_npz(tmp_path, **four(train_labels=bad(LABELS, 13, 8391)))
    assert "8391" not in str(caught.value)
    # Labels for testing are public, and a message may help with them.
    with pytest.raises(ValueError, match=r"test_labels\[3\] is 8391"):
        from_npz(tmp_path, **four(test_labels=bad(LABELS[:5], 3, 8391)))
    named = ["no", "HIV positive", "yes", "HIV positive"]
    for label in (named, [0, 8391, 1, 8391], [0.0, 8391.5, 1.0, math.inf], [*named[:3], None]):
        with pytest.raises(ValueError) as caught:
            from_parquet(tmp_path, classes=("no", "yes"), x=TABLE[:4, 0], label=label)
        for shown in ("HIV", "8391", "inf"):
            assert shown not in str(caught.value).removeprefix(str(tmp_path))
    with pytest.raises(DataFileError, match=r"row 1, column 'label' .*\(2 of 4 rows"):
        from_parquet(tmp_path, classes=("no", "yes"), x=TABLE[:4, 0], label=named)

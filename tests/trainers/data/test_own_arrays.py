"""own_arrays: two files of one array each; archives are tried with the other kinds of file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.trainers.data.files import DataFileError, DatasetMissing
from labeldp.trainers.data.labelled_data import LabelledData, load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource

TABLE = np.arange(60, dtype=np.float32).reshape(20, 3) ** 2
LABELS = np.arange(20) % 2


def read(folder: Path, features: Any, labels: Any, **said: Any) -> LabelledData:
    np.save(folder / "X.npy", features)
    np.save(folder / "y.npy", labels)
    settings: dict[str, Any] = {"hold_out": HoldOut.NONE, "classes": ("no", "yes"), **said}
    return load_own(OwnSource(path=folder / "X.npy", labels=folder / "y.npy", **settings))


@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], np.array(["no", "yes"] * 10)])
def test_two_files(tmp_path: Path, labels: Any) -> None:
    data = read(tmp_path, TABLE, labels)
    assert data.train_labels.tolist() == LABELS.tolist()
    np.testing.assert_allclose(
        data.public.train_features, (TABLE - TABLE.mean(0)) / TABLE.std(0), rtol=1e-4
    )


def test_two_more_for_testing(tmp_path: Path) -> None:
    np.save(tmp_path / "T.npy", TABLE[:4])
    np.save(tmp_path / "t.npy", LABELS[:4])
    files = {"test_path": tmp_path / "T.npy", "test_labels": tmp_path / "t.npy"}
    data = read(tmp_path, TABLE, LABELS, hold_out=None, **files)
    assert data.public.test_labels.tolist() == [0, 1, 0, 1] and len(data.train_labels) == 20
    np.save(tmp_path / "T.npy", TABLE[:4, :2])
    with pytest.raises(ValueError, match="they must agree"):
        read(tmp_path, TABLE, LABELS, hold_out=None, **files)
    (tmp_path / "t.npy").unlink()
    with pytest.raises(DatasetMissing, match=r"t\.npy is not there; check data\.test_labels"):
        read(tmp_path, TABLE, LABELS, hold_out=None, **files)


@pytest.mark.parametrize(
    ("features", "labels", "said", "message"),
    [
        (TABLE, LABELS[:7], {}, r"X\.npy and .*y\.npy: features have shape \(20, 3\) and labels"),
        (TABLE, LABELS * 1.0, {}, "of type float64"),
        (TABLE, LABELS + 8391, {}, r"labels\[0\] is none of the classes"),
        (np.where(TABLE == 1, np.inf, TABLE).astype(np.float16), LABELS, {}, "row 0, column 1 is"),
        (np.where(TABLE == 1, np.inf, TABLE), LABELS, {}, "row 0, column 1 is inf"),
        (TABLE, LABELS, {"drop": ("0",)}, r"data\.drop is for tables with names"),
        (TABLE, LABELS, {"label_column": "y"}, r"data\.label_column is for tables with names"),
        (TABLE, LABELS, {"split_column": "part"}, r"data\.test_path and data\.test_labels"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, features: Any, labels: Any, said: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, features, labels, **said)
    assert "8391" not in str(caught.value)


def test_files_that_hold_no_array(tmp_path: Path) -> None:
    read(tmp_path, TABLE, LABELS)
    source = OwnSource(
        path=tmp_path / "X.npy", labels=tmp_path / "y.npy", hold_out=HoldOut.NONE, classes=2
    )
    (tmp_path / "y.npy").write_bytes(b"\x93NUMPY cut off")
    with pytest.raises(DataFileError, match=r"y\.npy \(14 bytes\) can't be read"):
        load_own(source)
    (tmp_path / "y.npy").write_bytes(b"1 0 2")
    with pytest.raises(DataFileError, match=r"\(it is not in NumPy's format\); write it with"):
        load_own(source)
    with open(tmp_path / "y.npy", "wb") as file:
        np.savez(file, y=LABELS)
    with pytest.raises(DataFileError, match=r"y\.npy is an \.npz, not an \.npy; rename it"):
        load_own(source)
    np.save(tmp_path / "y.npy", np.array(["a", 1], dtype=object), allow_pickle=True)
    with pytest.raises(DataFileError, match="no Python objects"):
        load_own(source)


def test_a_split_of_an_archive_by_another_name(tmp_path: Path) -> None:
    part = np.array(["train", "train", "test", "train"] * 5)
    np.savez(tmp_path / "mine.npz", features=TABLE, labels=LABELS, part=part)
    source = OwnSource(path=tmp_path / "mine.npz", split_column="part", classes=2)
    assert len(load_own(source).public.test_labels) == 5
    source = OwnSource(path=tmp_path / "mine.npz", split_column="prat", classes=2)
    with pytest.raises(DataFileError, match=r"no array 'prat', which data\.split_column names"):
        load_own(source)


def test_a_second_archive_for_testing(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", features=TABLE, labels=LABELS, num_classes=2)
    np.savez(tmp_path / "b.npz", features=TABLE[:4], labels=LABELS[:4], num_classes=2)
    source = OwnSource(path=tmp_path / "a.npz", test_path=tmp_path / "b.npz")
    assert load_own(source).public.test_labels.tolist() == [0, 1, 0, 1]
    np.savez(tmp_path / "b.npz", features=TABLE[:4], labels=LABELS[:4], num_classes=3)
    with pytest.raises(DataFileError, match="they must agree"):
        load_own(source)
    np.savez(tmp_path / "b.npz", features=TABLE[:4], labels=LABELS[:4], split=["train", "test"] * 2)
    with pytest.raises(DataFileError, match="all of its rows are for testing"):
        load_own(source)

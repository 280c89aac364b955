"""A user's own data: files and memory, split or not, and every way to get them wrong."""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from labeldp.trainers.data.files import DataFileError, DatasetMissing, FileRefused
from labeldp.trainers.data.labelled_data import LabelledData, load_own
from labeldp.trainers.data.own_data import label_numbers, own_rows
from labeldp.trainers.data.own_files import HoldOut, OwnSource, describe, npz_arrays
from labeldp.trainers.data.splits import held_out
from labeldp.trainers.data.tables import csv_table, parquet_table
from tests.trainers.data_samples import images

TABLE = np.arange(60, dtype=np.float64).reshape(20, 3) ** 2
LABELS = np.arange(20) % 2


def own(path: Path, **said: Any) -> LabelledData:
    return load_own(OwnSource(path=path, **said))


def from_npz(
    folder: Path, hold_out: Any = None, classes: Any = None, **arrays: Any
) -> LabelledData:
    np.savez(folder / "mine.npz", **arrays)
    return own(folder / "mine.npz", hold_out=hold_out, classes=classes)


def from_parquet(
    folder: Path, hold_out: Any = HoldOut.PUBLIC, classes: Any = None, **columns: Any
) -> LabelledData:
    parquet.write_table(pa.table(columns), folder / "mine.parquet")
    return own(folder / "mine.parquet", hold_out=hold_out, classes=classes)


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
    return {"features": TABLE, "labels": LABELS, "num_classes": 2, **changes}


@pytest.mark.parametrize("said", [HoldOut.PUBLIC, HoldOut.NONE])
def test_a_split_and_holding_out_contradict_each_other(tmp_path: Path, said: HoldOut) -> None:
    split = np.array(["train", "train", "test", "train"] * 5)
    for arrays in (four(), whole(split=split)):
        with pytest.raises(DataFileError, match=f"hold_out is {said}, but .* of its own"):
            from_npz(tmp_path, hold_out=said, **arrays)


def test_statements_about_the_classes_must_agree(tmp_path: Path) -> None:
    for said in (3, ("no", "yes", "maybe")):
        with pytest.raises(DataFileError, match="they must agree"):
            from_npz(tmp_path, classes=said, **four())
    for names in (("yes", "yes"), ("yes",)):
        with pytest.raises(ValueError, match="at least two, each once"):
            from_npz(tmp_path, classes=names, **four(num_classes=len(names)))


def bad(values: NDArray[Any], place: Any, value: float) -> NDArray[Any]:
    changed = values.copy()
    changed[place] = value
    return changed


WAYS_OUT = r"mark rows as train or test.*data\.hold_out=public.*data\.hold_out=none"
#: Files of arrays that are refused, and by which words.
BAD_ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({}, "holds nothing; it must hold train_features"),
    ({"x": TABLE}, "holds x; it must hold"),
    (four(train_labels=LABELS[:7]), r"shape \(20, 3\) and labels \(7,\)"),
    (four(train_labels=LABELS > 0), "labels row 0 is not one of the stated classes 0 to 1"),
    (
        {"features": TABLE, "labels": LABELS, "hold_out": HoldOut.PUBLIC},
        r"number.* data\.classes=K",
    ),
    (whole(), rf"has no test split.*{WAYS_OUT}"),
    (four(num_classes=1), "num_classes is 1"),
    (four(num_classes=2.0), "num_classes 2.0; it must be a whole number"),
    (four(class_names=["a"], num_classes=2), "1 class_names for 2 classes"),
    (four(train_features=bad(TABLE, (7, 2), np.inf)), "row 7, column 2 is inf"),
    (four(test_features=bad(TABLE[:5], (1, 0), np.inf)), "testing features row 1, column 0"),
    (four(test_features=TABLE[:5, :2]), "they must agree"),
    (four(train_features=TABLE[:, :0], test_features=TABLE[:5, :0]), "real numbers"),
    (four(train_features=TABLE[:0], train_labels=LABELS[:0]), "has no rows"),
    (four(train_features=TABLE.astype(str), test_features=TABLE[:5]), "real numbers"),
    (four(train_features=np.ones((20, 4, 4)), test_features=np.ones((5, 4, 4))), "uint8"),
    (four(train_features=images(20, 8, 8, 4), test_features=images(5, 8, 8, 4)), "1 or 3"),
    (whole(split=["test"] * 20), "all rows of split"),
    (whole(split=["train"] * 3), r"it must be \[20\]"),
    (whole(split=["train", "dev"] * 10), "split row 1 is .*dev"),
    (four(train_labels=bad(LABELS, 13, 8391)), r"labels row 13 .*1 of 20"),
]


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetMissing, match=r"nowhere\.npz is not there; check data\.path"):
        own(tmp_path / "nowhere.npz")
    for name in ("mine.npz", "mine.parquet"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 cut off")
        with pytest.raises(DataFileError, match=rf"{name} \(12 bytes\) can't be read"):
            own(tmp_path / name)
    (tmp_path / "mine.ods").write_text("1,2\n")
    with pytest.raises(DataFileError, match=r"is not one of \.csv, .*\.parquet, \.xlsx"):
        own(tmp_path / "mine.ods")
    with pytest.raises(DataFileError, match="no Python objects"):
        from_npz(tmp_path, **four(train_labels=np.array([0, "b"] * 10, dtype=object)))
    with pytest.raises(ValueError, match=r"label_column is for tables with names"):
        own(tmp_path / "mine.npz", label_column="y")


NAMED: dict[str, Any] = {"x": TABLE[:, 0], "label": ["no", "yes"] * 10}
ILL = ["no", "HIV positive", "yes", "HIV positive"]
#: Tables likewise, of the classes "a" and "b" if none are stated.
BAD_TABLES: list[tuple[dict[str, Any], str]] = [
    ({**NAMED, "classes": None}, "does not state the number of classes"),
    ({**NAMED, "classes": 2}, r"row 0 is not one of .* 0 to 1 \(20 of 20 .*data\.classes=NAME"),
    ({"x": [1.0, 2.0], "lable": [0, 1]}, "no column 'label'; did you mean 'lable'"),
    ({"x": [1.0], "label": [0]}, "has 1 rows"),
    ({"x": [1.0, 2.0, 3.0], "label": ["a", "b", None]}, "column 'label' has no value in row 2"),
    ({"x": [[1], [2]], "label": [0, 1]}, "column 'x' holds a ndarray, which does not go"),
    ({"x": [1, 2, 3, 4], "label": ILL, "classes": ("no", "yes")}, r"row 1 .*\(2 of 4 rows"),
    ({"x": [1, 2, 3, 4], "label": [0.0, 8391.5, 1.0, math.inf]}, "label"),
]


def test_a_message_shows_a_public_label(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels row 3 is not .*; it is 8391"):
        from_npz(tmp_path, **four(test_labels=bad(LABELS[:5], 3, 8391)))


CLASSES = ("no", "yes")
TEXT = "id,age,city,bought\n" + "".join(
    f"{i},{20 + i * i},{'Bern' if i % 3 else 'Rome'},{CLASSES[i % 2]}\n" for i in range(20)
)


def read(folder: Path, text: str | bytes, name: str = "mine.csv", **said: Any) -> LabelledData:
    content = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(content)
    settings: dict[str, Any] = {
        "label_column": "bought",
        "hold_out": HoldOut.NONE,
        "classes": CLASSES,
        **said,
    }
    return load_own(OwnSource(path=folder / name, **settings))


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_delimiters_and_the_mark_of_excel(tmp_path: Path, mark: str) -> None:
    expected = read(tmp_path, TEXT).public.fingerprint
    other = b"\xef\xbb\xbf" + TEXT.replace(",", mark).replace("\n", "\r\n").encode()
    assert read(tmp_path, other, label_column="bought").public.fingerprint == expected


def test_a_split_by_a_column_with_a_name_of_its_own(tmp_path: Path) -> None:
    lines = TEXT.splitlines()
    parts = ["part", *(["train", "train", "test", "train"] * 5)]
    text = "\n".join(f"{line},{part}" for line, part in zip(lines, parts, strict=True))
    data = read(tmp_path, text, split_column="part", hold_out=None)
    assert data.public.test_labels.tolist() == [i % 2 for i in range(20) if i % 4 == 2]
    with pytest.raises(ValueError, match="no column 'prat'; did you mean 'part'"):
        read(tmp_path, text, split_column="prat", hold_out=None)
    with pytest.raises(ValueError, match="'bought' can't be both labels and split"):
        read(tmp_path, text, split_column="bought", hold_out=None)


def test_a_second_file_is_for_testing(tmp_path: Path) -> None:
    (tmp_path / "test.csv").write_text("bought,city,age,id\nyes,Oslo,25,1\nno,Rome,30,2\n")
    data = read(tmp_path, TEXT, hold_out=None, test_path=tmp_path / "test.csv", drop=("id",))
    assert len(data.train_labels) == 20 and data.public.test_labels.tolist() == [1, 0]
    assert data.public.test_features[:, 1:].tolist() == [[0, 0], [0, 1]]
    (tmp_path / "test.csv").write_text("bought,city,id\nyes,Oslo,1\nno,Rome,2\n")
    with pytest.raises(ValueError, match="no column 'age', which the training rows had"):
        read(tmp_path, TEXT, hold_out=None, test_path=tmp_path / "test.csv", drop=("id",))
    with pytest.raises(ValueError, match=r"elsewhere\.csv is not there; check data\.test_path"):
        read(tmp_path, TEXT, hold_out=None, test_path=tmp_path / "elsewhere.csv")


HIDDEN = TEXT.replace("yes", "HIV positive")


#: Texts likewise, and what is stated of them.
BAD_TEXTS: list[tuple[str | bytes, dict[str, Any], str]] = [
    ("", {}, "Empty CSV file"),
    ("id,bought\n", {}, "has 0 rows"),
    (TEXT, {"label_column": "bougth"}, "no column 'bougth'; did you mean 'bought'"),
    (TEXT, {"label_column": None}, r"no column 'label'; set data\.label_column"),
    (TEXT, {"drop": ("idd",)}, "no column 'idd'; did you mean 'id'"),
    (TEXT, {"split_column": ""}, "no column ''; set data.split_column"),
    (TEXT, {"group_column": ""}, "no column ''; set data.group_column"),
    (TEXT, {"drop": ("bought",)}, "leaves out 'bought', which is needed"),
    (TEXT, {"drop": ("id", "age", "city")}, "no column of features"),
    (TEXT, {"classes": None}, "the number of classes"),
    (TEXT, {"hold_out": None}, f"has no test split.*{WAYS_OUT}"),
    (HIDDEN, {}, r"column 'bought' row 1 is not one of .*\(10 of 20"),
    (HIDDEN.replace("1,21,Bern", "1,21"), {}, "line 3 has 3 fields, but .* 4 columns"),
    (HIDDEN.replace("1,21,Bern", "1,21,Be,rn"), {}, "line 3 has 5 fields, but"),
    (HIDDEN.replace("1,21,", "1,inf,"), {"classes": ("no", "HIV positive")}, "'age' is inf"),
    (TEXT.replace("age", "city"), {}, r"one name \('city'\): columns 2 and 3; give"),
    ("1,1,HIV\n3,4,no\n5,6,no\n", {}, "seems to have no header"),
    ("Bern,HIV\nRome,no\n", {}, r"no column 'bought'; set data\.label_column, or add a header$"),
    ("Bern,Bern,HIV\nRome,a,no\n", {}, r"two columns of one name: columns 1 and 2; give"),
    (b"\xff\xfea\x00,\x00b\x00\n", {}, "is not utf-16 text"),
    (b"a,bought\n\xff\xfe,no\n\xff,HIV\n", {}, "not utf-8 text; save .* data.encoding .*cp1252"),
    ("a,bought\n" + "x" * 10_001 + ",no\ny,yes\n", {}, "column 'a' has 10,001 characters"),
    ("a,bought\ny,no\n" + "x" * 1_000_001 + ",no\n", {}, "row 1, column 'a' has 1,000,001 ch"),
]


def test_a_column_of_labels_that_is_there_twice_is_refused_when_read(tmp_path: Path) -> None:
    twice = pa.table([["a", "b"], ["HIV", "no"], ["HIV", "no"]], names=["id", "bought", "bought"])
    parquet.write_table(twice, tmp_path / "labels.parquet")
    (tmp_path / "labels.csv").write_text("id,bought,bought\na,HIV,HIV\nb,no,no\n")
    for refused in (
        lambda: parquet_table(tmp_path / "labels.parquet", columns=["id", "bought"]),
        lambda: csv_table(tmp_path / "labels.csv", text=["id", "bought"]),
        lambda: describe(OwnSource(path=tmp_path / "labels.csv", label_column="bought")),
    ):
        with pytest.raises(
            ValueError, match=r"two columns of one name \('bought'\): columns 2 and 3; give"
        ):
            refused()


def test_types_are_found_over_the_whole_file(tmp_path: Path) -> None:
    """Beyond the first megabyte, where Arrow's own guess ends, too."""
    count = 200_000
    lines = [f"{i},{i % 7},{CLASSES[i % 2]}" for i in range(count)]
    lines[-1] = f"0.5,seven,{CLASSES[1]}"
    (tmp_path / "long.csv").write_text("x,c,bought\n" + "\n".join(lines) + "\n")
    started = time.process_time()
    data = read(tmp_path, (tmp_path / "long.csv").read_bytes(), "long.csv")
    assert time.process_time() - started < 10
    assert data.public.train_features.shape == (count, 1 + 8)
    table = csv_table(tmp_path / "long.csv", text=["bought"])
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string"]


def read_two(folder: Path, features: Any, labels: Any, **said: Any) -> LabelledData:
    np.save(folder / "X.npy", features)
    np.save(folder / "y.npy", labels)
    settings: dict[str, Any] = {"hold_out": HoldOut.NONE, "classes": ("no", "yes"), **said}
    return load_own(OwnSource(path=folder / "X.npy", labels=folder / "y.npy", **settings))


@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], np.array(["no", "yes"] * 10)])
def test_two_files(tmp_path: Path, labels: Any) -> None:
    data = read_two(tmp_path, TABLE, labels, classes=CLASSES if labels.dtype.kind == "U" else 2)
    assert data.train_labels.tolist() == LABELS.tolist()
    np.testing.assert_allclose(
        data.public.train_features, (TABLE - TABLE.mean(0)) / TABLE.std(0), rtol=1e-4
    )


def test_two_more_for_testing(tmp_path: Path) -> None:
    np.save(tmp_path / "T.npy", TABLE[:4])
    np.save(tmp_path / "t.npy", LABELS[:4])
    files: dict[str, Any] = {"test_path": tmp_path / "T.npy", "test_labels": tmp_path / "t.npy"}
    files["classes"] = 2
    data = read_two(tmp_path, TABLE, LABELS, hold_out=None, **files)
    assert data.public.test_labels.tolist() == [0, 1, 0, 1] and len(data.train_labels) == 20
    np.save(tmp_path / "T.npy", TABLE[:4, :2])
    with pytest.raises(ValueError, match="they must agree"):
        read_two(tmp_path, TABLE, LABELS, hold_out=None, **files)
    (tmp_path / "t.npy").unlink()
    with pytest.raises(DatasetMissing, match=r"t\.npy is not there; check data\.test_labels"):
        read_two(tmp_path, TABLE, LABELS, hold_out=None, **files)


#: Pairs of files likewise.
BAD_PAIRS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (TABLE, LABELS[:7], {}, r"X\.npy and .*y\.npy: features have shape \(20, 3\) and labels"),
    (TABLE, LABELS, {}, "labels row 0 is not one of the stated classes no, yes"),
    (TABLE, LABELS, {"drop": ("0",)}, r"data\.drop is for tables with names"),
    (TABLE, LABELS, {"split_column": "part"}, r"data\.test_path and data\.test_labels"),
]


def test_rows_are_held_out_only_on_request() -> None:
    splits = own_rows(TABLE, num_classes=2, keep=())
    assert (len(splits.train_labels), len(splits.test_labels)) == (20, 0)
    first, second = (held_out(20, seed=seed) for seed in (0, 5))
    assert first.sum() == second.sum() == 4 and (first != second).any()
    with pytest.raises(ValueError, match="hold_out_seed is 5, but no rows are held out"):
        OwnSource(path="a.csv", hold_out=HoldOut.NONE, hold_out_seed=5)


FRAME = pd.DataFrame({"age": range(20), "color": ["red", "green"] * 10})
#: Features in memory likewise.
BAD_FEATURES: list[tuple[Any, str]] = [
    (TABLE[:, 0], r"X: features are float64 of shape \(20,\); .* X\.reshape"),
    (np.where(TABLE == 1, np.inf, TABLE).astype(np.float16), "row 0, column 1 is inf"),
    ([[1.0], [2.0, 3.0]] * 10, "X can't be read as an array"),
    ([["a"]] * 20, "tables must be real numbers"),
    (TABLE.astype("datetime64[s]"), "a DataFrame of dates"),
    (FRAME.iloc[:, :0], "X has no column"),
]
REFUSED: list[tuple[Callable[[Path], object], str]] = [
    *((partial(from_npz, **given), words) for given, words in BAD_ARRAYS),
    *(
        (partial(from_parquet, **{"classes": ("a", "b"), **given}), words)
        for given, words in BAD_TABLES
    ),
    *((partial(read, text=text, **said), words) for text, said, words in BAD_TEXTS),
    *((partial(read_two, features=x, labels=y, **said), words) for x, y, said, words in BAD_PAIRS),
    (lambda _: own_rows(FRAME, num_classes=2, keep=["a"]), "keep names 'a', but X"),
    *((lambda _, x=x: own_rows(x, num_classes=2, keep=()), words) for x, words in BAD_FEATURES),
]


@pytest.mark.parametrize(("reader", "message"), REFUSED)
def test_bad_data_are_refused_and_no_label_is_shown(
    tmp_path: Path, reader: Callable[[Path], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        reader(tmp_path)
    shown = str(caught.value).replace("no, HIV positive", "").removeprefix(str(tmp_path))
    assert "HIV" not in shown and "8391" not in shown and "HIV" not in str(caught.value.__cause__)


def test_values_that_cannot_be_compared_are_not_classes() -> None:
    labels = np.array([2, 1.0, np.int64(2)], dtype=object)
    assert label_numbers(labels, [1, 2], what="y").tolist() == [1, 0, 1]
    for bad in ([2], None, "2 3", True, 1.5):
        with pytest.raises(ValueError, match=r"y row 1 is not one of .* 1, 2 \(1 of 3 rows"):
            label_numbers(np.array([1, bad, 2.0], dtype=object), [1, 2], what="y")


@pytest.mark.parametrize("hold_out", [HoldOut.NONE, HoldOut.PUBLIC, None])
def test_one_row_of_each_person_is_used(hold_out: HoldOut | None, tmp_path: Path) -> None:
    people = np.repeat(["1", "2 ", "3", "4", "5", "6"], 10)
    table = pd.DataFrame({"row": np.arange(60.0), "who": people, "label": np.arange(60) % 2})
    if hold_out is None:
        table["split"] = np.where(table.who.isin(["5", "6"]), "test", "train")
    file = tmp_path / "mine.csv"
    table.sample(frac=1, random_state=0).to_csv(file, index=False)
    said: dict[str, Any] = {"group_column": "who", "classes": 2, "hold_out": hold_out}
    with pytest.warns(UserWarning, match="one row of each of . persons is kept, and .. rows are"):
        data = own(file, **said)
    kept, public = len(data.train_labels), len(data.public.test_labels)
    assert data.public.train_features.shape[1] == 1  # persons are not a feature
    if hold_out is None:
        assert (kept, public) == (4, 20)
        table.loc[0, "split"] = "test"
        table.to_csv(file, index=False)
        with pytest.raises(DataFileError, match="1 persons have both training and test rows"):
            own(file, **said)
    else:
        assert kept + public == 6 and (public > 0) == (hold_out is HoldOut.PUBLIC)
        table.loc[3, "who"] = None
        table.to_csv(file, index=False)
        with pytest.raises(DataFileError, match=r"row 3 .* names no person"):
            own(file, **said)


def test_a_process_ends_well_after_it_read_a_table(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}).to_parquet(tmp_path / "table.parquet")
    code = """if True:
        import os, sys
        from pathlib import Path
        from labeldp.trainers.data.tables import parquet_table
        for _ in range(20):
            child = os.fork()
            if not child:
                parquet_table(Path(sys.argv[1]))
                sys.exit()
            assert os.waitpid(child, 0)[1] == 0
    """
    command = [sys.executable, "-c", code, str(tmp_path / "table.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_a_small_table_of_one_long_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet writes a text once for all rows; read as texts they would fill any memory."""
    path = tmp_path / "table.parquet"
    rows = 20_000
    long = "x" * 100_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([long]))
    parquet.write_table(pa.table({"text": texts}), path, store_schema=False)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("labeldp.trainers.data.files.memory_bytes", lambda: 2_000_000_000)
    before = pa.total_allocated_bytes()
    for read in (parquet_table, lambda file: parquet_table(file, rows=range(rows))):
        with pytest.raises(FileRefused, match=r"column 'text', holds 2,000,000,000 bytes"):
            read(path)
    assert pa.total_allocated_bytes() - before < 10_000_000
    short = pa.table({"text": ["a", None, "b"], "number": [1, 2, 3]})
    parquet.write_table(short, path)
    assert parquet_table(path).equals(short)
    assert parquet_table(path, rows=range(1, 3)).equals(short[1:])


def test_values_of_no_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    np.savez(path, ids=np.zeros(10**9, dtype="V0"))
    with pytest.raises(DataFileError, match="ids holds 1,000,000,000 values of no bytes"):
        npz_arrays(path)


def test_one_long_label_does_not_widen_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's strings all have the length of the longest: labels are read one by one instead."""
    path = tmp_path / "table.csv"
    rows = "\n".join(f"{number},{'ab'[number % 2]}" for number in range(1000))
    path.write_text(f"x,label\n{rows}\n1,{'c' * 9_000}\n")
    monkeypatch.setattr("labeldp.trainers.data.files.memory_bytes", lambda: 50_000_000)
    with pytest.raises(DataFileError, match="row 1000 is not one of the stated classes"):
        load_own(OwnSource(path=str(path), label_column="label", classes=("a", "b")))


def test_the_fingerprint_says_nothing_of_secret_labels(tmp_path: Path) -> None:
    one = from_npz(tmp_path, hold_out=HoldOut.NONE, **whole())
    other = from_npz(tmp_path, hold_out=HoldOut.NONE, **whole(labels=1 - LABELS))
    assert one.public.fingerprint == other.public.fingerprint
    published = from_npz(tmp_path, hold_out=HoldOut.PUBLIC, **whole())
    assert published.public.fingerprint != one.public.fingerprint

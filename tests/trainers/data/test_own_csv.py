"""own_csv: tables as people export them, and every way in which one is damaged."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.trainers.data.columns import Categories, Columns
from labeldp.trainers.data.labelled_data import LabelledData, load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource, csv_table

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


def test_a_table_with_names_of_classes(tmp_path: Path) -> None:
    data = read(tmp_path, TEXT, drop=("id",))
    assert data.train_labels.tolist() == [0, 1] * 10
    assert data.public.class_names == CLASSES
    age = np.array([20 + i * i for i in range(20)])
    np.testing.assert_allclose(
        data.public.train_features[:, 0], (age - age.mean()) / age.std(), 1e-5
    )
    assert data.public.train_features[0].tolist()[1:] == [0, 1]  # Bern, Rome


def test_rows_are_predicted_as_they_stand_in_the_file(tmp_path: Path) -> None:
    import pandas as pd

    public = read(tmp_path, TEXT, drop=("id",)).public
    again = public.preprocessing(pd.read_csv(tmp_path / "mine.csv"))
    np.testing.assert_array_equal(again, public.train_features)


def test_truth_values_and_spaces_are_categories_as_they_are_written(tmp_path: Path) -> None:
    text = "member,city,bought\n" + "true, Bern,no\nfalse,Bern,yes\n" * 3
    step = read(tmp_path, text).public.preprocessing.steps[0]
    assert isinstance(step, Columns)
    kinds = {name: each for name, each in step.columns.items() if isinstance(each, Categories)}
    assert kinds["member"].categories == ("false", "true")
    assert kinds["city"].categories == (" Bern", "Bern")


@pytest.mark.parametrize("mark", [";", "\t"])
def test_other_delimiters_and_the_mark_of_excel(tmp_path: Path, mark: str) -> None:
    expected = read(tmp_path, TEXT).public.fingerprint
    other = b"\xef\xbb\xbf" + TEXT.replace(",", mark).replace("\n", "\r\n").encode()
    assert read(tmp_path, other, label_column="bought").public.fingerprint == expected


def test_labels_that_are_numbers(tmp_path: Path) -> None:
    numbers = TEXT.replace("yes", "1").replace("no", "0")
    assert read(tmp_path, numbers, classes=2).train_labels.tolist() == [0, 1] * 10
    # Named, they count by their names: here the other way round.
    turned = read(tmp_path, numbers, classes=("1", "0"))
    assert turned.train_labels.tolist() == [1, 0] * 10
    # Places among names, as in the other kinds of file.
    assert read(tmp_path, numbers, classes=CLASSES).train_labels.tolist() == [0, 1] * 10


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
    with pytest.raises(ValueError, match="no column 'age', which the training had"):
        read(tmp_path, TEXT, hold_out=None, test_path=tmp_path / "test.csv", drop=("id",))
    with pytest.raises(ValueError, match=r"elsewhere\.csv is not there; check data\.test_path"):
        read(tmp_path, TEXT, hold_out=None, test_path=tmp_path / "elsewhere.csv")


def test_the_seed_says_which_rows_are_held_out(tmp_path: Path) -> None:
    found = {
        read(tmp_path, TEXT, hold_out=HoldOut.PUBLIC, hold_out_seed=seed).public.fingerprint
        for seed in (0, 0, 1, 2)
    }
    assert len(found) == 3


HIDDEN = TEXT.replace("yes", "HIV positive")


@pytest.mark.parametrize(
    ("text", "said", "message"),
    [
        ("", {}, "Empty CSV file"),
        ("id,bought\n", {}, "has 0 rows"),
        (TEXT, {"label_column": "bougth"}, "no column 'bougth'; did you mean 'bought'"),
        (TEXT, {"label_column": None}, r"no column 'label'; set data\.label_column"),
        (TEXT, {"drop": ("idd",)}, "no column 'idd'; did you mean 'id'"),
        (TEXT, {"drop": ("bought",)}, "leaves out 'bought', which is needed"),
        (TEXT, {"drop": ("id", "age", "city")}, "no column of features"),
        (TEXT, {"classes": None}, "how many classes there are"),
        (TEXT, {"classes": 2}, r"holds names of classes.*row 0 is the first"),
        (TEXT, {"hold_out": None}, "brings no test split"),
        (HIDDEN, {}, r"row 1, column 'bought' holds none of .*\(10 of 20"),
        (HIDDEN, {"classes": 2}, "holds names of classes"),
        (HIDDEN.replace("1,21,Bern", "1,21"), {}, "line 3 has 3 fields, but .* 4 columns"),
        (HIDDEN.replace("1,21,Bern", "1,21,Be,rn"), {}, "line 3 has 5 fields, but"),
        (HIDDEN.replace("1,21,", "1,inf,"), {"classes": ("no", "HIV positive")}, "'age' is inf"),
        (TEXT.replace("age", "city"), {}, "two columns of one name"),
        ("1,2,HIV\n3,4,no\n5,6,no\n", {}, "first line holds numbers where names"),
        (b"\xff\xfea\x00,\x00b\x00\n\x00", {}, "line 2 has 1 fields"),
        (b"a,bought\n\xff\xfe,no\n\xff,HIV\n", {}, "column 'a' is of type binary|invalid UTF8"),
        ("a,bought\n" + "x" * 10_001 + ",no\ny,yes\n", {}, "column 'a' has 10,001 characters"),
    ],
)
def test_damaged_tables_are_refused_and_show_no_label(
    tmp_path: Path, text: str | bytes, said: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(tmp_path, text, **said)
    shown = str(caught.value).replace("no, HIV positive", "")
    assert "HIV" not in shown
    assert "HIV" not in str(caught.value.__cause__)


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

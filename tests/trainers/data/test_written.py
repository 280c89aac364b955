"""Tables as people write them, and labels that are read each by itself."""

import datetime
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.platform.api.label_release import class_numbers
from labeldp.trainers.data.columns import (
    RowsRefused,
    class_places,
    form_of,
    identifier,
    number_in,
    slips,
    values_in,
)
from labeldp.trainers.data.files import DataFileError
from labeldp.trainers.data.labelled_data import load_own
from labeldp.trainers.data.own_data import label_numbers
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from labeldp.trainers.data.preprocessing import Columns
from labeldp.trainers.data.tables import csv_table, parquet_table
from tests.platform.cli.asked import answer

# ------------------------------------------------------------------------------------- labels

COUNT = 60
#: One column of labels as files of several kinds have it, and the classes in order.
LABELS: list[tuple[list[Any], tuple[str, ...]]] = [
    ([1, 2], ("1", "2", "3")),
    ([1.0, 2.0], ("1", "2", "3")),
    ([0, 1], ("1", "0")),
    ([False, True], ("true", "false")),
    (["+", "-"], ("-", "+")),
    (["NA", "?"], ("?", "NA")),
    ([" no", "yes "], ("no", "yes")),
    (["é", "b"], ("b", "e\u0301")),
    ([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], ("2026-01-02", "2026-01-01")),
]


def read(folder: Path, labels: list[Any], kind: str, **said: Any) -> list[int]:
    table = pd.DataFrame({"x": np.arange(len(labels)) * 0.5, "label": labels})
    file = folder / f"mine.{kind}"
    if kind == "csv":
        table.to_csv(file, index=False)
    elif kind == "parquet":
        table.to_parquet(file, index=False)
    else:
        np.savez(file, features=table[["x"]].to_numpy(), labels=np.array(labels))
    data = load_own(OwnSource(path=file, hold_out=HoldOut.NONE, **said))
    return [*data.train_labels]


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz"])
@pytest.mark.parametrize(("two", "classes"), LABELS)
def test_one_stray_label_is_refused_and_moves_no_other(
    two: list[Any], classes: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    if kind == "npz" and isinstance(two[0], datetime.date):
        pytest.skip("no objects in an .npz")
    expected = [*class_places(two, classes)] * (COUNT // 2)
    assert min(expected) >= 0 and len(set(expected)) == 2
    assert read(tmp_path, two * (COUNT // 2), kind, classes=classes) == expected
    # Where a writer makes another type of all of them, too.
    strays: list[Any] = [7, 1.5] if isinstance(two[0], int | float) else ["7", "maybe", "0"]
    for stray in strays:
        if isinstance(two[0], datetime.date | bool):
            continue
        with pytest.raises(ValueError, match=r"row 7 is not one of .* \(1 of 60 rows"):
            read(tmp_path, [*(two * 30)[:7], stray, *(two * 30)[8:]], kind, classes=classes)
    wider = [*classes, "1.5", "7"]
    assert class_places([*two, 1.5], wider).tolist()[:2] == class_places(two, wider).tolist()


def test_positions_are_no_names_and_equal_names_no_two_classes() -> None:
    with pytest.raises(DataFileError, match=r"y row 0 is not one of the stated classes no, yes"):
        label_numbers(np.array([0, 1]), ("no", "yes"), what="y")
    for classes in (("1", "1.0"), ("True", "true"), ("a", "a ")):
        with pytest.raises(ValueError, match="at least two, each once"):
            label_numbers(np.array(["a"]), classes, what="y")
        with pytest.raises(ValueError, match="name two or more that differ"):
            class_numbers(["a"], classes)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_amounts_are_read_one_by_one(kind: str, tmp_path: Path) -> None:
    texts = ["$1,634.50", "(7)", "120", "€ 1 000", "5e2", "300%"]
    table = pd.DataFrame({"x": np.arange(6.0), "label": texts})
    file = tmp_path / f"mine.{kind}"

    def levels() -> list[int]:
        table.to_csv(file, index=False) if kind == "csv" else table.to_parquet(file, index=False)
        source = OwnSource(path=file, hold_out=HoldOut.NONE, bounds=(-10, 2000))
        return [*load_own(source).train_labels]

    whole = levels()
    assert np.diff([whole[row] for row in (1, 2, 5, 4, 3, 0)]).min() > 0
    for other in ("1,234", "5", "€ 3.75"):
        table.loc[0, "label"] = other
        assert levels()[1:] == whole[1:]
    table.loc[3, "label"] = "1.000,5"
    with pytest.raises(DataFileError, match=r"row 3 is not a number; .* as 1234\.5 or \$1,234\.50"):
        levels()


# ---------------------------------------------------------------------------- numbers and dates

#: Text of a column, and what it is read as.
COLUMNS: list[tuple[list[str], list[float]]] = [
    (["1,234", "7,000", "999"], [1234, 7000, 999]),
    (["1,234.5", "-0.25", "1e5"], [1234.5, -0.25, 1e5]),
    (["1.234,5", "0,25", "12"], [1234.5, 0.25, 12]),
    (["0,123", "0,5"], [0.123, 0.5]),
    (["1'234", "1\u2019234'567", "3"], [1234, 1234567, 3]),
    (["1 234", "12\xa0345,6", "1\u202f000"], [1234, 12345.6, 1000]),
    (["12,34,567.8", "1,23,456"], [1234567.8, 123456]),
    (["97%", "3 %"], [97, 3]),
    (["$1", "-$900", "$-5.10", "12"], [1, -900, -5.1, 12]),
    (["€ 1.234,50", "3,00"], [1234.5, 3]),
    (["5 USD", "USD 6.5"], [5, 6.5]),
    (["(1,234)", "(5)", "\u22127"], [-1234, -5, -7]),
    (["31/12/2020", "1/2/2020"], [18627, 18293]),
    (["12/31/2020", "01/02/2020"], [18627, 18263]),
    (["31.12.2020", "01.02.2020"], [18627, 18293]),
    (["2020-12-31 10:00:00+02:00", "2020-02-01T06:00:00Z"], [18627 + 1 / 3, 18293.25]),
    (["20201231T120000", "20200201T000000"], [18627.5, 18293]),
    (["12/31/2020 06:00:00 PM", "02/01/2020 12:00:00 AM"], [18627.75, 18293]),
    (["31 Dec 2020", "1 Feb 2020"], [18627, 18293]),
    (["2020-12-31 06:00:00 UTC", "2020-02-01 00:00:00 UTC"], [18627.25, 18293]),
]
#: Text that stays text.
NO_FORM = [
    ["97%", "0.97"],
    ["$5", "€5"],
    ["1,234.5", "1.234,5"],
    ["01/02/2020", "03/04/2020"],
    ["12/31/2020", "31/12/2020"],
    ["8001", "3012"],
    ["2:1", "0:3"],
    ["10.0.0.1", "192.168.1.2"],
    ["079 123 45 67", "079 765 43 21"],
    ["Bern", "Rome"],
    ["3-4", "1-2"],
    ["9" * 50, "5.5"],
]


@pytest.mark.parametrize(("texts", "expected"), COLUMNS)
def test_a_column_of_one_form_is_read_and_the_model_reads_so(
    texts: list[str], expected: list[float]
) -> None:
    holes: list[Any] = [*texts, " ", None, "?"]
    fitted = Columns.fit({"x": holes})
    again = Columns.restored(json.loads(json.dumps(fitted.described())), fitted.arrays())
    (part,) = again.parts
    known = np.array([*expected, *[np.median(expected)] * 3])
    np.testing.assert_allclose(
        again({"x": holes})[:, 0], (known - known.mean()) / known.std(), atol=1e-5
    )
    # A single row, in which another form would do as well.
    for text, row in zip(texts, fitted({"x": texts}), strict=True):
        np.testing.assert_array_equal(again({"x": [text]})[0], row)
    with pytest.raises(RowsRefused, match="row 1, column 'x' is 'Bern'; the training rows had"):
        again({"x": [texts[0], "Bern"]})
    assert identifier("x", np.array(texts * 20, dtype=object)) is None
    assert part.shape == (2,)


@pytest.mark.parametrize("texts", NO_FORM)
def test_text_of_several_forms_or_none_stays_text(texts: list[str]) -> None:
    assert form_of(texts) == "" and Columns.fit({"x": texts}).shape == (2,)


def test_what_keeps_a_column_from_being_numbers_is_said() -> None:
    def said(texts: list[str]) -> tuple[str, list[int]]:
        seems, rows = slips(np.array(texts, dtype=object))
        return seems, rows.tolist()

    assert said(["1,5"] * 12 + ["x"]) == ("numbers as 1.234,5", [12])
    assert said(["31/12/2020"] * 12 + ["soon"]) == ("dates as 31/12/2026", [12])
    assert "numbers as 1,234.5 % and numbers" in said(["97%", "3%", "0.97"])[0]
    assert "day or the month is first is not clear" in said(["01/02/2020", "03/04/2020"])[0]
    assert said(["Bern", "Rome"]) == said(["8001", "3012"]) == ("", [])
    many = np.array([f"{1 + i % 12:02}/{1 + i % 11:02}/{1900 + i}" for i in range(99)], object)
    assert "not clear: write 2026-12-31" in str(identifier("day", many))


def test_no_text_takes_long_to_be_no_number() -> None:
    assert number_in(" " * 9_000 + "x") is None and number_in("(5") is number_in("$5 USD") is None
    assert np.isnan(values_in([" " * 30 + "1,1,1,1", "1,2,3"], "1,234.5")).all()


# --------------------------------------------------------------------------------------- files


def csv(folder: Path, text: str | bytes, **how: Any) -> pd.DataFrame:
    file = folder / "mine.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    found: pd.DataFrame = csv_table(file, **how).to_pandas()
    return found


def test_blank_cells_are_missing_numbers(tmp_path: Path) -> None:
    table = csv(tmp_path, "n,x,t,c,d\n1, ,?,a ,10:30\n -,2.5,b, ,\n 3,?,b,a,12:00\n")
    assert table.n.tolist()[::2] == [1, 3] and np.isnan([table.n[1], table.x[0], table.x[2]]).all()
    assert table.t.isna().tolist() == [True, False, False] and table.c[0] == "a "
    hours = Columns.fit({"d": csv(tmp_path, "d,t\n10:30,a\n12:00,b\n").d})
    assert hours({"d": [datetime.time(12)]})[0, 0] == 1


LATIN = "Stadt,n,label\n" + "".join(
    f"{'Zürich' if i % 3 else 'Genf'},{i},{i % 2}\n" for i in range(9)
)


def test_other_encodings_are_read_or_named(tmp_path: Path) -> None:
    plain = csv(tmp_path, LATIN)
    assert csv(tmp_path, LATIN.encode("utf-16")).equals(plain)
    assert csv(tmp_path, LATIN.encode("utf-16-le"), encoding="utf-16-le").equals(plain)
    assert csv(tmp_path, LATIN.encode("cp1252"), encoding="cp1252").equals(plain)
    with pytest.raises(DataFileError, match=r"not utf-8 text; .*it probably is: cp1252 \(Latin-1"):
        csv(tmp_path, LATIN.encode("cp1252"))
    with pytest.raises(DataFileError, match=r"not utf-8 text; .*probably is: utf-16-le"):
        csv(tmp_path, LATIN.encode("utf-16-le"))
    with pytest.raises(DataFileError, match="is not utf99 text"):
        csv(tmp_path, LATIN, encoding="utf99")


ROWS = range(30)
#: First lines that are rows, and some that are names.
HEADERLESS = [
    "".join(f"city{i % 9},{'abc'[i % 3]},{'ny'[i % 2]}\n" for i in ROWS),
    "".join(f"{31 + i % 4},{'abc'[i % 3]},{i * 1.5},{'ny'[i % 2]}\n" for i in ROWS),
    "".join(f"{6 + i % 9},{i * 0.5},{i % 2}\n" for i in ROWS),
    "".join(f"p{i},{i * 7 % 5},{'ny'[i % 2]}\n" for i in ROWS),
    "".join(f"2026-01-{1 + i:02},{'abc'[i % 3]},{'ny'[i % 2]}\n" for i in ROWS),
]
WITH_HEADER = [
    "shop,2019,2020,2021\n" + "".join(f"{'abc'[i % 3]},{i},{i * 2},{i * 3}\n" for i in ROWS),
    "0,1,2,label\n" + "".join(f"{i},{i / 2},{i / 3},{'ny'[i % 2]}\n" for i in ROWS),
    "4000.5,3999.5,3998.5\n" + "".join(f"{i},{i / 2},{i / 3}\n" for i in ROWS),
    "a,b\n" + "".join(f"{'abc'[i % 3]},{i}\n" for i in ROWS),
    "size,7\n" + "".join(f"{i / 3},{i}\n" for i in ROWS),
    "2024-01-01,2024-01-02,2024-01-03\n" + "".join(f"{i},{i / 2},{i / 3}\n" for i in ROWS),
    '"Preis, netto";"Menge, kg"\n' + "".join(f"{i},5;{i}\n" for i in ROWS),
]


def test_a_first_line_that_is_a_row_is_no_header(tmp_path: Path) -> None:
    for text in HEADERLESS:
        with pytest.raises(DataFileError, match="seems to have no header") as caught:
            csv(tmp_path, text)
        assert "city0" not in str(caught.value) and "yes" not in str(caught.value)
    for text in WITH_HEADER:
        assert len(csv(tmp_path, text)) == len(ROWS)
    # A column of secrets has no part in that.
    for label in ("n", "maybe"):
        text = f"size,kind,{label}\n" + "".join(f"{i},b,{'ny'[i % 2]}\n" for i in ROWS)
        assert len(csv(tmp_path, text, as_written=[label])) == len(ROWS)


def test_a_workbook_is_read_as_the_same_table_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.xlsx"
    file.write_bytes(b"no workbook")
    try:
        import openpyxl  # noqa: F401  # without it, workbooks are refused
    except ModuleNotFoundError:
        with pytest.raises(DataFileError, match=r"pip install openpyxl"):
            csv_table(file)
        pytest.skip("openpyxl is not installed")
    with pytest.raises(DataFileError, match=r"can't be read as \.xlsx"):
        csv_table(file)
    table = pd.DataFrame(
        {
            "n": [1, None, 3, 4],
            "day": pd.to_datetime(["2026-01-01", "2026-01-03", None, "2026-01-05"]),
            "text": ["a, b", None, "two\nlines", "a, b"],
            "label": [1.0, 2.0, 1.0, 2.0],
        }
    )
    table.to_excel(file, index=False)
    found = csv_table(file, as_written=["label"]).to_pandas()
    assert found.n.tolist()[2:] == [3, 4] and found.day[3] == pd.Timestamp("2026-01-05")
    assert found.text.tolist()[2:] == ["two lines", "a, b"]
    data = load_own(OwnSource(path=file, classes=("2", "1"), hold_out=HoldOut.NONE))
    assert data.train_labels.tolist() == [1, 0, 1, 0]
    stale = tmp_path / "stale.xlsx"
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(stale, "w") as changed:
        for name in archive.namelist():
            stated = b'<dimension ref="A1:D3"'
            content = re.sub(rb'<dimension ref="[^"]*"', stated, archive.read(name))
            changed.writestr(name, content)
    assert csv_table(stale, as_written=["label"]).num_rows == 4
    monkeypatch.setattr("labeldp.trainers.data.tables._PER_CELL", 2**50)
    with pytest.raises(ValueError, match="bytes when unpacked"):
        csv_table(file)


def test_a_table_of_too_many_columns_is_refused(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(20_001)]
    file, other = tmp_path / "wide.csv", tmp_path / "wide.parquet"
    file.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    pq.write_table(pa.table({name: [1] for name in names}), other)
    why = "has 20,001 columns, and a table may have 20,000"
    with pytest.raises(DataFileError, match=why):
        csv_table(file)
    with pytest.raises(DataFileError, match=why):
        parquet_table(other)
    file.write_text("a,b\r" + "1,2\r" * 20_000)
    assert csv_table(file).shape == (20_000, 2)


def test_a_column_of_more_text_than_arrow_has_places_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.parquet"
    pq.write_table(pa.table({"a": ["x" * 1000] * 100}), file)
    assert parquet_table(file).num_rows == 100
    monkeypatch.setattr("labeldp.trainers.data.tables._MOST_TEXT", 99_999)
    with pytest.raises(DataFileError, match="holds 100,000 bytes of text when unpacked"):
        parquet_table(file)


def test_a_second_file_is_read_in_the_forms_of_the_first(tmp_path: Path) -> None:
    lines = [f'"{i}.000,5",{i % 2}' for i in range(1, 9)]
    (tmp_path / "first.csv").write_text("\n".join(["x,label", *lines]))
    (tmp_path / "second.csv").write_text("x,label\n1.000,0\n2.000,1\n")  # thousands, as there
    source = OwnSource(path=tmp_path / "first.csv", test_path=tmp_path / "second.csv", classes=2)
    public = load_own(source).public
    assert public.test_features.numpy() == pytest.approx(
        public.preprocessing({"x": [1000.0, 2000.0]}).numpy()
    )


def test_labels_that_are_all_alike_are_read_like_others(tmp_path: Path) -> None:
    for kind in ("csv", "parquet", "npz"):
        assert read(tmp_path, [1] * 20, kind, classes=2) == [1] * 20


def test_the_two_parties_read_files_by_the_same_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands are thousands in a chunk of one row, too, and labels match by name."""
    random = np.random.default_rng(0)
    km = random.integers(1000, 9000, 200)
    features = pd.DataFrame({"id": [f"p{i}" for i in range(200)], "km": [f"{k:,}" for k in km]})
    features["km"] = features.km.str.replace(",", ".")
    features.loc[0, "km"] = "5.000,5"
    features.to_csv(tmp_path / "features.csv", index=False)
    labels = pd.DataFrame({"id": features.id, "bought": np.where(km > 5000, "+", "-")})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    labels.to_parquet(tmp_path / "labels.parquet", index=False)
    (tmp_path / "one.csv").write_text("km\n1.234\n")
    (tmp_path / "two.csv").write_text('km\n"8.234,5"\n1.234\n')
    monkeypatch.chdir(tmp_path)
    answer(*"request features.csv --id-column id --method subset --classes +,- -o ask".split())
    asked = "--id-column id --label-column bought --request ask --epsilon 20".split()
    for kind in ("csv", "parquet"):
        answer("release", f"labels.{kind}", *asked, "--vault", kind, "-o", f"{kind}-release")
    answer(*"fit features.csv --release csv-release -o model".split())
    for name in ("one", "two"):
        answer("predict", "model", f"{name}.csv", "-o", f"{name}-found.csv")
    one, two = (pd.read_csv(f"{name}-found.csv") for name in ("one", "two"))
    assert two.prediction.tolist() == ["+", "-"]
    assert one.iloc[0].tolist() == two.iloc[1].tolist()


@pytest.mark.parametrize("values", [["TRUE", "FALSE"], ["true", "false"], [True, False]])
def test_truth_values_are_the_same_however_they_are_written(values: list[Any]) -> None:
    for learned in ([True, False], ["TRUE", "FALSE"]):
        step = Columns.fit(pd.DataFrame({"a": learned * 8}))
        found = step(pd.DataFrame({"a": values * 8}))
        assert (found == step(pd.DataFrame({"a": learned * 8}))).all() and found.any()


def test_lists_are_read_as_a_frame_is(tmp_path: Path) -> None:
    frame = pd.DataFrame({"city": ["Bern", "Rome", ""] * 4, "price": ["$5", "$6", ""] * 4})
    step = Columns.fit(frame)
    assert (step(frame.to_dict("list")) == step(frame)).all()


def test_numbers_beyond_what_a_feature_can_be_are_refused() -> None:
    step = Columns.fit(pd.DataFrame({"a": [0.01, 0.02, 0.03]}))
    with pytest.raises(ValueError, match="in units of training rows: row 1, column 'a' is inf"):
        step(pd.DataFrame({"a": [0.01, 9.97e36]}))

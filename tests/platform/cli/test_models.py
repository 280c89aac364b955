"""models: `labeldp predict` on raw rows of every kind of file, and `labeldp publish`."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pyarrow import parquet

from labeldp.platform.cli.models import read_rows
from labeldp.platform.records.results import write_model
from labeldp.trainers.data.labelled_data import load_own
from labeldp.trainers.data.own_files import HoldOut, OwnSource
from labeldp.trainers.data.preprocessing import Numbers, Preprocessing
from labeldp.trainers.models.trained_model import TrainedModel
from tests.platform.cli.asked import answer, refusal, words
from tests.platform.report.folders import a_folder
from tests.trainers.trained_examples import examples, small_model

Model = tuple[TrainedModel, pd.DataFrame, Path]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Model:
    model, rows = small_model()
    folder = tmp_path_factory.mktemp("model")
    model.save(folder)
    return model, rows, folder


@pytest.fixture(autouse=True)
def _rows(table: Model) -> None:
    table[1].to_csv("rows.csv", index=False)


@pytest.mark.parametrize(
    ("data", "out"), [("rows.parquet", "found.parquet"), ("rows.csv", "FOUND.CSV")]
)
def test_rows_of_a_table(table: Model, data: str, out: str) -> None:
    model, rows, folder = table
    rows.to_parquet("rows.parquet")
    said = answer("predict", str(folder), data, "-o", out)
    columns = ["prediction", "probability_small", "probability_middling", "probability_large"]
    assert (said["rows"], said["columns"], said["file"]) == (len(rows), columns, out)
    assert (said["epsilon"], said["delta"], said["private"]) == (1.0, 1e-5, True)
    found = pd.read_csv(out) if out == "FOUND.CSV" else parquet.read_table(out).to_pandas()
    assert list(found) == columns
    assert found["prediction"].tolist() == model.predict(rows).tolist()
    exact = model.predict_proba(rows)
    np.testing.assert_allclose(found[columns[1:]].to_numpy(), exact, rtol=1e-6)
    # A column is text in a .csv if it was in the training.
    rows.assign(color=["007", "NA"] * (len(rows) // 2)).to_csv("odd.csv", index=False)
    answer("predict", str(folder), "odd.csv", "-o", "odd.parquet")
    unseen = model.predict(rows.assign(color="never seen"))
    assert pd.read_parquet("odd.parquet")["prediction"].tolist() == unseen.tolist()


def test_images_of_arrays(tmp_path: Path) -> None:
    example = next(iter(examples(tmp_path / "data")))
    example.model.save(tmp_path / "images")
    np.savez("x.npz", features=example.rows["rows"], labels=np.zeros(3))
    Path("x.npz").rename("x.NPZ")
    answer("predict", "images", "x.NPZ:features", "--out", "found.parquet")
    found = parquet.read_table("found.parquet").to_pandas()
    assert found["prediction"].tolist() == example.measured.argmax(1).tolist()
    said = refusal("predict", "images", "x.NPZ", "-o", "found.csv")
    assert "holds features, labels; name one as x.NPZ:KEY" in said
    np.save("small.npy", example.rows["rows"][:, :, :5])
    said = refusal("predict", "images", "small.npy", "-o", "found.csv")
    assert "images have shape" in said and not Path("found.csv").exists()


def test_one_of_a_sweeps_models(table: Model, tmp_path: Path) -> None:
    model, rows, _ = table
    results = tmp_path / "results"
    results.mkdir()
    arguments = ("predict", str(results), "rows.csv", "-o", "found.csv")
    assert "holds no model" in refusal(*arguments)
    write_model(results / "models", "aa11", model.files())
    assert answer(*arguments)["rows"] == len(rows)
    write_model(results / "models", "aa22", model.files())
    assert "holds 2 models (aa11, aa22); select one with --trial" in refusal(*arguments)
    answer(*arguments, "--trial", "aa2")
    assert "2 models of a trial aa" in refusal(*arguments, "--trial", "aa")
    assert "no model of a trial bb; there are aa11" in refusal(*arguments, "--trial", "bb")
    alone = ("predict", str(results / "models" / "aa11"), *arguments[2:], "--trial", "aa11")
    assert "leave --trial out" in refusal(*alone)


def test_bad_input_is_refused_by_name(table: Model) -> None:
    _, rows, folder = table
    Path("damaged.parquet").write_bytes(b"PAR1 no more")
    Path("empty.csv").write_text("")
    Path("a_folder.csv").mkdir()
    files = {
        "less.csv": rows.drop(columns="size"),
        "inf.csv": rows.assign(size=np.inf),
        "when.parquet": rows.assign(size=pd.Timestamp(0)),
        "headless.csv": rows[:0],
    }
    for name, frame in files.items():
        frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    np.save("matrix.npy", np.ones((3, 4)))
    for name, out, message in (
        ("less.csv", "found.csv", "no column 'size'"),
        ("inf.csv", "found.csv", "row 0, column 'size' is inf"),
        ("when.parquet", "found.csv", "column 'size' holds dates"),
        ("headless.csv", "found.csv", "rows are empty"),
        ("matrix.npy", "found.csv", "without names of columns"),
        ("damaged.parquet", "found.csv", "can't be read"),
        ("empty.csv", "found.csv", "can't be read as CSV"),
        ("a_folder.csv", "found.csv", "a folder"),
        ("nowhere.csv", "found.csv", "nowhere.csv does not exist; check the path"),
        ("rows.txt", "found.csv", "not a .parquet, .csv, .xlsx, .npy or .npz"),
        ("rows.csv", "found.xlsx", "ends in .parquet or .csv"),
    ):
        said = refusal("predict", str(folder), name, "-o", out)
        assert message in said, (name, said)
        assert not Path(out).exists()
    said = refusal("predict", str(folder), "rows.csv", "-o", "./rows.csv")
    assert "--out is ./rows.csv, the file of the rows" in said


MATRIX = "1.0,,0,7\n3,-4,5,8\n"


@pytest.mark.parametrize(
    "text",
    [
        MATRIX,
        f"width,height,x,y\n{MATRIX}",
        f"0,1,2,3\n{MATRIX}",  # as pandas writes a matrix
        f"\ufeff{MATRIX}",
        f'\ufeff"0","1","2","3"\n{MATRIX}',
        f"\r\n \n{MATRIX}",
        f"\n0,1,2,3\n{MATRIX}",
        MATRIX.replace("1.0,", '"1.0", '),
        MATRIX.replace("1.0,,", "1.0,NA,"),
        MATRIX.replace(",", ";"),
    ],
)
def test_a_matrix_with_and_without_a_header_and_with_a_hole(tmp_path: Path, text: str) -> None:
    rows = np.array([[1.0, np.nan, 0, 7], [3, -4, 5, 8]])
    preprocessing = Preprocessing(steps=(Numbers.fit(rows),))
    path = tmp_path / "matrix.CSV"
    path.write_text(text)
    assert (preprocessing(read_rows(str(path), preprocessing)) == preprocessing(rows)).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1\n2,3\n", "'0,1', may be names of columns or a row"),
        (f"1.0,x,0,7\n{MATRIX}", "may be names of columns or a row"),
        (f"width,height,x\n{MATRIX}", "more fields than its line of names"),
        (" \n", "No columns"),
        ('"' + "1" * 200_000, "field limit"),
    ],
)
def test_a_matrix_whose_first_line_is_not_clear(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "matrix.csv").write_text(text)
    with pytest.raises(ValueError, match=f"can't be read as CSV .*{words}"):
        read_rows(str(tmp_path / "matrix.csv"), Preprocessing(steps=(Numbers.fit(np.eye(4)),)))


def test_a_training_file_read_again_gives_its_features(tmp_path: Path) -> None:
    lines = ["id;size;member;city;when;label"]
    lines += [
        f"p{i};{i * i if i != 9 else ''};{i % 3 == 0};{' c' * (i % 4)};2026-01-{11 + i};{i % 2}"
        for i in range(20)
    ]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines).replace("True", "true"))
    public = load_own(OwnSource(path=path, hold_out=HoldOut.NONE, classes=2)).public
    again = public.preprocessing(read_rows(str(path), public.preprocessing))
    assert torch.equal(again, public.train_features)
    # A number with an indicator, two truth values, four texts of which one is missing, a date.
    assert again.shape == (20, 2 + 2 + 4 + 1)
    assert again[:, 2:8].sum() == 20 * 2  # every category is known
    assert again[:, 1].nonzero().tolist() == [[9]]


def test_keys_of_a_published_folder(tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0, readers=3)
    asked = ("publish", str(tmp_path / "results"), "--trial", "best", "--to", "out")
    said = words(*asked[:-1], "in-words", "--at-epsilon", "2")
    for phrase in ("can be published: config.json", "epsilon 2 at delta 0", "among 3 trials"):
        assert phrase in said
    found = answer(*asked)
    assert {"folder", "files", "epsilon", "delta", "left_out"} <= set(found)
    assert (found["epsilon"], found["delta"]) == (2.0, 0.0)
    assert sorted(found["files"]) == ["config.json", "ledger.json", "run_card.md"]
    assert "is not empty" in refusal(*asked)
    a_folder(tmp_path / "seeded", epsilon=2.0, changes={"noise.seed": 5})
    asked = ("publish", str(tmp_path / "seeded"), "--trial", "00", "--to", "other")
    assert "--accept seeded" in refusal(*asked)
    assert answer(*asked, "--accept", "seeded")["epsilon"] == 2.0

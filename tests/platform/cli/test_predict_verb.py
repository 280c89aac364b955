"""`labeldp predict`: raw rows of every kind of file, and what is refused with a kind word."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

from labeldp.platform.cli.command_line import main
from labeldp.platform.records.kept_models import write_model
from labeldp.platform.records.results import ResultsFolder
from labeldp.trainers.models.trained_model import TrainedModel
from tests.platform.cli.asked import answer, refusal
from tests.platform.sweep.examples import a_record
from tests.trainers.trained_examples import Example, examples, small_model


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainedModel, pd.DataFrame, Path]:
    model, rows = small_model()
    folder = tmp_path_factory.mktemp("model")
    model.save(folder)
    return model, rows, folder


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Example, Path]:
    example = next(iter(examples(tmp_path_factory.mktemp("data"))))
    folder = tmp_path_factory.mktemp("images")
    example.model.save(folder)
    return example, folder


@pytest.mark.parametrize("data", ["rows.parquet", "rows.csv"])
@pytest.mark.parametrize("out", ["found.parquet", "found.csv"])
def test_rows_of_a_table(
    table: tuple[TrainedModel, pd.DataFrame, Path],
    data: str,
    out: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, rows, folder = table
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    said = answer(capsys, "predict", str(folder), data, "-o", out)
    columns = ["prediction", "probability_small", "probability_middling", "probability_large"]
    assert (said["rows"], said["columns"], said["file"]) == (len(rows), columns, out)
    assert (said["epsilon"], said["delta"], said["private"]) == (1.0, 1e-5, True)
    found = pd.read_csv(out) if out.endswith(".csv") else parquet.read_table(out).to_pandas()
    assert list(found) == columns
    assert found["prediction"].tolist() == model.predict(rows).tolist()
    exact = model.predict_proba(rows)
    np.testing.assert_allclose(found[columns[1:]].to_numpy(), exact, rtol=1e-6)
    if out.endswith(".parquet"):
        assert (found[columns[1:]].to_numpy() == exact).all()


def test_images_of_arrays(
    images: tuple[Example, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example, folder = images
    np.save(tmp_path / "x.npy", example.rows["rows"])
    np.savez(tmp_path / "x.npz", features=example.rows["rows"], labels=np.zeros(3))
    for data in ("x.npy", "x.npz:features"):
        answer(capsys, "predict", str(folder), data, "--out", "found.parquet")
        found = parquet.read_table("found.parquet").to_pandas()
        assert found["prediction"].tolist() == example.measured.argmax(1).tolist()
    said = refusal(capsys, "predict", str(folder), "x.npz", "-o", "found.csv")
    assert "it holds" in said or "holds features, labels; name one as x.npz:KEY" in said
    np.save(tmp_path / "small.npy", example.rows["rows"][:, :, :5])
    said = refusal(capsys, "predict", str(folder), "small.npy", "-o", "found.csv")
    assert "images have shape" in said and not Path("found.csv").exists()


def test_a_column_is_text_in_a_csv_if_it_was_in_the_training(
    table: tuple[TrainedModel, pd.DataFrame, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, rows, folder = table
    rows.assign(color=["007", "NA"] * (len(rows) // 2)).to_csv("odd.csv", index=False)
    answer(capsys, "predict", str(folder), "odd.csv", "-o", "found.csv")
    expected = model.predict(rows.assign(color="never seen"))
    assert pd.read_csv("found.csv")["prediction"].tolist() == expected.tolist()


def test_one_of_a_sweeps_models(
    table: tuple[TrainedModel, pd.DataFrame, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, rows, _ = table
    rows.to_csv("rows.csv", index=False)
    results = tmp_path / "results"
    results.mkdir()
    arguments = ("predict", str(results), "rows.csv", "-o", "found.csv")
    assert "holds no model" in refusal(capsys, *arguments)
    write_model(results / "models", "aa11", model.files())
    assert answer(capsys, *arguments)["rows"] == len(rows)
    write_model(results / "models", "aa22", model.files())
    assert "holds 2 models (aa11, aa22); name one by --trial" in refusal(capsys, *arguments)
    answer(capsys, *arguments, "--trial", "aa2")
    assert "2 models of a trial aa" in refusal(capsys, *arguments, "--trial", "aa")
    assert "no model of a trial bb; there are aa11" in refusal(capsys, *arguments, "--trial", "bb")
    alone = ("predict", str(results / "models" / "aa11"), *arguments[2:], "--trial", "aa11")
    assert "leave --trial out" in refusal(capsys, *alone)


def test_a_method_is_called_what_the_report_calls_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, rows = small_model()
    trial = "ab" * 8
    origin = replace(model.origin, method="prior_labels", trial=trial)
    model = replace(model, origin=origin)
    rows.to_csv("rows.csv", index=False)
    results = ResultsFolder(tmp_path / "results", sweep="small")
    write_model(results.models, trial, model.files())

    def method(place: Path) -> str:
        assert main(["predict", str(place), "rows.csv", "-o", "found.csv"]) == 0
        return next(
            line for line in capsys.readouterr().out.splitlines() if line.startswith("method: ")
        )

    assert method(results.path) == "method: prior_labels", "nothing says more"
    results.keep(a_record(trial, variant="moment labels"))
    for place in (results.path, results.models / trial):
        assert method(place) == "method: moment labels"
        said = answer(capsys, "predict", str(place), "rows.csv", "-o", "found.csv")
        assert (said["method"], said["line"]) == ("prior_labels", "moment labels")
    model.save(tmp_path / "alone")
    assert method(tmp_path / "alone") == "method: prior_labels"
    (results.path / "trials" / f"{trial}.json").write_text("damaged")
    assert method(results.path) == "method: prior_labels", "predictions are made all the same"


def test_bad_input_is_refused_by_name(
    table: tuple[TrainedModel, pd.DataFrame, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, rows, folder = table
    Path("damaged.parquet").write_bytes(b"PAR1 no more")
    Path("empty.csv").write_text("")
    Path("a_folder.csv").mkdir()
    files = {
        "less.csv": rows.drop(columns="size"),
        "inf.csv": rows.assign(size=np.inf),
        "when.parquet": rows.assign(size=pd.Timestamp(0)),
        "text.csv": rows.assign(size="large"),
        "headless.csv": rows[:0],
    }
    for name, frame in files.items():
        frame.to_csv(name, index=False) if name.endswith("csv") else frame.to_parquet(name)
    np.save("matrix.npy", np.ones((3, 4)))
    for name, message in (
        ("less.csv", "no column 'size'"),
        ("inf.csv", "row 0, column 'size' is inf"),
        ("when.parquet", "column 'size' holds dates"),
        ("text.csv", "column 'size' holds text"),
        ("headless.csv", "there are no rows"),
        ("matrix.npy", "without names of columns"),
        ("damaged.parquet", "can't be read"),
        ("empty.csv", "can't be read as CSV"),
        ("a_folder.csv", "a folder"),
        ("nowhere.csv", "nowhere.csv can't be read: No such file"),
        ("rows.txt", "no .parquet, .csv, .npy or .npz"),
    ):
        said = refusal(capsys, "predict", str(folder), name, "-o", "found.csv")
        assert message in said, (name, said)
    assert not Path("found.csv").exists()
    rows.to_csv("rows.csv", index=False)
    said = refusal(capsys, "predict", str(folder), "rows.csv", "-o", "found.xlsx")
    assert "ends in .parquet or .csv" in said
    said = refusal(capsys, "predict", str(folder), "rows.csv", "-o", "not/there.csv")
    assert "not" in said and not Path("not").exists()


def test_a_damaged_or_later_model_is_refused(
    table: tuple[TrainedModel, pd.DataFrame, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, rows, folder = table
    rows.to_csv("rows.csv", index=False)
    for place, before, after, message in (
        ("model.json", '"format": 1', '"format": 9', "is of format 9"),
        ("model.json", '"kind": "network"', '"kind": "oracle"', "the architecture is 'oracle'"),
        ("model.safetensors", "hidden", "hodden", "another SHA-256"),
    ):
        shutil.copytree(folder, "changed")
        path = Path("changed", place)
        path.write_bytes(path.read_bytes().replace(before.encode(), after.encode()))
        assert message in refusal(capsys, "predict", "changed", "rows.csv", "-o", "found.csv")
        shutil.rmtree("changed")

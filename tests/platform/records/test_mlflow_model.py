"""mlflow_model: MLflow's own loader takes what is written, and gives the same bits for raw rows."""

import json
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest

from labeldp.platform.records.mlflow_model import DATA, describing_files, prediction_columns
from labeldp.trainers.data.preprocessing import AsTheyAre, Preprocessing, Step
from labeldp.trainers.models.trained_model import TrainedModel
from tests.trainers.trained_examples import Example, examples, small_model

#: MLflow's own, of its own types, when its loader is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")

#: One of each kind of raw rows.
KINDS = ("alibi", "alibi of a table", "patches", "recommender")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Example]:
    found = examples(tmp_path_factory.mktemp("data"))
    return {each.name: each for each in found if each.name in KINDS}


def written(model: TrainedModel, folder: Path) -> str:
    """What a run's artifact is."""
    model.save(folder / DATA)
    for name, text in describing_files(folder / DATA / "model.json").items():
        (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_mlflow_loads_it_with_signature_and_example(
    kind: str, trained: dict[str, Example], tmp_path: Path
) -> None:
    example = trained[kind]
    loaded = mlflow.pyfunc.load_model(written(example.model, tmp_path))
    rows = example.rows["rows"] if "rows" in example.rows else pd.DataFrame(example.rows)
    found = loaded.predict(rows)
    assert found["prediction"].tolist() == example.model.predict(rows).tolist()
    names = [f"probability_{name}" for name in example.model.classes]
    assert list(found) == ["prediction", *names]
    assert (found[names].to_numpy() == example.measured).all()
    signature = loaded.metadata.signature
    assert signature.outputs.input_names() == list(found)
    assert signature.inputs.is_tensor_spec() == ("rows" in example.rows)
    a_row = loaded.metadata.load_input_example(str(tmp_path))
    assert len(loaded.predict(a_row)) == 1


def test_the_example_is_nobodys_row(trained: dict[str, Example], tmp_path: Path) -> None:
    """It is what is usual in each column, and no row of the data."""
    example = trained["alibi of a table"]
    written(example.model, tmp_path)
    table = json.loads((tmp_path / "input_example.json").read_text())
    row = dict(zip(table["columns"], table["data"][0], strict=True))
    assert row["color"] == "blue" and row["same"] == 7.0
    assert not (pd.DataFrame(example.rows)["size"] == row["size"]).any()


def test_a_column_too_few_is_refused_by_name(tmp_path: Path) -> None:
    model, rows = small_model()
    loaded = mlflow.pyfunc.load_model(written(model, tmp_path))
    with pytest.raises(mlflow.MlflowException, match="size"):
        loaded.predict(rows.drop(columns="size"))


def test_rows_without_a_preparation(tmp_path: Path) -> None:
    model, _ = small_model()
    width = model.preprocessing.shape[0]
    step: Step = AsTheyAre(columns=width)
    bare = TrainedModel(
        predictor=model.predictor, preprocessing=Preprocessing(steps=(step,)), origin=model.origin
    )
    loaded = mlflow.pyfunc.load_model(written(bare, tmp_path))
    assert len(loaded.predict(np.zeros((2, width)))) == 2


def test_predictions_as_columns() -> None:
    model, rows = small_model()
    columns = prediction_columns(model, rows[:4])
    stacked = np.column_stack([columns[f"probability_{name}"] for name in model.classes])
    assert columns["prediction"].tolist() == model.classes[stacked.argmax(1)].tolist()

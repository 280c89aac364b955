"""mlflow_model: MLflow's own loader takes what is written, gives the same bits, without Ray."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from labeldp.mechanisms.randomness import NoiseKind
from labeldp.platform.records.mlflow_model import DATA, save_for_mlflow
from labeldp.platform.records.results import (
    ARRAYS,
    DESCRIPTION,
    ResultsFolder,
    TrialRecord,
    write_model,
)
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri
from labeldp.platform.report.publish import publish
from labeldp.trainers.data.columns import TextColumns
from labeldp.trainers.data.preprocessing import Columns, Numbers, Preprocessing
from labeldp.trainers.models.predictors import LinearPredictor
from labeldp.trainers.models.trained_model import TrainedModel, load_model
from tests.platform.report.folders import a_folder, keep_a_model
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store
from tests.source_tree import ROOT
from tests.trainers.trained_examples import Example, examples, small_model

#: MLflow's own, of its own types, when its loader is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning")

#: One of each kind of raw rows.
KINDS = ("alibi", "convex of a table", "patches", "recommender")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Example]:
    found = examples(tmp_path_factory.mktemp("data"))
    return {each.name: each for each in found if each.name in KINDS}


def written(model: TrainedModel, folder: Path) -> str:
    model.save(folder / "kept")
    save_for_mlflow(folder / "kept", folder / "model")
    (folder / "kept" / ARRAYS).rename(folder / "model" / DATA / ARRAYS)
    return str(folder / "model")


@pytest.mark.parametrize("kind", KINDS)
def test_mlflow_loads_it(kind: str, trained: dict[str, Example], tmp_path: Path) -> None:
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
    named = None if signature.inputs is None else signature.inputs.input_names()
    assert named == (None if "rows" in example.rows else list(rows))
    if kind == "alibi":  # images of one channel are taken without it, too
        assert loaded.predict(rows[:, 0]).equals(found)


_NUMBERS = np.random.default_rng(0).normal(size=(40, 3))
#: A matrix, and a table with a column of every type.
OWN_ROWS = {
    "float32": _NUMBERS.astype(np.float32),
    "int64": (9 * _NUMBERS).astype(np.int64),
    "table": pd.DataFrame(
        {
            "age": range(40),
            "member": [True, False] * 20,
            "when": pd.date_range("2026-01-01", periods=40),
            "share": [np.nan, *_NUMBERS[1:, 0].astype(np.float32)],
            "price": [f"{i}.50 $" for i in range(40)],
            "day": [f"2026-01-{i % 28 + 1:02}" for i in range(40)],
            "note": [f"how far is town {i}" for i in range(40)],
            "city": ["Bern", None] * 20,
        }
    ),
}


@pytest.mark.parametrize("kind", OWN_ROWS)
def test_mlflow_takes_rows_of_the_training_of_every_type(kind: str, tmp_path: Path) -> None:
    rows: Any = OWN_ROWS[kind]
    step: Any = Numbers.fit(rows) if kind != "table" else Columns.fit(rows, text=TextColumns.TFIDF)
    weights = np.random.default_rng(1).normal(size=(step.shape[0] + 1, 3))
    model = replace(
        small_model()[0],
        preprocessing=Preprocessing(steps=(step,)),
        predictor=LinearPredictor(weights=weights),
    )
    found = mlflow.pyfunc.load_model(written(model, tmp_path)).predict(rows)
    assert found["prediction"].tolist() == model.predict(rows).tolist()
    assert (found.iloc[:, 1:].to_numpy() == model.predict_proba(rows)).all()


#: What a person runs who has the store's address and a run's id.
ELSEWHERE = """
import sys
import mlflow
import numpy as np
import pandas as pd

mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(f"runs:/{sys.argv[2]}/model")
model.predict(pd.read_csv(sys.argv[3])).to_csv(sys.argv[4], index=False)
assert "ray" not in sys.modules
"""


def kept(folder: Path, **changes: Any) -> Path:
    model, _ = small_model()
    model = replace(model, origin=replace(model.origin, **changes))
    write_model(folder / "models", "ab", model.files())
    return folder / "models" / "ab"


def closed_child(
    tmp_path: Path, model: Path, *, noise_seed: int | None = None, **metrics: float
) -> tuple[Tracker, str]:
    tracker = Tracker(uri=new_store(tmp_path), experiment="x")
    tracker.open_parent("x", tags={}, run_id=None)
    record = a_record("ab", figures=metrics, changes={"noise.seed": noise_seed})
    run_id = tracker.write(record, name="a trial", tags={}, texts={}, model=model)
    return tracker, run_id


def test_mlflow_loads_a_trials_model_in_a_process_without_ray(tmp_path: Path) -> None:
    tracker, run_id = closed_child(tmp_path, kept(tmp_path))
    model, rows = small_model()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    arguments = [tracker.uri, run_id, str(tmp_path / "rows.csv"), str(tmp_path / "found.csv")]
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = (tmp_path / "found.csv").read_text().splitlines()
    assert found[0] == "prediction,probability_small,probability_middling,probability_large"
    assert [line.split(",")[0] for line in found[1:]] == model.predict(rows).tolist()


def test_arrays_lie_on_the_disk_once(tmp_path: Path) -> None:
    folder = kept(tmp_path)
    _, run_id = closed_child(tmp_path, folder)
    tracked = tmp_path / "artifacts" / run_id / "artifacts" / "model"
    assert os.path.samefile(folder / ARRAYS, tracked / DATA / ARRAYS)
    assert (folder / DESCRIPTION).read_bytes() == (tracked / DATA / DESCRIPTION).read_bytes()
    names = {path.name for path in tracked.iterdir()}
    assert names == {"MLmodel", "requirements.txt", DATA}
    # An index may have a stranger's labeldp, which MLflow would install.
    needed = (tracked / "requirements.txt").read_text().splitlines()
    assert "torch==" in str(needed) and not [line for line in needed if line.startswith("labeldp")]
    for path in tracked.rglob("*"):  # so that the folder can be moved
        assert path.is_dir() or str(tmp_path).encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("origin", "trial"),
    [({"noise": NoiseKind.SEEDED}, {"noise_seed": 7}), ({"epsilon": math.inf},) * 2],
)
def test_a_model_without_fresh_noise_is_private(origin: Any, trial: Any, tmp_path: Path) -> None:
    tracker, run_id = closed_child(tmp_path, kept(tmp_path, **origin), **trial)
    client = MlflowClient(tracking_uri=tracker.uri)
    assert [file.path for file in client.list_artifacts(run_id)] == ["private"]
    assert [file.path for file in client.list_artifacts(run_id, "private")] == ["private/model"]


def tracked_sweep(folder: Path) -> tuple[MlflowClient, str]:
    """Make a results folder with a model and its run; return the store and the run's id."""
    a_folder(folder, epsilon=2.0)
    record = TrialRecord.read(folder / "trials" / f"{0:016x}.json")
    tracker = Tracker(uri=new_store(folder), experiment="small")
    parent = tracker.open_parent("small", tags={}, run_id=None)
    ResultsFolder(folder, sweep="small").identify(parent_run_id=parent)
    model = keep_a_model(folder, record)
    run_id = tracker.write(record, name="a trial", tags={}, texts={}, model=model)
    return MlflowClient(tracking_uri=tracker.uri), run_id


def test_a_published_model_is_a_version_in_the_registry(tmp_path: Path) -> None:
    results = tmp_path / "results"
    client, run_id = tracked_sweep(results)
    # Somebody else's sweep of equal settings, in the same experiment.
    of_trial = client.get_run(run_id)
    tags = {**of_trial.data.tags, "mlflow.parentRunId": "another"}
    client.create_run(of_trial.info.experiment_id, tags=tags)
    for number in (1, 2):
        out = tmp_path / f"public{number}"
        found = publish(results, trial="best", to=out, register="digits")
        assert found["registered"] == f"models:/digits/{number}"
    version = client.get_model_version("digits", "1")
    assert (version.run_id, version.tags["epsilon"]) == (run_id, "2.0")
    assert version.description == (tmp_path / "public1" / "run_card.md").read_text()
    mlflow.set_tracking_uri(default_uri(results))
    rows = np.random.default_rng(1).normal(size=(30, 64))
    loaded = mlflow.pyfunc.load_model("models:/digits/1").predict(rows)
    expected = load_model(tmp_path / "public1" / "model").predict(rows)
    assert loaded["prediction"].tolist() == list(expected)


def test_what_can_not_be_registered_is_refused_before_any_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results"
    client, run_id = tracked_sweep(results)
    out = tmp_path / "public"

    def refused(match: str, **how: Any) -> None:
        with pytest.raises(ValueError, match=match):
            publish(results, trial="best", to=out, **{"register": "digits", **how})
        assert not out.exists() and not client.search_registered_models()

    refused("a/b", register="a/b")
    refused("no model that it can load", with_model=False)
    with monkeypatch.context() as later:  # it fails after the folder is written
        later.setattr(MlflowClient, "create_model_version", lost)
        with pytest.raises(ValueError, match="gone"):
            publish(results, trial="best", to=out, register="digits")
        assert not out.exists()
    client.delete_registered_model("digits")
    client.delete_run(run_id)
    refused("no run of trial")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(tmp_path))
    refused("does not exist; set MLFLOW_TRACKING_URI")
    assert not (tmp_path / "mlflow.db").exists()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "files").as_uri())
    refused("can't be used")


def lost(*given: Any, **named: Any) -> None:
    raise MlflowException("gone")

"""A kept model as MLflow takes models: beside its two files an `MLmodel`, which names this loader.

`mlflow.pyfunc.load_model("runs:/RUN/model")` gives predictions for raw rows; neither the server nor
who asks needs Ray. What MLflow's own way of logging a model writes is written here by hand: that
way takes seconds per model, to find out what is known already.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from safetensors import safe_open

import labeldp
from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.platform.records.kept_models import ARRAYS, DESCRIPTION

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.tracking import MlflowClient

    from labeldp.trainers.models.trained_model import TrainedModel

#: Below the folder that MLflow knows, where the two files of the model are.
DATA = "data"
_PACKAGES = ("torch", "numpy", "scipy", "safetensors")
#: What goes over a network at most: the sweep waits for it.
MOST_UPLOADED_BYTES = 100_000_000
#: Of a run whose model was too large for that.
TAG = "model"
#: MLflow's names of what arrays hold.
_FLOAT, _TEXT = "double", "string"


class RowsModel:
    """What `mlflow.pyfunc.load_model` wraps: raw rows in, a table of predictions out."""

    def __init__(self, model: "TrainedModel") -> None:
        """Take a model that was read."""
        self._model = model

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> "pd.DataFrame":
        """Return the columns `prediction` and `probability_CLASS` for raw rows [N, ...]."""
        import pandas as pd

        del params  # there are none
        return pd.DataFrame(prediction_columns(self._model, rows))


def prediction_columns(model: "TrainedModel", rows: Any) -> dict[str, Any]:
    """Return predictions for raw rows as columns by name.

    Args:
        model: Who predicts.
        rows: N raw rows.

    Returns:
        `prediction`, the name of the likeliest class or its number [N], and a column
        `probability_CLASS` [N] for each class.

    Raises:
        ValueError: Rows of another kind than the training's.
    """
    probabilities = model.predict_proba(rows)
    columns: dict[str, Any] = {"prediction": model.classes[probabilities.argmax(1)]}
    for name, column in zip(model.classes, probabilities.T, strict=True):
        columns[f"probability_{name}"] = column
    return columns


def _load_pyfunc(path: str) -> RowsModel:
    """Return the model in a folder; MLflow calls it by this name."""
    from labeldp.trainers.models.trained_model import load_model

    return RowsModel(load_model(path))


def describing_files(description: Path) -> dict[str, str]:
    """Return what MLflow wants beside a model's own files, as texts by name.

    Args:
        description: The model's `model.json`.
    """
    facts = json.loads(description.read_bytes())
    inputs, example = _inputs(facts["preprocessing"]["steps"][0], description.parent)
    private = is_private(facts["epsilon"], NoiseKind.read(facts["noise"]))
    names = facts["classes"] or range(facts["num_classes"])
    outputs = [
        _column("prediction", _TEXT if facts["classes"] else "long"),
        *(_column(f"probability_{name}", "float") for name in names),
    ]
    packages = {"labeldp": labeldp.__version__, **{name: version(name) for name in _PACKAGES}}
    mlmodel = {
        "flavors": {
            "python_function": {
                "loader_module": __name__,
                "data": DATA,
                "python_version": ".".join(map(str, sys.version_info[:3])),
            }
        },
        "mlflow_version": version("mlflow"),
        "model_uuid": facts["trial"],
        "signature": {"inputs": json.dumps(inputs), "outputs": json.dumps(outputs), "params": None},
        "saved_input_example_info": {
            "artifact_path": "input_example.json",
            **example.kind,
        },
        "metadata": {name: facts[name] for name in ("method", "delta")}
        # By today's rule, not by what the file says: older ones called seeded noise private.
        | {"private": private, "epsilon": facts["epsilon"] if private else None},
    }
    return {
        "MLmodel": json.dumps(mlmodel, indent=1),  # which every reader of YAML takes
        "requirements.txt": "".join(f"{name}=={number}\n" for name, number in packages.items()),
        "input_example.json": json.dumps(example.content),
    }


@dataclass(frozen=True, kw_only=True)
class _Example:
    """A row that nobody has: what is usual in each column.

    Attributes:
        content: As MLflow keeps it.
        kind: What MLflow's description says of it.
    """

    content: Any
    kind: Mapping[str, Any]

    @classmethod
    def of_columns(cls, values: Mapping[str, Any]) -> "_Example":
        """Return a row of named columns."""
        table = {"columns": list(values), "data": [list(values.values())]}
        kind = {"type": "dataframe", "pandas_orient": "split"}
        return cls(content=table, kind=kind)

    @classmethod
    def of_array(cls, row: Any) -> "_Example":
        """Return a row without names."""
        return cls(content=[row], kind={"type": "ndarray"})


def _inputs(step: Mapping[str, Any], folder: Path) -> tuple[list[dict[str, Any]], _Example]:
    """What raw rows are by the first step of a preprocessing, in MLflow's words; and a row."""
    match step["kind"]:
        case "columns":
            row = {each["name"]: _usual(each) for each in step["columns"]}
            columns = [
                _column(name, _FLOAT if isinstance(value, float) else _TEXT)
                for name, value in row.items()
            ]
            return columns, _Example.of_columns(row)
        case "numbers":
            mean = _array(folder, "preprocessing.0.mean").tolist()
            if step["names"]:
                row = dict(zip(step["names"], mean, strict=True))
                return [_column(name, _FLOAT) for name in row], _Example.of_columns(row)
            return _tensor("float64", [len(mean)]), _Example.of_array(mean)
        case "images":
            shape = [step[name] for name in ("channels", "height", "width")]
            return _tensor("uint8", shape), _Example.of_array(np.full(shape, 128).tolist())
        case "places":
            known = [_array(folder, f"preprocessing.0.known_{n}") for n in range(step["columns"])]
            first = [int(column[0]) for column in known]
            return _tensor("int64", [len(first)]), _Example.of_array(first)
        case "as_they_are":
            kind = "int64" if step["identifiers"] else "float64"
            row_of_zeros = np.zeros(step["columns"], dtype=kind).tolist()
            return _tensor(kind, [step["columns"]]), _Example.of_array(row_of_zeros)
    raise ValueError(f"rows of kind {step['kind']!r} have no name in MLflow")


def _usual(column: Mapping[str, Any]) -> Any:
    """A value that a column may have; dates are written as text."""
    if "categories" in column:
        return column["categories"][0] if column["categories"] else ""
    if column["dates"]:
        return str(np.datetime64(int(column["mean"]), "D"))
    return float(column["mean"])


def _array(folder: Path, name: str) -> Any:
    with safe_open(folder / ARRAYS, framework="numpy") as file:
        return file.get_tensor(name)


def _column(name: str, kind: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "required": True}


def _tensor(kind: str, shape: list[int]) -> list[dict[str, Any]]:
    return [{"type": "tensor", "tensor-spec": {"dtype": kind, "shape": [-1, *shape]}}]


def log_model(client: "MlflowClient", run_id: str, kept: Path, *, private: bool) -> None:
    """Log a kept model as an artifact of a run, in the form that MLflow loads.

    Where artifacts are a folder here, its arrays are the kept file itself under a second name.

    Args:
        client: Of the store.
        run_id: The trial's run.
        kept: The model's folder.
        private: Whether it may tell labels, made of them without noise or under noise that a seed
            takes off: it goes below `private/`.
    """
    arrays, below = kept / ARRAYS, "private/model" if private else "model"
    here = _folder_of(client.get_run(run_id).info.artifact_uri)
    if here is None and arrays.stat().st_size > MOST_UPLOADED_BYTES:
        client.set_tag(run_id, TAG, f"models/{kept.name} of the results folder: too large to send")
        return
    with tempfile.TemporaryDirectory() as draft:
        (Path(draft) / DATA).mkdir()
        for name, text in describing_files(kept / DESCRIPTION).items():
            (Path(draft) / name).write_text(text)
        shutil.copy(kept / DESCRIPTION, Path(draft) / DATA)
        if here is None:
            (Path(draft) / DATA / ARRAYS).symlink_to(arrays.absolute())
        client.log_artifacts(run_id, draft, below)
    if here is not None:
        _same_file(arrays, here / below / DATA / ARRAYS)


def _folder_of(address: str) -> Path | None:
    """The folder that a run's artifacts go to; None where that is not a folder here."""
    parts = urlsplit(address)
    if parts.scheme not in ("", "file"):
        return None
    return Path(unquote(parts.path))


def _same_file(file: Path, name: Path) -> None:
    """Give a file a second name; where the disk has no such thing, make a copy of it."""
    name.unlink(missing_ok=True)  # of a start that was killed here
    try:
        os.link(file, name)
    except OSError:
        shutil.copy(file, name)

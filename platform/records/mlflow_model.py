"""A kept model in the form that MLflow loads: its files, and an `MLmodel` that names this module.

`mlflow.pyfunc.load_model("runs:/RUN/model")` predicts for raw rows; it needs no Ray.
"""

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pandas as pd
from mlflow.models import Model, ModelSignature
from mlflow.tracking import MlflowClient
from mlflow.types import ColSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType

import labeldp
from labeldp.mechanisms.randomness import NoiseKind, is_private
from labeldp.platform.records.results import ARRAYS, DESCRIPTION, prediction_columns
from labeldp.trainers.data.files import make_folder

if TYPE_CHECKING:
    from labeldp.trainers.models.trained_model import TrainedModel

#: The folder of the model's two files in MLflow's.
DATA = "data"
_PACKAGES = ("torch", "numpy", "scipy", "safetensors", "scikit-learn", "skops")
#: Larger models are not sent over a network: the sweep waits for it.
MOST_UPLOADED_BYTES = 100_000_000
#: A run has this tag if its model was too large for that.
TAG = "model"


class RowsModel:
    """Raw rows in, a table of predictions out: `mlflow.pyfunc` wraps it."""

    def __init__(self, model: "TrainedModel") -> None:
        self._model = model

    def predict(self, rows: object, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return the columns `prediction` and `probability_CLASS` for raw rows [N, ...]."""
        del params  # there are none
        return pd.DataFrame(prediction_columns(self._model, rows))


def _load_pyfunc(path: str) -> RowsModel:
    """Return the model in a folder; MLflow calls it by this name.

    A user's own network is refused: MLflow would take a permission from the model's own files.
    """
    from labeldp.trainers.models.trained_model import load_model  # it loads torch

    return RowsModel(load_model(path))


def save_for_mlflow(kept: Path, folder: Path) -> None:
    """Write a kept model to `folder` in MLflow's form, except for its arrays.

    `mlflow.pyfunc.save_model` would do the same in a multiple of the time.
    """
    facts = json.loads((kept / DESCRIPTION).read_bytes())
    # Of any type: the preprocessing checks values, and takes several types of most columns.
    names = facts["preprocessing"]["steps"][0].get("names")
    any_type = AnyType()  # type: ignore[no-untyped-call]  # MLflow gives it no types
    inputs = Schema([ColSpec(any_type, name) for name in names]) if names else None
    private = is_private(facts["epsilon"], NoiseKind.read(facts["noise"]))
    classes = facts["classes"] or range(facts["num_classes"])
    outputs: list[ColSpec | TensorSpec] = [
        ColSpec("string" if facts["classes"] else "long", "prediction")
    ]
    outputs += [ColSpec("float", f"probability_{name}") for name in classes]
    if "bounds" in facts:
        outputs = [ColSpec("double", "prediction")]
    described = Model(
        signature=ModelSignature(inputs=inputs, outputs=Schema(outputs)),
        metadata={
            **{name: facts[name] for name in ("method", "delta")},
            "private": private,
            "epsilon": facts["epsilon"] if private else None,
        },
    )
    described.add_flavor(
        "python_function", loader_module=__name__, data=DATA, python_version=python_version()
    )
    make_folder(folder / DATA)
    described.save(str(folder / "MLmodel"))
    shutil.copy(kept / DESCRIPTION, folder / DATA)
    # On an index the name of this package may be a stranger's.
    texts = [f"# labeldp {labeldp.__version__}: install its wheel, or a checkout\n"]
    texts += [f"{name}=={version(name)}\n" for name in _PACKAGES]
    (folder / "requirements.txt").write_text("".join(texts))


def log_model(
    client: MlflowClient, run_id: str, kept: Path, *, below: str, most: float = math.inf
) -> None:
    """Log a kept model as an artifact of a run, in the folder `below` of its artifacts.

    In a folder of this machine, its arrays are the kept file under a second name. To another
    machine no arrays of more than `most` bytes are sent; a tag tells where they are.
    """
    arrays = kept / ARRAYS
    address = urlsplit(client.get_run(run_id).info.artifact_uri)
    here = Path(unquote(address.path)) if address.scheme in ("", "file") else None
    if here is None and arrays.stat().st_size > most:
        client.set_tag(run_id, TAG, f"models/{kept.name} of the results folder: too large to send")
        return
    with tempfile.TemporaryDirectory() as draft:
        model = Path(draft) / "model"
        save_for_mlflow(kept, model)
        if here is None:
            (model / DATA / ARRAYS).symlink_to(arrays.absolute())
        client.log_artifacts(run_id, str(model), below)
    if here is not None:
        name = here / below / DATA / ARRAYS
        name.unlink(missing_ok=True)  # of a start that was killed here
        try:
            os.link(arrays, name)
        except OSError:  # a disk without hard links
            shutil.copy(arrays, name)

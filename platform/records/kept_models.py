"""Models of trials on the driver's disk: `models/HASH/` of a results folder.

The keeper beside the driver (`checkpoints`) writes both files before a trial reports its end, so a
finished trial has its model, unless `models.keep` is false.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.platform.records.private_files import inner_folder, replacing

if TYPE_CHECKING:  # it loads torch, which the keeper does not need
    from labeldp.trainers.models.trained_model import TrainedModel

#: The description is written last: where it is, the model is whole.
DESCRIPTION, ARRAYS = "model.json", "model.safetensors"


def write_model(models: Path, digest: str, files: Mapping[str, bytes]) -> None:
    """Write a trial's model for its owner alone; an earlier one is replaced file by file.

    Raises:
        NotOurs: A folder or file of another user, or a link, is in the way.
    """
    folder = models / digest
    # A cluster that runs already has an umask of its own.
    for each in (models, folder):
        inner_folder(each)
    # Of an earlier start of the same trial: until both files are new, no model exists.
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name in sorted(files, key=lambda name: name == DESCRIPTION):
        with replacing(folder / name) as file:
            file.write(files[name])


def kept_model(models: Path, digest: str) -> Path | None:
    """Return the folder of a trial's model; None where none was kept."""
    folder = models / digest
    return folder if (folder / DESCRIPTION).is_file() else None


def prediction_columns(model: "TrainedModel", rows: Any) -> dict[str, Any]:
    """Return predictions for N raw rows as columns.

    Returns:
        `prediction`, the name or number of the likeliest class [N], and a column
        `probability_CLASS` [N] for each class.
    """
    probabilities = model.predict_proba(rows)
    columns: dict[str, Any] = {"prediction": model.classes[probabilities.argmax(1)]}
    for name, column in zip(model.classes, probabilities.T, strict=True):
        columns[f"probability_{name}"] = column
    return columns

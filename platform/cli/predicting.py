"""What `labeldp predict` does: find the model, read raw rows, write a table of predictions."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.platform.cli.raw_row_files import read_rows
from labeldp.platform.records.kept_models import DESCRIPTION, prediction_columns
from labeldp.platform.records.private_files import replacing
from labeldp.platform.records.results import TrialRecord
from labeldp.trainers.data.columns import ColumnsIgnored
from labeldp.trainers.encoders.provenance import FeatureProvenance, checked_record
from labeldp.trainers.models.trained_model import load_model

_ENDINGS = (".parquet", ".csv")


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """What was written.

    Attributes:
        file: Where.
        rows: How many.
        columns: `prediction`, and `probability_CLASS` for each class.
        trial: Whose model it was.
        method: That trained it, as configurations name it.
        epsilon: What that cost.
        delta: At which epsilon holds.
        private: Whether there is a guarantee at all.
        line: What the sweep's report calls it; None where the model lies in no results folder.
        notes: Columns of the file that the model does not use.
    """

    file: str
    rows: int
    columns: list[str]
    trial: str
    method: str
    epsilon: float
    delta: float
    private: bool
    line: str | None = None
    notes: tuple[str, ...] = ()


def predict(model: str, data: str, *, out: str, trial: str | None = None) -> Predictions:
    """Predict the rows of a file, and write the predictions to another.

    Args:
        model: Folder of a model, or of a sweep's results.
        data: File of raw rows, see `read_rows`.
        out: A `.parquet` or `.csv`; one that is there is replaced.
        trial: Which of the results' trials: its hash, or how that begins.

    Raises:
        ValueError: No such model, one that can't be read, or rows that are not as the training's.
        OSError: The predictions can't be written.
    """
    import pandas as pd

    target = Path(out)
    if target.suffix not in _ENDINGS:
        raise ValueError(f"--out is {out}; name a file that ends in {' or '.join(_ENDINGS)}")
    folder = model_folder(Path(model), trial)
    loaded = load_model(folder)
    _check_encoder(data, loaded.origin.provenance)
    rows = read_rows(data, loaded.preprocessing)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ColumnsIgnored)
        table = pd.DataFrame(prediction_columns(loaded, rows))
    with replacing(target) as file:
        if target.suffix == ".csv":
            table.to_csv(file, index=False)
        else:
            table.to_parquet(file, index=False)
    facts: dict[str, Any] = loaded.facts
    return Predictions(
        file=out,
        rows=len(table),
        columns=list(table),
        notes=tuple(
            str(each.message) for each in warned if issubclass(each.category, ColumnsIgnored)
        ),
        line=_line_in_report(folder, trial=loaded.origin.trial),
        **{name: facts[name] for name in ("trial", "method", "epsilon", "delta", "private")},
    )


def _line_in_report(folder: Path, *, trial: str) -> str | None:
    """The name of the trial's line, where its record lies beside its model."""
    place = folder.absolute()
    try:
        record = TrialRecord.read(place.parents[1] / "trials" / f"{place.name}.json")
    except (OSError, ValueError, IndexError):  # a model by itself, or whose record is no use
        return None
    return record.variant if record.hash == trial else None


def _check_encoder(data: str, wanted: FeatureProvenance) -> None:
    """Refuse embeddings that are said to be another encoder's than the model learned on."""
    file = Path(data)
    if not wanted.encoder or file.suffix != ".npy" or not file.is_file():
        return
    record = checked_record(file)
    if record is not None and not record.provenance.same_encoder(wanted):
        raise ValueError(
            f"{data} holds embeddings by {record.provenance.encoder} (weights "
            f"{record.provenance.weights[:8]}, {record.provenance.preparation}), and the model "
            f"learned on those by {wanted.encoder} (weights {wanted.weights[:8]}, "
            f"{wanted.preparation}); make them by that one"
        )


def model_folder(place: Path, trial: str | None) -> Path:
    """Return the folder of a model: `place` itself, or that of one of its trials.

    Raises:
        ValueError: There is no model, or several and none is named.
    """
    if (place / DESCRIPTION).is_file():
        if trial is not None:
            raise ValueError(f"{place} is one model by itself; leave --trial out")
        return place
    models = sorted(path.parent for path in (place / "models").glob(f"*/{DESCRIPTION}"))
    if not models:
        raise ValueError(
            f"{place} holds no model: there is no {DESCRIPTION} in it and none in its models/; "
            "name the folder of a model, or of the results of a sweep that kept them "
            "(models.keep=true)"
        )
    found = [path for path in models if path.name.startswith(trial or "")]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(path.name for path in (found or models)[:6])
    if trial is None:
        raise ValueError(f"{place} holds {len(models)} models ({shown}); name one by --trial")
    what = "no model" if not found else f"{len(found)} models"
    raise ValueError(f"{place} holds {what} of a trial {trial}; there are {shown}")

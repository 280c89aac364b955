"""`labeldp predict` and `publish`: a kept model used here, or made public.

`labeldp embed` and `self-supervise`: features of images, and an encoder for them.
"""

import csv
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.mechanisms.ledger import shown
from labeldp.platform.cli.bounds import read_array
from labeldp.platform.cli.command import Answer, in_a_folder, plain_text
from labeldp.platform.cli.parties import read_table
from labeldp.platform.records.results import DESCRIPTION, TrialRecord, csv_text, prediction_columns
from labeldp.platform.report import publish as publishing
from labeldp.platform.report.selection import Reservation
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import Unfinished
from labeldp.trainers.data.catalog import DATASETS
from labeldp.trainers.data.columns import MISSING, ColumnsIgnored, is_number
from labeldp.trainers.data.files import first_line, open_regular, replacing
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.preprocessing import Columns, Numbers, Preprocessing
from labeldp.trainers.data.splits import FeatureProvenance, checked_record
from labeldp.trainers.data.tables import delimiter_of
from labeldp.trainers.encoders import embedding
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.image_encoder import (
    ImageEncoder,
    described,
    pretrain,
    training_images,
)
from labeldp.trainers.models.trained_model import load_model
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.training import EpochMetrics, SelfSupervisedConfig, TrainingDiverged

#: A row of numbers hardly counts so many columns.
_SURELY_COUNTED = 4


def predict(
    *, model: str, data: str, out: str, trial: str | None = None, allow_code: str | None = None
) -> Answer:
    """Predict the rows of a file, and write the predictions to `out` (`.parquet` or `.csv`).

    `model` is the folder of a model, or of a sweep's results; then `trial` begins a trial's hash.
    `allow_code` is as of `load_model`.
    """
    target = in_a_folder("--out", out)
    if target.suffix.lower() not in (".parquet", ".csv"):
        raise ValueError(f"--out is {out}; name a file that ends in .parquet or .csv")
    if target.exists() and Path(data).exists() and target.samefile(data):
        raise ValueError(f"--out is {out}, the file of the rows; name another file")
    folder = model_folder(Path(model), trial)
    loaded = load_model(folder, allow_code=allow_code)
    _check_encoder(data, loaded.origin.provenance)
    rows = read_rows(data, loaded.preprocessing)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ColumnsIgnored)
        table = pd.DataFrame(prediction_columns(loaded, rows))
    with replacing(target) as file:
        if target.suffix.lower() == ".csv":
            file.write(csv_text(table).encode())
        else:
            table.to_parquet(file, index=False)
    notes = [str(each.message) for each in warned if issubclass(each.category, ColumnsIgnored)]
    facts: dict[str, Any] = {"file": out, "rows": len(table), "columns": list(table)}
    for name in ("trial", "method", "epsilon", "delta", "private"):
        facts[name] = loaded.facts[name]
    facts["notes"] = notes
    line = _line_in_report(folder, trial=loaded.origin.trial)
    said = plain_text({**facts, "method": line or facts["method"]})
    return Answer(facts={**facts, "line": line}, words=said)


def model_folder(place: Path, trial: str | None) -> Path:
    """Return the folder of a model: `place` itself, or that of one of its trials."""
    if (place / DESCRIPTION).is_file():
        if trial is not None:
            raise ValueError(f"{place} is one model, not a results folder; leave --trial out")
        return place
    models = sorted(path.parent for path in (place / "models").glob(f"*/{DESCRIPTION}"))
    if not models:
        raise ValueError(
            f"{place} holds no model; name the folder of a model, or of the results of a sweep "
            "that kept them (models.keep=true)"
        )
    found = [path for path in models if path.name.startswith(trial or "")]
    if len(found) == 1:
        return found[0]
    shown = ", ".join(path.name for path in (found or models)[:6])
    if trial is None:
        raise ValueError(f"{place} holds {len(models)} models ({shown}); select one with --trial")
    what = "no model" if not found else f"{len(found)} models"
    raise ValueError(f"{place} holds {what} of a trial {trial}; there are {shown}")


def _line_in_report(folder: Path, *, trial: str) -> str | None:
    place = folder.absolute()
    try:
        record = TrialRecord.read(place.parents[1] / "trials" / f"{place.name}.json")
    except (OSError, ValueError, IndexError):  # a model by itself, or a damaged record
        return None
    return record.variant if record.hash == trial else None


def _check_encoder(data: str, wanted: FeatureProvenance) -> None:
    """Refuse embeddings whose record names another encoder than the model learned on."""
    file = Path(data)
    if not wanted.encoder or file.suffix.lower() != ".npy" or not file.is_file():
        return
    record = checked_record(file)
    if record is not None and not record.provenance.same_encoder(wanted):
        other, own = (
            f"{each.encoder} (weights {each.weights[:8]}, {each.preparation})"
            for each in (record.provenance, wanted)
        )
        raise ValueError(
            f"{data} holds embeddings by {other}, but the model was trained on embeddings by "
            f"{own}; make them with that encoder"
        )


def read_rows(address: str, preprocessing: Preprocessing) -> pd.DataFrame | NDArray[Any]:
    """Return raw rows as the training rows of a model were read: a DataFrame, or an array.

    A `.csv` does not state which columns are text, but the model does: a postcode that was text in
    training stays text, one that was a number stays a number, and 1.234 is what it was there.
    """
    path = Path(address)
    kind = path.suffix.lower()
    if kind in (".npy", ".npz") or ".npz:" in address.lower():
        return read_array(address, what="rows")
    if kind not in (".csv", ".parquet", ".xlsx"):
        raise ValueError(
            f"rows: {address} is not a .parquet, .csv, .xlsx, .npy or .npz; save it as one of them"
        )
    step = preprocessing.steps[0]
    if isinstance(step, Columns):
        # By the reader of training rows, so that both find the same categories and missing values.
        kinds = zip(step.names, step.parts, strict=True)
        text = [name for name, each in kinds if not isinstance(each, Numbers) or each.form]
        return read_table(address, *text)
    if kind != ".csv":
        return read_table(address)
    with open_regular(path) as opened, TextIOWrapper(opened, "utf-8-sig") as lines:
        try:
            first = next(filter(str.strip, lines), "")
            mark = delimiter_of(first)
            header = 0 if _names_columns(next(csv.reader([first], delimiter=mark), [])) else None
            lines.seek(0)
            table = pd.read_csv(lines, header=header, sep=mark, skipinitialspace=True)
            if not isinstance(table.index, pd.RangeIndex):
                raise ValueError("its rows have more fields than its line of names")
        except (ValueError, csv.Error) as error:  # pandas' own kinds derive from the first
            raise ValueError(f"{path} can't be read as CSV ({first_line(error)})") from error
    return table


def _names_columns(line: Sequence[str]) -> bool:
    """Return whether the first line of a matrix names its columns, as pandas does by 0 to D-1."""
    fields = [field.strip() for field in line]
    numbers = [field in MISSING or is_number(field) for field in fields]
    counted = bool(fields) and fields == [str(place) for place in range(len(fields))]
    if len(fields) < _SURELY_COUNTED if counted else len(set(numbers)) > 1:
        raise ValueError(
            f"its first line, {','.join(line)[:40]!r}, may be names of columns or a row; write a "
            "first line of names that are not numbers, or save the rows as an .npy"
        )
    return counted or not any(numbers)


def publish(
    *,
    results: str,
    to: str,
    choose_by: str | None,
    accept: tuple[str, ...],
    registry: str | None = None,
    **how: Any,
) -> Answer:
    """Write the folder of a trial that can be published."""
    if not how["trial"]:  # as of an unset variable of a shell
        raise ValueError("--trial is empty; name best, or the beginning of a trial's hash")
    found = publishing.publish(
        Path(results),
        to=Path(to),
        choose_by=ChooseBy(choose_by) if choose_by else None,
        accepted=frozenset(map(Reservation, accept)),
        with_model=not how.pop("without_model"),
        registry=None if registry is None else Path(registry),
        **how,
    )
    paid = f"epsilon {shown(found['epsilon'])} at delta {shown(found['delta'])}"
    lines = [
        f"{found['folder']} can be published: {', '.join(found['files'])}",
        f"trial {found['trial']} is called {found['name']} there; {paid}",
    ]
    if found["chosen_among"] > 1 or found["epsilon_with_choice"] > found["epsilon"]:
        lines.append(
            f"with the choice among {found['chosen_among']} trials (failed ones count): epsilon "
            f"{shown(found['epsilon_with_choice'])} at delta {shown(found['delta_with_choice'])}"
        )
    if found["doubt"]:
        lines.append(f"chosen by estimates, and {found['doubt']}")
    lines.append(f"left out: {', '.join(found['left_out'])}")
    if found["registered"]:
        lines.append(f"registered in MLflow as {found['registered']}")
    if registry is not None:
        lines.append(f"{registry}: a draft for the registry; fill in what it names as open")
    return Answer(facts=found, words="\n".join(lines))


# --- encoders -----------------------------------------------------------------------------------


#: Penalty of the probe, on standardized vectors.
_RIDGE = 1000.0


def embed(*, source: str, encoder: str, out: str, device: str, **more: Any) -> dict[str, Any]:
    """Write the features of images by an encoder; `more` is of the call and of its request."""
    how = {name: more.pop(name) for name in ("batch_size", "replace")}
    request = EncoderRequest(address=encoder, device=Device(device), **more)
    return embedding.embed(source, Path(out).expanduser(), request, **how, report=_note)


def self_supervise(
    *,
    source: str,
    out: str,
    probe: bool,
    minutes: float | None,
    device: Device,
    precision: Precision,
    **more: Any,
) -> Answer:
    """Train an encoder on images alone; `more` is of `pretrain` and of `SelfSupervisedConfig`.

    Raises:
        Unfinished: The loss is not finite.
    """
    how = {name: more.pop(name) for name in ("seed", "replace")}
    no_flip = more.pop("no_flip")
    config = SelfSupervisedConfig(flip=not no_flip, **more)
    performance = Performance(device=device, precision=precision, channels_last=True)
    if probe and source not in DATASETS:
        raise ValueError(
            f"--probe reads public labels, and {source} may have secret ones; name a data set "
            "(`labeldp data list`), whose test labels are public, or leave --probe out"
        )
    test = load(source).public if probe else None

    def probe_of(encoder: ImageEncoder) -> float:
        assert test is not None
        vectors = described(encoder, test.test_features, performance=performance)
        return probed(vectors.numpy(), test.test_labels)

    def progress(metrics: EpochMetrics, found: float | None) -> None:
        known = "" if found is None else f", probe {found:.1%}"
        left = metrics.seconds * (config.epochs - metrics.epoch) / 60
        _note(
            f"epoch {metrics.epoch} of {config.epochs}: loss {metrics.loss:.4f}{known}, "
            f"{metrics.seconds:.0f} s; about {left:.0f} min left for all"
        )

    try:
        done = pretrain(
            training_images(source),
            Path(out).expanduser(),
            config,
            seconds=None if minutes is None else 60 * minutes,
            performance=performance,
            probe=None if test is None else probe_of,
            report=progress,
            **how,
        )
    except TrainingDiverged as error:
        raise Unfinished(
            f"{error}; nothing is written to {out}: set --learning-rate R, and --replace if an "
            "earlier call has left files there"
        ) from error
    known = {name: value for name, value in done.items() if value is not None}
    return Answer(facts=done, words=plain_text(known))


def probed(vectors: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the accuracy of ridge regression on vectors [N, D], whose labels [N] are public.

    It learns from one random half of the rows and is tested on the other, and the other way round.
    """
    halves = KFold(2, shuffle=True, random_state=0)
    return float(cross_val_score(ridge(), vectors, labels, cv=halves).mean())


def ridge() -> Pipeline:
    """Return ridge regression on standardized vectors, not fitted."""
    return make_pipeline(StandardScaler(), RidgeClassifier(_RIDGE))


def _note(words: str) -> None:
    print(words, file=sys.stderr, flush=True)

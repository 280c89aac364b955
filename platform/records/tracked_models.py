"""Kept models in a tracking store: once on this machine's disk, a copy on a server elsewhere."""

import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlflow.tracking import MlflowClient

from labeldp.platform.records.kept_models import ARRAYS, DESCRIPTION
from labeldp.platform.records.mlflow_model import DATA, describing_files

#: What goes over a network at most: the sweep waits for it.
MOST_UPLOADED_BYTES = 100_000_000
#: Of a run whose model was too large for that.
TAG = "model"


def log_model(client: MlflowClient, run_id: str, kept: Path, *, private: bool) -> None:
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

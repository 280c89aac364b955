"""Models of trials, kept on the driver's disk: `models/HASH/` of a results folder.

A trial may run on another node. Its model is sent to the actor beside the driver that keeps states
too, which writes both files before the trial says that it has finished. So a trial that has a
record has its model, unless none was to be kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from labeldp.platform.records.private_files import inner_folder, replacing

if TYPE_CHECKING:  # torch comes with it, and whoever keeps models does without
    from labeldp.trainers.models.trained_model import TrainedModel

#: The description is written last, so that where it is, the model is whole.
DESCRIPTION, ARRAYS = "model.json", "model.safetensors"


class ModelNotKept(ValueError):
    """A trial's model could not be written; the message says why and what to do."""


class ModelKeeper(Protocol):
    """Whoever writes models where the driver is."""

    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Write a model's files by name; returns when they are written.

        Raises:
            ModelNotKept: They can't be written.
        """


@dataclass(frozen=True, kw_only=True)
class ModelShelf:
    """One trial's side.

    Attributes:
        keeper: Who writes.
        digest: Hash of the trial.
    """

    keeper: ModelKeeper
    digest: str

    def keep(self, model: "TrainedModel") -> None:
        """Have the trial's model written.

        Raises:
            ModelNotKept: It can't be.
        """
        self.keeper.keep_model(self.digest, model.files())


def write_model(models: Path, digest: str, files: Mapping[str, bytes]) -> None:
    """Write a trial's model, for its owner alone; one that is there is replaced file by file.

    Args:
        models: The folder of all models, made if need be.
        digest: Hash of the trial.
        files: Content by name; a description is written last.

    Raises:
        NotOurs: A folder or file of somebody else's, or a link, is in the way.
        OSError: The disk is full, or the folder can't be written.
    """
    # A cluster that was there before has an umask of its own.
    inner_folder(models)
    folder = models / digest
    inner_folder(folder)
    # Of an earlier start of the same trial: until both files are new, there is no model.
    (folder / DESCRIPTION).unlink(missing_ok=True)
    for name in sorted(files, key=lambda name: name == DESCRIPTION):
        with replacing(folder / name) as file:
            file.write(files[name])


def kept_model(models: Path, digest: str) -> Path | None:
    """Return the folder of a trial's model; None where none was kept."""
    folder = models / digest
    return folder if (folder / DESCRIPTION).is_file() else None

"""States of trials in training, kept on the driver's disk, so that a lost worker loses minutes.

One actor beside the driver writes them, and trained models, for trials on any node. A state is
written whole or not at all, read without unpickling code, and deleted when its trial has ended.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ray

from labeldp.platform.cluster import beside_driver
from labeldp.platform.records.results import write_model
from labeldp.trainers.data.files import inner_folder, replacing


class Keeper:
    """Writes and reads states, and has the names of trials that should stop early.

    `start_keeper` makes an actor of it.
    """

    def __init__(self, folder: str, models: str) -> None:
        """Use these folders for states and for models; they are created when first needed."""
        self._folder = Path(folder)
        self._models = Path(models)
        self._stopped: set[str] = set()

    def stop(self, digest: str) -> None:
        """Name a trial that should stop."""
        self._stopped.add(digest)

    def stopped(self, digest: str) -> bool:
        """Whether a trial should stop."""
        return digest in self._stopped

    def keep(self, digest: str, content: bytes) -> None:
        """Keep a trial's state; an earlier one is replaced at once or not at all."""
        # A cluster that runs already has an umask of its own; states hold released labels.
        inner_folder(self._folder)
        with replacing(self._folder / f"{digest}.state") as file:
            file.write(content)

    def find(self, digest: str) -> bytes | None:
        """Return a trial's state, or None."""
        try:
            return (self._folder / f"{digest}.state").read_bytes()
        except FileNotFoundError:
            return None

    # A trial retries. Ray would tell a driver that ends about each of its own retries.
    @ray.method(max_task_retries=0)
    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a trained model's files."""
        write_model(self._models, digest, files)


def forget(folder: Path, digest: str) -> None:
    """Delete the state of a trial that has ended."""
    with contextlib.suppress(OSError):
        (folder / f"{digest}.state").unlink()


def start_keeper(folder: Path, models: Path) -> Any:
    """Start a `Keeper` as an actor beside the driver, for states and for trained models."""
    # All that it must remember is on disk, so one that died is restarted and called again. It has
    # forgotten which trials should stop: those train on.
    actor = beside_driver(Keeper, max_restarts=-1, max_task_retries=-1)
    return actor.remote(str(folder), str(models))

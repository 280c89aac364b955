"""States of trials in training, kept on the driver's disk, so that a lost worker loses minutes.

One actor beside the driver writes them, and trained models, for trials on any node. A state is
written whole or not at all, read without unpickling code, and deleted when its trial has ended.
"""

import contextlib
import io
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorUnavailableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.records.results import write_model
from labeldp.trainers.data.files import inner_folder, replacing

if TYPE_CHECKING:
    from labeldp.trainers.models.trained_model import TrainedModel

#: A state is tens of megabytes for a large network, so a trial keeps one at most this often.
KEEP_SECONDS = 60.0
_WAIT_SECONDS = 120.0
#: A large model on a slow disk, behind those of other trials.
_MODEL_SECONDS = 900.0
#: A model is sent again this often to a keeper that is being restarted.
_MODEL_ATTEMPTS = 5


class ModelNotKept(ValueError):
    """A trial's model could not be written; the message has cause and fix."""


class Keeper:
    """Writes and reads states; `start_keeper` makes an actor of it."""

    def __init__(self, folder: str, models: str) -> None:
        """Use these folders for states and for models; they are created when first needed."""
        self._folder, self._models = Path(folder), Path(models)

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

    # `Checkpoints` retries. Ray would tell a driver that ends about each of its own retries.
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
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(Keeper)
    actor = remote.options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
        # It has no memory of its own, so one that died is restarted and called again.
        max_restarts=-1,
        max_task_retries=-1,
    )
    return actor.remote(str(folder), str(models))


class Checkpoints:
    """One trial's side of the actor `keeper`: its states in training, and its trained model."""

    def __init__(self, *, keeper: Any, digest: str, every_seconds: float = KEEP_SECONDS) -> None:
        """Start the clock: the first state is kept after `every_seconds`."""
        self.digest = digest
        self._keeper, self._every = keeper, every_seconds
        self._kept = time.monotonic()
        self._pending: Any = None

    def find(self) -> Mapping[str, Any] | None:
        """Return the state of an earlier start; None where there is none that can be read."""
        import torch  # a trial has loaded it; the keeper never needs it

        content = ray.get(self._keeper.find.remote(self.digest), timeout=_WAIT_SECONDS)
        if content is None:
            return None
        try:
            state: Mapping[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        except Exception:  # damaged: the trial starts anew
            return None
        return state

    def due(self) -> bool:
        """Whether it is time to keep a state."""
        return time.monotonic() - self._kept >= self._every

    def keep(self, state: Mapping[str, Any]) -> None:
        """Send a state without waiting for it; at most one is under way.

        A keeper that can't write (a full disk) costs the state, not the trial.
        """
        import torch

        if self._pending is not None:
            with contextlib.suppress(Exception):
                ray.get(self._pending, timeout=_WAIT_SECONDS)
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        self._pending = self._keeper.keep.remote(self.digest, buffer.getvalue())
        self._kept = time.monotonic()

    def keep_model(self, model: "TrainedModel") -> None:
        """Keep the trained model; returns when it is written, or raises `ModelNotKept`."""
        files = dict(model.files())
        try:
            for attempt in range(_MODEL_ATTEMPTS):
                try:
                    # Large files travel through Ray's object store, and none stays there.
                    call = self._keeper.keep_model.remote(self.digest, files)
                    ray.get(call, timeout=_MODEL_SECONDS)
                    return
                except ActorUnavailableError:  # it died, and is being restarted
                    if attempt == _MODEL_ATTEMPTS - 1:
                        raise
                    time.sleep(1.0)
        except Exception as error:
            text = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise ModelNotKept(
                f"the trained model can't be kept ({text[:300]}); free the disk or make the "
                "results folder writable, or keep none with models.keep=false, and run again with "
                "--resume auto"
            ) from error

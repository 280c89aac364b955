"""States of trials in training, kept on the driver's disk, so that a lost worker loses minutes.

One actor beside the driver writes them, and trained models, for trials on any node. A state is
written whole or not at all, read without unpickling code, and deleted when its trial has ended.
"""

import contextlib
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorUnavailableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.records.kept_models import write_model
from labeldp.platform.records.private_files import inner_folder, replacing

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
    """A trial's model could not be written; the message says why and what to do."""


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

    # `KeeperHandle` retries. Ray would tell a driver that ends about each of its own retries.
    @ray.method(max_task_retries=0)
    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a trained model's files."""
        write_model(self._models, digest, files)


def forget(folder: Path, digest: str) -> None:
    """Delete the state of a trial that has ended."""
    with contextlib.suppress(OSError):
        (folder / f"{digest}.state").unlink()


@dataclass(frozen=True)
class KeeperHandle:
    """The calls of a `Keeper` in an actor."""

    actor: Any

    def send(self, digest: str, content: bytes) -> Any:
        """Send a trial's state; returns a reference to `wait` for."""
        return self.actor.keep.remote(digest, content)

    def wait(self, sent: Any) -> None:
        """Wait until a state is kept; a failure costs this state alone."""
        with contextlib.suppress(Exception):
            ray.get(sent, timeout=_WAIT_SECONDS)

    def find(self, digest: str) -> bytes | None:
        """Return a trial's state, or None."""
        content: bytes | None = ray.get(self.actor.find.remote(digest), timeout=_WAIT_SECONDS)
        return content

    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a trained model; returns when it is written.

        Raises:
            ModelNotKept: It can't be written.
        """
        try:
            for attempt in range(_MODEL_ATTEMPTS):
                try:
                    # Large files travel through Ray's object store, and none stays there.
                    ray.get(
                        self.actor.keep_model.remote(digest, dict(files)), timeout=_MODEL_SECONDS
                    )
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

    def end(self) -> None:
        """End the actor; states stay on disk."""
        ray.kill(self.actor)


def start_keeper(folder: Path, models: Path) -> KeeperHandle:
    """Start the keeper beside the driver, with folders for states and for trained models."""
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(Keeper)
    actor = remote.options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
        # It has no memory of its own, so one that died is restarted and called again.
        max_restarts=-1,
        max_task_retries=-1,
    )
    return KeeperHandle(actor.remote(str(folder), str(models)))


@dataclass(frozen=True, kw_only=True)
class ModelShelf:
    """Takes one trial's model."""

    keeper: KeeperHandle
    digest: str

    def keep(self, model: "TrainedModel") -> None:
        """Send the model to the driver's disk; raises `ModelNotKept`."""
        self.keeper.keep_model(self.digest, model.files())


class Checkpoints:
    """One trial's side: keeps its state now and then, and finds the one of an earlier start."""

    def __init__(
        self, *, keeper: KeeperHandle, digest: str, every_seconds: float = KEEP_SECONDS
    ) -> None:
        """Start the clock: the first state is kept after `every_seconds`."""
        self._keeper, self._digest, self._every = keeper, digest, every_seconds
        self._kept = time.monotonic()
        self._pending: Any = None

    def find(self) -> Mapping[str, Any] | None:
        """Return the state of an earlier start; None where there is none that can be read."""
        import torch  # a trial has loaded it; the keeper never needs it

        content = self._keeper.find(self._digest)
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
            self._keeper.wait(self._pending)
        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        self._pending = self._keeper.send(self._digest, buffer.getvalue())
        self._kept = time.monotonic()

"""States of trials in training, kept on the driver's disk, so that a lost worker loses minutes.

One actor beside the driver takes them, and trained models (`kept_models`), whatever node a trial
runs on. A state is written whole or not at all, read without unpickling code, and deleted when its
trial has ended.
"""

import contextlib
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.records.kept_models import ModelNotKept, write_model
from labeldp.platform.records.private_files import inner_folder, replacing

#: A trial's state is kept at most so often: it is tens of megabytes for a large network.
KEEP_SECONDS = 60.0
_WAIT_SECONDS = 120.0
#: A large model on a slow disk, behind those of other trials.
_MODEL_SECONDS = 900.0
#: How often a model is sent to a keeper that is being made again.
_MODEL_ATTEMPTS = 5


class Keeper:
    """Writes and reads states; made into an actor by `start_keeper`."""

    def __init__(self, folder: str, models: str | None = None) -> None:
        """Use folders for states and for models, made when they are first needed."""
        self._folder = Path(folder)
        self._models = None if models is None else Path(models)

    def keep(self, digest: str, content: bytes) -> None:
        """Keep a trial's state; an earlier one is replaced at once or not at all."""
        # A cluster that was there before has an umask of its own; states hold what was released.
        inner_folder(self._folder)
        with replacing(self._folder / f"{digest}.state") as file:
            file.write(content)

    def find(self, digest: str) -> bytes | None:
        """Return a trial's state, or None."""
        try:
            return (self._folder / f"{digest}.state").read_bytes()
        except FileNotFoundError:
            return None

    # Asked again by its handle and not by Ray, which would tell a driver that ends of each time.
    @ray.method(max_task_retries=0)
    def keep_model(self, digest: str, files: Mapping[str, bytes]) -> None:
        """Keep a trained model's files."""
        assert self._models is not None, "whoever trains models says where they go"
        write_model(self._models, digest, files)


def forget(folder: Path, digest: str) -> None:
    """Delete the state of a trial that has ended."""
    with contextlib.suppress(OSError):
        (folder / f"{digest}.state").unlink()


@dataclass(frozen=True)
class KeeperHandle:
    """The calls of a `Keeper` that lives in an actor.

    Attributes:
        actor: Ray's handle; nobody but this class calls it.
    """

    actor: Any

    def send(self, digest: str, content: bytes) -> Any:
        """Send a trial's state; returns what to `wait` for."""
        return self.actor.keep.remote(digest, content)

    def wait(self, sent: Any) -> None:
        """Wait until a state that was sent is kept; one that can't be costs the state alone."""
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
                    # Ray takes what is large by its object store, and none of it stays there.
                    ray.get(
                        self.actor.keep_model.remote(digest, dict(files)), timeout=_MODEL_SECONDS
                    )
                    return
                except ActorUnavailableError:  # it died, and is being made again
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


def start_keeper(folder: Path, models: Path | None = None) -> KeeperHandle:
    """Start the keeper beside the driver and return its handle.

    Args:
        folder: For states.
        models: For trained models.
    """
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(Keeper)
    place = NodeAffinitySchedulingStrategy(here, soft=False)
    # It remembers nothing itself: one that died is made again, and asked again.
    forever = {"max_restarts": -1, "max_task_retries": -1}
    actor = remote.options(num_cpus=0, scheduling_strategy=place, **forever)
    return KeeperHandle(actor.remote(str(folder), None if models is None else str(models)))


class Checkpoints:
    """One trial's side: keeps its state now and then, and finds the one of an earlier start."""

    def __init__(
        self, *, keeper: KeeperHandle, digest: str, every_seconds: float = KEEP_SECONDS
    ) -> None:
        """Begin the clock: the first state is kept after `every_seconds`."""
        self._keeper, self._digest, self._every = keeper, digest, every_seconds
        self._kept = time.monotonic()
        self._pending: Any = None

    def find(self) -> Mapping[str, Any] | None:
        """Return the state of an earlier start, or None; one that can't be read counts as none."""
        import torch  # where a trial runs it is there; the keeper never needs it

        content = self._keeper.find(self._digest)
        if content is None:
            return None
        try:
            state: Mapping[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        except Exception:  # damaged, or of another version: the trial starts anew
            return None
        return state

    def due(self) -> bool:
        """Whether it is time to keep a state."""
        return time.monotonic() - self._kept >= self._every

    def keep(self, state: Mapping[str, Any]) -> None:
        """Keep a state. Sent and not waited for, but for the one before: at most one is in flight.

        A keeper that can't write (a full disk) costs the state, not the trial.
        """
        if self._pending is not None:
            self._keeper.wait(self._pending)
        import torch

        buffer = io.BytesIO()
        torch.save(dict(state), buffer)
        self._pending = self._keeper.send(self._digest, buffer.getvalue())
        self._kept = time.monotonic()

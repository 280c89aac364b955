"""The home of a sweep: one actor on the driver's node, and its one proxy with a time limit."""

import os
from dataclasses import replace
from typing import Any, cast

import numpy as np
import ray
from numpy.typing import NDArray

from labeldp.platform.cluster import beside_driver
from labeldp.platform.settings.sweep import Unfinished
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from labeldp.platform.vault.witness import STATE, state_folder

#: A release of 50,000 labels takes well under a second; this is for machines that are swamped.
TIME_LIMIT_SECONDS = 300
#: How often a home whose process died is made again. It comes back from its store: what was charged
#: stays charged, what was drawn is read and not drawn again, and the request under way is repeated.
#: That is safe, since a release and its charge are kept together or not at all.
DEATHS_ALLOWED = 5


class HomeProxy:
    """Stands for a `LabelHome` in an actor: every call of one, which may raise `Unfinished`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a HomeProxy has no {name!r}")
        return lambda *arguments: ask(self._actor.call.remote(name, arguments))

    def end(self) -> None:
        """End the actor; releases and ledger stay in their store."""
        ray.kill(self._actor)


class HomeActor:
    """A home made at its first call: an actor that raises while it is made can't report why."""

    def __init__(self, labels: SecretLabels, state: str = "", **settings: Any) -> None:
        if state:  # the driver's, and not that of whoever started the cluster
            os.environ[STATE] = state
        self._labels = labels
        self._settings = settings
        self._home: LabelHome | None = None

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Return what the home returns."""
        if name.startswith("_"):
            raise AttributeError(f"a home has no {name!r}")
        if self._home is None:
            self._home = LabelHome(self._labels, **self._settings)
        return getattr(self._home, name)(*arguments)


def start(labels: SecretLabels, **settings: Any) -> LabelHome:
    """Start the home beside the driver and return its proxy; arguments as for `LabelHome`.

    It stays on the driver's node, where the store is, and requests no core: it waits most of the
    time. Ray keeps the arguments, so that it can be made again if its process dies.
    """
    actor = beside_driver(HomeActor, max_restarts=DEATHS_ALLOWED, max_task_retries=DEATHS_ALLOWED)
    held_out = None if labels.held_out is None else _small(labels.held_out, labels.num_classes)
    small = replace(labels, training=_small(labels.training, labels.num_classes), held_out=held_out)
    home = cast(LabelHome, HomeProxy(actor.remote(small, state=str(state_folder()), **settings)))
    home.num_labels()  # a refusal of the vault is raised here, before any trial
    return home


def _small(labels: NDArray[np.integer[Any]], num_classes: int) -> NDArray[np.integer[Any]]:
    """Return labels in one byte each where they fit.

    So few travel within the request that makes the actor, and need no place in Ray's object store,
    which a home that is made again would depend on.
    """
    small = labels.astype(np.min_scalar_type(num_classes - 1))
    return small if np.array_equal(small, labels) else labels  # for the vault to refuse


def ask(reference: Any) -> Any:
    """Wait for a home's answer, but not for ever; then raise `Unfinished`."""
    try:
        return ray.get(reference, timeout=TIME_LIMIT_SECONDS)
    except ray.exceptions.GetTimeoutError as error:
        raise Unfinished(
            f"the label vault did not answer within {TIME_LIMIT_SECONDS} s; the driver's node is "
            "overloaded or gone: look at its log, and run again with --resume auto"
        ) from error
    except ray.exceptions.RayActorError as error:
        why = " ".join(str(error).split())[-300:]
        raise Unfinished(
            f"the label vault's process died more than {DEATHS_ALLOWED} times, or its node is gone "
            f"({why}); what was released is kept: check the memory and the disk of the driver's "
            "node, and run again with --resume auto"
        ) from None
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, ValueError) else error) from None

"""The home of a sweep: one actor on the driver's node, and its one proxy with a time limit."""

from typing import Any, cast

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.sweep.sweep import Unfinished
from labeldp.platform.vault.label_home import LabelHome, SecretLabels

#: A release of 50,000 labels takes well under a second; this is for machines that are swamped.
TIME_LIMIT_SECONDS = 300
#: How often a home whose process died is made again. It comes back from its store: what was charged
#: stays charged, what was drawn is read and not drawn again, and the request under way is repeated.
#: That is safe, since a release and its charge are kept together or not at all.
DEATHS_ALLOWED = 5


class VaultLost(Unfinished):
    """The vault's home is gone for good; the message says what to do."""


class HomeProxy:
    """Stands for a `LabelHome` in an actor: every call of one, which may raise `VaultLost`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a HomeProxy has no {name!r}")
        call = getattr(self._actor, name)
        return lambda *arguments: ask(call.remote(*arguments))

    def end(self) -> None:
        """End the actor; releases and ledger stay in their store."""
        ray.kill(self._actor)


class HomeActor(LabelHome):
    """A home that reports why it was refused: an actor that raises while it is made can't."""

    def __init__(self, labels: SecretLabels, **settings: Any) -> None:
        self._refused: ValueError | None = None
        try:
            super().__init__(labels, **settings)
        except ValueError as error:
            self.__dict__.clear()  # so that no call finds half a home
            self._refused = error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.__dict__.get("_refused") is None:
            raise AttributeError(f"a {type(self).__name__} has no {name!r}")
        raise self.__dict__["_refused"]


def start(labels: SecretLabels, **settings: Any) -> LabelHome:
    """Start the home beside the driver and return its proxy; arguments as for `LabelHome`.

    It stays on the driver's node, where the store is, and requests no core: it waits most of the
    time. Ray keeps the arguments, so that it can be made again if its process dies.
    """
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(HomeActor)
    actor = remote.options(
        num_cpus=0,
        max_restarts=DEATHS_ALLOWED,
        max_task_retries=DEATHS_ALLOWED,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
    )
    # One byte each: so few travel within the request that makes the actor, and need no place in
    # Ray's object store, which a home that is made again would depend on.
    home = cast(LabelHome, HomeProxy(actor.remote(labels.small(), **settings)))
    home.num_labels()  # a refusal of the vault is raised here, before any trial
    return home


def ask(reference: Any) -> Any:
    """Wait for a home's answer, but not for ever; then raise `VaultLost`."""
    try:
        return ray.get(reference, timeout=TIME_LIMIT_SECONDS)
    except ray.exceptions.GetTimeoutError as error:
        raise VaultLost(
            f"the label vault did not answer within {TIME_LIMIT_SECONDS} s; the driver's node is "
            "overloaded or gone: look at its log, and run again with --resume auto"
        ) from error
    except ray.exceptions.RayActorError as error:
        why = " ".join(str(error).split())[-300:]
        raise VaultLost(
            f"the label vault's process died more than {DEATHS_ALLOWED} times, or its node is gone "
            f"({why}); what was released is kept: see to the memory and the disk of the driver's "
            "node, and run again with --resume auto"
        ) from None
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, ValueError) else error) from None

"""Ray: which cluster, and whether it can hold what a trial needs.

On one machine a private cluster is started and ended with the sweep. A cluster that is already
there is used only if an address names it.
"""

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Tune reads these when it is imported. Its own loggers would write what the tracking store has, and
# its SIGINT handler would keep Ctrl-C from us.
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "60")
os.environ.setdefault("RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray._private.authentication.authentication_token_setup import AUTH_MODE_ENV_VAR

# A compiled module: type checkers see nothing of what is in it.
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from labeldp.platform.sweep import private_cluster
from labeldp.platform.sweep.endings import CannotFit as CannotFit
from labeldp.platform.sweep.sweep import Resources

# It looks for the files of its own loggers, and complains once per trial that there are none.
logging.getLogger("ray.tune").setLevel(logging.ERROR)
# That a private cluster is closed to others by a token is as it should be, and no warning.
logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)

#: How long the machine that an address names may take to take a connection.
CONNECT_SECONDS = 20.0
#: How often Ray asks a port that takes connections and does not answer: 45 seconds each.
CONNECT_TRIES = 2


class ClusterUnusable(ValueError):
    """A cluster that can't be reached or used; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What the nodes of a cluster have.

    Attributes:
        nodes: How many are alive.
        cpus: In all.
        gpus: In all.
        largest: CPUs and GPUs of each node.
        grows: Whether an autoscaler may add nodes.
    """

    nodes: int
    cpus: float
    gpus: float
    largest: tuple[tuple[float, float], ...]
    grows: bool

    @property
    def sizes(self) -> str:
        """Each node's size, for messages."""
        return ", ".join(f"{cpus:g} CPU + {gpus:g} GPU" for cpus, gpus in self.largest) or "nothing"


@contextmanager
def connected(address: str | None) -> Iterator[Capacity]:
    """Start a private cluster, or connect to the one at `address` (or in RAY_ADDRESS).

    Who is connected already, to run several sweeps, stays connected.

    Raises:
        ClusterUnusable: No cluster answers there, or it runs another version of Ray or Python.
    """
    if ray.is_initialized():
        yield capacity()
        return
    with _authentication_kept():
        yield from _connection(address or os.environ.get("RAY_ADDRESS"))


def _connection(named: str | None) -> Iterator[Capacity]:
    on_termination = signal.getsignal(signal.SIGTERM)
    try:
        if named in (None, "", "local"):
            private_cluster.start()
        else:
            _check_address(named)
            with _impatient():
                ray.init(address=named, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        # Which versions differ stands in the lines after the first.
        lines = [line.strip() for line in str(error).strip().splitlines()[:6]]
        why = " ".join(lines)[:400] or type(error).__name__
        if named in (None, "", "local"):
            raise ClusterUnusable(f"Ray can't be started on this machine: {why}") from error
        raise ClusterUnusable(
            f"the Ray cluster at {named} can't be used ({why}); check the address and "
            "that it runs the same versions of Ray and Python, or leave --address and RAY_ADDRESS "
            "out for a private one"
        ) from error
    if callable(on_termination) and threading.current_thread() is threading.main_thread():
        # Ray's own would print its stack and abort.
        signal.signal(signal.SIGTERM, on_termination)
    try:
        yield capacity(private=named in (None, "", "local"))
    finally:
        ray.shutdown()


@contextmanager
def _authentication_kept() -> Iterator[None]:
    """Undo what a private cluster does to this process: Ray closes it by a token, for good.

    A cluster without a token that is named next would find its driver asking for one.
    """
    before = os.environ.get(AUTH_MODE_ENV_VAR)
    try:
        yield
    finally:
        if os.environ.get(AUTH_MODE_ENV_VAR) != before:
            os.environ.pop(AUTH_MODE_ENV_VAR)
            if before is not None:
                os.environ[AUTH_MODE_ENV_VAR] = before
            Config.initialize("")  # Ray reads the mode once, and the token
            AuthenticationTokenLoader.instance().reset_cache()


def _check_address(address: str) -> None:
    """Raise the socket's own error where nothing listens; Ray takes minutes to find out."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


@contextmanager
def _impatient() -> Iterator[None]:
    """Have Ray ask a few times only; it would ask 20 times, for a quarter of an hour."""
    name = "RAY_gcs_server_port_wait_time_s"
    own = name not in os.environ
    os.environ.setdefault(name, str(CONNECT_TRIES))
    try:
        yield
    finally:
        if own:
            del os.environ[name]


def capacity(*, private: bool = False) -> Capacity:
    """Return what the connected cluster has; a private one never grows."""
    nodes = [node["Resources"] for node in known_nodes() if node["Alive"]]
    sizes = tuple((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)
    return Capacity(
        nodes=len(nodes),
        cpus=sum(cpus for cpus, _ in sizes),
        gpus=sum(gpus for _, gpus in sizes),
        largest=sizes,
        grows=not private and _has_autoscaler(),
    )


def place(
    resources: Resources, available: Capacity, *, gpu_required: bool, what: str = "a trial"
) -> Resources:
    """Return what a trial, or an actor, will occupy on this cluster.

    Args:
        resources: What the sweep asks for; its share of a GPU is dropped where there is none.
        available: What the cluster has.
        gpu_required: Whether the configuration insists on a GPU.
        what: What it is that must fit.

    Raises:
        CannotFit: No node can ever hold one.
    """
    gpus = resources.gpus
    if gpus and not gpu_required and not available.gpus and not available.grows:
        gpus = 0.0
    if gpu_required and not gpus:
        gpus = 1.0
    wanted = Resources(cpus=resources.cpus, gpus=gpus)
    fits = any(cpus >= wanted.cpus and has >= wanted.gpus for cpus, has in available.largest)
    if not fits and not available.grows:
        raise CannotFit(
            f"{what} needs {wanted.cpus:g} CPU + {wanted.gpus:g} GPU on one node, but the nodes "
            f"have {available.sizes}; ask for less, or add a node that is large enough"
        )
    return wanted


def known_nodes() -> list[dict[str, Any]]:
    """Return what Ray knows of every machine that is or was part of the cluster."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray gives it no types
    return nodes


def _has_autoscaler() -> bool:
    """Whether an autoscaler may add nodes that aren't there; not said outright by Ray.

    Every head reports as if it had one. Where it has none, it calls each node a type of its own.
    """
    from ray.autoscaler.v2.utils import is_autoscaler_v2
    from ray.experimental.internal_kv import _internal_kv_get

    try:
        if is_autoscaler_v2():
            return True  # it does not say; a trial that finds no place ends the sweep later
        status = json.loads(_internal_kv_get(b"__autoscaling_status") or b"{}")
        types = (status.get("autoscaler_report") or {}).get("active_nodes") or {}
    except Exception:  # internals of Ray: without them, only what is there counts
        return False
    return any(not name.startswith(("node_", "local.node")) for name in types)

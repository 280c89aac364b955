"""Ray: a private cluster on this machine, or a shared one by its address; what its nodes can hold.

A private cluster ends with the sweep and is closed to other machines, and to other users of this
one. Left to itself, Ray 2.60 gives a node that requests 127.0.0.1 the machine's own address, so
that its processes listen on all interfaces. It also leaves its token readable by all, and its
session's folders writable by all.
"""

import fcntl
import json
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from unittest.mock import patch

# Tune reads these when it is imported. Its own loggers would write what the tracking store has, and
# its SIGINT handler would keep Ctrl-C from us.
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_PRINT_ALL_TRIAL_ERRORS", "0")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_WARN_SLOW_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S", "60")
os.environ.setdefault("RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from ray._common.utils import get_default_system_temp_dir
from ray._private import parameter, ray_constants, services
from ray._private.authentication.authentication_token_setup import AUTH_MODE_ENV_VAR

# A compiled module: type checkers see nothing of what is in it.
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]
from ray.autoscaler.v2.utils import is_autoscaler_v2
from ray.experimental.internal_kv import _internal_kv_get
from ray.util import client as ray_client
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.platform.settings.sweep import CannotFit, Resources
from labeldp.trainers.data.files import NotOurs, open_private, owner_only

# It looks for the files of its own loggers, and complains once per trial that there are none.
logging.getLogger("ray.tune").setLevel(logging.ERROR)
# It warns that a private cluster is closed by a token, as it should be.
logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)

#: How long the machine that an address names may take to accept a connection.
CONNECT_SECONDS = 20.0
#: Attempts at a port that accepts connections and does not answer, 45 seconds each. Ray makes 20.
CONNECT_TRIES = 2
#: How long a private cluster may take to start. Ray gives its own node 30 seconds, too few for a
#: machine with other work or a cold disk.
START_SECONDS = 180.0
_ASK_AGAIN_SECONDS = 0.2
#: How often to look whether a node is lost.
LOOK_SECONDS = 2.0
_PORT_WAIT = "RAY_gcs_server_port_wait_time_s"
#: Smaller objects travel within the request. The vault's home is made from labels, a byte each: by
#: Ray's own bound, 100 KB, those of 100,000 rows would lie in its object store instead, where they
#: can be lost.
INLINED_BYTES = 4 * 2**20
#: The exporters of the autoscaler's monitor and of the dashboard's process have no switch. With a
#: port that does not exist they write an error to their log and continue.
_NO_PORT = {"AUTOSCALER_METRIC_PORT": "-1", "DASHBOARD_METRIC_PORT": "-1"}

#: Folders of private clusters begin so. Each has a file that its driver has locked; results folders
#: may have the same beginning, and no such file.
_CLOSED = "labeldp-"
_LOCK = "private-cluster.lock"


class ClusterUnusable(ValueError):
    """A cluster can't be reached or used; the message names the cause and the fix."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """CPUs and GPUs of each node of a cluster, and whether it may add nodes."""

    nodes: tuple[tuple[float, float], ...]
    grows: bool

    @property
    def sizes(self) -> str:
        """Each node's size, for messages."""
        return ", ".join(f"{cpus:g} CPU + {gpus:g} GPU" for cpus, gpus in self.nodes) or "nothing"


@contextmanager
def connected(address: str | None) -> Iterator[Capacity]:
    """Start a private cluster, or connect to the one at `address` (or in RAY_ADDRESS).

    A connection that exists already, for several sweeps, is used and kept.
    """
    exists = ray.is_initialized()
    named = address or os.environ.get("RAY_ADDRESS") or "local"
    client: Any = ray_client.ray  # Ray gives it no types
    other = named.partition("://")[0] not in (named, "http", "https")
    if client.is_connected() or (other and not exists):
        raise ClusterUnusable(
            f"a sweep can't run through Ray Client{'' if exists else f' (address {named})'}: the "
            "true labels would leave this machine for the head; run it on a node of the cluster, "
            "with `ray job submit`"
        )
    # Its owner shuts it down.
    if exists:
        yield capacity()
        return
    on_termination = signal.getsignal(signal.SIGTERM)
    with _authentication_kept(), ExitStack() as files:
        try:
            if named == "local":
                start_private(files.enter_context(_closed_folder()))
            else:
                _check_address(named)
                with _environment({_PORT_WAIT: os.environ.get(_PORT_WAIT, str(CONNECT_TRIES))}):
                    ray.init(address=named, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises it bare where its own node is late
            # The lines after the first name the versions that differ.
            lines = [line.strip() for line in str(error).strip().splitlines()[:6]]
            why = " ".join(lines)[:400] or type(error).__name__
            if "AF_UNIX" in why:  # the address of a socket, which is short
                why += "; the folder of temporary files has too long a name: set RAY_TMPDIR=/tmp"
            if named == "local":
                raise ClusterUnusable(f"Ray can't be started on this machine: {why}") from error
            raise ClusterUnusable(
                f"the Ray cluster at {named} can't be used ({why}); check the address and that it "
                "runs the same versions of Ray and Python, or leave --address and RAY_ADDRESS out "
                "for a private one"
            ) from error
        if callable(on_termination) and threading.current_thread() is threading.main_thread():
            # Ray's own would print its stack and abort.
            signal.signal(signal.SIGTERM, on_termination)
        try:
            yield capacity(private=named == "local")
        finally:
            ray.shutdown()


@contextmanager
def _authentication_kept() -> Iterator[None]:
    """Undo that Ray demands a token after a private cluster, also of one that has none."""
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


def capacity(*, private: bool = False) -> Capacity:
    """Return the connected cluster's nodes; a private one never grows.

    One without any processor can only be meant to grow: its autoscaler reports seconds later.
    """
    nodes = [node["Resources"] for node in known_nodes() if node["Alive"]]
    sizes = tuple((node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)
    grows = not any(cpus for cpus, _ in sizes) or _has_autoscaler()
    return Capacity(nodes=sizes, grows=not private and grows)


def place(
    resources: Resources, available: Capacity, *, gpu_required: bool, what: str = "a trial"
) -> Resources:
    """Return what a trial, or an actor, will occupy; no share of a GPU where there is none."""
    # A share of a GPU is a wish where the configuration leaves the device open.
    gpu = resources.gpu
    if not gpu_required and not available.grows and not any(has for _, has in available.nodes):
        gpu = 0.0
    if gpu_required and not gpu:
        gpu = 1.0
    wanted = Resources(cpu=resources.cpu, gpu=gpu)
    fits = any(cpus >= wanted.cpu and has >= wanted.gpu for cpus, has in available.nodes)
    if not fits and not available.grows:
        raise CannotFit(
            f"{what} needs {wanted.cpu:g} CPU + {wanted.gpu:g} GPU on one node, but the nodes "
            f"have {available.sizes}; request less, or add a node that is large enough"
        )
    return wanted


def known_nodes() -> list[dict[str, Any]]:
    """Return Ray's facts about every machine that is or was part of the cluster."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]  # Ray gives it no types
    return nodes


@contextmanager
def telling_of_lost_nodes(say: Callable[[str], None]) -> Iterator[None]:
    """Say inside, at once, when a node has gone: a spot machine, or an idle one."""
    over = threading.Event()
    alive: dict[str, dict[str, float]] = {}

    def look() -> None:
        ended = False
        while not ended:
            ended = over.wait(LOOK_SECONDS)  # a last look, at what went just before the end
            for node in known_nodes():
                if node["Alive"]:
                    alive[node["NodeID"]] = node["Resources"]
                elif has := alive.pop(node["NodeID"], None):
                    say(
                        f"node {node['NodeManagerAddress']} ({has.get('CPU', 0):g} CPU + "
                        f"{has.get('GPU', 0):g} GPU) is gone ({node['DeathReasonMessage']}); what "
                        "ran there starts again on another one, with the releases that it has"
                    )

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    try:
        yield
    finally:
        over.set()
        watch.join()


def in_use() -> str:
    """Return how much of the cluster is taken, by other work too, in words."""
    nodes = sum(node["Alive"] for node in known_nodes())
    total = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray gives it no types
    free = ray.available_resources()  # type: ignore[no-untyped-call]  # likewise
    parts = [
        f"{total[kind] - free.get(kind, 0.0):g} of {total[kind]:g} {words}"
        for kind, words in (("CPU", "cores"), ("GPU", "GPUs"))
        if kind in total
    ]
    return f"{', '.join(parts)} in use, on {nodes} node{'s' * (nodes != 1)}"


def beside_driver(kind: type, **options: Any) -> Any:
    """Return a class whose instances are actors on the driver's node, which take no core."""
    here = ray.get_runtime_context().get_node_id()
    # Hard: files of the driver are on this node alone.
    there = NodeAffinitySchedulingStrategy(here, soft=False)
    remote: Any = ray.remote(kind)
    return remote.options(num_cpus=0, scheduling_strategy=there, **options)


def _has_autoscaler() -> bool:
    """Whether an autoscaler may add nodes; Ray does not report it outright.

    Every head reports as if it had one. Where it has none, it calls each node a type of its own.
    """
    try:
        if is_autoscaler_v2():
            return True  # it does not say; a trial that finds no place ends the sweep later
        status = json.loads(_internal_kv_get(b"__autoscaling_status") or b"{}")
        types = (status.get("autoscaler_report") or {}).get("active_nodes") or {}
    except Exception:  # internals of Ray: without them, only what is there counts
        return False
    return any(not name.startswith(("node_", "local.node")) for name in types)


# --- a private cluster ----------------------------------------------------------------------------


@contextmanager
def _closed_folder() -> Iterator[str]:
    """Make a folder for files of a private cluster; remove it, and those of killed drivers."""
    base: str = get_default_system_temp_dir()  # type: ignore[no-untyped-call]  # Ray has no types
    if not os.path.isdir(base):
        raise FileNotFoundError(
            f"the folder of temporary files {base} is not there; create it, or set RAY_TMPDIR=/tmp"
        )
    for left in Path(base).glob(f"{_CLOSED}*/{_LOCK}"):
        with suppress(OSError):  # in use, or just removed
            if left.parent.lstat().st_uid == os.geteuid():  # another user's may be a pipe
                with open(left) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(left.parent, ignore_errors=True)
    closed = tempfile.mkdtemp(prefix=_CLOSED, dir=base)
    try:
        with open(os.path.join(closed, "draft"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(lock.name, os.path.join(closed, _LOCK))  # nobody ever sees it free
            yield closed
    finally:
        # Processes that are going down may still write there: what they hold stays.
        shutil.rmtree(closed, ignore_errors=True)


def start_private(closed: str) -> None:
    """Start a cluster that only this user's processes on this machine can reach.

    Its files lie in the folder `closed`.
    """
    tighten_token()
    wait = os.environ.get(_PORT_WAIT) or f"{START_SECONDS:.0f}"
    # `ray.init` has no parameter for these. The node's address: `_node_ip_address="127.0.0.1"` is
    # turned into the machine's own address, unless Ray is set up as on macOS and Windows. The
    # agent's port: it takes 52365, so that a later head of `ray start` has no agent, and `ray job
    # submit` fails with "No available agent to submit job"; 0 is any free port.
    ports = partial(parameter.RayParams, dashboard_agent_listen_port=0)
    # Ray opens its own folders to all, and each worker that starts opens them again: they lie below
    # one that only this user can enter. Its path is short, for sockets lie in it.
    with (
        patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False),
        patch.object(parameter, "RayParams", ports),
        # Ray has no setting for these three. The range of versions in pyproject.toml is one minor
        # version for this reason, and a test starts a private cluster.
        patch.object(services, "get_node", _patiently(services.get_node)),
        _environment({**_NO_PORT, _PORT_WAIT: wait}),
        owner_only(),  # the token, logs, and spilled objects that may hold true labels
    ):
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            configure_logging=False,
            _system_config={
                "enable_metrics_collection": False,
                "max_direct_call_object_size": INLINED_BYTES,
            },
            _temp_dir=os.path.join(closed, "ray"),
        )
    node: Any = ray._private.worker._global_node
    if not ip_address(node.node_ip_address).is_loopback:
        ray.shutdown()
        raise RuntimeError(
            f"Ray {ray.__version__} starts a private cluster on {node.node_ip_address}, where "
            "other machines reach it; install the version that constraints.txt names"
        )


def tighten_token() -> None:
    """Make the token file that an earlier Ray left, if any, the owner's alone.

    A link, or another user's file, is left as it is.
    """
    # What is not there, or is not ours, is left to Ray, which makes one or reports the fault.
    with suppress(NotOurs, OSError):
        os.close(open_private(Path.home() / ".ray" / "auth_token", os.O_RDONLY))


def _patiently(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Let Ray look for its own node repeatedly; it would give up after half a minute."""
    started = time.monotonic()

    def ask_until(gcs_address: str, node_id: str) -> Any:
        while True:
            try:
                return ask(gcs_address, node_id)
            except RuntimeError:
                if time.monotonic() - started > START_SECONDS:
                    raise
                time.sleep(_ASK_AGAIN_SECONDS)

    return ask_until


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value

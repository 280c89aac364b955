"""Ray's private cluster: closed to other machines, and to other people on this one.

Left to itself, Ray 2.60 gives a node that asks for 127.0.0.1 the machine's own address, so that the
head, the scheduler, every worker and the exporters of metrics listen on all interfaces; it leaves
its token readable by all, and its session's folders writable by all.
"""

import contextlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import ray
from ray._common.utils import get_default_system_temp_dir
from ray._private import parameter, ray_constants, services

#: How long Ray may take to start. It gives its own node 30 seconds, which a machine
#: with other work, or with a cold disk, does not keep to.
START_SECONDS = 180.0
_ASK_AGAIN_SECONDS = 0.2
#: A start that failed after so long failed for want of time.
_SLOW_SECONDS = 20.0

#: What is smaller travels within the request. The vault's home is made from labels, a byte each: by
#: Ray's own bound, 100 KB, those of 100,000 rows would lie in its object store instead, where they
#: can be lost, and Ray says at each start that the home could then not be made again.
INLINED_BYTES = 4 * 2**20

#: The exporters of the autoscaler's monitor and of the dashboard's process have no switch. Given a
#: port that does not exist they say so in their log and go on, as where another cluster holds it.
_NO_PORT = {"AUTOSCALER_METRIC_PORT": "-1", "DASHBOARD_METRIC_PORT": "-1"}


def start() -> None:
    """Start a cluster that only this user's processes on this machine can reach.

    Raises:
        RuntimeError: This version of Ray listens beyond loopback all the same, or it did not start.
    """
    tighten_token()
    with (
        _node_on_loopback(),
        _default_ports_left_free(),
        _environment(_NO_PORT),
        _files_for_the_owner(),
        _patient(),
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
            _temp_dir=str(_closed_folder() / "ray"),
        )
    node: Any = ray._private.worker._global_node
    if not ip_address(node.node_ip_address).is_loopback:
        ray.shutdown()
        raise RuntimeError(
            f"Ray {ray.__version__} starts a private cluster on {node.node_ip_address}, where "
            "other machines reach it; install the version that constraints.txt names"
        )


def tighten_token() -> None:
    """Take from others what they may do with the token file that an earlier Ray left, if any.

    A link, or a file of somebody else's, is left as it is.
    """
    path = Path.home() / ".ray" / "auth_token"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return  # not there, a link, or closed to us: Ray makes one, or says what is wrong
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _closed_folder() -> Path:
    """Return a folder that only this user can enter; it must be short, for sockets lie in it.

    Ray opens its own to all, and each worker that starts opens them again.
    """
    base: str = get_default_system_temp_dir()  # type: ignore[no-untyped-call]
    folder = Path(base, f"labeldp-{os.geteuid()}")
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if ours and not found.st_mode & 0o077:
        return folder
    # Somebody else was there first, or opened it.
    return Path(tempfile.mkdtemp(prefix="labeldp-", dir=folder.parent))


@contextmanager
def _node_on_loopback() -> Iterator[None]:
    """Have Ray take 127.0.0.1 for the node's address, by the setting it has on macOS and Windows.

    `_node_ip_address="127.0.0.1"` does not: it is turned into the machine's own address.
    """
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _default_ports_left_free() -> Iterator[None]:
    """Let the node's agent take any free port.

    `ray.init` has no parameter for it and takes 52365. A head of `ray start` then has no agent, and
    `ray job submit` fails with "No available agent to submit job".
    """
    parameters: Any = parameter
    before = parameters.RayParams
    parameters.RayParams = partial(before, dashboard_agent_listen_port=0)
    try:
        yield
    finally:
        parameters.RayParams = before


@contextmanager
def _patient() -> Iterator[None]:
    """Have Ray ask for its own node again and again; after half a minute it would give up.

    Raises:
        RuntimeError: It did not come up in `START_SECONDS`.
    """
    ask: Any = services.get_node
    started = time.monotonic()

    def ask_until(gcs_address: str, node_id: str) -> Any:
        while True:
            try:
                return ask(gcs_address, node_id)
            except RuntimeError:
                if time.monotonic() - started > START_SECONDS:
                    raise
                time.sleep(_ASK_AGAIN_SECONDS)

    given = os.environ.get("RAY_gcs_server_port_wait_time_s")
    services.get_node = ask_until
    try:
        with _environment({"RAY_gcs_server_port_wait_time_s": given or f"{START_SECONDS:.0f}"}):
            yield
    except Exception as error:
        if time.monotonic() - started < _SLOW_SECONDS or isinstance(error, ValueError):
            raise
        load, _, _ = os.getloadavg()
        raise RuntimeError(
            f"Ray did not start within {time.monotonic() - started:.0f} s: the load of this "
            f"machine is {load:.0f} on {os.cpu_count()} cores; wait until it has less to do, or "
            f"look into {_closed_folder()}/ray/session_latest/logs"
        ) from error
    finally:
        services.get_node = ask


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


@contextmanager
def _files_for_the_owner() -> Iterator[None]:
    """Keep what is written meanwhile from others: the token, if Ray makes one.

    The processes that are started go on so: logs, and spilled objects that may hold true labels.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)

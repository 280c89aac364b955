"""GPUs that are not there: shares of one, and a node that comes for a sweep and goes after it."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import ray

from labeldp.platform.cluster import known_nodes
from labeldp.platform.settings.sweep import Resources
from labeldp.platform.sweep import trial_runs
from tests.benchmarks.gpu_sweep import SMALL, hours_against_clock, rates, sweep_of, table
from tests.faults.processes import family, titled, wait_until
from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, own_environment, records, run_here

pytestmark = pytest.mark.ray_cluster


def test_the_parts_of_the_measurement_of_a_gpu(cluster: Any, tmp_path: Path) -> None:
    """`gpu_sweep --small`, less its second start of Ray and most of its rates."""
    few = list(islice(rates(SMALL), 2))
    assert [row["loop"] for row in few] == ["ALIBI", "network alone"]
    assert all(row["rate"] > 0 for row in few)
    hours = hours_against_clock(SMALL)
    assert 0.1 < hours["planned"] / hours["clock"] < 10
    assert "| ALIBI | 8 | fp32 | no |" in table(
        {"device": "none", "torch": "", "rates": few, "hours": hours}
    )

    killed = threading.Event()

    def kill() -> None:
        wait_until(lambda: titled(family(os.getpid()), "ray::TeacherActor"), what="an actor")
        titled(family(os.getpid()), "ray::TeacherActor")[0].kill()
        killed.set()

    node = cluster.add_node(num_cpus=2, num_gpus=1)
    thread = threading.Thread(target=kill)
    thread.start()
    try:
        code, said = run_here(
            sweep_of(SMALL, "digits"),
            *("--results", str(tmp_path / "results"), "--address", cluster.address),
            *("--only", "PATE-FM", "trainer.sigma2=4.0"),
        )
    finally:
        thread.join()
        cluster.remove_node(node)
    assert code == 0, said
    assert killed.is_set() and "16 trained in" in said
    (record,) = records(tmp_path / "results")
    assert record["finished"] and len(Ending.of(tmp_path / "results").releases) >= 1


# --- a node that comes and goes -------------------------------------------------------------------

#: The namespace has no other interface than lo: `ray start --head` listens on all.
_ALONE = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")
_ADDRESS = "127.0.0.1:6379"
#: Of the launcher's keys, those that a cluster of this machine ignores.
_LISTS = (
    "cluster_synced_files",
    *(f"{name}_commands" for name in ("initialization", "setup", "head_setup", "worker_setup")),
    *(f"{side}_start_ray_commands" for side in ("head", "worker")),
    *("rsync_exclude", "rsync_filter"),
)


def growing_cluster(folder: Path) -> None:
    """Start a head without a core, whose autoscaler may start one node with a GPU.

    `ray.cluster_utils.AutoscalingCluster` does the same, but it reads a file that Ray's wheel
    lacks, and first stops every Ray of this user.
    """
    config = {
        "cluster_name": "growing",
        "max_workers": 1,
        "idle_timeout_minutes": 0.05,
        "upscaling_speed": 1.0,
        "provider": {
            "type": "fake_multinode",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
            "gcs_address": _ADDRESS,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
            "spot": {
                "resources": {"CPU": 1, "GPU": 1},
                "node_config": {},
                "min_workers": 0,
                "max_workers": 1,
            },
        },
        **{name: {} for name in ("auth", "docker", "file_mounts")},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in _LISTS},
    }
    file = folder / "growing.json"
    file.write_text(json.dumps(config))
    settings = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=6379"]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=0", "--num-gpus=0"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    command += [f"--autoscaling-config={file}"]
    subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=120)


def inside(folder: Path) -> None:
    """Run a sweep in the namespace, and print how it ended as JSON."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    growing_cluster(folder)
    sweep = replace(SWEEP, resources=Resources(cpu=1, gpu=1), variants=SWEEP.variants[1:])
    with patch.object(trial_runs, "TELL_SECONDS", 0.1):
        code, said = run_here(
            sweep,
            *("--results", str(folder / "results"), "--address", _ADDRESS),
            *("trainer.epochs=2", "trainer.learning_rate=0.05"),
        )
    ray.init(_ADDRESS, log_to_driver=False)
    # Ray lists nodes in any order.
    seen = sorted(node["Resources"].get("GPU", 0.0) for node in known_nodes())
    gone = False
    until = time.monotonic() + 40
    while not gone and time.monotonic() < until:
        gone = sum(node["Alive"] for node in known_nodes()) == 1
        time.sleep(0.5)
    print(json.dumps({"code": code, "said": said, "seen": seen, "gone": gone}))


@pytest.mark.timeout(480)
def test_a_sweep_waits_for_a_node_that_comes_and_goes(tmp_path: Path) -> None:
    try:
        subprocess.run([*_ALONE, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"a namespace of its own for the network can't be had: {error}")
    environment = {**own_environment(), "HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"}
    with tempfile.TemporaryDirectory(prefix="ldp-") as short:  # for sockets of Ray
        done = subprocess.run(
            [*_ALONE, "--mount-proc", sys.executable, "-m", __name__, str(tmp_path)],
            env={**environment, "RAY_TMPDIR": short},
            capture_output=True,
            text=True,
            timeout=420,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["code"] == 0, found["said"]
    assert "trials wait for resources" in found["said"]
    assert found["seen"] == [0.0, 1.0] and found["gone"]
    (record,) = records(tmp_path / "results")
    assert record["finished"]


if __name__ == "__main__":
    inside(Path(sys.argv[1]))

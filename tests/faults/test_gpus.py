"""GPUs that are not there: shares of one, and a node that comes for a sweep and goes after it."""

import json
import math
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest
import ray
import torch
from torch import nn

from labeldp.platform.cluster import known_nodes
from labeldp.platform.settings.sweep import Resources
from labeldp.platform.sweep import open_sweep, trial_runs
from tests.benchmarks.gpu_sweep import SMALL, main, sweep_of, sweep_with_kills
from tests.faults import processes
from tests.faults.processes import family, titled, wait_until
from tests.faults.small_sweep import SWEEP
from tests.faults.sweep_runs import Ending, check_tracking, own_environment, records, run_here

pytestmark = pytest.mark.ray_cluster


def test_the_parts_of_the_measurement_of_a_gpu(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gpu_sweep --small`, cut off after the first rate, and its sweep on a Ray that runs."""
    given = ["--small", "--without-sweep", "--minutes=0", f"--folder={tmp_path}"]
    monkeypatch.setattr(sys, "argv", ["gpu_sweep", *given])
    main()
    found = json.loads((tmp_path / "gpu_sweep.json").read_text())
    assert [row["loop"] for row in found["rates"]] == ["ALIBI"] and found["rates"][0]["rate"] > 0
    assert found["missing"] == {"rates": "no time was left after these"}
    assert 0.1 < found["hours"]["planned"] / found["hours"]["clock"] < 10
    assert 200 < found["plans"]["hours_of_pate_fm_cifar10"] < 300  # counted
    assert "| ALIBI | 8 | fp32 | no |" in (tmp_path / "gpu_sweep.md").read_text()

    ended = sweep_with_kills(tmp_path, small=True, seconds=0)  # before its first trial
    assert ended["exit_code"] and "said" in ended and "trials" not in ended
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    monkeypatch.setattr(processes, "family", lambda pid: family(os.getpid()))  # of the cluster
    seen = sweep_with_kills(tmp_path, small=True, seconds=300)
    assert seen["exit_code"] == 0, (tmp_path / "sweep.log").read_text()
    assert {*seen["killed"]} == {"ray::TeacherActor.train", "ray::ImplicitFunc.train"}
    assert seen["trials_by_line"] == {"alibi": 4, "pate": 4}
    assert seen["releases"] == seen["releases_planned"] == 12
    assert all(record["finished"] for record in records(tmp_path / "sweep"))


class Hungry(nn.Module):
    """A network that needs the memory of half a GPU."""

    def __init__(self, *, input_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(math.prod(input_shape), num_classes)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        share = 1.0
        if ray.is_initialized():  # the driver tries a network out before
            worker: Any = ray.get_runtime_context()
            share = worker.get_assigned_resources().get("GPU", 1.0)
        if share < 0.5:
            raise torch.OutOfMemoryError(f"CUDA out of memory with {share:g} of a GPU")
        logits: torch.Tensor = self.head(inputs.flatten(1))
        return logits


def test_a_gpu_is_shared_by_memory_and_by_fewer_trials_that_run_out_of_it(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Resources(gpu=1, shared=True)

    def four(*asked: Any) -> int:
        worker: Any = ray.get_runtime_context()
        assert worker.get_assigned_resources() == {"GPU": 0.01}
        return 4

    monkeypatch.setattr(open_sweep, "places_on_gpu", four)
    node = cluster.add_node(num_cpus=4, num_gpus=1)
    sweep = replace(SWEEP, resources=shared, variants=SWEEP.variants[1:])
    given = ["--address", cluster.address, "trainer.epochs=2", "trainer.width=null"]
    given.append(f"trainer.model={__name__}:Hungry")
    try:
        code, said = run_here(sweep, "--results", str(tmp_path), *given)
        given += ["--search=optuna", "--trials=1", "--choose-by=test", "resources.gpu=.25"]
        given.append("trainer.learning_rate=uniform(.02,.05)")
        searched, told = run_here(sweep, "--results", str(tmp_path / "search"), *given)
    finally:
        cluster.remove_node(node)
    assert code == 0, said
    assert "by the measured memory of a step a GPU holds 4 trials or teachers at once" in said
    for line in (said, told):
        assert "out of memory with 0.25 of a GPU; it starts again with 0.5" in line
    assert searched == 0 and [each["finished"] for each in records(tmp_path / "search")] == [True]
    assert len(Ending.of(tmp_path / "search").releases) == 1
    check_tracking(tmp_path)  # SQLite on the driver's node, and trials on another one
    assert [record["finished"] for record in records(tmp_path)] == [True, True]
    # The release of both was drawn and paid once, by the first start.
    assert len(Ending.of(tmp_path).releases) == 1


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
    """Start a head without a core, whose autoscaler may start two nodes with a GPU.

    `ray.cluster_utils.AutoscalingCluster` does the same, but it reads a file that Ray's wheel
    lacks, and first stops every Ray of this user.
    """
    config = {
        "cluster_name": "growing",
        "max_workers": 2,
        "idle_timeout_minutes": 0.1,
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
                "max_workers": 2,
            },
        },
        **{name: {} for name in ("auth", "docker", "file_mounts")},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in _LISTS},
    }
    file = folder / "growing.json"
    file.write_text(json.dumps(config))
    settings = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    settings["AUTOSCALER_HEARTBEAT_TIMEOUT_S"] = "30"
    # Ray misses five checks, three seconds apart, before a node counts as dead: these teachers end
    # sooner. A node that is only slow misses none of ten seconds.
    settings |= {
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": "400",
        "RAY_health_check_timeout_ms": "10000",
        "RAY_health_check_failure_threshold": "3",
    }
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--port=6379"]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=0", "--num-gpus=0"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    command += [f"--autoscaling-config={file}"]
    subprocess.run(command, env={**os.environ, **settings}, check=True, timeout=120)


def lose_a_node() -> None:
    """End the node of the first actor that trains teachers, as the owner of a spot machine does."""
    found: list[psutil.Process] = []

    def trains() -> bool:
        found[:] = titled(list(psutil.process_iter()), "ray::TeacherActor.train")
        return bool(found)

    wait_until(trains, what="a teacher trains")
    raylet = found[0].parent()
    assert raylet is not None and "raylet" in raylet.name()
    raylet.kill()


def inside(folder: Path) -> None:
    """Run a sweep in the namespace, and print how it ended as JSON."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    growing_cluster(folder)
    whole = Resources(cpu=1, gpu=1)
    sweep = replace(sweep_of(SMALL, "digits"), resources=whole, teacher=whole)
    spot = threading.Thread(target=lose_a_node)
    spot.start()
    with patch.object(trial_runs, "TELL_SECONDS", 0.1):
        code, said = run_here(
            sweep,
            *("--results", str(folder / "results"), "--address", _ADDRESS),
            *("--only", "PATE-FM", "trainer.sigma2=4.0"),
        )
    spot.join()
    ray.init(_ADDRESS, log_to_driver=False)
    wait_until(lambda: sum(node["Alive"] for node in known_nodes()) == 1, what="only the head")
    ends = [node["DeathReasonMessage"] for node in known_nodes() if not node["Alive"]]
    print(json.dumps({"code": code, "said": said, "ends": ends}))


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
    assert "(1 CPU + 1 GPU) is gone (" in found["said"]
    # How many nodes come depends on Ray's clock: one without work for six seconds goes, and comes
    # again for the next work. Only the lost one was not asked to go.
    lost = [end for end in found["ends"] if "health check failed" in end]
    assert len(found["ends"]) >= 2 and len(lost) == 1, found
    assert "16 trained in" in found["said"]
    check_tracking(tmp_path / "results")  # SQLite on the driver's node
    (record,) = records(tmp_path / "results")
    assert record["finished"]


if __name__ == "__main__":
    inside(Path(sys.argv[1]))

"""A cluster of fake GPUs on this machine: what thousands of teachers and trials cost the driver.

    python -m tests.benchmarks.cluster_scale [--nodes 16] [--teachers 2000] [--trials 1000]

Each node is a real raylet with a GPU that is not there, and `--slots` of them have a core for a
trial. Teachers vote at once and trials take a fraction of a second, so that what is left is the
cost of handing out, keeping and tracking. The cluster has a port and a folder of its own, and what
was started ends with the command, whatever happens. A table is printed; figures lie beside it as
JSON. What does not fit into `--minutes` is cut off and told.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.platform.private_cluster import _patient
from tests.benchmarks.interruption import ended
from tests.benchmarks.machine import this_machine
from tests.benchmarks.scale_teachers import CLASSES, NappingTeachers, one_label_each
from tests.faults.processes import end_all, family
from tests.faults.sweep_runs import ROOT, Driver
from tests.faults.tracking_server import TrackingServer, free_port

SWEEP = Path(__file__).with_name("trivial_sweep.py")
_STORE_BYTES = 80 * 2**20
#: Marks of a sweep: at each tenth of its trials.
_MARKS = 10


@dataclass(frozen=True, kw_only=True)
class ScaleSettings:
    """How large.

    Attributes:
        nodes: With a fake GPU each.
        slots: Nodes that also have a core, for a trial at a time.
        teachers: T; none for no ensemble.
        queries: Q.
        trials: None for no sweep.
        minutes: After which the sweep is cut off.
    """

    nodes: int = 16
    slots: int = 4
    teachers: int = 2_000
    queries: int = 3_000
    trials: int = 1_000
    minutes: float = 30.0

    def __post_init__(self) -> None:
        """Check the counts.

        Raises:
            ValueError: A size that no cluster has.
        """
        if not 1 <= self.slots <= self.nodes:
            raise ValueError(
                f"{self.slots} slots for trials on {self.nodes} nodes; take 1 to {self.nodes}"
            )
        if self.teachers < 0 or self.trials < 0 or self.trials == 1 or self.queries < 1:
            raise ValueError(
                "teachers and trials are counts of 0 (for none) or more, trials not 1 (a rate "
                "takes two), and queries 1 or more"
            )


@dataclass(frozen=True, kw_only=True)
class TeacherFigures:
    """What an ensemble cost the driver.

    Attributes:
        teachers: T.
        actors: Of the pool.
        seconds: By the clock on the wall, starting the actors included.
        driver_seconds: Of the driver's processor.
        driver_megabytes: What its memory grew by.
    """

    teachers: int
    actors: int
    seconds: float
    driver_seconds: float
    driver_megabytes: float


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Where a sweep stood.

    Attributes:
        trials: With a record.
        seconds: Since the driver began.
        driver_seconds: Of its processor so far.
        driver_megabytes: The most that it held so far.
        requests: To the tracking server so far.
    """

    trials: int
    seconds: float
    driver_seconds: float
    driver_megabytes: float
    requests: int


@dataclass(frozen=True, kw_only=True)
class SweepFigures:
    """What a sweep cost the driver.

    Attributes:
        trials: That were asked for.
        finished: That were run before the time was up.
        marks: At each tenth.
        end_seconds: From the last record to the driver's end: report, tracking, good-bye; None
            for a sweep that was cut off.
    """

    trials: int
    finished: int
    marks: tuple[Mark, ...]
    end_seconds: float | None

    def between(self, first: int, last: int) -> dict[str, float]:
        """Return what a trial cost between two marks."""
        begun, ended = self.marks[first], self.marks[last]
        trials = ended.trials - begun.trials
        wall = ended.seconds - begun.seconds
        return {
            "seconds": wall / trials,
            "driver_milliseconds": 1e3 * (ended.driver_seconds - begun.driver_seconds) / trials,
            "driver_kilobytes": 1e3 * (ended.driver_megabytes - begun.driver_megabytes) / trials,
            "requests": (ended.requests - begun.requests) / trials,
            "requests_per_second": (ended.requests - begun.requests) / wall,
        }


@contextmanager
def fake_cluster(settings: ScaleSettings) -> Iterator[str]:
    """Start nodes with GPUs that are not there; yields the address, and ends what it started."""
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray-scale-")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    before = {process.pid for process in family(os.getpid())}
    common = {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    head = {"num_cpus": 0, "gcs_server_port": free_port(), "temp_dir": folder, **common}
    cluster: Any = Cluster()
    try:
        with _patient():  # a node that starts among others takes longer than Ray gives it
            for node in range(1 + settings.nodes):
                has_core = 1 <= node <= settings.slots
                own = {"num_cpus": int(has_core), "num_gpus": 1, **common} if node else head
                cluster.add_node(wait=False, **own)
        cluster.wait_for_nodes(timeout=60 + 10 * settings.nodes)
        yield str(cluster.address)
    finally:
        started = [process for process in family(os.getpid()) if process.pid not in before]
        cluster.shutdown()
        end_all(started)
        shutil.rmtree(folder, ignore_errors=True)


def run_teachers(settings: ScaleSettings, *, address: str, folder: Path) -> TeacherFigures:
    """Send an ensemble of teachers through the pool, one a call, which is the dearest way."""
    import ray

    from labeldp.platform.cluster import connected
    from labeldp.platform.sweep import Resources
    from labeldp.platform.trusted.ensembles import pool_size
    from labeldp.platform.trusted.teacher_pool import PoolSize, TeacherWork, train_ensemble
    from labeldp.platform.trusted.vote_store import VoteJournal

    each, teachers = Resources(cpus=0.0, gpus=1.0), settings.teachers
    vote = NappingTeachers(queries=settings.queries)
    journal = VoteJournal(
        folder / "votes", key="k", teachers=teachers, queries=settings.queries, classes=CLASSES
    )
    with connected(address) as capacity:
        actors = pool_size(each, capacity)
        work = TeacherWork(
            vote=vote, data=ray.put("public data"), shards=one_label_each(teachers), batch=1
        )
        memory, used, began = _resident_megabytes(), time.process_time(), time.perf_counter()
        train_ensemble(work, journal=journal, pool=PoolSize(actors=actors, each=each))
        figures = TeacherFigures(
            teachers=teachers,
            actors=actors,
            seconds=time.perf_counter() - began,
            driver_seconds=time.process_time() - used,
            driver_megabytes=_resident_megabytes() - memory,
        )
    for teacher in range(0, teachers, max(1, teachers // 50)):
        np.testing.assert_array_equal(journal.votes()[teacher], vote.votes_of(teacher))
    return figures


def run_sweep(settings: ScaleSettings, *, address: str, folder: Path) -> SweepFigures:
    """Run trivial trials on the cluster, tracked by a server, and watch their driver."""
    results, seeds = folder / "results", ",".join(map(str, range(settings.trials)))
    with (
        TrackingServer(folder) as server,
        Driver(
            results,
            "--address",
            address,
            f"seed=[{seeds}]",
            sweep=SWEEP,
            environment={"MLFLOW_TRACKING_URI": server.uri},
        ) as driver,
    ):
        began = time.perf_counter()
        marks: list[Mark] = []
        steps = [1, *(max(2, settings.trials * part // _MARKS) for part in range(1, _MARKS + 1))]
        for step in dict.fromkeys(steps):
            reached = _wait_for(results, step, driver, until=began + 60 * settings.minutes)
            if driver.lives:
                marks.append(_mark(reached, driver, server, began))
            if reached < step:
                break
        if reached < settings.trials:
            if not driver.lives:
                raise RuntimeError(f"the driver ended after {reached} trials:\n{driver.log}")
            return SweepFigures(
                trials=settings.trials, finished=reached, marks=tuple(marks), end_seconds=None
            )
        last = time.perf_counter()
        outcome = driver.finish(seconds=600 + settings.trials)
        assert outcome["finished"] == settings.trials and outcome["tracked"], outcome
        return SweepFigures(
            trials=settings.trials,
            finished=settings.trials,
            marks=tuple(marks),
            end_seconds=time.perf_counter() - last,
        )


def table_of(teachers: TeacherFigures | None, sweep: SweepFigures | None) -> str:
    """Return the figures as lines to read."""
    lines: list[str] = []
    if teachers is not None:
        each = 1e3 * teachers.driver_seconds / teachers.teachers
        lines += [
            f"{teachers.teachers:,} teachers, one a call, on {teachers.actors} actors: "
            f"{teachers.seconds:.0f} s; the driver computes {each:.2f} ms for each and holds "
            f"{teachers.driver_megabytes:+.0f} MB more"
        ]
    if sweep is not None:
        lines += [
            f"{sweep.finished:,} of {sweep.trials:,} trials",
            "  trials   seconds   driver s  driver MB   requests",
        ]
        lines += [
            f"{mark.trials:>8,}{mark.seconds:>10.0f}{mark.driver_seconds:>11.1f}"
            f"{mark.driver_megabytes:>11.0f}{mark.requests:>11,}"
            for mark in sweep.marks
        ]
        for name, first, last in (("all", 0, -1), ("last tenth", -2, -1)):
            if len(sweep.marks) > 1:
                each_trial = sweep.between(first, last)
                lines.append(
                    f"a trial ({name}): {each_trial['seconds']:.2f} s, "
                    f"{each_trial['driver_milliseconds']:.0f} ms of the driver's processor, "
                    f"{each_trial['driver_kilobytes']:.0f} kB of its memory, "
                    f"{each_trial['requests']:.1f} requests to tracking "
                    f"({each_trial['requests_per_second']:.1f} a second)"
                )
        if sweep.end_seconds is not None:
            lines.append(f"from the last record to the driver's end: {sweep.end_seconds:.0f} s")
        else:
            lines.append("cut off: the time was up")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code, 1 for a sweep that was cut off."""
    default = ScaleSettings()
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.cluster_scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("nodes", "slots", "teachers", "queries", "trials"):
        parser.add_argument(f"--{name}", type=int, default=getattr(default, name), metavar="N")
    parser.add_argument("--minutes", type=float, default=default.minutes)
    parser.add_argument("--json", type=Path, default=ROOT / "results" / "cluster_scale.json")
    asked = vars(parser.parse_args(arguments))
    path: Path = asked.pop("json")
    try:
        settings = ScaleSettings(**asked)
    except ValueError as error:
        parser.error(str(error))
    teachers: TeacherFigures | None = None
    sweep: SweepFigures | None = None
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch, fake_cluster(settings) as address:
        folder = Path(scratch)
        _end_on_termination()
        if settings.teachers:
            teachers = run_teachers(settings, address=address, folder=folder)
            print(table_of(teachers, None), flush=True)
            _end_on_termination()  # Ray took it back as it was disconnected
        if settings.trials:
            sweep = run_sweep(settings, address=address, folder=folder)
            print(table_of(None, sweep), flush=True)
    report = {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": asdict(this_machine()),
        "load": {"before": load, "after": os.getloadavg()[0]},
        "settings": asdict(settings),
        "teachers": None if teachers is None else asdict(teachers),
        "sweep": None if sweep is None else asdict(sweep),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"load {load:.1f} before; figures in {path}")
    return int(sweep is not None and sweep.finished < sweep.trials)


def _end_on_termination() -> None:
    """Let `timeout` and a shell's `kill` end what was started too, and not just this process."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _wait_for(results: Path, number: int, driver: Driver, *, until: float) -> int:
    """Wait for so many records, the driver's end or a time; returns how many there are."""
    while True:
        there = sum(1 for _ in (results / "trials").glob("*.json"))
        if there >= number or not driver.lives or time.perf_counter() > until:
            return there
        time.sleep(0.2)


def _mark(trials: int, driver: Driver, server: TrackingServer, began: float) -> Mark:
    return Mark(
        trials=trials,
        seconds=time.perf_counter() - began,
        driver_seconds=driver.cpu_seconds(),
        driver_megabytes=driver.memory() / 1e6,
        requests=server.log.count('HTTP/1.1"'),
    )


def _resident_megabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1e3


if __name__ == "__main__":
    ended(main)

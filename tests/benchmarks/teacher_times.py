"""How long batches of teachers take: a part that is fixed, a part for each, and what chance adds.

    python -m tests.benchmarks.teacher_times [--rounds 60]

Small networks on digits, as a call of the pool trains them, in batches of several sizes in turn.
What it prints is what `pool_simulation.py` draws from. The processor's time tells of a machine that
is quiet, the clock on the wall of this one, with all that others do on it.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data import load
from labeldp.trainers.pate.teachers import EnsembleConfig, TeacherKind, TeacherVotes
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.learner import LearnerConfig
from tests.benchmarks.interruption import ended

SIZES = (1, 5, 25, 50)
_TEACHERS = 50


def line_through(sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return the fixed part and the part for each teacher, by least squares; neither below 0."""
    each, fixed = np.polyfit(sizes, seconds, 1)
    if fixed < 0:
        return 0.0, float(np.dot(sizes, seconds) / np.dot(sizes, sizes))
    return float(fixed), float(each)


def spread_of(seconds: NDArray[np.float64], parts: int = 20) -> tuple[float, ...]:
    """Return the middles of `parts` equal shares of times, over their mean, ascending."""
    ordered = np.sort(seconds / seconds.mean())
    middles = [float(share.mean()) for share in np.array_split(ordered, parts)]
    return tuple(round(middle, 3) for middle in middles)


def measured(rounds: int) -> Mapping[str, NDArray[np.float64]]:
    """Return seconds [sizes, rounds] of batches, by clock."""
    torch.set_num_threads(1)
    data = load("digits")
    shards = LabelVault(labels=data.train_labels, num_classes=10).partition(_TEACHERS, seed=0)
    config = EnsembleConfig(
        kind=TeacherKind.NETWORK, teachers=_TEACHERS, queries=500, network=LearnerConfig(epochs=10)
    )
    vote = TeacherVotes(config=config, performance=Performance(device=Device.CPU))
    vote(range(_TEACHERS), shards, data.public)
    found = {name: np.empty((len(SIZES), rounds)) for name in ("processor", "wall")}
    for turn in range(rounds):
        for place, size in enumerate(SIZES):
            used, began = time.process_time(), time.perf_counter()
            vote(range(size), shards[:size], data.public)
            found["processor"][place, turn] = time.process_time() - used
            found["wall"][place, turn] = time.perf_counter() - began
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.teacher_times")
    parser.add_argument("--rounds", type=int, default=60, metavar="N")
    rounds = parser.parse_args(arguments).rounds
    if rounds < 20:
        parser.error(f"--rounds is {rounds}; a spread of 20 parts takes 20 or more")
    report = {}
    for clock, seconds in measured(rounds).items():
        fixed, each = line_through(SIZES, np.median(seconds, axis=1).tolist())
        over_mean = (seconds / seconds.mean(axis=1, keepdims=True)).ravel()
        report[clock] = {"fixed": fixed, "each": each, "spread": spread_of(over_mean)}
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    ended(main)

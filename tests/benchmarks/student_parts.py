"""Measure how much each part of a semi-supervised student adds to its accuracy.

    python -m tests.benchmarks.student_parts mnist
    python -m tests.benchmarks.student_parts cifar10 --encoder encoder.pt

print a table of docs/reproduction/pate.md. They train the student of `sweeps/moment_students.py`,
then change one part at a time. For each seed all of them learn from the same release; two stages
need releases of their own. The table has means and deviations over seeds, in points. Noise is
seeded, so nothing is private.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from labeldp.platform.settings.configuration import TrialConfig, with_changes
from labeldp.sweeps.moment_students import SWEEP
from labeldp.trainers.data.labelled_data import LabelledData, load
from tests.trainers.small_data import SeededVault


def unaligned(student: Any) -> None:
    """Predictions are not aligned to the shares of the classes."""
    student._mean.forward = lambda _: student._shares


def weak(student: Any) -> None:
    """The student learns from weak views alone."""
    student._views = SimpleNamespace(weak=student._views.weak, strong=student._views.weak)


def accuracy(config: TrialConfig, data: LabelledData, *, seed: int, change: Any) -> float:
    """Return the test accuracy of a student of seeded noise, in points."""
    trainer: Any = config.trainer.start(
        data=data.public,
        labels=SeededVault(data.train_labels, data.public.num_classes, seed=seed),
        seed=seed,
        performance=config.performance,
    )
    if callable(change):
        change(trainer)
    for _ in range(config.trainer.epochs):
        trainer.epoch()
    return 100 * float(trainer.evaluate())


def main() -> None:
    """Print a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=("mnist", "fashion_mnist", "cifar10"))
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--encoder", help="a file of `labeldp self-supervise`, of this width")
    parser.add_argument("--only", nargs="*", help="parts; all if left out")
    given = parser.parse_args()
    base = {"data.name": given.data, "trainer.epsilon": given.epsilon}
    if given.data == "cifar10":
        base = {**SWEEP.presets["cifar10"].changes, **base, "trainer.stages": 1}
        base["trainer.epochs"] = base["trainer.earlier_epochs"]
    config = with_changes(SWEEP.base, base)
    epochs = config.trainer.epochs
    parts: dict[str, Any] = {
        "no labeled part": {"trainer.labeled_weight": 0.0},
        "no evidence": {"trainer.power": 0.0},
        "power 1": {"trainer.power": 1.0},
        "no alignment": unaligned,
        "weak views alone": weak,
        "threshold .95 throughout": {"trainer.last_threshold": 0.95},
        "two stages": {
            "trainer.stages": 2,
            "trainer.epochs": 2 * epochs,
            "trainer.earlier_epochs": epochs,
        },
    }
    if given.encoder:
        start = {"trainer.encoder": given.encoder}
        if given.data == "cifar10":  # its features are the encoder's vectors
            config = with_changes(config, {**start, "trainer.prior.encoder": given.encoder})
            parts["initial weights at random"] = {"trainer.encoder": None}
        else:
            parts["from the encoder"] = start
    data = load(given.data)
    print("| | accuracy | difference | seconds |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = replace(data, public=replace(data.public, features_folder=Path(folder)))
        whole = None
        for name, change in {"as it is": {}, **parts}.items():
            if given.only and name not in (*given.only, "as it is"):
                continue
            started = time.perf_counter()
            changed = with_changes(config, change if isinstance(change, dict) else {})
            of = [accuracy(changed, data, seed=seed, change=change) for seed in range(3)]
            whole = of if whole is None else whole
            less = np.subtract(of, whole)
            seconds = (time.perf_counter() - started) / len(of)
            cells = f"{np.mean(of):.2f}±{np.std(of, ddof=1):.2f} | "
            cells += f"{less.mean():+.2f}±{less.std(ddof=1):.2f} | {seconds:.0f}"
            print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()

"""One GPU used to its limit, and Ray on it: rates, a sweep with a killed actor, hours by the plan.

    python -m tests.benchmarks.gpu_sweep --folder DIR            # on a GPU, some eight minutes
    python -m tests.benchmarks.gpu_sweep --folder DIR --small    # on a processor, tiny sizes

It writes `gpu_sweep.json` and `gpu_sweep.md`. Rates are of made-up images, the sweep of CIFAR-10.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from labeldp.platform.api.result import load
from labeldp.platform.settings.configuration import DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Resources, Sweep, Variant
from labeldp.platform.sweep.cost import has_gpu, made_up_images, rate_of_steps, seconds_of
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.pate_settings import TeacherKind
from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.models.optimization import Sgd
from labeldp.trainers.models.training_step import TrainingStep, cuda_graph
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from tests.faults.processes import family, titled

#: Teachers of the sweep's ensemble, and noise of its answers.
TEACHERS = 16
SIGMAS = (1.0, 2.0, 4.0, 8.0)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
#: Seconds that the whole sweep may take.
LIMIT = 400.0


@dataclass(frozen=True)
class Size:
    """How large the pieces are.

    Attributes:
        width: Of WRN-28, or of the fast network on a processor.
        steps: Of an epoch whose seconds are taken.
        epochs: Of networks in the sweep.
    """

    model: ModelName
    width: int
    batches: tuple[int, ...]
    steps: int
    epochs: int
    teacher_steps: int
    images: DataSize


CIFAR = DataSize(num_classes=10, num_labels=0, has_test_split=True, shape=(3, 32, 32))
FULL = Size(
    model=ModelName.WIDE_RESNET28,
    width=4,
    batches=(128, 512),
    steps=100,
    epochs=6,
    teacher_steps=100,
    images=replace(CIFAR, num_labels=50_000, num_test=10_000),
)
SMALL = Size(
    model=ModelName.SMALL_CNN,
    width=4,
    batches=(8,),
    steps=2,
    epochs=2,
    teacher_steps=2,
    images=replace(CIFAR, num_labels=400, num_test=100),
)


# --- (a) images a second --------------------------------------------------------------------------


def rates(size: Size) -> Iterator[dict[str, Any]]:
    """Yield images a second of each loop, plain and recorded, and of the network alone."""
    network: dict[str, Any] = {"model": size.model, "width": size.width}
    for precision in (Precision.FP32, Precision.AUTO):
        fast = precision is Precision.AUTO
        for batch, capture in product(size.batches, (False, True)):
            how = Performance(precision=precision, channels_last=fast, capture=capture)
            facts = {"batch": batch, "precision": precision.value, "recorded": capture}
            alibi = LearnerConfig(**network, batch_size=batch, augment=True)
            rate, _ = rate_of_steps(alibi, size.images, how, steps=size.steps)
            yield {"loop": "ALIBI", **facts, "rate": rate}
            yield {"loop": "network alone", **facts, "rate": network_rate(size, batch, how)}
    for capture in (False, True):
        how = Performance(precision=Precision.AUTO, channels_last=True, capture=capture)
        fixmatch = FixMatchConfig(**network)
        rate, seconds = rate_of_steps(fixmatch, size.images, how, steps=size.steps)
        yield {
            "loop": "FixMatch",
            "batch": fixmatch.examples_a_step,
            "precision": "auto",
            "recorded": capture,
            "rate": rate,
            "milliseconds_a_step": 1000 * seconds / size.steps,
        }


def network_rate(size: Size, batch: int, performance: Performance) -> float:
    """Images a second of the network's steps alone, on one batch."""
    device = performance.torch_device()
    network = build_model(
        size.model, input_shape=size.images.shape, num_classes=10, width=size.width, seed=0
    )
    network = network.to(device).to(memory_format=performance.memory_format())
    inputs = torch.randn(batch, *size.images.shape, device=device)
    inputs = inputs.contiguous(memory_format=performance.memory_format())
    targets = torch.arange(batch, device=device) % 10

    def loss(images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        with performance.autocast():
            logits = network(images)
        return functional.cross_entropy(logits.float(), classes)

    on_gpu = device.type == "cuda" and performance.capture
    optimizer = Sgd(network, learning_rate=1e-3)
    step = TrainingStep(loss, optimizer, record=cuda_graph if on_gpu else None)
    for _ in range(5):
        step(inputs, targets)
    wait(device)
    begun = time.perf_counter()
    for _ in range(size.steps):
        step(inputs, targets)
    wait(device)
    return batch * size.steps / (time.perf_counter() - begun)


def wait(device: torch.device) -> None:
    """Wait until a device has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize()


# --- (b) a sweep with Ray, one actor of which is killed -------------------------------------------


def sweep_of(size: Size, data: str) -> Sweep:
    """Return a sweep of teachers on shares of a card, and of ALIBI beside them."""
    alibi = AlibiConfig(
        model=size.model,
        width=size.width,
        epochs=size.epochs,
        batch_size=size.batches[0],
        augment=True,
    )
    few = {"model": size.model, "width": size.width, "epochs": 1}
    fixmatch = {**few, "steps_per_epoch": size.teacher_steps, "batch_size": size.batches[0] // 2}
    own = {
        f"trainer.{role}.fixmatch.{key}": value
        for role in ("ensemble", "student")
        for key, value in fixmatch.items()
    }
    return Sweep(
        name="gpu_sweep",
        base=TrialConfig(
            data=DataSettings(name=data, limit=size.images.num_labels),
            trainer=alibi,
            performance=Performance(precision=Precision.AUTO, channels_last=True),
        ),
        variants=[
            Variant(name="ALIBI", space={"trainer.epsilon": Grid(*EPSILONS)}),
            Variant(
                name="PATE-FM",
                changes={
                    "method": "pate",
                    "trainer.ensemble.kind": TeacherKind.FIXMATCH,
                    "trainer.student.kind": "fixmatch",
                    "trainer.ensemble.teachers": TEACHERS,
                    "trainer.ensemble.queries": 100,
                    "trainer.answers": 40,
                    "trainer.students": 1,
                    "trainer.sigma1": 4.0,
                    "trainer.threshold": 4.0,
                    **own,
                },
                space={"trainer.sigma2": Grid(*SIGMAS)},
            ),
        ],
        resources=Resources(cpu=1, gpu=0.25),
        teacher=Resources(cpu=1, gpu=0.125),
    )


def sweep_with_a_kill(folder: Path, *, small: bool) -> dict[str, Any]:
    """Run the sweep, kill a teacher's actor, end the driver, resume; return what was seen."""
    command = [sys.executable, "-m", "tests.benchmarks.gpu_sweep", "--folder", str(folder)]
    command += ["--sweep", *(["--small"] if small else [])]
    begun = time.perf_counter()
    process = subprocess.Popen(command)
    killed = False
    try:
        while process.poll() is None and time.perf_counter() - begun < LIMIT:
            actors = titled(family(process.pid), "ray::TeacherActor")
            if actors and not killed:
                actors[0].kill()
                killed = True
            time.sleep(0.2)
        code = process.wait(timeout=max(1.0, LIMIT - (time.perf_counter() - begun)))
    finally:
        if process.poll() is None:
            process.kill()
    result = load(folder / "sweep")
    ledger = result.ledger()
    keys = [str(charge) for charge in ledger]
    return {
        "exit_code": code,
        "teacher_killed": killed,
        "seconds": time.perf_counter() - begun,
        "trials": len(result.table()),
        "charges": len(keys),
        "trials_by_line": result.table().groupby("method").size().to_dict(),
    }


# --- (c) the plan's hours against the clock -------------------------------------------------------


def hours_against_clock(size: Size) -> dict[str, float]:
    """Seconds of some epochs of ALIBI by the plan's measure, and by the clock."""
    config = sweep_of(size, "cifar10").base
    how = config.performance
    images = replace(size.images, num_test=0)  # an epoch of this clock judges nothing
    parts = config.trainer.work(images.num_labels)
    planned = sum(seconds_of(part, images, how, measured=True) for part in parts)
    learner = OnLabels(
        config.trainer.learner(),
        data=made_up_images(images, images.num_labels),
        labels=np.arange(images.num_labels) % 10,
        seed=0,
        performance=how,
    )
    begun = time.perf_counter()
    for _ in range(size.epochs):
        learner.epoch()
    wait(learner.device)
    return {"planned": planned, "clock": time.perf_counter() - begun, "on_gpu": float(has_gpu())}


def table(found: Mapping[str, Any]) -> str:
    """Return what was found as Markdown."""
    rows: Sequence[Mapping[str, Any]] = found["rates"]
    lines = [f"{found['device']}, torch {found['torch']}", ""]
    lines += ["| loop | batch | precision | recorded | images/s |", "|---|---|---|---|---|"]
    lines += [
        f"| {row['loop']} | {row['batch']} | {row['precision']} | "
        f"{'yes' if row['recorded'] else 'no'} | {row['rate']:,.0f} |"
        for row in rows
    ]
    sweep = found.get("sweep")
    if sweep:
        lines += ["", f"Sweep: {json.dumps(sweep)}"]
    return "\n".join([*lines, "", f"Hours: {json.dumps(found['hours'])}", ""])


def main() -> None:
    """Run the parts, and write what was found after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="tiny sizes, on a processor")
    parser.add_argument("--sweep", action="store_true", help="run the sweep alone, in this process")
    parser.add_argument("--without-sweep", action="store_true", help="where Ray is not installed")
    wanted = parser.parse_args()
    size = SMALL if wanted.small else FULL
    wanted.folder.mkdir(parents=True, exist_ok=True)
    if wanted.sweep:
        from labeldp.platform.api.result import run

        data = "digits" if wanted.small else "cifar10"
        run(sweep_of(size, data), results=wanted.folder / "sweep")
        return
    on_gpu = torch.cuda.is_available()
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "processor",
        "torch": torch.__version__,
        "hours": hours_against_clock(size),
        "rates": [],
    }
    for row in rates(size):
        found["rates"].append(row)
        print(json.dumps(row), flush=True)
    if not wanted.without_sweep:
        found["sweep"] = sweep_with_a_kill(wanted.folder, small=wanted.small)
    (wanted.folder / "gpu_sweep.json").write_text(json.dumps(found, indent=1))
    (wanted.folder / "gpu_sweep.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()

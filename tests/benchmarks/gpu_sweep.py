"""One GPU used to its limit, and Ray on it: rates, hours by the plan, a sweep with killed actors.

    python -m tests.benchmarks.gpu_sweep --folder DIR            # on a GPU, eight minutes at most
    python -m tests.benchmarks.gpu_sweep --folder DIR --small    # on a processor, tiny sizes

`gpu_sweep.json` and `gpu_sweep.md` are written after every figure: a run that is cut off leaves
what it has. Nothing is downloaded. Rates are of made-up images; the sweep is of CIFAR-10, or of
scikit-learn's digits where `LABELDP_DATA` lacks it. A part whose packages are missing is left out:
rates and hours take torch, NumPy, SciPy, pydantic and PyYAML, the plan also rich, the sweep psutil
and all that labeldp depends on. Where files travel in pieces, Ray's wheel is two of them:
`split --bytes=60M ray-*.whl ray.`, and there `cat ray.?? > NAME`, with the name that it had.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from labeldp.platform.settings.configuration import DataSettings, TrialConfig
from labeldp.platform.settings.sweep import Grid, Resources, Sweep, Variant, plan_trials
from labeldp.platform.sweep.config_files import load_sweep
from labeldp.platform.sweep.cost import (
    cost_of,
    gpus_here,
    made_up_images,
    places_on_gpu,
    planned_hours,
    rate_of_steps,
    seconds_of,
)
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.methods.pate_settings import TeacherKind
from labeldp.trainers.methods.settings import AlibiConfig
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.models.optimization import Sgd
from labeldp.trainers.models.training_step import TrainingStep, cuda_graph
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig

#: Teachers of the sweep's ensemble, and noise of its answers.
TEACHERS = 16
SIGMAS = (1.0, 2.0, 4.0, 8.0)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
#: Minutes of all parts, and seconds that are left for the last words.
MINUTES = 7.5
LAST_SECONDS = 10.0


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
        (step,) = replace(fixmatch, epochs=1, steps_per_epoch=1).work(1)
        batch = round(step.examples)
        facts = {"batch": batch, "precision": "auto", "recorded": capture}
        rate, seconds = rate_of_steps(fixmatch, size.images, how, steps=size.steps)
        milliseconds = 1000 * seconds / size.steps
        yield {"loop": "FixMatch", **facts, "rate": rate, "milliseconds_a_step": milliseconds}
        yield {"loop": "network alone", **facts, "rate": network_rate(size, batch, how)}


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


# --- (b) a sweep with Ray, actors of which are killed ---------------------------------------------


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


def sweep_with_kills(folder: Path, *, small: bool, seconds: float) -> dict[str, Any]:
    """Run the sweep, kill -9 an actor that trains teachers and a trial; return what was seen."""
    from labeldp.platform.api.result import load
    from tests.faults.processes import family, titled

    command = [sys.executable, "-m", "tests.benchmarks.gpu_sweep", "--folder", str(folder)]
    command += ["--sweep", *(["--small"] if small else [])]
    begun = time.perf_counter()
    killed: dict[str, float] = {}
    with (folder / "sweep.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while process.poll() is None and time.perf_counter() - begun < seconds:
                for title in ("ray::TeacherActor.train", "ray::ImplicitFunc.train"):
                    found = [] if title in killed else titled(family(process.pid), title)
                    if found:
                        found[0].kill()
                        killed[title] = time.perf_counter() - begun
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.terminate()  # its workers end with it, and finished trials are kept
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=LAST_SECONDS)
            if process.poll() is None:
                process.kill()
    seen: dict[str, Any] = {"exit_code": process.poll(), "killed": killed}
    seen["seconds"] = time.perf_counter() - begun
    if process.poll():  # such as a sweep that still runs there, of a measurement that was killed
        seen["said"] = (folder / "sweep.log").read_text().strip().rpartition("\n")[2]
    if not (folder / "sweep" / "sweep.json").exists():
        return seen
    result = load(folder / "sweep")
    planned = cost_of(plan_trials(sweep_of(SMALL if small else FULL, "cifar10")), num_classes=10)
    return {
        **seen,
        "trials": len(result.table()),
        "releases": len(result.ledger()),
        "releases_planned": planned.releases,
        "trials_by_line": Counter(result.table().get("method", ())),
    }


# --- (c) the plan's hours against the clock -------------------------------------------------------


def hours_against_clock(size: Size) -> dict[str, float]:
    """Seconds of some epochs of ALIBI by the plan's measure, and by the clock.

    On a processor, both are its own time: other work on it is not of these epochs.
    """
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
    on_gpu = learner.device.type == "cuda"
    clock = time.perf_counter if on_gpu else time.process_time
    begun = clock()
    for _ in range(size.epochs):
        learner.epoch()
    wait(learner.device)
    seconds = (clock() - begun) / (1 if on_gpu else torch.get_num_threads())
    return {"planned": planned, "clock": seconds, "on_gpu": float(on_gpu)}


def plans(size: Size) -> dict[str, Any]:
    """Return what the plan says of this device: hours of PATE-FM's table, and shares of a GPU."""
    whole = replace(CIFAR, num_labels=50_000, num_test=10_000)
    sweep = load_sweep("pate_fm_cifar10")
    hours = planned_hours(plan_trials(sweep), whole, measured=gpus_here() > 0)
    assert hours is not None
    held = places_on_gpu(plan_trials(sweep_of(size, "cifar10")), whole)
    return {"hours_of_pate_fm_cifar10": hours.total, "on": hours.device, "memory_holds": held}


def table(found: Mapping[str, Any]) -> str:
    """Return what was found as Markdown."""
    rows: Sequence[Mapping[str, Any]] = found["rates"]
    lines = [f"{found['device']}, torch {found['torch']}", ""]
    lines += ["| loop | batch | precision | recorded | images/s | ms a step |"]
    lines += ["|---|---|---|---|---|---|"]
    lines += [
        f"| {row['loop']} | {row['batch']} | {row['precision']} | "
        f"{'yes' if row['recorded'] else 'no'} | {row['rate']:,.0f} | "
        f"{1000 * row['batch'] / row['rate']:.2f} |"
        for row in rows
    ]
    for part in ("hours", "plans", "sweep", "missing"):
        if found.get(part):
            lines += ["", f"{part}: {json.dumps(found[part])}"]
    return "\n".join([*lines, ""])


def keep(found: Mapping[str, Any], folder: Path) -> None:
    """Write what was found so far."""
    (folder / "gpu_sweep.json").write_text(json.dumps(found, indent=1))
    (folder / "gpu_sweep.md").write_text(table(found))


def main() -> None:
    """Run the parts, and write what was found after each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--small", action="store_true", help="tiny sizes, on a processor")
    parser.add_argument("--sweep", action="store_true", help="run the sweep alone, in this process")
    parser.add_argument("--without-sweep", action="store_true", help="where Ray is not installed")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all parts together")
    wanted = parser.parse_args()
    size = SMALL if wanted.small else FULL
    folder = wanted.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if wanted.sweep:
        from labeldp.platform.api.result import run

        there = not wanted.small and find("cifar10").available(data_root(None))
        run(sweep_of(size, "cifar10" if there else "digits"), results=folder / "sweep")
        return
    end = time.perf_counter() + 60 * wanted.minutes
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if gpus_here() else "processor",
        "torch": torch.__version__,
        "rates": [],
        "missing": {},
    }

    def all_rates() -> list[dict[str, Any]]:
        """Take as many as half of the time allows; the sweep gets the other half."""
        for row in rates(size):
            found["rates"].append(row)
            keep(found, folder)
            print(json.dumps(row), flush=True)
            if end - time.perf_counter() < 30 * wanted.minutes:
                found["missing"]["rates"] = "no time was left after these"
                break
        return list(found["rates"])

    def the_sweep() -> dict[str, Any]:
        left = end - time.perf_counter() - LAST_SECONDS
        return sweep_with_kills(folder, small=wanted.small, seconds=left)

    parts: dict[str, Callable[[], Any]] = {
        "rates": all_rates,
        "hours": lambda: hours_against_clock(size),
        "plans": lambda: plans(size),
        "sweep": the_sweep,
    }
    if wanted.without_sweep:
        del parts["sweep"]
    for part, ask in parts.items():
        try:
            found[part] = ask()
        except Exception as error:  # the other parts are worth their time
            found["missing"][part] = f"{type(error).__name__}: {error}"[:1000]
        keep(found, folder)
    print(table(found))


if __name__ == "__main__":
    main()

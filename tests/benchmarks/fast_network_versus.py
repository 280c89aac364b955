"""The fast network beside others in equal processor time; what bfloat16 and compiling change.

    python -m tests.benchmarks.fast_network_versus            # all, ten minutes of a core
    python -m tests.benchmarks.fast_network_versus networks
    python -m tests.benchmarks.fast_network_versus ways
    python -m tests.benchmarks.fast_network_versus speeds    # images in a second

On some thousands of images of CIFAR-10's training split, judged by other images of it. Times are of
this process's training alone, without judging; a network that cannot see all images once in its
time sees as many as it can, once.
"""

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.data import PublicData
from labeldp.trainers.evaluation import logits_of
from labeldp.trainers.fast_training import FULL_WIDTH, HALF_WIDTH
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.models import ModelName, build_model
from labeldp.trainers.performance import Performance, Precision, bf16_units
from tests.benchmarks.data_at_hand import load_or_refuse
from tests.benchmarks.fast_network import ONE_CORE, fast, part, usual
from tests.benchmarks.interruption import ended

#: Of the training split.
IMAGES = 5000
SEEDS = (0, 1, 2)
#: Examples that tell how long a network takes for one: some batches, after one that warms up.
_TIMED = 512
#: Model, width, and what it is called.
OTHERS = (
    (ModelName.SMALL_CNN, 16, "small CNN, width 16"),
    (ModelName.WIDE_RESNET28, 1, "WRN-28-1"),
    (ModelName.WIDE_RESNET28, 4, "WRN-28-4"),
)

#: Of the fast network that is computed in several ways: so narrow that three seeds take minutes.
NARROW = fast(16, 6)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A trained network.

    Attributes:
        accuracy: In [0, 1].
        processor_seconds: Of its training, this process's alone; compiling included.
        epochs: How often it saw each of the images; less than 1 where there was time for a part.
    """

    accuracy: float
    processor_seconds: float
    epochs: float


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a network is computed, and how it did with several seeds.

    Attributes:
        name: Of the way.
        runs: One of each seed.
    """

    name: str
    runs: tuple[Measured, ...]

    @property
    def mean(self) -> float:
        """Of the accuracies."""
        return fmean(run.accuracy for run in self.runs)

    @property
    def spread(self) -> float:
        """Standard deviation of the accuracies over seeds."""
        return stdev(run.accuracy for run in self.runs)

    @property
    def seconds(self) -> float:
        """Of a processor, in the mean."""
        return fmean(run.processor_seconds for run in self.runs)

    @property
    def words(self) -> str:
        """All of it in the cells of a table."""
        each = ", ".join(f"{100 * run.accuracy:.1f}" for run in self.runs)
        return (
            f"| {self.name} | {100 * self.mean:.1f} +- {100 * self.spread:.1f} ({each}) | "
            f"{self.seconds:.1f} |"
        )

    def differs_from(self, other: "Way") -> bool:
        """Whether the means are three standard errors of their difference apart."""
        error = math.hypot(self.spread, other.spread) / math.sqrt(len(self.runs))
        return abs(self.mean - other.mean) > 3 * error


def measured(
    config: LearnerConfig,
    data: PublicData,
    labels: Tensor,
    *,
    seed: int = 0,
    performance: Performance = ONE_CORE,
) -> Measured:
    """Train to the end, then judge once."""
    unjudged = replace(data, test_features=data.test_features[:0], test_labels=data.test_labels[:0])
    start = time.process_time()
    learner = Learner(config, data=unjudged, seed=seed, performance=performance)
    smoothing = config.recipe.label_smoothing

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels[rows], label_smoothing=smoothing)

    for _ in range(config.epochs):
        learner.epoch(loss)
    seconds = time.process_time() - start
    found = learner.predict(data.test_features).argmax(1)
    return Measured(
        accuracy=float((found == data.test_labels).mean()),
        processor_seconds=seconds,
        epochs=config.epochs,
    )


def in_time(
    seconds: float, model: ModelName, width: int, data: PublicData, labels: Tensor
) -> Measured:
    """Train another network for about so much processor time, its schedule fitted to that."""
    few, their = data.train_features[:_TIMED], labels[:_TIMED]
    timed = replace(data, train_features=few)
    warm_up, *rest = (measured(usual(model, 1, width=width), timed, their) for _ in range(3))
    an_epoch = min(run.processor_seconds for run in (warm_up, *rest)) * len(labels) / _TIMED
    epochs = seconds / an_epoch
    if epochs >= 1:
        return measured(usual(model, round(epochs), width=width), data, labels)
    # A part of an epoch is one pass over a part of the images.
    images = max(1, round(epochs * len(labels)))
    fewer = replace(data, train_features=data.train_features[:images])
    found = measured(usual(model, 1, width=width), fewer, labels[:images])
    return replace(found, epochs=images / len(labels))


def ways() -> dict[str, Performance]:
    """Return how this machine can compute a network, by name."""
    single = replace(ONE_CORE, precision=Precision.FP32)
    found = {"fp32": single, "fp32, compiled": replace(single, compile=True)}
    if bf16_units(torch.device("cpu")):
        half = replace(ONE_CORE, precision=Precision.BF16)
        found |= {"bf16": half, "bf16, compiled": replace(half, compile=True)}
    return found


def compared(
    config: LearnerConfig, data: PublicData, labels: Tensor, performances: dict[str, Performance]
) -> Iterator[Way]:
    """Train the same network in several ways, each with every seed."""
    for name, performance in performances.items():
        runs = (
            measured(config, data, labels, seed=seed, performance=performance) for seed in SEEDS
        )
        yield Way(name=name, runs=tuple(runs))


def _networks(data: PublicData, labels: Tensor) -> None:
    ours = measured(fast(32, 10), data, labels)
    _say("fast network, half width", ours)
    for model, width, name in OTHERS:
        _say(name, in_time(ours.processor_seconds, model, width, data, labels))


def _say(name: str, run: Measured) -> None:
    print(
        f"| {name} | {100 * run.accuracy:.1f} | {run.processor_seconds:.0f} | {run.epochs:.3g} |",
        flush=True,
    )


def _ways(data: PublicData, labels: Tensor) -> None:
    first: Way | None = None
    for way in compared(NARROW, data, labels, ways()):
        first = first or way
        print(f"{way.words} {'differs' if way.differs_from(first) else ''} |", flush=True)


def speed(width: int, performance: Performance) -> float:
    """Images in a second of this process, forward and backward, the median of seven batches."""
    performance.limit_threads()
    shape, count = (3, 32, 32), _TIMED
    network = build_model(
        ModelName.FAST_CNN, input_shape=shape, num_classes=10, seed=0, width=width
    ).to(memory_format=performance.memory_format())
    images = torch.rand(count, *shape).contiguous(memory_format=performance.memory_format())
    forward, targets = performance.compiled(network), torch.arange(count) % 10

    def step() -> float:
        start = time.process_time()
        network.zero_grad()
        logits = logits_of(forward, images, performance)
        torch.autograd.backward(functional.cross_entropy(logits, targets))
        return time.process_time() - start

    for _ in range(2):  # compiles, and warms up
        step()
    return count / median(step() for _ in range(7))


def _speeds(data: PublicData, labels: Tensor) -> None:
    del data, labels  # random images take as long
    for name, performance in ways().items():
        for layout, last in (("", False), (", channels last", True)):
            laid_out = replace(performance, channels_last=last)
            found = [speed(width, laid_out) for width in (FULL_WIDTH, HALF_WIDTH)]
            print(f"| {name}{layout} | {found[0]:,.0f} | {found[1]:,.0f} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    tables = {"networks": _networks, "ways": _ways, "speeds": _speeds}
    parser.add_argument("what", nargs="?", choices=tuple(tables), help="all, if not given")
    only = parser.parse_args(arguments).what
    data, labels = part(load_or_refuse(parser, "cifar10"), IMAGES)
    units = bf16_units(torch.device("cpu")) or "no units for bfloat16"
    print(f"{IMAGES} images, {len(data.test_labels)} others judge; {units}", flush=True)
    for name in [only] if only else tables:
        tables[name](data, labels)


if __name__ == "__main__":
    ended(main)

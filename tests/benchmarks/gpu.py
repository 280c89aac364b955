"""How fast the trainers are on this machine's accelerator; needs torch and numpy, no Ray, no data.

    python -m tests.benchmarks.gpu --seconds 20 --json speeds.json

measures, each for about so many seconds after a warm-up: matrix products, as a yardstick;
FixMatch's views; steps of FixMatch with WRN-28-2, -4 and -8 and of ALIBI with ResNet18, by
precision, memory layout and compilation; small teachers in one batch of networks against one by
one. Images are random, labels too: only speed is looked at. `--small` takes networks and batches
that a CPU can do in a minute, to see that everything runs.

Utilization is arithmetic done (three times a forward pass for what is learned from) over what the
yardstick does in that time.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.alibi import AlibiConfig
from labeldp.trainers.augmentation import CropAndFlip
from labeldp.trainers.data import PublicData
from labeldp.trainers.fixmatch import FixMatch
from labeldp.trainers.fixmatch.rand_augment import RandAugment
from labeldp.trainers.fixmatch.views import ImageViews
from labeldp.trainers.learner import LearnerConfig
from labeldp.trainers.models import ModelName, build_model
from labeldp.trainers.pate.teachers import EnsembleConfig, TeacherKind, TeacherVotes
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.fixmatch import FixMatchConfig

_BF16 = Performance(precision=Precision.BF16, channels_last=True)
PERFORMANCES = {
    "fp32": Performance(),
    "bf16": Performance(precision=Precision.BF16),
    "bf16, channels last": _BF16,
    "bf16, channels last, compiled": replace(_BF16, compile=True),
}
_LEAST_ROUNDS = 3


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One measurement.

    Attributes:
        what: Was measured.
        how: With which settings.
        per_second: Median over the rounds.
        unit: Of what is counted per second.
        rounds: How many there were.
        utilization: Share of the yardstick's arithmetic; None where it means nothing.
        peak_gib: Most memory that tensors took on the accelerator; None without one.
    """

    what: str
    how: str
    per_second: float
    unit: str
    rounds: int
    utilization: float | None = None
    peak_gib: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What is measured; the defaults are those of the papers.

    Attributes:
        widths: Of WRN-28.
        resnet_width: Of ResNet18.
        images: Training images, which is an epoch of ALIBI.
        steps: Of FixMatch in a round.
        labeled: Labeled images in a step of FixMatch, beside 7 times as many unlabeled ones.
        views: Images that views are made of at once.
        matrix: Side of the yardstick's matrices.
        teachers: In one batch of networks.
    """

    widths: tuple[int, ...] = (2, 4, 8)
    resnet_width: int = 64
    images: int = 50_000
    steps: int = 50
    labeled: int = 64
    views: int = 448
    matrix: int = 8192
    teachers: tuple[int, ...] = (2, 8, 32)


SMALL = Sizes(
    widths=(1,), resnet_width=4, images=256, steps=1, labeled=4, views=64, matrix=256, teachers=(2,)
)


class Stopwatch:
    """Times rounds of work, with the accelerator's queue empty before and after."""

    def __init__(self, seconds: float) -> None:
        """Measure for so long, but at least three rounds."""
        self.seconds = seconds
        self.device = Performance().torch_device()

    def rate(self, work: Callable[[], object], *, count: float) -> tuple[float, int]:
        """Return the median of `count` / (seconds of a round), and how many rounds there were."""
        work()  # allocations, choice of kernels, compilation
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        rounds: list[float] = []
        began = time.perf_counter()
        while len(rounds) < _LEAST_ROUNDS or time.perf_counter() - began < self.seconds:
            self._wait()
            start = time.perf_counter()
            work()
            self._wait()
            rounds.append(time.perf_counter() - start)
        return count / statistics.median(rounds), len(rounds)

    def peak_gib(self) -> float | None:
        """Most memory that tensors took since the last warm-up."""
        if self.device.type != "cuda":
            return None
        return torch.cuda.max_memory_allocated() / 2**30

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def random_images(count: int, *, num_classes: int) -> PublicData:
    """Noise of the shape of CIFAR, with a single test image: nobody's accuracy is looked at."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return PublicData(
        name="noise",
        num_classes=num_classes,
        train_features=pixels,
        test_features=pixels[:1].clone(),
        test_labels=np.zeros(1, dtype=np.int64),
    )


def forward_flops(model: ModelName, *, width: int, num_classes: int) -> float:
    """Floating-point operations of one image's way through a network, a product being two."""
    network = build_model(
        model, input_shape=(3, 32, 32), num_classes=num_classes, seed=0, width=width
    ).eval()
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 3, 32, 32))
    return float(counter.get_total_flops())


def yardstick(watch: Stopwatch, sizes: Sizes) -> Speed:
    """Products of square matrices in bfloat16."""
    left, right = (
        torch.randn(sizes.matrix, sizes.matrix, device=watch.device, dtype=torch.bfloat16)
        for _ in range(2)
    )
    per_second, rounds = watch.rate(lambda: left @ right, count=2 * sizes.matrix**3 / 1e12)
    return Speed(
        what=f"matrix product, {sizes.matrix}",
        how="bf16",
        per_second=per_second,
        unit="TFLOP",
        rounds=rounds,
        peak_gib=watch.peak_gib(),
    )


def views(watch: Stopwatch, sizes: Sizes) -> Speed:
    """Weak and strong views of images that are on the device."""
    images = random_images(sizes.views, num_classes=10).train_features.to(watch.device)
    half = torch.full((3,), 0.5, device=watch.device)
    of = ImageViews(mean=half, std=half, crop=CropAndFlip(), augment=RandAugment())
    generator = torch.Generator().manual_seed(0)
    per_second, rounds = watch.rate(
        lambda: (of.weak(images, generator), of.strong(images, generator)), count=sizes.views
    )
    return Speed(
        what="pairs of views",
        how=f"{sizes.views} at once",
        per_second=per_second,
        unit="pairs",
        rounds=rounds,
        peak_gib=watch.peak_gib(),
    )


def fixmatch(watch: Stopwatch, sizes: Sizes, width: int, how: str, top: Speed) -> Speed:
    """Steps of a FixMatch teacher, data and augmentation included."""
    data = random_images(max(1000, sizes.views), num_classes=10)
    config = FixMatchConfig(
        width=width, epochs=10_000, steps_per_epoch=sizes.steps, batch_size=sizes.labeled
    )
    trainer = FixMatch(
        config,
        data=data,
        indices=np.arange(250),
        labels=np.arange(250) % 10,
        seed=0,
        performance=PERFORMANCES[how],
    )
    per_second, rounds = watch.rate(trainer.epoch, count=sizes.steps)
    flops = forward_flops(ModelName.WIDE_RESNET28, width=width, num_classes=10)
    images = config.batch_size * (1 + 2 * config.unlabeled_ratio)  # weak and strong
    return Speed(
        what=f"FixMatch, WRN-28-{width}",
        how=how,
        per_second=per_second,
        unit="steps",
        rounds=rounds,
        utilization=3 * flops * images * per_second / (top.per_second * 1e12),
        peak_gib=watch.peak_gib(),
    )


def alibi(watch: Stopwatch, sizes: Sizes, how: str, top: Speed) -> Speed:
    """Epochs of ALIBI with ResNet18 on 100 classes, as images per second."""
    config = AlibiConfig(
        model=ModelName.RESNET18,
        width=sizes.resnet_width,
        epochs=10_000,
        batch_size=128,
        augment=True,
    )
    labels = np.arange(sizes.images) % 100
    trainer = config.start(
        data=random_images(sizes.images, num_classes=100),
        labels=LabelVault(labels=labels, num_classes=100),
        seed=0,
        performance=PERFORMANCES[how],
    )
    per_second, rounds = watch.rate(trainer.epoch, count=sizes.images)
    flops = forward_flops(ModelName.RESNET18, width=sizes.resnet_width, num_classes=100)
    return Speed(
        what="ALIBI, ResNet18, 100 classes",
        how=how,
        per_second=per_second,
        unit="images",
        rounds=rounds,
        utilization=3 * flops * per_second / (top.per_second * 1e12),
        peak_gib=watch.peak_gib(),
    )


def teachers(watch: Stopwatch, sizes: Sizes, count: int, *, together: bool) -> Speed:
    """Small convolutional teachers, trained as one batch of networks or one after another."""
    data = random_images(count * 64, num_classes=10)
    labels = np.arange(count * 64) % 10
    config = EnsembleConfig(
        kind=TeacherKind.NETWORK,
        teachers=count,
        queries=64,
        network=LearnerConfig(model=ModelName.SMALL_CNN, epochs=5, batch_size=32),
    )
    shards = LabelVault(labels=labels, num_classes=10).partition(count, seed=0)
    vote = TeacherVotes(config=config, performance=Performance())

    def train() -> None:
        if together:
            vote(range(count), shards, data)
            return
        for teacher in range(count):
            vote(range(teacher, teacher + 1), shards[teacher : teacher + 1], data)

    per_second, rounds = watch.rate(train, count=count)
    return Speed(
        what=f"{count} small CNN teachers of 64 images",
        how="together" if together else "one by one",
        per_second=per_second,
        unit="teachers",
        rounds=rounds,
        peak_gib=watch.peak_gib(),
    )


def measured(watch: Stopwatch, sizes: Sizes) -> Iterator[Speed]:
    """Yield one speed after another, the yardstick first."""
    top = yardstick(watch, sizes)
    yield top
    yield views(watch, sizes)
    # On a CPU precisions and compilers are another story, and a minute is not enough for it.
    hows = list(PERFORMANCES) if watch.device.type == "cuda" else ["fp32"]
    for how in hows:
        for width in sizes.widths:
            yield fixmatch(watch, sizes, width, how, top)
        yield alibi(watch, sizes, how, top)
    for count in sizes.teachers:
        for together in (True, False):
            yield teachers(watch, sizes, count, together=together)


def row(speed: Speed) -> str:
    """Return a speed as a row of a Markdown table."""
    share = "" if speed.utilization is None else f"{speed.utilization:.0%}"
    memory = "" if speed.peak_gib is None else f"{speed.peak_gib:.1f}"
    figure = f"{speed.per_second:,.4g} {speed.unit}"
    return f"| {speed.what} | {speed.how} | {figure} | {share} | {memory} |"


def main() -> None:
    """Print a table, row by row as they come; keep what was measured if the end does not come."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="for each measurement")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU: does it run?")
    parser.add_argument("--most", type=int, help="stop after so many measurements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    wanted = parser.parse_args()
    watch = Stopwatch(wanted.seconds)
    name = torch.cuda.get_device_name() if watch.device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}\n")
    print("| what | how | per second | utilization | GiB |\n|---|---|---|---|---|", flush=True)
    speeds: list[Speed] = []
    for speed in islice(measured(watch, SMALL if wanted.small else Sizes()), wanted.most):
        print(row(speed), flush=True)
        speeds.append(speed)
        if wanted.json is not None:
            found = {"device": name, "speeds": [asdict(each) for each in speeds]}
            wanted.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

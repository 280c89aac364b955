"""Speed of the trainers on this machine's accelerator; needs torch and numpy alone.

    python -m tests.benchmarks.gpu_campaign --folder DIR --only speeds

Each measurement runs for the given seconds after a warm-up: matrix products as a yardstick;
FixMatch's views; FixMatch with WRN-28-2, -4 and -8, ALIBI with ResNet18, the fast network at half
and full width, and self-supervised encoders, by precision, memory layout and compilation; small
teachers in one batch of networks and one by one. Images and labels are random.

Utilization is the arithmetic done (training is counted as three forward passes) over what the
yardstick does in that time.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, Release
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.encoders.pretraining import Pretraining
from labeldp.trainers.methods.fixmatch import FixMatch, ImageViews
from labeldp.trainers.methods.rand_augment import RandAugment
from labeldp.trainers.methods.teachers import TeacherVotes
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.models.schedules import fast_training
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig
from labeldp.trainers.settings.pate import EnsembleConfig, TeacherKind
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig, SelfSupervisedConfig

_BF16 = Performance(precision=Precision.BF16, channels_last=True)
PERFORMANCES = {
    "fp32": Performance(),
    "bf16": Performance(precision=Precision.BF16),
    "bf16, channels last": _BF16,
    "bf16, channels last, compiled": replace(_BF16, compile=True),
}
ROW_HEAD = "| what | how | per second | utilization | GiB |\n|---|---|---|---|---|"
_LEAST_ROUNDS, _MANY_EPOCHS = 3, 10_000


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One measurement: the median over the rounds, in `unit`.

    Utilization is the share of the yardstick's arithmetic; None where it means nothing.
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
    """Sizes of the measured work; the defaults are those of the papers."""

    widths: tuple[int, ...] = (2, 4, 8)  # of WRN-28
    resnet_width: int = 64
    images: int = 50_000  # in an epoch of ALIBI
    steps: int = 50  # of FixMatch in a round
    labeled: int = 64  # in a step of FixMatch, beside 7 times as many unlabeled ones
    views: int = 448  # made at once
    matrix: int = 8192
    teachers: tuple[int, ...] = (2, 8, 32)  # networks in one batch
    fast_widths: tuple[int, ...] = (32, 64)
    fast_images: int = 50_000
    encoders: tuple[tuple[ModelName, int], ...] = (
        (ModelName.FAST_CNN, 64),
        (ModelName.RESNET18, 64),
    )
    pairs: int = 20_480  # images for them, in two views each


SMALL = Sizes(
    widths=(1,),
    resnet_width=4,
    images=256,
    steps=1,
    labeled=4,
    views=64,
    matrix=256,
    teachers=(2,),
    fast_widths=(2,),
    fast_images=64,
    encoders=((ModelName.FAST_CNN, 2),),
    pairs=64,
)


class Stopwatch:
    """Times rounds of work, with the accelerator's queue empty before and after."""

    def __init__(self, seconds: float) -> None:
        """Measure for so long, but at least three rounds."""
        self.seconds = seconds
        self.device = Performance().torch_device()

    def speed(
        self,
        work: Callable[[], object],
        *,
        what: str,
        how: str,
        count: float,
        unit: str,
        flops: float = 0.0,
        top: Speed | None = None,
    ) -> Speed:
        """Measure `work`, which does `count` of `unit` of `flops` trained operations each."""
        work()  # allocations, choice of kernels, compilation
        cuda = self.device.type == "cuda"
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        rounds: list[float] = []
        began = time.perf_counter()
        while len(rounds) < _LEAST_ROUNDS or time.perf_counter() - began < self.seconds:
            self._wait()
            start = time.perf_counter()
            work()
            self._wait()
            rounds.append(time.perf_counter() - start)
        per_second = count / statistics.median(rounds)
        return Speed(
            what=what,
            how=how,
            per_second=per_second,
            unit=unit,
            rounds=len(rounds),
            utilization=3 * flops * per_second / (top.per_second * 1e12) if top else None,
            peak_gib=torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        )

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def random_images(count: int, *, num_classes: int) -> PublicData:
    """Return noise of the shape of CIFAR with a single test image: accuracy does not matter."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator)
    return PublicData(
        name="noise",
        num_classes=num_classes,
        train_features=pixels,
        test_features=pixels[:1].clone(),
        test_labels=np.zeros(1, dtype=np.int64),
    )


class SeededLabels(LabelVault):
    """Labels that are no secret, with seeded noise: secret noise needs another library."""

    def __init__(self, *, labels: Any, num_classes: int, seed: int = 0) -> None:
        super().__init__(labels=labels, num_classes=num_classes)
        self._seed = seed

    def release(self, *request: Any, **settings: Any) -> Release:
        """Return the release of a mechanism, drawn once."""
        return super().release(*request, **{**settings, "noise": SeededNoise(seed=self._seed)})


def forward_flops(model: ModelName, *, width: int, num_classes: int) -> float:
    """Return the floating-point operations of one image's forward pass; a product counts two."""
    network = build_model(
        model, input_shape=(3, 32, 32), num_classes=num_classes, seed=0, width=width
    ).eval()
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 3, 32, 32))
    return float(counter.get_total_flops())


def yardstick(watch: Stopwatch, sizes: Sizes) -> Speed:
    """Measure products of square matrices in bfloat16."""
    left, right = (
        torch.randn(sizes.matrix, sizes.matrix, device=watch.device, dtype=torch.bfloat16)
        for _ in range(2)
    )
    return watch.speed(
        lambda: left @ right,
        what=f"matrix product, {sizes.matrix}",
        how="bf16",
        count=2 * sizes.matrix**3 / 1e12,
        unit="TFLOP",
    )


def views(watch: Stopwatch, sizes: Sizes, top: Speed) -> Speed:
    """Measure weak and strong views of images that are on the device."""
    del top
    images = random_images(sizes.views, num_classes=10).train_features.to(watch.device)
    half = torch.full((3,), 0.5, device=watch.device)
    of = ImageViews(mean=half, std=half, crop=CropAndFlip(), augment=RandAugment())
    generator = torch.Generator().manual_seed(0)
    return watch.speed(
        lambda: (of.weak(images, generator), of.strong(images, generator)),
        what="pairs of views",
        how=f"{sizes.views} at once",
        count=sizes.views,
        unit="pairs",
    )


def fixmatch(watch: Stopwatch, sizes: Sizes, width: int, how: str, top: Speed) -> Speed:
    """Measure steps of a FixMatch teacher, data and augmentation included."""
    config = FixMatchConfig(
        width=width, epochs=_MANY_EPOCHS, steps_per_epoch=sizes.steps, batch_size=sizes.labeled
    )
    trainer = FixMatch(
        config,
        data=random_images(max(1000, sizes.views), num_classes=10),
        indices=np.arange(250),
        labels=np.arange(250) % 10,
        seed=0,
        performance=PERFORMANCES[how],
    )
    images = config.batch_size * (1 + 2 * config.unlabeled_ratio)  # weak and strong
    return watch.speed(
        trainer.epoch,
        what=f"FixMatch, WRN-28-{width}",
        how=how,
        count=sizes.steps,
        unit="steps",
        flops=images * forward_flops(ModelName.WIDE_RESNET28, width=width, num_classes=10),
        top=top,
    )


def alibi(
    watch: Stopwatch, config: AlibiConfig, images: int, classes: int, how: str, top: Speed
) -> Speed:
    """Measure epochs of ALIBI as images per second."""
    assert isinstance(config.model, ModelName) and config.width is not None
    trainer = config.start(
        data=random_images(images, num_classes=classes),
        labels=SeededLabels(labels=np.arange(images) % classes, num_classes=classes),
        seed=0,
        performance=PERFORMANCES[how],
    )
    return watch.speed(
        trainer.epoch,
        what=f"ALIBI, {config.model}, width {config.width}, {classes} classes",
        how=how,
        count=images,
        unit="images",
        flops=forward_flops(config.model, width=config.width, num_classes=classes),
        top=top,
    )


def self_supervised(
    watch: Stopwatch, sizes: Sizes, network: tuple[ModelName, int], how: str, top: Speed
) -> Speed:
    """Measure epochs of VICReg, views included, as images per second; each is seen twice."""
    model, width = network
    training = Pretraining(
        SelfSupervisedConfig(model=model, width=width, epochs=_MANY_EPOCHS),
        images=random_images(sizes.pairs, num_classes=10).train_features,
        seed=0,
        performance=PERFORMANCES[how],
    )
    return watch.speed(
        training.epoch,
        what=f"self-supervised, {model}, width {width}",
        how=how,
        count=sizes.pairs,
        unit="images",
        flops=2 * forward_flops(model, width=width, num_classes=10),
        top=top,
    )


def teachers(watch: Stopwatch, count: int, together: bool, top: Speed) -> Speed:
    """Measure small convolutional teachers, trained as one batch or one after another."""
    del top  # small networks wait for calls, not for arithmetic
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
    batch = count if together else 1

    def train() -> None:
        for first in range(0, count, batch):
            vote(range(first, first + batch), shards[first : first + batch], data)

    return watch.speed(
        train,
        what=f"{count} small CNN teachers of 64 images",
        how="together" if together else "one by one",
        count=count,
        unit="teachers",
    )


def planned(watch: Stopwatch, sizes: Sizes) -> Iterator[tuple[str, Callable[[Speed], Speed]]]:
    """Yield name and work of all measurements but the yardstick, whose speed the work takes."""
    yield "views", partial(views, watch, sizes)
    resnet = AlibiConfig(
        model=ModelName.RESNET18,
        width=sizes.resnet_width,
        epochs=_MANY_EPOCHS,
        batch_size=128,
        augment=True,
    )
    # Precisions and compilers of a CPU would take more than a minute.
    for how in PERFORMANCES if watch.device.type == "cuda" else ["fp32"]:
        for width in sizes.widths:
            yield f"FixMatch {width}, {how}", partial(fixmatch, watch, sizes, width, how)
        yield f"ALIBI, {how}", partial(alibi, watch, resnet, sizes.images, 100, how)
        for width in sizes.fast_widths:
            fast = AlibiConfig(**fast_training(epochs=_MANY_EPOCHS, width=width))
            work = partial(alibi, watch, fast, sizes.fast_images, 10, how)
            yield f"fast network {width}, {how}", work
        for each in sizes.encoders:
            work = partial(self_supervised, watch, sizes, each, how)
            yield f"self-supervised {each[0]}, {how}", work
    for count in sizes.teachers:
        yield f"{count} teachers, together", partial(teachers, watch, count, True)
        yield f"{count} teachers, one by one", partial(teachers, watch, count, False)


def row(speed: Speed) -> str:
    """Return a speed as a row of a Markdown table."""
    share = "" if speed.utilization is None else f"{speed.utilization:.0%}"
    memory = "" if speed.peak_gib is None else f"{speed.peak_gib:.1f}"
    figure = f"{speed.per_second:,.4g} {speed.unit}"
    return f"| {speed.what} | {speed.how} | {figure} | {share} | {memory} |"

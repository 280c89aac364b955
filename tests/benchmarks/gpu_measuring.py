"""What the benchmark for accelerators measures with: a stopwatch, sizes, images of noise."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.flop_counter import FlopCounterMode

from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.base import ModelName

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
        fast_widths: Of the fast network: half and full.
        fast_images: Its training images; whole batches of 500.
        encoders: Networks that are trained without labels, and their widths.
        pairs: Images that they are trained on, in two views each; whole batches of 512.
    """

    widths: tuple[int, ...] = (2, 4, 8)
    resnet_width: int = 64
    images: int = 50_000
    steps: int = 50
    labeled: int = 64
    views: int = 448
    matrix: int = 8192
    teachers: tuple[int, ...] = (2, 8, 32)
    fast_widths: tuple[int, ...] = (32, 64)
    fast_images: int = 50_000
    encoders: tuple[tuple[ModelName, int], ...] = (
        (ModelName.FAST_CNN, 64),
        (ModelName.RESNET18, 64),
    )
    pairs: int = 20_480


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


@dataclass(frozen=True, kw_only=True)
class SeededLabels:
    """A vault that is asked with noise that a seed repeats: secret noise needs a further library.

    Attributes:
        vault: Of labels that are no secret.
        noise: With its seed.
    """

    vault: LabelVault
    noise: SeededNoise

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return the release of `mechanism`, drawn once."""
        return self.vault.release(mechanism, *public, indices=indices, noise=self.noise)


def random_labels(count: int, *, num_classes: int) -> SeededLabels:
    """Labels to go with `random_images`."""
    vault = LabelVault(labels=np.arange(count) % num_classes, num_classes=num_classes)
    return SeededLabels(vault=vault, noise=SeededNoise(seed=0))


def forward_flops(model: ModelName, *, width: int, num_classes: int) -> float:
    """Floating-point operations of one image's way through a network, a product being two."""
    network = build_model(
        model, input_shape=(3, 32, 32), num_classes=num_classes, seed=0, width=width
    ).eval()
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 3, 32, 32))
    return float(counter.get_total_flops())

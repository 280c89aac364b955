"""How fast the trainers are on this machine's accelerator; needs torch and numpy, no Ray, no data.

    python -m tests.benchmarks.gpu --seconds 20 --json speeds.json

measures, each for about so many seconds after a warm-up: matrix products, as a yardstick;
FixMatch's views; steps of FixMatch with WRN-28-2, -4 and -8, of ALIBI with ResNet18, of the fast
network at half and full width, and of self-supervised encoders, by precision, memory layout and
compilation; small teachers in one batch of networks against one by one. Images are random, labels
too: only speed is looked at. `--small` takes networks and batches that a CPU can do in a minute, to
see that everything runs.

Utilization is arithmetic done (three times a forward pass for what is learned from) over what the
yardstick does in that time.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.fixmatch.views import ImageViews, RandAugment
from labeldp.trainers.methods.pate.teachers import TeacherVotes
from labeldp.trainers.models.augmentation import CropAndFlip
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import AlibiConfig
from labeldp.trainers.settings.pate import EnsembleConfig, TeacherKind
from labeldp.trainers.settings.training import FixMatchConfig, LearnerConfig
from tests.benchmarks.gpu_measuring import (
    PERFORMANCES,
    SMALL,
    Sizes,
    Speed,
    Stopwatch,
    forward_flops,
    random_images,
    random_labels,
)
from tests.benchmarks.gpu_networks import fast_network, self_supervised
from tests.benchmarks.interruption import ended


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
    trainer = config.start(
        data=random_images(sizes.images, num_classes=100),
        labels=random_labels(sizes.images, num_classes=100),
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


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A measurement that is still to be made.

    Attributes:
        name: Of the measurement.
        make: What makes it, given the yardstick's speed.
    """

    name: str
    make: Callable[[Speed], Speed]


def planned(watch: Stopwatch, sizes: Sizes) -> list[Planned]:
    """Return all measurements but the yardstick, which the others are told."""
    # On a CPU precisions and compilers are another story, and a minute is not enough for it.
    hows = list(PERFORMANCES) if watch.device.type == "cuda" else ["fp32"]
    found = [Planned(name="views", make=lambda top: views(watch, sizes))]
    for how in hows:
        works: list[tuple[str, Callable[[Speed], Speed]]] = [
            *(
                (f"FixMatch {width}", partial(fixmatch, watch, sizes, width, how))
                for width in sizes.widths
            ),
            ("ALIBI", partial(alibi, watch, sizes, how)),
            *(
                (f"fast network {width}", partial(fast_network, watch, sizes, width, how))
                for width in sizes.fast_widths
            ),
            *(
                (f"self-supervised {each[0]}", partial(self_supervised, watch, sizes, each, how))
                for each in sizes.encoders
            ),
        ]
        found += [Planned(name=f"{what}, {how}", make=make) for what, make in works]
    for count in sizes.teachers:
        for together in (True, False):
            found.append(
                Planned(
                    name=f"{count} teachers, {'together' if together else 'one by one'}",
                    make=partial(_teachers, watch, sizes, count, together),
                )
            )
    return found


def _teachers(watch: Stopwatch, sizes: Sizes, count: int, together: bool, top: Speed) -> Speed:
    del top  # what small networks wait for is no arithmetic
    return teachers(watch, sizes, count, together=together)


def measured(watch: Stopwatch, sizes: Sizes) -> Iterator[Speed]:
    """Yield one speed after another, the yardstick first."""
    top = yardstick(watch, sizes)
    yield top
    for each in planned(watch, sizes):
        yield each.make(top)


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
    ended(main)

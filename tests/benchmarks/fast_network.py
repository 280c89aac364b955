"""The fast network on CIFAR-10, without noise: accuracy and time of a command.

    python -m tests.benchmarks.fast_network                          # half width, ten epochs
    python -m tests.benchmarks.fast_network --width 64
    python -m tests.benchmarks.fast_network --images 10000 --epochs 5 --precision fp32 --compile

Fewer images than all are drawn from the training split and judged by other images of it: the test
split has no part in the search for better constants.
"""

import argparse
import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.schedules import HALF_WIDTH, LABEL_SMOOTHING, fast_training
from labeldp.trainers.performance import Device, Performance, Precision, bf16_units
from labeldp.trainers.settings.training import LearnerConfig

#: Images that judge a network trained on a part of the training split.
JUDGES = 4000


def part(data: LabelledData, images: int) -> tuple[PublicData, Tensor]:
    """Return public data of so many training images, and their labels."""
    public, total = data.public, len(data.train_labels)
    if images >= total:
        return public, torch.from_numpy(data.train_labels)
    order = np.random.default_rng(1).permutation(total)
    chosen, judges = order[:images], order[images : images + JUDGES]
    smaller = replace(
        public,
        train_features=public.train_features[torch.from_numpy(chosen)],
        test_features=public.train_features[torch.from_numpy(judges)],
        test_labels=data.train_labels[judges],
    )
    return smaller, torch.from_numpy(data.train_labels[chosen])


def main() -> None:
    """Train the fast network as the command line asks, and print each epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--width", type=int, default=HALF_WIDTH)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=[p.value for p in Precision], default="auto")
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    data, labels = part(load("cifar10"), asked.images)
    performance = Performance(
        device=Device.CPU,
        precision=Precision(asked.precision),
        channels_last=True,
        compile=asked.compile,
        threads=asked.threads,
    )
    units = bf16_units(torch.device("cpu")) or "no units for bfloat16"
    print(f"{performance.precision_here()} ({units}), {asked.threads} threads")
    start, cpu = time.perf_counter(), time.process_time()
    recipe = fast_training(width=asked.width, epochs=asked.epochs, label_smoothing=LABEL_SMOOTHING)
    config = LearnerConfig(**recipe)
    smoothing = config.recipe.label_smoothing
    learner = Learner(config, data=data, seed=asked.seed, performance=performance)

    def loss(logits: Tensor, rows: Tensor) -> Tensor:
        return functional.cross_entropy(logits, labels[rows], label_smoothing=smoothing)

    for _ in range(config.epochs):
        each = learner.epoch(loss)
        print(
            f"epoch {each.epoch}: accuracy {each.val_accuracy:.4f}, {each.seconds:.0f} s; in all "
            f"{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} of a processor",
            flush=True,
        )


if __name__ == "__main__":
    main()

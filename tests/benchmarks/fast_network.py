"""The fast network on CIFAR-10, without noise: accuracy and time of a command.

python -m tests.benchmarks.fast_network                          # half width, ten epochs
python -m tests.benchmarks.fast_network --width 64
"""

import argparse
import time

import torch

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.performance import Device, Performance, Precision, bf16_units
from labeldp.trainers.settings.training import (
    HALF_WIDTH,
    LABEL_SMOOTHING,
    LearnerConfig,
    fast_training,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--width", type=int, default=HALF_WIDTH)
    wanted = parser.parse_args()
    data = load("cifar10")
    performance = Performance(
        device=Device.CPU, precision=Precision.AUTO, channels_last=True, threads=1
    )
    units = bf16_units(torch.device("cpu")) or "no units for bfloat16"
    print(f"{performance.precision_here()} ({units}), one thread")
    start, cpu = time.perf_counter(), time.process_time()
    config = LearnerConfig(
        **fast_training(width=wanted.width, epochs=10, label_smoothing=LABEL_SMOOTHING)
    )
    learner = OnLabels(
        config,
        labels=data.train_labels,
        data=data.public,
        seed=0,
        performance=performance,
    )
    for _ in range(config.epochs):
        each = learner.epoch()
        print(
            f"epoch {each.epoch}: accuracy {each.val_accuracy:.4f}, {each.seconds:.0f} s; in all "
            f"{time.perf_counter() - start:.0f} s, {time.process_time() - cpu:.0f} of a processor",
            flush=True,
        )


if __name__ == "__main__":
    main()

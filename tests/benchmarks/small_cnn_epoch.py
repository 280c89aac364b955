"""An epoch of the small CNN by precision, layout and threads: `cnn-epoch` of `make bench`, varied.

    python -m tests.benchmarks.small_cnn_epoch            # two minutes; --images 12800 for less

A Markdown table: processor and wall seconds of the second epoch on images of 28 x 28, and of
evaluating 10,000. On a busy machine only the processor time says something.
"""

import argparse
import os
import time
from itertools import product

import numpy as np
import torch

from labeldp.trainers.performance import Device, Performance, Precision
from tests.benchmarks.hot_paths.training import FASHION, cnn_config, noise_images, run_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=FASHION)
    images = parser.parse_args().images
    data = noise_images(images, shape=(1, 28, 28), classes=10, tested=10_000)
    labels = np.random.default_rng(0).integers(0, 10, images)
    print(f"{images} images, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| precision | channels last | threads | processor | wall |\n|---|---|---|---|---|")
    for threads, precision, last in product(
        (1, 2), (Precision.FP32, Precision.BF16), (False, True)
    ):
        performance = Performance(
            device=Device.CPU, precision=precision, channels_last=last, threads=threads
        )
        ours, _ = run_of(data, labels, cnn_config(), performance)
        ours.epoch()
        began = time.process_time(), time.perf_counter()
        ours.epoch()
        used, passed = time.process_time() - began[0], time.perf_counter() - began[1]
        print(f"| {precision} | {last} | {threads} | {used:.1f} s | {passed:.1f} s |", flush=True)
    torch.set_num_threads(1)


if __name__ == "__main__":
    main()

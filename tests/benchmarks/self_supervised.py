"""The worth of an encoder trained without labels: ridge regression on its features.

    python -m tests.benchmarks.self_supervised cifar10 --images 2000 --width 16 --epochs 16
    python -m tests.benchmarks.self_supervised digits --width 8 --epochs 6 --labels 20
    python -m tests.benchmarks.self_supervised cifar10 --encoder encoder.pt

Prints accuracy on the test split on random weights, and while it is trained; or that of a file that
`labeldp self-supervise` wrote, on its hidden layer alone and on whole vectors. Nothing here is
private: the regression learns from true labels.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from labeldp.platform.cli.models import ridge
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.encoders.image_encoder import ImageEncoder, Pretraining, build, described
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.training import SelfSupervisedConfig

FAST = Performance(device=Device.CPU, precision=Precision.AUTO, channels_last=True, threads=1)


def accuracies(
    encoder: ImageEncoder,
    known: tuple[Tensor, NDArray[np.int64]],
    unknown: tuple[Tensor, NDArray[np.int64]],
) -> tuple[float, float]:
    """Share of right guesses on the hidden layer and on whole vectors.

    Images are [N, C, H, W] and labels [N].
    """
    rows, others = (
        described(encoder, images, performance=FAST).numpy() for images, _ in (known, unknown)
    )
    assert encoder.units is not None
    found = []
    for kept in (slice(-encoder.units, None), slice(None)):
        fitted = ridge().fit(rows[:, kept], known[1])
        found.append(float(fitted.score(others[:, kept], unknown[1])))
    return found[0], found[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", choices=("cifar10", "cifar100", "digits"))
    parser.add_argument("--encoder", type=Path, help="a trained one; other options do not count")
    parser.add_argument("--images", type=int, help="of the training split (default: all)")
    parser.add_argument("--labels", type=int, help="that the regression learns of (default: all)")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--views", type=int, default=8)
    parser.add_argument("--crop", type=int)
    parser.add_argument("--batch-size", type=int, default=256)
    given = parser.parse_args()
    data = load(given.data, limit=given.images)
    images = data.public.train_features
    known = (images[: given.labels], data.train_labels[: given.labels])
    unknown = (data.public.test_features, data.public.test_labels)

    def worth(encoder: ImageEncoder) -> str:
        hidden, whole = accuracies(encoder, known, unknown)
        return f"{whole:.2%}, hidden layer alone {hidden:.2%}"

    if given.encoder is not None:
        print(worth(build(given.encoder)))
        return
    photographs = given.data != "digits"
    names = ("width", "epochs", "views", "crop", "batch_size")
    config = SelfSupervisedConfig(
        **{name: getattr(given, name) for name in names},
        projection=1024 if photographs else 64,
        flip=photographs,
    )
    training = Pretraining(config, images=images, seed=0, performance=FAST)
    print(f"random weights: {worth(training.encoder())}", flush=True)
    seconds = 0.0
    for number in range(1, given.epochs + 1):
        began = time.process_time()
        metrics = training.epoch()
        seconds += time.process_time() - began
        if number & (number - 1) == 0 or number == given.epochs:
            words = f"loss {metrics.loss:.2f}, {seconds:.0f} s of a core"
            print(f"epoch {number}: {worth(training.encoder())}, {words}", flush=True)


if __name__ == "__main__":
    main()

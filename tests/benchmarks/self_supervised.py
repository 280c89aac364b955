"""What an encoder that was trained without labels is worth: ridge regression on its features.

    python -m tests.benchmarks.self_supervised cifar10 --images 2000 --width 16 --epochs 16
    python -m tests.benchmarks.self_supervised digits --width 8 --epochs 6 --labels 20

Prints accuracy on the test split before training, on random weights, and after it. Nothing here
is private: it is true labels that the regression learns of.
"""

import argparse
import time

import torch
from torch import Tensor

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.encoders.pretraining import Pretraining, described
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.training import SelfSupervisedConfig

_RIDGE = 10.0


def accuracy(known: Tensor, labels: Tensor, asked: Tensor, truth: Tensor) -> float:
    """Share of right guesses by ridge regression on standardized features [N, D], [M, D]."""
    one_hot = torch.eye(int(max(labels.max(), truth.max())) + 1).double()[labels]
    rows, others = (
        torch.cat((part, torch.ones(len(part), 1)), 1).double() for part in (known, asked)
    )
    normal = rows.mT @ rows + _RIDGE * torch.eye(rows.shape[1])
    guesses = (others @ torch.linalg.solve(normal, rows.mT @ one_hot)).argmax(1)
    return float((guesses == truth).double().mean())


def main() -> None:
    """Train, and say what it is worth before and after."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", choices=("cifar10", "digits"))
    parser.add_argument("--images", type=int, help="of the training split (default: all)")
    parser.add_argument("--labels", type=int, help="that the regression learns of (default: all)")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    data = load(wanted.data, limit=wanted.images)
    photographs = wanted.data == "cifar10"
    config = SelfSupervisedConfig(
        width=wanted.width,
        projection=256 if photographs else 64,
        epochs=wanted.epochs,
        batch_size=128,
        learning_rate=0.02,
        smallest_area=0.25 if photographs else 0.4,
        flip=photographs,
    )
    fast = Performance(device=Device.CPU, precision=Precision.AUTO, channels_last=True, threads=1)
    images, test = data.public.train_features, data.public.test_features
    training = Pretraining(config, images=images, seed=wanted.seed, performance=fast)

    def worth() -> str:
        encoder = training.encoder()
        known, asked = (described(encoder, part, performance=fast) for part in (images, test))
        mean, std = known.mean(0), known.std(0) + 1e-3
        labels = torch.from_numpy(data.train_labels)[: wanted.labels]
        found = accuracy(
            ((known - mean) / std)[: wanted.labels],
            labels,
            (asked - mean) / std,
            torch.from_numpy(data.public.test_labels),
        )
        return f"{found:.1%}"

    print(f"random weights: {worth()}", flush=True)
    began = time.process_time()
    for _ in range(wanted.epochs):
        metrics = training.epoch()
    seconds = time.process_time() - began
    print(f"{wanted.epochs} epochs: {worth()}, loss {metrics.loss:.2f}, {seconds:.0f} s of a core")


if __name__ == "__main__":
    main()

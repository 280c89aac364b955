"""The embedded digits, 8 x 8, and how much a few labels are worth on features of them."""

import numpy as np
import torch
from torch import Tensor

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.settings.training import SelfSupervisedConfig

#: Small enough for seconds, large enough to learn.
DIGITS = SelfSupervisedConfig(
    width=8,
    projection=64,
    epochs=6,
    batch_size=128,
    learning_rate=0.02,
    smallest_area=0.4,
    flip=False,
)


def digits() -> Tensor:
    """Training images."""
    return load("digits").public.train_features


def worth_of_labels(train: Tensor, test: Tensor, *, labels: int) -> float:
    """Accuracy on the test split of ridge regression on features of so many labelled digits."""
    data = load("digits")
    mean, std = train.mean(0), train.std(0) + 1e-3
    known, asked = (torch.cat(((x - mean) / std, torch.ones(len(x), 1)), 1) for x in (train, test))
    rows = known[:labels].double()
    wanted = np.eye(10)[data.train_labels[:labels]]
    normal = rows.mT @ rows + 10 * torch.eye(rows.shape[1])
    weights = torch.linalg.solve(normal, rows.mT @ torch.from_numpy(wanted))
    guesses = (asked.double() @ weights).argmax(1).numpy()
    return float((guesses == data.public.test_labels).mean())

"""A torch Dataset of your own as a file for sweeps: `python examples/own_dataset.py [FILE.npz]`.

A sweep trains on it with `data.name=own data.path=FILE.npz`.
"""

import sys

import numpy as np
import torch
from torch.utils.data import Dataset, Subset, TensorDataset


def write(name: str, *, train: Dataset, test: Dataset, num_classes: int) -> None:
    """Write both; labels of `test` are public, and so is the number of classes."""
    arrays = {}
    for part, examples in (("train", train), ("test", test)):
        rows, labels = zip(*(examples[place] for place in range(len(examples))), strict=True)
        arrays[f"{part}_features"] = torch.stack(rows).numpy()
        arrays[f"{part}_labels"] = np.array(labels, dtype=np.int64)
    np.savez(name, num_classes=num_classes, **arrays)


def main(name: str = "mine.npz") -> None:
    """Write 1,000 points on a plane, whose class is a quadrant."""
    points = torch.randn(1000, 2, generator=torch.Generator().manual_seed(0))
    made = TensorDataset(points, (2 * (points[:, 0] > 0) + (points[:, 1] > 0)).long())
    train = Subset(made, range(800))
    write(name, train=train, test=Subset(made, range(800, 1000)), num_classes=4)


if __name__ == "__main__":
    main(*sys.argv[1:])

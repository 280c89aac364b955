"""Layouts that several data sets share: the four files of MNIST, files of images with labels."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from labeldp.trainers.data.data_set import Layout
from labeldp.trainers.data.files import PublishedFile, Splits
from labeldp.trainers.data.images import Batch, read_idx_folder


def published_files(folder: str, *named: tuple[str, int, str | None]) -> tuple[PublishedFile, ...]:
    """Return files of one folder, each given by name, size in bytes and MD5 or None."""
    return tuple(
        PublishedFile(path=f"{folder}/{name}", size=size, md5=md5) for name, size, md5 in named
    )


def idx_layout(
    folder: str,
    digests: tuple[str | None, str | None, str | None, str | None],
    classes: tuple[str, ...] | None = None,
) -> Layout:
    """The four files of MNIST and of what is published like it.

    Args:
        folder: Below the root.
        digests: MD5s of the images and labels to train on, and of those to test with; None where
            none is published.
        classes: Names of the classes.
    """
    train_images, train_labels, test_images, test_labels = digests
    files = published_files(
        folder,
        ("train-images-idx3-ubyte", 47_040_016, train_images),
        ("train-labels-idx1-ubyte", 60_008, train_labels),
        ("t10k-images-idx3-ubyte", 7_840_016, test_images),
        ("t10k-labels-idx1-ubyte", 10_008, test_labels),
    )
    return Layout(
        folder=folder,
        files=files,
        read=lambda root: read_idx_folder(root / folder, class_names=classes),
    )


def cifar_layout(
    files: tuple[PublishedFile, ...],
    read: Callable[[Path], Batch],
    *,
    num_classes: int,
    class_names: tuple[str, ...] | None = None,
) -> Layout:
    """Batches of training images and, last, the file of testing images.

    Args:
        files: In one folder.
        read: Path of one of them -> its images and labels.
        num_classes: K.
        class_names: Of the K classes, if they are known.
    """

    def read_all(root: Path) -> Splits:
        *train, test = (read(root / file.path) for file in files)
        return Splits(
            train_features=np.concatenate([images for images, _ in train]),
            train_labels=np.concatenate([labels for _, labels in train]),
            test_features=test[0],
            test_labels=test[1],
            num_classes=num_classes,
            class_names=class_names,
        )

    return Layout(folder=files[0].path.partition("/")[0], files=files, read=read_all)

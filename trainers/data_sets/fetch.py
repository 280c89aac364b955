"""Downloads, and nothing else does: sets come from where torchvision or their authors keep them."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from labeldp.trainers.data_sets.catalog import DataSet, find
from labeldp.trainers.data_sets.files import data_root

_ADULT_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"


class FetchFailed(ValueError):
    """A data set could not be downloaded; the message says why and what else can be done."""


def fetch(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set, unless it is there as published; return the folder it is in.

    Args:
        name: One of `data_sets.catalog.DATASETS`.
        root: Folder of the data sets; LABELDP_DATA, or else `data` right here, if not given.

    Raises:
        ValueError: There is no such set, it is the user's own, or its license wants to be read.
        FetchFailed: No network, or what came is not what was published.
    """
    data_set, folder = find(name), data_root(root)
    if not data_set.layouts or (name not in _DOWNLOADS and data_set.check(folder)):
        raise ValueError(f"{name} can't be fetched: {data_set.command}")
    if data_set.check(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Progress and remarks must not mix with what a verb prints.
            with contextlib.redirect_stdout(sys.stderr):
                _DOWNLOADS[name](folder)
        except (OSError, RuntimeError, ValueError) as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise FetchFailed(f"{_failed(data_set, folder)} ({first})") from error
        if problems := data_set.check(folder):
            raise FetchFailed(f"{problems[0]} (remove the file first if it is an old one)")
    layout = data_set.layout(folder)
    assert layout is not None
    return folder / layout.folder


def _failed(data_set: DataSet, folder: Path) -> str:
    files = data_set.layouts[0].files
    return (
        f"{data_set.name} could not be downloaded; on a machine without a network, put "
        f"{', '.join(file.path for file in files)} into {folder.absolute()} by hand"
    )


def _from_torchvision(name: str) -> Callable[[Path], Any]:
    def download(folder: Path) -> Any:
        from torchvision import datasets

        return getattr(datasets, name)(folder, download=True)

    return download


def _fetch_adult(folder: Path) -> None:
    for file in find("adult").layouts[0].files:
        path = folder / file.path
        _download(_ADULT_URL + path.name, path, md5=file.md5)


def _download(url: str, path: Path, *, md5: str | None) -> None:
    from torchvision.datasets.utils import download_url

    download_url(url, path.parent, filename=path.name, md5=md5)


_DOWNLOADS: dict[str, Callable[[Path], Any]] = {
    "mnist": _from_torchvision("MNIST"),
    "fashion_mnist": _from_torchvision("FashionMNIST"),
    "cifar10": _from_torchvision("CIFAR10"),
    "cifar100": _from_torchvision("CIFAR100"),
    "adult": _fetch_adult,
}

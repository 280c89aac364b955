"""Downloads a data set, and nothing else does; its record in `catalog` says from where."""

import contextlib
import os
import sys
from pathlib import Path

from labeldp.trainers.data.catalog import find
from labeldp.trainers.data.data_set import DataSet
from labeldp.trainers.data.files import data_root


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
    problems = data_set.check(folder)
    if not data_set.layouts or (data_set.download is None and problems):
        raise ValueError(f"{name} can't be fetched: {data_set.command}")
    if data_set.download is not None and problems:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Progress and remarks must not mix with what a verb prints.
            with contextlib.redirect_stdout(sys.stderr):
                data_set.download(folder, data_set.layouts[0].files)
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

"""Ways to download a data set: from where torchvision keeps it, or file by file from its authors.

Nothing is downloaded but by `fetch`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from labeldp.trainers.data.files import PublishedFile

#: (root of the data sets, files of the layout that is wanted) -> the files are there, or an error.
Download = Callable[[Path, Sequence[PublishedFile]], object]


def from_torchvision(name: str) -> Download:
    """Download what torchvision's class of that name does, which knows its files."""

    def download(root: Path, _: Sequence[PublishedFile]) -> object:
        from torchvision import datasets

        return getattr(datasets, name)(root, download=True)

    return download


def file_by_file(url: str) -> Download:
    """Download each file from below `url`, which ends in a slash, by its name without folders."""

    def download(root: Path, files: Sequence[PublishedFile]) -> None:
        for file in files:
            path = root / file.path
            _get(url + path.name, path, md5=file.md5)

    return download


def _get(url: str, path: Path, *, md5: str | None) -> None:
    from torchvision.datasets.utils import download_url

    download_url(url, path.parent, filename=path.name, md5=md5)

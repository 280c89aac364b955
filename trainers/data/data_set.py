"""The record of a named data set: its files, their reader and their download."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labeldp.trainers.data.files import DatasetMissing, PublishedFile, Splits

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
        from torchvision.datasets.utils import download_url

        for file in files:
            path = root / file.path
            download_url(url + path.name, path.parent, filename=path.name, md5=file.md5)

    return download


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Files of a data set on disk."""

    folder: str
    files: tuple[PublishedFile, ...]
    read: Callable[[Path], Splits]

    def missing(self, root: Path) -> list[Path]:
        """Return the files that are not below `root`."""
        return [path for file in self.files if not (path := root / file.path).is_file()]


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set with a name.

    Attributes:
        layouts: The first complete one is read; downloads have the first. None for the user's own.
        download: What `fetch` does; None where people have to do something themselves.
        by_hand: What they have to do; None where there is a download.
    """

    name: str
    description: str
    layouts: tuple[Layout, ...]
    download: Download | None = None
    by_hand: str | None = None

    def __post_init__(self) -> None:
        if (self.download is None) == (self.by_hand is None):
            both = "both" if self.by_hand else "neither"
            raise ValueError(
                f"{self.name} has {both} of download and by_hand; say how people get it, by one"
            )

    @property
    def command(self) -> str:
        """The command that gets it."""
        return f"labeldp data fetch {self.name}" if self.by_hand is None else self.by_hand

    def layout(self, root: Path) -> Layout | None:
        """Return the first layout that is complete below `root`, if there is one."""
        return next((layout for layout in self.layouts if not layout.missing(root)), None)

    def available(self, root: Path) -> bool:
        """Whether all of its files exist; `check` looks into them."""
        return self.layout(root) is not None

    def read(self, root: Path) -> Splits:
        """Return the set's arrays."""
        layout = self.layout(root)
        if layout is None:
            raise DatasetMissing(self.what_is_missing(root))
        return layout.read(root)

    def check(self, root: Path) -> list[str]:
        """Return what is wrong with the files below `root`, by sizes and digests as published."""
        layout = self.layout(root)
        if layout is None:
            return [self.what_is_missing(root)]
        return [text for file in layout.files if (text := file.problem(root)) is not None]

    def what_is_missing(self, root: Path) -> str:
        """Say which file is not below `root`, and what gets it."""
        if not self.layouts:
            return f"{self.name} has no place of its own: {self.command}"
        # A layout that is there in part is the one that was meant.
        missing = min((layout.missing(root) for layout in self.layouts), key=len)
        folders = " or ".join(layout.folder for layout in self.layouts)
        return (
            f"data set {self.name} is not in {root.absolute()}: {missing[0].absolute()} is missing"
            f"; get it with `{self.command}`, or set LABELDP_DATA (or data.root) to the folder "
            f"that holds {folders}"
        )

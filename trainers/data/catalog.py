"""The data sets that `load` knows by name, each by one record: files, reader, download.

A set is added by a record here, its files in `published_files.csv`, and a test. Sizes and MD5s are
the published ones; for the files of CIFAR-100 no MD5s are but that of their archive, and for
KMNIST's those of the compressed files, which are checked as they come. For files of which nothing
is known for certain, neither is checked; their readers check every row.

>>> find("mnits")
Traceback (most recent call last):
    ...
ValueError: unknown data set 'mnits'; did you mean mnist or kmnist?
"""

import contextlib
import csv
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from labeldp.trainers.base import Registry, near_miss
from labeldp.trainers.data import published
from labeldp.trainers.data.files import (
    DatasetMissing,
    data_root,
    file_digest,
    first_line,
    whole_file,
)
from labeldp.trainers.data.splits import Splits


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A file as its authors publish it.

    Attributes:
        size: Bytes; None if unknown.
    """

    path: str
    size: int | None = None
    md5: str | None = None

    def problem(self, root: Path) -> str | None:
        """Return how the file below `root` differs from the published one, or None."""
        path = root / self.path
        size = path.stat().st_size
        if self.size not in (None, size):
            return f"{path} has {size:,} bytes, the published file {self.size:,}: fetch it again"
        if self.md5 is None:
            return None
        found = file_digest(path, "md5")
        if found == self.md5:
            return None
        return (
            f"{path} has MD5 {found}, the published file {self.md5}: fetch it again, or, if it was "
            "re-encoded on purpose, state it beside every number"
        )


def from_torchvision(name: str, root: Path, _: Sequence[PublishedFile]) -> None:
    """Download what torchvision's class of that name does, which knows its files."""
    import torchvision.datasets

    getattr(torchvision.datasets, name)(root, download=True)


def file_by_file(url: str, root: Path, files: Sequence[PublishedFile]) -> None:
    """Download each file from below `url`, which ends in a slash, by its name without folders."""
    from torchvision.datasets.utils import download_url

    for file in files:
        path = root / file.path
        download_url(url + path.name, path.parent, filename=path.name, md5=file.md5)


def from_archive(
    url: str, root: Path, files: Sequence[PublishedFile], *, digest: str | None = None
) -> None:
    """Download a `.tar.gz`, and take the files out of it by their names alone.

    `digest` is the published one of the archive, as `sha256:...` or `md5:...`; None if none is.
    """
    from torchvision.datasets.utils import download_url

    with TemporaryDirectory(dir=root) as folder:
        archive = Path(folder) / "archive"
        download_url(url, folder, filename=archive.name)
        if digest is not None:
            kind, _, published = digest.partition(":")
            found = file_digest(archive, kind)
            if found != published:
                raise ValueError(f"{url} has {kind} {found}, the published archive {published}")
        with tarfile.open(archive) as opened:
            members = {Path(each.name).name: each for each in opened if each.isfile()}
            for file in files:
                path = root / file.path
                if path.name not in members:
                    raise ValueError(f"the archive has no file {path.name}")
                member = opened.extractfile(members[path.name])
                assert member is not None
                path.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(path) as written:
                    shutil.copyfileobj(member, written)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set with a name.

    Attributes:
        files: All in one folder; none for the user's own, and for what comes with a package.
        reader: Returns the arrays of the files in a folder; None for the user's own.
        download: Puts the files below a root; None where the user has to get them.
        by_hand: Instructions for the user; None where there is a download.
    """

    name: str
    description: str
    files: tuple[PublishedFile, ...] = ()
    reader: Callable[[Path], Splits] | None = None
    download: Callable[[Path, Sequence[PublishedFile]], object] | None = None
    by_hand: str | None = None

    def __post_init__(self) -> None:
        if (self.download is None) == (self.by_hand is None):
            both = "both" if self.by_hand else "neither"
            raise ValueError(
                f"{self.name} has {both} of download and by_hand; state one way to get it"
            )

    @property
    def command(self) -> str:
        """The command that gets it."""
        return f"labeldp data fetch {self.name}" if self.by_hand is None else self.by_hand

    def folder(self, root: Path) -> Path:
        """Return the folder of its files."""
        return (root / self.files[0].path).parent if self.files else root

    def available(self, root: Path) -> bool:
        """Whether all of its files exist; `check` looks into them."""
        return not self.what_is_missing(root)

    def read(self, root: Path) -> Splits:
        """Return the set's arrays."""
        if missing := self.what_is_missing(root):
            raise DatasetMissing(missing)
        assert self.reader is not None
        return self.reader(self.folder(root))

    def check(self, root: Path) -> list[str]:
        """Return what is wrong with the files below `root`, by sizes and digests as published."""
        if missing := self.what_is_missing(root):
            return [missing]
        return [text for file in self.files if (text := file.problem(root)) is not None]

    def what_is_missing(self, root: Path) -> str:
        """Say which file is not below `root`, and what gets it; "" if all are there."""
        if self.reader is None:
            return f"{self.name} has no place of its own: {self.command}"
        missing = [path for file in self.files if not (path := root / file.path).is_file()]
        if not missing:
            return ""
        return (
            f"data set {self.name} is not in {root.absolute()}: {missing[0].absolute()} is missing"
            f"; get it with `{self.command}`, or set LABELDP_DATA (or data.root) to the folder "
            f"that holds {self.folder(Path())}"
        )


def published_files(folder: str) -> tuple[PublishedFile, ...]:
    """Return the files of a folder as their authors publish them."""
    with open(Path(__file__).with_name("published_files.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["path"].startswith(f"{folder}/")]
    return tuple(
        PublishedFile(
            path=row["path"],
            size=int(row["size"]) if row["size"] else None,
            md5=row["md5"] or None,
        )
        for row in rows
    )


_FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
#: The first kana of each column of the syllabary, in Hepburn's letters.
_KANA = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")

_RECORDS = (
    DataSet(
        name="digits",
        description="1,797 handwritten digits, 8x8; comes with scikit-learn",
        reader=published.read_digits,
        by_hand="make install",
    ),
    DataSet(
        name="mnist",
        description="70,000 handwritten digits, 28x28 (LeCun, Cortes, Burges)",
        files=published_files("MNIST/raw"),
        reader=published.read_idx_folder,
        download=partial(from_torchvision, "MNIST"),
    ),
    DataSet(
        name="fashion_mnist",
        description="70,000 articles of clothing, 28x28 (Zalando, MIT license)",
        files=published_files("FashionMNIST/raw"),
        reader=partial(published.read_idx_folder, class_names=_FASHION_CLASSES),
        download=partial(from_torchvision, "FashionMNIST"),
    ),
    DataSet(
        name="kmnist",
        description="70,000 handwritten kana, 28x28 (Clanuwat et al. 2018, CC BY-SA 4.0)",
        files=published_files("KMNIST/raw"),
        reader=partial(published.read_idx_folder, class_names=_KANA),
        download=partial(from_torchvision, "KMNIST"),
    ),
    DataSet(
        name="svhn",
        description="99,289 digits of house numbers, 32x32 (Netzer et al. 2011; not for trade)",
        files=published_files("SVHN"),
        reader=published.read_svhn_folder,
        download=partial(file_by_file, "http://ufldl.stanford.edu/housenumbers/"),
    ),
    DataSet(
        name="cifar10",
        description="60,000 photographs of 10 kinds of things, 32x32 (Krizhevsky 2009)",
        files=published_files("cifar-10-batches-bin"),
        reader=published.read_cifar10,
        download=partial(
            from_archive,
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            digest="md5:c32a1d4ab5d03f1284b67883e8d87530",
        ),
    ),
    DataSet(
        name="cifar100",
        description="60,000 photographs of 100 kinds of things, 32x32 (Krizhevsky 2009)",
        files=published_files("cifar-100-binary"),
        reader=published.read_cifar100,
        download=partial(
            from_archive,
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            digest="md5:03b5dce01913d631647c71ecec9e9cb8",
        ),
    ),
    DataSet(
        name="adult",
        description="48,842 rows of the census of 1994: above 50,000 dollars? (UCI, CC BY 4.0)",
        files=published_files("adult"),
        reader=published.read_adult,
        download=partial(
            file_by_file, "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
        ),
    ),
    DataSet(
        name="movielens_1m",
        description="1,000,209 ratings of movies, 1 to 5 stars (GroupLens; not to be passed on)",
        files=published_files("ml-1m"),
        reader=published.read_movielens,
        by_hand=(
            "curl -O https://files.grouplens.org/datasets/movielens/ml-1m.zip && unzip ml-1m.zip"
        ),
    ),
    DataSet(
        name="california_housing",
        description="amounts: value of houses in 20,640 districts in 1990 (Pace, Barry 1997)",
        files=published_files("california_housing"),
        reader=published.read_housing,
        download=partial(
            from_archive,
            "https://ndownloader.figshare.com/files/5976036",
            # As scikit-learn states it.
            digest="sha256:aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
        ),
    ),
    DataSet(
        name="criteo_display",
        description="100,000 advertisements: was it clicked? (Criteo's sample of its challenge)",
        files=published_files("criteo_display"),
        reader=published.read_criteo_display,
        download=partial(
            from_archive, "https://labs.criteo.com/wp-content/uploads/2015/04/dac_sample.tar.gz"
        ),
    ),
    DataSet(
        name="own",
        description="your own .csv, .parquet, .npz or .npy, of images or of a table",
        by_hand="name the file with data.name=own data.path=FILE",
    ),
)


def _wrong(name: str, thing: object) -> str | None:
    if not isinstance(thing, DataSet):
        return f"it is a {type(thing).__name__} and not a DataSet"
    return None if thing.name == name else f"that is the record of {thing.name!r}"


#: Name -> data set; other packages add theirs by entry points of the group `labeldp.data_sets`.
DATASETS: Registry[DataSet] = Registry(
    {record.name: record for record in _RECORDS},
    group="labeldp.data_sets",
    kind="data set",
    wrong=_wrong,
)


def find(name: str) -> DataSet:
    """Return the data set of that name."""
    if name in DATASETS:
        return DATASETS[name]
    raise ValueError(f"unknown data set {name!r}; {near_miss(str(name), DATASETS)}")


def fetch(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set, unless it is there as published; return the folder it is in."""
    data_set = find(name)
    folder = data_root(root)
    problems = data_set.check(folder)
    if data_set.reader is None or (data_set.download is None and problems):
        raise ValueError(f"{name} can't be fetched: {data_set.command}")
    if data_set.download is not None and problems:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Progress and remarks must not mix with what a verb prints.
            with contextlib.redirect_stdout(sys.stderr):
                data_set.download(folder, data_set.files)
        except (OSError, RuntimeError, ValueError, tarfile.TarError) as error:
            files = ", ".join(file.path for file in data_set.files)
            raise ValueError(
                f"{name} could not be downloaded; on a machine without a network, put {files} into "
                f"{folder.absolute()} by hand ({first_line(error)})"
            ) from error
        if problems := data_set.check(folder):
            raise ValueError(f"{problems[0]} (remove the file first if it is an old one)")
    return data_set.folder(folder)

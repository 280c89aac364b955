"""The data sets that `load` knows by name: what they are, where they lie, what gets them.

A set may lie on disk in more than one published layout.

>>> find("mnits")
Traceback (most recent call last):
    ...
ValueError: there is no data set 'mnits'; did you mean mnist?
"""

import difflib
from dataclasses import dataclass
from pathlib import Path

from labeldp.trainers.data_sets import layouts as data_layouts
from labeldp.trainers.data_sets.files import DatasetMissing, Splits
from labeldp.trainers.data_sets.layouts import Layout


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set with a name.

    Attributes:
        name: What `load` calls it.
        description: One line for people.
        layouts: Where it may lie; the first that is complete is read. None for the user's own.
        command: What gets it.
    """

    name: str
    description: str
    layouts: tuple[Layout, ...]
    command: str

    def layout(self, root: Path) -> Layout | None:
        """Return the first layout that is complete below `root`, if there is one."""
        return next((layout for layout in self.layouts if not layout.missing(root)), None)

    def available(self, root: Path) -> bool:
        """Whether all of its files are there; what is in them `check` finds out."""
        return self.layout(root) is not None

    def read(self, root: Path) -> Splits:
        """Return the set's arrays.

        Raises:
            DatasetMissing: It is not below `root`, or not all of it.
            DataFileError: A file is damaged.
        """
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


def find(name: str) -> DataSet:
    """Return the data set of that name.

    Raises:
        ValueError: There is none; the message says which comes near.
    """
    if name in DATASETS:
        return DATASETS[name]
    close = difflib.get_close_matches(str(name), DATASETS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(DATASETS)}"
    raise ValueError(f"there is no data set {name!r}; {hint}")


_ALL = (
    DataSet(
        name="digits",
        description="1,797 handwritten digits, 8x8; comes with scikit-learn",
        layouts=(data_layouts.DIGITS,),
        command="make install",
    ),
    DataSet(
        name="mnist",
        description="70,000 handwritten digits, 28x28 (LeCun, Cortes, Burges)",
        layouts=(data_layouts.MNIST,),
        command="labeldp data fetch mnist",
    ),
    DataSet(
        name="fashion_mnist",
        description="70,000 articles of clothing, 28x28 (Zalando, MIT license)",
        layouts=(data_layouts.FASHION_MNIST,),
        command="labeldp data fetch fashion_mnist",
    ),
    DataSet(
        name="cifar10",
        description="60,000 photographs of 10 kinds of things, 32x32 (Krizhevsky 2009)",
        layouts=(data_layouts.CIFAR10_PYTHON, data_layouts.CIFAR10_BINARY),
        command="labeldp data fetch cifar10",
    ),
    DataSet(
        name="cifar100",
        description="60,000 photographs of 100 kinds of things, 32x32 (Krizhevsky 2009)",
        layouts=(data_layouts.CIFAR100_PYTHON, data_layouts.CIFAR100_BINARY),
        command="labeldp data fetch cifar100",
    ),
    DataSet(
        name="adult",
        description="48,842 rows of the census of 1994: above 50,000 dollars? (UCI, CC BY 4.0)",
        layouts=(data_layouts.ADULT,),
        command="labeldp data fetch adult",
    ),
    DataSet(
        name="movielens_1m",
        description="1,000,209 ratings of movies, 1 to 5 stars (GroupLens; not to be passed on)",
        layouts=(data_layouts.MOVIELENS_1M,),
        command=(
            "curl -O https://files.grouplens.org/datasets/movielens/ml-1m.zip && unzip ml-1m.zip"
        ),
    ),
    DataSet(
        name="own",
        description="your own .npz or .parquet, of images or of a table",
        layouts=(),
        command="name the file with data.name=own data.path=FILE",
    ),
)

#: Name -> data set.
DATASETS: dict[str, DataSet] = {data_set.name: data_set for data_set in _ALL}

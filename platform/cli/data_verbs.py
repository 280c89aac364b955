"""`labeldp data list|fetch|check`: which data sets there are, and whether they are what they claim.

>>> [entry.name for entry in list_sets("nowhere") if entry.present]
['digits']
"""

from dataclasses import dataclass
from pathlib import Path

from labeldp.trainers.data_sets.catalog import DATASETS, find
from labeldp.trainers.data_sets.data_set import DataSet
from labeldp.trainers.data_sets.files import data_root

#: How a file of the user's is told from the name of a data set.
_OWN_FILES = (".npz", ".parquet")


@dataclass(frozen=True, kw_only=True)
class SetEntry:
    """A data set in the list.

    Attributes:
        name: What configurations call it.
        description: One line.
        present: Whether its files are there.
        path: Where they are, or would be looked for.
        command: What gets it.
    """

    name: str
    description: str
    present: bool
    path: str
    command: str


@dataclass(frozen=True, kw_only=True)
class SetList:
    """All data sets.

    Attributes:
        root: Folder that was looked at.
        sets: The sets.
    """

    root: str
    sets: list[SetEntry]


@dataclass(frozen=True, kw_only=True)
class SetCheck:
    """What a look into a data set's files found.

    Attributes:
        name: Of the set.
        ok: Whether there is no problem.
        path: Where it is.
        problems: What is wrong, each with its way out.
        training_examples: N; 0 if it can't be read.
        test_examples: M, likewise.
        num_classes: K, likewise.
        fingerprint: SHA-256 of all that is public in it; empty if it can't be read.
    """

    name: str
    ok: bool
    path: str
    problems: list[str]
    training_examples: int = 0
    test_examples: int = 0
    num_classes: int = 0
    fingerprint: str = ""


@dataclass(frozen=True, kw_only=True)
class SetFetched:
    """A data set that is there as published now.

    Attributes:
        name: Of the set.
        path: Where it is.
    """

    name: str
    path: str


def list_sets(root: str | Path | None) -> list[SetEntry]:
    """Return every data set, and whether its files are below `root` (see `data_root`)."""
    folder = data_root(root)
    return [
        SetEntry(
            name=name,
            description=data_set.description,
            present=data_set.available(folder),
            path=_place(data_set, folder),
            command=data_set.command,
        )
        for name, data_set in DATASETS.items()
    ]


def check_set(
    name: str,
    *,
    root: str | Path | None = None,
    label_column: str | None = None,
    hold_out: str | None = None,
    classes: str | None = None,
) -> SetCheck:
    """Compare a data set's files with what is published, and read them as a sweep would.

    Args:
        name: Of the set, or the path of the user's own `.npz` or `.parquet`.
        root: Folder of the data sets.
        label_column: Which column of a `.parquet` holds the labels.
        hold_out: `public` or `none`, as `data.hold_out` of a sweep.
        classes: How many there are or their names, as `data.classes` of a sweep.

    Raises:
        ValueError: There is no such data set.
    """
    own = name.endswith(_OWN_FILES)
    if name == "own":
        raise ValueError("name the file itself: labeldp data check FILE.npz")
    data_set, folder = find("own" if own else name), data_root(root)
    problems = [] if own else data_set.check(folder)
    path = str(Path(name).absolute()) if own else _place(data_set, folder)
    if not own and not data_set.available(folder):
        return SetCheck(name=data_set.name, ok=False, path=path, problems=problems)

    # Here, for they load torch, which the lines above do without.
    from labeldp.platform.configuration import DataSettings
    from labeldp.trainers.data import load
    from labeldp.trainers.data_sets.own_rows import HoldOut

    try:
        data = load(
            data_set.name,
            root=folder,
            path=name if own else None,
            label_column=label_column,
            hold_out=None if hold_out is None else HoldOut(hold_out),
            classes=DataSettings(classes=classes).stated_classes,
        )
    except ValueError as error:
        # Once is enough: a file that can't be read mostly has the wrong size or digest too.
        problems = problems or [str(error)]
        return SetCheck(name=data_set.name, ok=False, path=path, problems=problems)
    public = data.public
    return SetCheck(
        name=data_set.name,
        ok=not problems,
        path=path,
        problems=problems,
        training_examples=len(public.train_features),
        test_examples=len(public.test_features),
        num_classes=public.num_classes,
        fingerprint=public.fingerprint,
    )


def fetch_set(name: str, *, root: str | Path | None = None) -> SetFetched:
    """Download a data set, unless it is there as published.

    Raises:
        ValueError: There is no such set, it can't be downloaded, or it came damaged.
    """
    from labeldp.trainers.data_sets.fetch import fetch

    fetch(name, root)
    return SetFetched(name=name, path=_place(find(name), data_root(root)))


def run(
    verb: str, *, set_name: str | None, root: str | Path | None, **of_check: str | None
) -> SetList | SetFetched | SetCheck:
    """Run `list`, `fetch` or `check` as the command line names them."""
    if verb == "list":
        return SetList(root=str(data_root(root).absolute()), sets=list_sets(root))
    assert set_name is not None, "the parser asks for a name"
    if verb == "fetch":
        return fetch_set(set_name, root=root)
    return check_set(set_name, root=root, **of_check)


def _place(data_set: DataSet, root: Path) -> str:
    if not data_set.layouts:
        return ""
    layout = data_set.layout(root) or data_set.layouts[0]
    return str(root.absolute() / layout.folder) if layout.files else "in scikit-learn"

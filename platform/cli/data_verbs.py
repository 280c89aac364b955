"""`labeldp data list|fetch|check`: which data sets there are, and whether they are what they claim.

>>> [entry.name for entry in list_sets("nowhere") if entry.present]
['digits']
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.platform.cli.verb import Group, Verb

if TYPE_CHECKING:
    from labeldp.platform.cli.tables import Table
    from labeldp.trainers.data import LabelledData
    from labeldp.trainers.data_sets.data_set import DataSet

DATA = Group(name="data", summary="data sets")
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
    from labeldp.trainers.data_sets.catalog import DATASETS
    from labeldp.trainers.data_sets.files import data_root

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
    from labeldp.trainers.data_sets.catalog import find
    from labeldp.trainers.data_sets.files import data_root

    own = name.endswith(_OWN_FILES)
    if name == "own":
        raise ValueError("name the file itself: labeldp data check FILE.npz")
    data_set, folder = find("own" if own else name), data_root(root)
    problems = [] if own else data_set.check(folder)
    path = str(Path(name).absolute()) if own else _place(data_set, folder)
    if not own and not data_set.available(folder):
        return SetCheck(name=data_set.name, ok=False, path=path, problems=problems)
    try:
        data = _load(
            data_set.name,
            folder,
            path=name if own else None,
            label_column=label_column,
            hold_out=hold_out,
            classes=classes,
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
    from labeldp.trainers.data_sets.catalog import find
    from labeldp.trainers.data_sets.fetch import fetch
    from labeldp.trainers.data_sets.files import data_root

    fetch(name, root)
    return SetFetched(name=name, path=_place(find(name), data_root(root)))


def _load(
    name: str,
    root: Path,
    *,
    path: str | None,
    label_column: str | None,
    hold_out: str | None,
    classes: str | None,
) -> "LabelledData":
    # Here, for they load torch, which all else does without.
    from labeldp.platform.configuration import DataSettings
    from labeldp.trainers.data import load
    from labeldp.trainers.data_sets.own_rows import HoldOut

    return load(
        name,
        root=root,
        path=path,
        label_column=label_column,
        hold_out=None if hold_out is None else HoldOut(hold_out),
        classes=DataSettings(classes=classes).stated_classes,
    )


def _place(data_set: "DataSet", root: Path) -> str:
    if not data_set.layouts:
        return ""
    layout = data_set.layout(root) or data_set.layouts[0]
    return str(root.absolute() / layout.folder) if layout.files else "in scikit-learn"


def _list(options: argparse.Namespace) -> SetList:
    from labeldp.trainers.data_sets.files import data_root

    return SetList(root=str(data_root(options.root).absolute()), sets=list_sets(options.root))


def _listed(found: SetList) -> "list[Table | str]":
    from labeldp.platform.cli.tables import Mood, Table

    table = Table(
        columns=("name", "there", "what it is", "where, or how to get it"),
        rows=tuple(
            (
                entry.name,
                "yes" if entry.present else "no",
                entry.description,
                entry.path if entry.present else entry.command,
            )
            for entry in found.sets
        ),
        moods={row: Mood.ASIDE for row, entry in enumerate(found.sets) if not entry.present},
    )
    return [f"data sets below {found.root}", table]


def _check(options: argparse.Namespace) -> SetCheck:
    return check_set(
        options.name,
        root=options.root,
        label_column=options.label_column,
        hold_out=options.hold_out,
        classes=options.classes,
    )


def _root_of_sets(parser: argparse.ArgumentParser) -> None:
    text = "folder of the sets (default: LABELDP_DATA)"
    parser.add_argument("--root", metavar="DIR", help=text)


def _one_set(parser: argparse.ArgumentParser) -> None:
    _root_of_sets(parser)
    parser.add_argument("name", metavar="NAME")


def _set_to_check(parser: argparse.ArgumentParser) -> None:
    _one_set(parser)
    # Of a file of the user's, which is read as a sweep would read it.
    parser.add_argument("--label-column", metavar="NAME", help="of a .parquet (default: label)")
    text = "of a file without a test split: publish one label in five, or none"
    parser.add_argument("--hold-out", choices=("public", "none"), help=text)
    parser.add_argument("--classes", metavar="K|A,B,...", help="how many, or their names in order")


VERBS = (
    Verb(
        group=DATA,
        name="list",
        summary="what there is",
        arguments=_root_of_sets,
        run=_list,
        tables=_listed,
    ),
    Verb(
        group=DATA,
        name="fetch",
        summary="get a data set",
        arguments=_one_set,
        run=lambda options: fetch_set(options.name, root=options.root),
    ),
    Verb(group=DATA, name="check", summary="verify one", arguments=_set_to_check, run=_check),
)

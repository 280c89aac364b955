"""`labeldp data list|fetch|check`: which data sets there are, and whether they are what they claim.

>>> [entry.name for entry in list_sets("nowhere") if entry.present]
['digits']
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labeldp.platform.cli.verb import Group, Verb, plain_text

if TYPE_CHECKING:
    from labeldp.platform.cli.own_check import OwnCheck
    from labeldp.platform.cli.tables import Table
    from labeldp.trainers.data.data_set import DataSet
    from labeldp.trainers.data.own_files import OwnSource

DATA = Group(name="data", summary="data sets")


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
    from labeldp.trainers.data.catalog import DATASETS
    from labeldp.trainers.data.files import data_root

    folder = data_root(root)
    return [_entry(name, folder) for name in DATASETS]


def _entry(name: str, folder: Path) -> SetEntry:
    from labeldp.trainers.data.catalog import DATASETS
    from labeldp.trainers.extensions import ExtensionError

    try:
        data_set = DATASETS[name]
    except ExtensionError as error:
        return SetEntry(name=name, description=str(error), present=False, path="", command="")
    return SetEntry(
        name=name,
        description=data_set.description,
        present=data_set.available(folder),
        path=_place(data_set, folder),
        command=data_set.command,
    )


def check_set(name: str, *, root: str | Path | None = None) -> SetCheck:
    """Compare a data set's files with what is published, and read them as a sweep would.

    Args:
        name: Of the set; `check_own` looks into files of the user's.
        root: Folder of the data sets.

    Raises:
        ValueError: There is no such data set.
    """
    from labeldp.trainers.data.catalog import find
    from labeldp.trainers.data.files import data_root

    if name == "own":
        raise ValueError("name the file itself: labeldp data check FILE.csv")
    data_set, folder = find(name), data_root(root)
    problems, path = data_set.check(folder), _place(data_set, folder)
    if not data_set.available(folder):
        return SetCheck(name=data_set.name, ok=False, path=path, problems=problems)
    # Here, for it loads torch, which all else does without.
    from labeldp.trainers.data.labelled_data import load

    try:
        data = load(data_set.name, root=folder)
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
    from labeldp.trainers.data.catalog import fetch, find
    from labeldp.trainers.data.files import data_root

    fetch(name, root)
    return SetFetched(name=name, path=_place(find(name), data_root(root)))


def _place(data_set: "DataSet", root: Path) -> str:
    if not data_set.layouts:
        return ""
    layout = data_set.layout(root) or data_set.layouts[0]
    return str(root.absolute() / layout.folder) if layout.files else "in scikit-learn"


def _list(options: argparse.Namespace) -> SetList:
    from labeldp.trainers.data.files import data_root

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


def _check(options: argparse.Namespace) -> "SetCheck | OwnCheck":
    from labeldp.trainers.data.own_files import OWN_FILES

    name = options.name
    if options.features is not None:
        if name is not None:
            raise ValueError(f"name {name} or --features {options.features}, not both")
        name = options.features
    if name is None:
        raise ValueError("name a data set or a file: labeldp data check FILE.csv")
    if not name.lower().endswith(OWN_FILES):
        return check_set(name, root=options.root)
    from labeldp.platform.cli.own_check import check_own

    return check_own(_source(options, name))


def _source(options: argparse.Namespace, path: str) -> "OwnSource":
    from labeldp.platform.sweep.configuration import DataSettings
    from labeldp.trainers.data.own_files import HoldOut

    return DataSettings(
        path=path,
        labels=options.labels,
        label_column=options.label_column,
        split_column=options.split_column,
        drop=options.drop,
        keep=options.keep,
        test_path=options.test,
        test_labels=options.test_labels,
        hold_out=None if options.hold_out is None else HoldOut(options.hold_out),
        hold_out_seed=options.seed,
        classes=options.classes,
    ).own_source


def _text(result: "SetCheck | OwnCheck") -> str:
    from labeldp.platform.cli.own_check import OwnCheck, text_of

    return text_of(result) if isinstance(result, OwnCheck) else plain_text(asdict(result))


def _root_of_sets(parser: argparse.ArgumentParser) -> None:
    text = "folder of the sets (default: LABELDP_DATA)"
    parser.add_argument("--root", metavar="DIR", help=text)


def _one_set(parser: argparse.ArgumentParser) -> None:
    _root_of_sets(parser)
    parser.add_argument("name", metavar="NAME")


def _set_to_check(parser: argparse.ArgumentParser) -> None:
    _root_of_sets(parser)
    text = "a data set, or a file of your own: .csv, .parquet, .npz, .npy"
    parser.add_argument("name", metavar="NAME|FILE", nargs="?", help=text)
    # Of a file of the user's, which is read as a sweep would read it.
    own = parser.add_argument_group("a file of your own")
    own.add_argument("--features", metavar="X.npy", help="the same as FILE")
    own.add_argument("--labels", metavar="y.npy", help="of features in an .npy")
    own.add_argument("--label-column", metavar="NAME", help="of a table (default: label)")
    own.add_argument("--split-column", metavar="NAME", help="says train or test (default: split)")
    own.add_argument("--drop", metavar="A,B,...", help="columns to leave out")
    text = "columns that look like identifiers and are features"
    own.add_argument("--keep", metavar="A,B,...", help=text)
    own.add_argument("--test", metavar="FILE", help="rows for testing; their labels are public")
    own.add_argument("--test-labels", metavar="t.npy", help="of rows for testing in an .npy")
    text = "without a test split: publish one label in five, or none"
    own.add_argument("--hold-out", choices=("public", "none"), help=text)
    text = "which rows --hold-out public takes (default: 0)"
    own.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    own.add_argument("--classes", metavar="K|A,B,...", help="how many, or their names in order")


VERBS = (
    Verb(
        group=DATA,
        name="list",
        summary="what there is",
        example="labeldp data list",
        arguments=_root_of_sets,
        run=_list,
        tables=_listed,
    ),
    Verb(
        group=DATA,
        name="fetch",
        summary="get a data set",
        example="labeldp data fetch cifar100",
        arguments=_one_set,
        run=lambda options: fetch_set(options.name, root=options.root),
    ),
    Verb(
        group=DATA,
        name="check",
        summary="verify one, or see what is in a file of your own",
        example="labeldp data check FILE.csv --label-column bought --classes no,yes "
        "--hold-out none",
        arguments=_set_to_check,
        run=_check,
        text=_text,
    ),
)

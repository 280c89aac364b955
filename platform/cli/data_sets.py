"""`labeldp data list|fetch|check`: which data sets there are, and whether they are as published.

`check FILE` shows what is seen in a user's own file, and the keys that a sweep still needs. Labels
are never shown, nor counted by class.

>>> [entry.name for entry in entries("nowhere") if entry.present]
['digits']
"""

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from labeldp.platform.cli.command import Table, plain_text
from labeldp.platform.sweep.configuration import DataSettings
from labeldp.trainers.data.catalog import DATASETS, DataSet, fetch, find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.own_data import ColumnsLeftOut, read_own
from labeldp.trainers.data.own_files import (
    OWN_FILES,
    FileSeen,
    HoldOut,
    OwnSource,
    describe,
    read_table,
)
from labeldp.trainers.data.splits import fingerprint_of, size_of
from labeldp.trainers.extensions import ExtensionError

#: More columns than that are not listed for people; JSON has all of them.
_LISTED = 40


@dataclass(frozen=True, kw_only=True)
class SetEntry:
    """A data set in the list."""

    name: str
    description: str
    present: bool
    path: str
    command: str


@dataclass(frozen=True, kw_only=True)
class SetList:
    """All data sets below the folder `root`."""

    root: str
    sets: list[SetEntry]


@dataclass(frozen=True, kw_only=True)
class SetCheck:
    """Findings about the files of a data set; sizes are 0 where it can't be read.

    Attributes:
        name: Of the set; `own` for a user's file.
        ok: Whether a sweep can train on it as it is; of a user's file, with `keys`.
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
class OwnCheck(SetCheck):
    """Findings about a user's own file.

    Attributes:
        seen: Rows, columns, labels and split; None if it can't be read at all.
        keys: Settings of a sweep on it; capitals stand for what only the user knows.
    """

    seen: FileSeen | None = None
    keys: list[str]
    command: str


def list_sets(*, root: str | None) -> SetList:
    """Return every data set, and whether its files are below `root` (see `data_root`)."""
    return SetList(root=str(data_root(root).absolute()), sets=entries(root))


def entries(root: str | Path | None) -> list[SetEntry]:
    """Return the entries of the list of data sets."""
    folder = data_root(root)
    return [_entry(name, folder) for name in DATASETS]


def _entry(name: str, folder: Path) -> SetEntry:
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


def _place(data_set: DataSet, root: Path) -> str:
    if not data_set.layouts:
        return ""
    layout = data_set.layout(root) or data_set.layouts[0]
    return str(root.absolute() / layout.folder) if layout.files else "in scikit-learn"


def list_words(found: SetList) -> list[Table | str]:
    """Return the list for a person; sets that are not there are dim."""
    rows = [
        (
            entry.name,
            "yes" if entry.present else "no",
            entry.description,
            entry.path if entry.present else entry.command,
        )
        for entry in found.sets
    ]
    table = Table(
        columns=("name", "there", "description", "folder, or the command that gets it"),
        rows=rows,
        styles={row: "dim" for row, entry in enumerate(found.sets) if not entry.present},
    )
    return [f"data sets below {found.root}", table]


def fetch_set(*, name: str, root: str | None) -> dict[str, str]:
    """Download a data set, unless it is there as published."""
    fetch(name, root)
    return {"name": name, "path": _place(find(name), data_root(root))}


def check(
    *,
    name: str | None,
    root: str | None,
    features: str | None,
    test: str | None,
    hold_out: str | None,
    seed: int,
    **more: Any,
) -> SetCheck:
    """Check a data set, or a user's own file with the settings in the options."""
    if features is not None and name is not None:
        raise ValueError(f"name {name} or --features {features}, not both")
    path = name if features is None else features
    if path is None:
        raise ValueError("name a data set or a file: labeldp data check FILE.csv")
    if not path.lower().endswith(OWN_FILES):
        return check_set(path, root=root)
    settings = DataSettings(
        path=path,
        test_path=test,
        hold_out=None if hold_out is None else HoldOut(hold_out),
        hold_out_seed=seed,
        **more,
    )
    return check_own(settings.own_source)


def check_set(name: str, *, root: str | Path | None = None) -> SetCheck:
    """Compare a data set's files with what is published, and read them as a sweep would."""
    if name == "own":
        raise ValueError("name the file itself: labeldp data check FILE.csv")
    data_set, folder = find(name), data_root(root)
    problems, path = data_set.check(folder), _place(data_set, folder)
    if not data_set.available(folder):
        return SetCheck(name=data_set.name, ok=False, path=path, problems=problems)
    from labeldp.trainers.data.labelled_data import load  # torch, which a list does without

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


def check_own(source: OwnSource) -> OwnCheck:
    """Look into a user's file, and read it as a sweep would if no key is missing."""
    assert source.path is not None
    path = str(Path(source.path).expanduser().absolute())
    keys = _keys(source, path)

    def found(problems: list[str], seen: FileSeen | None, keys: list[str], **more: Any) -> OwnCheck:
        return OwnCheck(
            name="own",
            ok=not problems,
            path=path,
            problems=problems,
            seen=seen,
            keys=keys,
            command=_command(keys),
            **more,
        )

    seen = None
    try:
        table = read_table(source)
        seen = describe(source, table)
        missing = {each.key: f"{each.key}={each.value}" for each in seen.missing}
        if missing:
            given = [key for key in keys if key.partition("=")[0] not in missing]
            problems = [f"{missing[each.key]}: {each.why}" for each in seen.missing]
            return found(problems, seen, [*given, *missing.values()])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOut)  # `seen` names them
            splits = read_own(source, table=table)
        size = size_of("own", splits)
    except ValueError as error:
        return found([str(error)], seen, keys)
    return found(
        [],
        seen,
        keys,
        training_examples=size.num_labels,
        test_examples=len(splits.test_features),
        num_classes=size.num_classes,
        fingerprint=fingerprint_of(splits),
    )


def _command(keys: Sequence[str]) -> str:
    path = next(key for key in keys if key.startswith("data.path="))
    start = ["python", "sweeps/quickstart.py", "--results", f"results/{Path(path).stem}"]
    return shlex.join([*start, "--without", "no privacy", *keys])


def _keys(source: OwnSource, path: str) -> list[str]:
    given = {"path": path}
    for entry in fields(source):
        value = getattr(source, entry.name)
        if entry.name != "path" and value:
            listed = isinstance(value, (list, tuple))
            given[entry.name] = ",".join(value) if listed else str(value)
    return ["data.name=own", *(f"data.{name}={value}" for name, value in given.items())]


def check_words(found: SetCheck) -> str:
    """Return the findings for a person."""
    if not isinstance(found, OwnCheck):
        return plain_text(found)
    lines = [found.path]
    seen = found.seen
    if seen is not None:
        lines = [f"{found.path}: {seen.rows:,} rows; {seen.features}"]
        width = max((len(column.name) for column in seen.columns), default=0)
        for column in seen.columns[:_LISTED]:
            kind = column.kind
            if column.categories is not None:
                kind += f", {column.categories} categories"
            kind += f"; {column.note}" if column.note else ""
            lines.append(f"  {column.name:<{width}}  {kind}")
        if len(seen.columns) > _LISTED:
            lines.append(f"  ... and {len(seen.columns) - _LISTED} more columns (--json has all)")
        classes = seen.classes
        if classes is not None and not isinstance(classes, int):
            classes = ", ".join(classes)
        for name, value in (("labels", seen.labels), ("classes", classes), ("split", seen.split)):
            lines.append(f"{name:<8} {value or 'not given'}")
    if found.ok:
        lines += [
            f"rows     {found.training_examples:,} for training, {found.test_examples:,} for "
            "testing",
            "this command trains on it:",
        ]
    else:
        lines += ["still to do:", *(f"  - {problem}" for problem in found.problems)]
    return "\n".join([*lines, f"  {found.command}"])

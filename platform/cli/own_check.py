"""`labeldp data check FILE`: what is seen in a user's own file, and what a sweep needs to be told.

Labels are never shown, nor counted by class.
"""

import shlex
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeldp.trainers.data.own_description import ColumnSeen, FileSeen
    from labeldp.trainers.data.own_files import OwnSource

#: More columns than that are not listed for people; JSON has all of them.
_LISTED = 40


@dataclass(frozen=True, kw_only=True)
class OwnCheck:
    """What a look into a user's own file found.

    Attributes:
        name: `own`.
        ok: Whether a sweep can train on it as it is, with `keys`.
        path: Where it is.
        problems: What is wrong or not said, each with its way out.
        training_examples: N; 0 if it can't be read yet.
        test_examples: M, likewise.
        num_classes: K, likewise.
        fingerprint: SHA-256 of all that is public in it; empty if it can't be read yet.
        seen: Rows, columns, labels and split; None if it can't be read at all.
        keys: What a sweep has to be told; capitals stand for what only the user knows.
        command: That trains on it.
    """

    name: str = "own"
    ok: bool
    path: str
    problems: list[str]
    training_examples: int = 0
    test_examples: int = 0
    num_classes: int = 0
    fingerprint: str = ""
    seen: "FileSeen | None" = None
    keys: list[str]
    command: str


def check_own(source: "OwnSource") -> OwnCheck:
    """Look into a user's file, and read it as a sweep would if all is said.

    Args:
        source: Which file, and what is said of it so far.
    """
    from labeldp.trainers.data.own_data import ColumnsLeftOut, read_own
    from labeldp.trainers.data.own_description import describe
    from labeldp.trainers.data.own_files import read_table
    from labeldp.trainers.data.set_size import fingerprint_of, size_of

    assert source.path is not None
    path = str(Path(source.path).expanduser().absolute())
    keys = _keys(source, path)
    try:
        table = read_table(source)
        seen = describe(source, table)
    except ValueError as error:
        return _found(path, keys, problems=[str(error)])
    unsaid = {missing.key: f"{missing.key}={missing.value}" for missing in seen.missing}
    if unsaid:
        said = [key for key in keys if key.partition("=")[0] not in unsaid]
        problems = [f"{unsaid[each.key]}: {each.why}" for each in seen.missing]
        return _found(path, [*said, *unsaid.values()], problems=problems, seen=seen)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColumnsLeftOut)  # `seen` names them
            splits = read_own(source, table=table)
        size = size_of("own", splits)
    except ValueError as error:
        return _found(path, keys, problems=[str(error)], seen=seen)
    return OwnCheck(
        ok=True,
        path=path,
        problems=[],
        training_examples=size.num_labels,
        test_examples=len(splits.test_features),
        num_classes=size.num_classes,
        fingerprint=fingerprint_of(splits),
        seen=seen,
        keys=keys,
        command=_command(keys),
    )


def text_of(check: OwnCheck) -> str:
    """Return the finding for a person."""
    lines = [check.path]
    seen = check.seen
    if seen is not None:
        lines = [f"{check.path}: {seen.rows:,} rows; {seen.features}"]
        width = max((len(column.name) for column in seen.columns), default=0)
        lines += [f"  {c.name:<{width}}  {_column(c)}" for c in seen.columns[:_LISTED]]
        if len(seen.columns) > _LISTED:
            lines.append(f"  ... and {len(seen.columns) - _LISTED} more columns (--json has all)")
        classes = seen.classes
        if classes is not None and not isinstance(classes, int):
            classes = ", ".join(classes)
        for name, said in (("labels", seen.labels), ("classes", classes), ("split", seen.split)):
            lines.append(f"{name:<8} {said or 'not said'}")
    if check.ok:
        lines += [
            f"rows     {check.training_examples:,} for training, {check.test_examples:,} for "
            "testing",
            "all is said that training needs:",
        ]
    else:
        lines += ["still to do:", *(f"  - {problem}" for problem in check.problems)]
    if check.keys:
        lines.append(f"  {check.command}")
    return "\n".join(lines)


def _column(column: "ColumnSeen") -> str:
    kind = column.kind
    if column.categories is not None:
        kind += f", {column.categories} categories"
    return f"{kind}; {column.note}" if column.note else kind


def _found(
    path: str, keys: Sequence[str], *, problems: list[str], seen: "FileSeen | None" = None
) -> OwnCheck:
    said = list(keys)
    return OwnCheck(
        ok=False, path=path, problems=problems, seen=seen, keys=said, command=_command(said)
    )


def _command(keys: Sequence[str]) -> str:
    """A sweep in a results folder of its own, without the baseline, whose epsilon is infinite."""
    path = next(key for key in keys if key.startswith("data.path="))
    start = ["python", "sweeps/quickstart.py", "--results", f"results/{Path(path).stem}"]
    return shlex.join([*start, "--without", "no privacy", *keys])


def _keys(source: "OwnSource", path: str) -> list[str]:
    """The settings of a sweep that say what `source` does."""
    said = {"path": path}
    for entry in fields(source):
        value = getattr(source, entry.name)
        if entry.name == "path" or not value:
            continue
        listed = isinstance(value, (list, tuple))
        said[entry.name] = ",".join(value) if listed else str(value)
    return ["data.name=own", *(f"data.{name}={value}" for name, value in said.items())]

"""`labeldp data list|fetch|check`: which data sets there are, and whether they are as published.

`check FILE` shows what is seen in a user's own file, and the keys that a sweep still needs. Labels
are never shown, nor counted by class.

>>> [entry["name"] for entry in entries() if entry["name"].startswith("d")]
['digits']
"""

import json
import shlex
import warnings
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from labeldp.platform.cli.command import Answer, table
from labeldp.platform.settings.configuration import ConfigurationError, DataSettings
from labeldp.platform.sweep.config_files import parse_overrides
from labeldp.trainers.base import ExtensionError
from labeldp.trainers.data.catalog import DATASETS, DataSet, fetch, find
from labeldp.trainers.data.files import data_root
from labeldp.trainers.data.own_data import ColumnsLeftOut, read_own
from labeldp.trainers.data.own_files import OWN_FILES, FileSeen, OwnSource, describe
from labeldp.trainers.data.splits import fingerprint_of, size_of


def list_sets() -> Answer:
    """Return every data set, and whether its files are below `data_root`."""
    place = str(data_root().absolute())
    found = entries()
    rows = []
    for each in found:
        where = "path" if each["present"] else "command"
        there = "yes" if each["present"] else "no"
        rows.append((each["name"], there, each["description"], each[where]))
    columns = ("name", "there", "description", "folder, or the command that gets it")
    absent = {row: "dim" for row, each in enumerate(found) if not each["present"]}
    return Answer(
        facts={"root": place, "sets": found},
        words=table(columns, rows, title=f"data sets below {place}", styles=absent),
    )


def entries() -> list[dict[str, Any]]:
    """Return the entries of the list of data sets."""
    folder = data_root()
    found = []
    for name in DATASETS:
        entry = {"name": name, "description": "", "present": False, "path": "", "command": ""}
        found.append(entry)
        try:
            data_set = DATASETS[name]
        except ExtensionError as error:
            entry["description"] = str(error)
            continue
        entry |= {"description": data_set.description, "present": data_set.available(folder)}
        entry |= {"path": _place(data_set, folder), "command": data_set.command}
    return found


def _place(data_set: DataSet, root: Path) -> str:
    if data_set.reader is None:
        return ""
    return str(data_set.folder(root.absolute())) if data_set.files else "in scikit-learn"


def fetch_set(*, name: str) -> dict[str, str]:
    """Download a data set, unless it is there as published."""
    fetch(name)
    return {"name": name, "path": _place(find(name), data_root())}


def check(*, name: str, **more: Any) -> Answer:
    """Check a data set, or a user's own file; `more` is of `DataSettings`."""
    if not name.lower().endswith(OWN_FILES):
        if name in DATASETS and DataSettings(**more) != DataSettings():
            raise ValueError(
                f"{name} is a data set, which has no other columns, files or classes to choose; "
                "name a file of your own with these options, or leave them out"
            )
        return Answer(facts=check_set(name))
    return check_own(DataSettings(path=name, **more).own_source)


def check_set(name: str) -> dict[str, Any]:
    """Compare a data set's files with what is published, and read them as a sweep would."""
    if name == "own":
        raise ValueError("name the file itself: labeldp data check FILE.csv")
    data_set = find(name)
    folder = data_root()
    problems = data_set.check(folder)
    size = (0, 0, 0)
    fingerprint = ""
    if data_set.available(folder):
        from labeldp.trainers.data.labelled_data import load  # torch, which a list does without

        try:
            public = load(data_set.name).public
            size = (len(public.train_features), len(public.test_features), public.num_classes)
            fingerprint = public.fingerprint
        except ValueError as error:
            # Once is enough: a file that can't be read mostly has the wrong size or digest too.
            problems = problems or [str(error)]
    facts = {"name": data_set.name, "path": _place(data_set, folder)}
    return _checked(facts, problems, size, fingerprint)


def _checked(
    facts: dict[str, Any], problems: list[str], size: tuple[int, int, int], fingerprint: str
) -> dict[str, Any]:
    """Findings about a data set; `size` is examples for training and for testing, and classes."""
    found = {"ok": not problems, "problems": problems, "fingerprint": fingerprint}
    names = ("training_examples", "test_examples", "num_classes")
    return {**facts, **found, **dict(zip(names, size, strict=True))}


def check_own(source: OwnSource) -> Answer:
    """Look into a user's file, and read it as a sweep would if no key is missing.

    Facts have, beside those of a data set, `seen` (null if the file can't be read), the `keys` of a
    sweep on it, where capitals stand for what only the user knows, and the `command`.
    """
    assert source.path is not None
    path = str(Path(source.path).expanduser().absolute())
    keys = _keys(source, path)
    seen = None
    size = (0, 0, 0)
    fingerprint = ""
    try:
        seen = describe(source)
        missing = {each.key: f"{each.key}={each.value}" for each in seen.missing}
        problems = [f"{missing[each.key]}: {each.why}" for each in seen.missing]
        keys = [key for key in keys if key.partition("=")[0] not in missing]
        keys += missing.values()
        if not missing:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColumnsLeftOut)  # `seen` names them
                splits = read_own(source)
            data = size_of("own", splits)
            size = (data.num_labels, len(splits.test_features), data.num_classes)
            fingerprint = fingerprint_of(
                splits.num_classes,
                (splits.train_features, splits.test_features),
                splits.test_labels,
            )
    except ValueError as error:
        problems = [str(error)]
    facts = _checked({"name": "own", "path": path}, problems, size, fingerprint)
    sweep = "quickstart" if source.bounds is None else "amounts"
    start = ["labeldp", "sweep", sweep, "--results", f"results/{Path(path).stem}"]
    if source.bounds is None:
        start += ["--without", "no privacy"]
    command = shlex.join([*start, *keys])
    to_do = ["still to do:", *(f"  - {problem}" for problem in problems)]
    if not problems:
        rows = f"{size[0]:,} for training, {size[1]:,} for testing"
        to_do = [f"rows     {rows}", "this command trains on it:"]
    return Answer(
        facts={**facts, "seen": seen and asdict(seen), "keys": keys, "command": command},
        words=[path, *(_described(seen) if seen else []), *to_do, f"  {command}"],
    )


def _described(seen: FileSeen) -> list[Any]:
    rows = []
    for column in seen.columns:
        counted = "" if column.categories is None else f", {column.categories} categories"
        rows.append((column.name, "; ".join(filter(None, (column.kind + counted, column.note)))))
    classes = seen.classes if isinstance(seen.classes, int) else ", ".join(seen.classes or ())
    stated = f"classes  {classes or 'not given'}"
    if seen.bounds is not None:
        stated = "bounds   {:g} to {:g}".format(*seen.bounds)
    return [
        f"{seen.rows:,} rows; {seen.features}",
        *table(("column", "read as"), rows),
        f"labels   {seen.labels or 'not given'}",
        stated,
        f"split    {seen.split or 'not given'}",
    ]


def _keys(source: OwnSource, path: str) -> list[str]:
    given = {"path": path}
    for entry in fields(source):
        value = getattr(source, entry.name)
        if entry.name != "path" and value and value != entry.default:
            listed = isinstance(value, (list, tuple))
            given[entry.name] = ",".join(map(str, value)) if listed else str(value)
    return ["data.name=own", *(_written(f"data.{name}", text) for name, text in given.items())]


def _written(key: str, text: str) -> str:
    """`key=value`, in quotes where the value would be read as something else than this text."""
    try:
        read = parse_overrides([f"{key}={text}"])[key]
    except ConfigurationError:
        read = None
    same = type(read) in (str, int) and str(read) == text
    return f"{key}={text if same else json.dumps(text, ensure_ascii=False)}"

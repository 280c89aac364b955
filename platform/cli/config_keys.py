"""`labeldp config`: every key with type, default, bounds and meaning; or a sweep's values.

>>> facts = {each.key: each for each in keys_of("alibi")}
>>> facts["trainer.epsilon"].default, facts["trainer.epsilon"].bounds
('1.0', 'above 0')
>>> facts["trainer.noise"].type
'laplace, gaussian, randomized_response, subset, optimal or none'
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill, indent
from typing import Any

from pydantic_core import to_jsonable_python

from labeldp.platform.cli.command import Answer
from labeldp.platform.cli.sweep_command import asked, settings_of
from labeldp.platform.settings.configuration import (
    ConfigurationError,
    TrialConfig,
    to_yaml,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.sweep import SweepOptions, points, sized_sweep
from labeldp.platform.sweep.config_files import SWEEPS, naming, written
from labeldp.trainers.base import ExtensionError, allowed, fields_of, near_miss, one_of


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """One key.

    Attributes:
        type: Type of its values; of names, all of them.
        bounds: Of a number; empty where any will do.
        methods: That have it with this default and meaning; none for a key of every trial.
    """

    key: str
    type: str
    default: str
    bounds: str
    meaning: str
    methods: tuple[str, ...] = ()


def config(*, of: str | None, match: str | None, **given: Any) -> Answer:
    """Return the keys of a method or of all, or the configuration of a sweep.

    `match` chooses keys by a text in their names or meanings; `given` are options of a sweep.
    """
    if any(given.values()) or (of is not None and of not in METHODS):
        if match or (of in METHODS and not (SWEEPS / f"{of}.py").is_file()):
            raise ValueError(
                "--match chooses among keys, and a method takes no settings here: name a sweep "
                "without --match for its configuration, or a method alone for its keys"
            )
        return configuration_of(of, given)
    found = all_keys() if of is None else keys_of(of)
    text = (match or "").lower()
    keys = [facts for facts in found if text in f"{facts.key} {facts.meaning}".lower()]
    if not keys:
        raise ValueError(f"no key and no meaning holds {match!r}; `labeldp config` lists all keys")
    width = max(60, get_terminal_size((120, 24)).columns)
    lines = list[str]()
    for facts in keys:
        kind = ", ".join(filter(None, (facts.type, facts.bounds)))
        method = f" [{', '.join(facts.methods)}]" if of is None and facts.methods else ""
        lines.append(f"{facts.key} = {facts.default}")
        for line in (f"{kind}.", facts.meaning + method):
            lines.append(fill(line, width, initial_indent="    ", subsequent_indent="    "))
    return Answer(facts={"keys": list(map(asdict, keys))}, words="\n".join(lines))


def configuration_of(of: str | None, given: Mapping[str, Any]) -> Answer:
    """Return the resolved configuration of a sweep's line, the first if `given` names none."""
    if of is not None and re.fullmatch(r"\w+", of):
        names = [*METHODS, *(file.stem for file in SWEEPS.glob("*.py"))]
        if of not in names:
            raise ConfigurationError(f"no method or sweep is called {of!r}; {near_miss(of, names)}")
    sweep, given = asked(of, {"results": None, **given})
    settings, places = settings_of(given)
    options = SweepOptions(
        results=Path("results"),
        overrides=settings,
        only=[given["line"]] if given["line"] else [],
        **{name: given[name] for name in ("smoke", "preset")},
    )
    with naming(places):
        sized = sized_sweep(sweep, options)
        line, *others = sized.variants
        resolved = line.config(sized.base, next(points(line.space)))
    values: dict[str, Any] = to_jsonable_python(resolved)
    for key, axis in line.space.items():
        *sections, name = key.split(".")
        section = reduce(getitem, sections, values)
        section[name] = to_jsonable_python(written(axis))
    title = f"# {sweep.name}, line {line.name!r}"
    if others:
        title += f"; --line NAME shows {', '.join(repr(each.name) for each in others)}"
    facts = {each.key: each for each in keys_of(resolved.method)}
    return Answer(facts=values, words="\n".join([title, *_commented(values, facts)]))


def _commented(
    values: Mapping[str, Any], facts: Mapping[str, KeyFacts], prefix: str = ""
) -> Iterator[str]:
    margin = "  " * prefix.count(".")
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in facts:
            yield f"{margin}{name}:"
            yield from _commented(value, facts, f"{key}.")
            continue
        if key in facts:
            start = f"{margin}# "
            yield fill(facts[key].meaning, 100, initial_indent=start, subsequent_indent=start)
        yield indent(to_yaml({name: value}, prefix.rstrip(".")), margin).rstrip()


def keys_of(method: str) -> list[KeyFacts]:
    """Return every key of a trial of `method`, in the order of the sections."""
    if method not in METHODS:
        raise ConfigurationError(f"method is {method!r}; {near_miss(method, METHODS)}")
    found = _walk(with_changes(TrialConfig(), {"method": method}), "")
    return [
        replace(facts, methods=(method,)) if facts.key.startswith("trainer.") else facts
        for facts in found
    ]


def all_keys() -> list[KeyFacts]:
    """Return every key of every method; one that differs between methods is there several times."""
    merged: dict[KeyFacts, list[str]] = {}
    for method in METHODS:
        try:
            listed = keys_of(method)
        except ExtensionError:  # `labeldp doctor` names it
            continue
        for facts in listed:
            merged.setdefault(replace(facts, methods=()), []).extend(facts.methods)
    rows = [replace(facts, methods=tuple(methods)) for facts, methods in merged.items()]
    shared = [row for row in rows if not row.methods]
    own = sorted((row for row in rows if row.methods), key=lambda row: row.key)
    return shared + own


def _walk(section: object, prefix: str) -> Iterator[KeyFacts]:
    for name, field in fields_of(type(section)).items():
        value = getattr(section, name)
        key = prefix + name
        if is_dataclass(value):
            yield from _walk(value, f"{key}.")
            continue
        values = allowed(field)
        yield KeyFacts(
            key=key,
            type=one_of(METHODS) if key == "method" else values.type,
            default=TrialConfig().method if key == "method" else _written(value),
            bounds=values.bounds,
            # Another package's settings may have none.
            meaning=field.description or "",
        )


def _written(value: object) -> str:
    plain = to_jsonable_python(value)
    return plain if isinstance(plain, str) else json.dumps(plain)

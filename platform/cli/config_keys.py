"""`labeldp config [METHOD]`: every configuration key with type, default, bounds and meaning.

>>> facts = {each.key: each for each in keys_of("alibi")}
>>> facts["trainer.epsilon"].default, facts["trainer.epsilon"].bounds
('1.0', 'above 0')
>>> facts["trainer.noise"].type
'laplace, gaussian, randomized_response, subset, optimal or none'
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, is_dataclass, replace
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import yaml
from pydantic_core import to_jsonable_python

from labeldp.platform.cli.command import Answer
from labeldp.platform.sweep.configuration import (
    METHODS,
    ConfigurationError,
    TrialConfig,
    with_changes,
)
from labeldp.trainers.extensions import ExtensionError
from labeldp.trainers.settings.base import allowed, fields_of, near_miss, one_of


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


def config(*, method: str | None, match: str | None) -> Answer:
    """Return the keys of a method, or of all, whose name or meaning holds a text."""
    found = all_keys() if method is None else keys_of(method)
    text = (match or "").lower()
    keys = [facts for facts in found if text in f"{facts.key} {facts.meaning}".lower()]
    if not keys:
        raise ValueError(f"no key and no meaning holds {match!r}; `labeldp config` lists all keys")
    width, lines = max(60, get_terminal_size((120, 24)).columns), list[str]()
    for facts in keys:
        kind = ", ".join(filter(None, (facts.type, facts.bounds)))
        of = f" [{', '.join(facts.methods)}]" if method is None and facts.methods else ""
        lines.append(f"{facts.key} = {facts.default}")
        for line in (f"{kind}.", facts.meaning + of):
            lines.append(fill(line, width, initial_indent="    ", subsequent_indent="    "))
    return Answer(facts={"keys": list(map(asdict, keys))}, words="\n".join(lines))


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


def _walk(section: Any, prefix: str) -> Iterator[KeyFacts]:
    for name, field in fields_of(type(section)).items():
        value, key = getattr(section, name), prefix + name
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


def _written(value: Any) -> str:
    text: str = yaml.safe_dump(to_jsonable_python(value), default_flow_style=True)
    return text.removesuffix("\n").removesuffix("...").strip()

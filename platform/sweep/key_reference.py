"""Every configuration key: its type, default, bounds and meaning, read from the code itself.

A meaning is what the dataclass says of its field under `Attributes:`. Bounds are found by asking:
the section is given a number far too small and one far too large, and what it says in refusing
them is its bound. So nothing is written twice, and what is listed is what is checked.

>>> facts = {each.key: each for each in keys_of("alibi")}
>>> facts["trainer.epsilon"].default, facts["trainer.epsilon"].bounds
('1.0', 'a finite number above 0')
>>> facts["trainer.noise"].type
'laplace, gaussian, randomized_response or none'
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from labeldp.platform.sweep.configuration import (
    METHODS,
    ConfigurationError,
    TrialConfig,
    near_miss,
    with_changes,
)
from labeldp.trainers.extensions import ExtensionError

_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
#: Beyond all bounds that there are; -1 where what is far below breaks another rule first.
_FAR = {int: (-(10**6), -1, 10**6), float: (-1e9, -1.0, 1e9)}


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """One key.

    Attributes:
        key: Dotted.
        type: What a value may be; of names, all of them.
        default: As it is written.
        bounds: Of a number; empty where any will do.
        meaning: What it is.
        methods: That have it with this default and meaning; none for a key of every trial.
    """

    key: str
    type: str
    default: str
    bounds: str
    meaning: str
    methods: tuple[str, ...] = ()


def keys_of(method: str) -> list[KeyFacts]:
    """Return every key of a trial of `method`, in the order of the sections.

    Raises:
        ConfigurationError: There is no such method.
    """
    if method not in METHODS:
        raise ConfigurationError(f"method is {method!r}; {near_miss(method, METHODS)}")
    found = []
    for facts in _walk(with_changes(TrialConfig(), {"method": method}), ""):
        own = facts.key.startswith("trainer.")
        found.append(replace(facts, methods=(method,) if own else ()))
    return found


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
    """Yield the keys of a section and of those within it."""
    meanings, types = _meanings(type(section)), get_type_hints(type(section))
    for field in fields(section):
        value, key = getattr(section, field.name), prefix + field.name
        if is_dataclass(value):
            yield from _walk(value, f"{key}.")
        elif key == "method":
            yield KeyFacts(
                key=key,
                type=_one_of(METHODS),
                default=TrialConfig().method,
                bounds="",
                meaning=meanings[field.name],
            )
        else:
            yield KeyFacts(
                key=key,
                type=_type(types[field.name]),
                default=_written(value),
                bounds=_bounds(section, field.name, types[field.name]),
                # Another package's settings may have no docstring.
                meaning=meanings.get(field.name, ""),
            )


def _meanings(section: type) -> dict[str, str]:
    """Field -> what the docstrings of a dataclass, and of those it inherits from, say of it."""
    found: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        text = inspect.cleandoc(kind.__dict__.get("__doc__") or "")
        listed = re.search(r"^Attributes:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
        for name, said in re.findall(
            r"^    (\w+): (.*\n?(?:      .*\n?)*)", listed[1] if listed else "", re.MULTILINE
        ):
            found[name] = " ".join(said.split())
    return found


def _members(kind: Any) -> tuple[Any, ...]:
    """The kinds that a type allows; None is one of them where it may be left open."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _type(kind: Any) -> str:
    words = []
    for member in _members(kind):
        if isinstance(member, type) and issubclass(member, Enum):
            words.append(_one_of(name.lower() for name in member.__members__))
        elif member is not NoneType:
            words.append(_PLAIN.get(member, str(member)))
    return " or ".join(words) + (", or null" if NoneType in _members(kind) else "")


def _one_of(names: Any) -> str:
    *some, last = names
    return f"{', '.join(some)} or {last}" if some else str(last)


def _written(value: Any) -> str:
    """A default as one types it."""
    if isinstance(value, Enum):
        return value.name.lower()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _bounds(section: Any, name: str, kind: Any) -> str:
    """What a section says to numbers that are far too small and far too large."""
    number = next((each for each in _members(kind) if each in _FAR), None)
    if number is None:
        return ""
    said = [_refusal(section, name, value) for value in _FAR[number]]
    return "; ".join(dict.fromkeys(bound for bound in said if bound))


def _refusal(section: Any, name: str, value: float) -> str:
    """The bound that a refusal names; empty where a value is taken."""
    try:
        replace(section, **{name: value})
    except ValueError as error:
        bound = re.match(rf"(?:\w+\.)*{name} is \S+; it must (?:be |lie )?(.*)", str(error))
        return bound[1] if bound else ""
    return ""

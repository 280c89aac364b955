"""Every configuration key: type, default, bounds and meaning, as the settings state them.

>>> facts = {each.key: each for each in keys_of("alibi")}
>>> facts["trainer.epsilon"].default, facts["trainer.epsilon"].bounds
('1.0', 'above 0')
>>> facts["trainer.noise"].type
'laplace, gaussian, randomized_response, subset, optimal or none'
"""

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import yaml

from labeldp.platform.sweep.configuration import (
    METHODS,
    ConfigurationError,
    TrialConfig,
    nested,
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
    text: str = yaml.safe_dump(nested(value), default_flow_style=True)
    return text.removesuffix("\n").removesuffix("...").strip()

"""Whether what a ledger says of a mechanism is what it says of a class of ours.

A ledger keeps names and parameters, and anybody's class may bear the name of ours: with a parameter
that is a secret of theirs, or with another meaning. So a name alone decides nothing. Fields have to
be those of our own dataclass, all of them and no others, each of the type that it declares there.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> is_of(RandomizedResponse, {"name": "RandomizedResponse", "epsilon": 1.0, "num_classes": 2})
True
>>> is_of(RandomizedResponse, {"name": "RandomizedResponse", "patient": 4711.0, "num_classes": 2})
False
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

#: What a description has beside a mechanism's parameters.
_BESIDE = frozenset({"name", "noise"})


def is_of(kind: type, described: Mapping[str, Any]) -> bool:
    """Whether a description (`release_address.describe`) is of a mechanism of this class."""
    if described.get("name") != kind.__name__:
        return False
    return _has_fields(kind, {key: described[key] for key in described if key not in _BESIDE})


def _has_fields(kind: type, values: Mapping[str, Any]) -> bool:
    assert is_dataclass(kind), f"{kind.__name__} has no fields to know it by"
    hints = get_type_hints(kind)
    declared = {entry.name: hints[entry.name] for entry in fields(kind)}
    return set(values) == set(declared) and all(
        _is_a(values[name], hint) for name, hint in declared.items()
    )


def _is_a(value: Any, hint: Any) -> bool:
    """Whether a value is one of a type's as it is written down; of a type not foreseen, none is."""
    if get_origin(hint) in (Union, UnionType):
        return any(_is_a(value, each) for each in get_args(hint))
    if hint is float:  # whole ones too: older stores have them as they were typed
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint in (int, bool, NoneType):
        return type(value) is hint
    if isinstance(hint, type) and issubclass(hint, Enum):
        return any(value == member.value for member in hint)
    if not is_dataclass(hint) or not isinstance(hint, type) or not isinstance(value, Mapping):
        return False
    if set(value) == {"type", "parameters"}:
        inside = value["parameters"]
        typed = value["type"] == hint.__name__ and isinstance(inside, Mapping)
        return typed and _has_fields(hint, inside)
    return _has_fields(hint, value)

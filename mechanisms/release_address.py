"""What names a release: the labels, the mechanism with all its parameters, and the noise.

Two releases of one address would be one: who asks for the second would get the first, and pay
nothing. So everything that decides what is drawn is part of it, the types of parameters too.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> from labeldp.mechanisms.randomness import OsEntropy
>>> describe(RandomizedResponse(epsilon=1, num_classes=2), OsEntropy(draw=3))["noise"]
{'name': 'OsEntropy', 'draw': 3}
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import NoiseSource

#: What a class itself says, and no class that inherits from it, whose parameters are recorded
#: without its name, as they always were: so that stored releases are found and seeded noise is the
#: same. No two such classes have the same fields.
_WITHOUT_TYPE = "recorded_without_type"
#: What a description says beside the parameters; one of that name would be lost. With other names.
_OTHERWISE = {"name": "title", "noise": "added_noise"}


def describe(mechanism: object, noise: NoiseSource) -> dict[str, Any]:
    """Return name and parameters of a mechanism and of its noise, as the ledger records them.

    Raises:
        TypeError: The mechanism is not a dataclass, so that its parameters can't be told, has the
            name of one of labeldp's own, or a field `name` or `noise`, which the description has
            another meaning for.
    """
    _refuse_namesake(type(mechanism))
    return {
        "name": type(mechanism).__name__,
        **_parameters(mechanism),
        "noise": {"name": type(noise).__name__, **_parameters(noise)},
    }


def address(
    private_digest: str,
    description: dict[str, Any],
    indices: NDArray[np.intp] | None,
    public: Sequence[NDArray[Any]],
) -> str:
    """Return the address of a release, 32 hexadecimal digits.

    Args:
        private_digest: Keyed digest of the labels or votes.
        description: As `describe` returns it.
        indices: The labels that it is of [M], None for all of them.
        public: The mechanism's public inputs.
    """
    parts = {
        "private": private_digest,
        "mechanism": description,
        "indices": None if indices is None else array_digest(indices),
        "public": [array_digest(np.asarray(values)) for values in public],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def array_digest(values: NDArray[Any]) -> str:
    """Return a digest of an array's type, shape and content.

    Raises:
        TypeError: An array of objects or of records, whose bytes don't say what is in it.
    """
    if values.dtype.hasobject or values.dtype.names is not None:
        raise TypeError(
            f"an input is an array of type {values.dtype}, whose bytes don't tell its content, so "
            "that two releases might be taken for one; pass arrays of numbers, truth values or text"
        )
    header = f"{values.dtype.str}{values.shape}".encode()
    return hashlib.sha256(header + np.ascontiguousarray(values).tobytes()).hexdigest()


def _refuse_namesake(kind: type) -> None:
    """Refuse another class of the name of one of ours: the ledger, audits and readers go by it."""
    for room in ("labeldp.mechanisms", "labeldp.mechanisms.pate"):
        ours = getattr(sys.modules.get(room), kind.__name__, None)
        if isinstance(ours, type) and ours is not kind:
            raise TypeError(
                f"{kind.__module__}.{kind.__name__} has the name of a class of labeldp, under "
                "which its releases would be taken for that one's; call the class otherwise"
            )


def _parameters(thing: object) -> dict[str, Any]:
    if not is_dataclass(thing) or isinstance(thing, type):
        raise TypeError(
            f"{type(thing).__name__} is not a dataclass: its parameters can't be recorded, so "
            "its releases could not be told apart"
        )
    taken = sorted(_OTHERWISE.keys() & {entry.name for entry in fields(thing)})
    if taken:
        raise TypeError(
            f"{type(thing).__name__} has a field called {taken[0]!r}; a release's address has its "
            "type and its source of noise under `name` and `noise`, so that two releases that "
            f"differ in that field would be one: call the field otherwise ({_OTHERWISE[taken[0]]})"
        )
    return {
        # epsilon 1 and 1.0 are one release, not two
        entry.name: (float if entry.type is float else _plain)(getattr(thing, entry.name))
        for entry in fields(thing)
    }


def _plain(value: Any) -> Any:
    """A parameter as JSON takes it; a dataclass with its type, but for those known without."""
    if is_dataclass(value) and not isinstance(value, type):
        inside = {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
        if vars(type(value)).get(_WITHOUT_TYPE, False):
            return inside
        return {"type": type(value).__name__, "parameters": inside}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(
                f"a parameter is {value!r}, of which JSON would write numbers as text, and two as "
                "one; use text for its keys"
            )
        return {key: _plain(item) for key, item in value.items()}
    # NumPy's scalars are numbers like any other, but not to JSON.
    return value.item() if isinstance(value, np.generic) else value

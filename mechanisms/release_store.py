"""Releases as a vault keeps them: under which address, at what charge, in which store.

An address is made of the labels, the mechanism with all its parameters, and the noise. Two releases
of one address would be one: a request for the second would get the first, and pay nothing. So
everything that decides a draw is part of the address, the types of parameters too.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> describe(RandomizedResponse(epsilon=1, num_classes=2), OsEntropy(draw=3))["noise"]
{'name': 'OsEntropy', 'draw': 3}

A ledger keeps names and parameters, and anybody's class may bear the name of ours: with a parameter
that is a secret of theirs, or with another meaning. So a name alone decides nothing. Fields have to
be those of our own dataclass, all of them and no others, each of the type that it declares there.

>>> is_of(RandomizedResponse, {"name": "RandomizedResponse", "epsilon": 1.0, "num_classes": 2})
True
>>> is_of(RandomizedResponse, {"name": "RandomizedResponse", "patient": 4711.0, "num_classes": 2})
False
"""

import hashlib
import json
import math
import secrets
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import (
    DecisionEvent,
    Event,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
)
from labeldp.mechanisms.randomness import NoiseKind, NoiseSource, OsEntropy, SecureEntropy

#: A mark on a class itself, not inherited: its parameters are recorded without its name. Seeded
#: noise and addresses follow from the record. No two such classes have the same fields.
_WITHOUT_TYPE = "recorded_without_type"
#: Beside the parameters in a description, which may have no field of that name; with other names.
_OTHERWISE = {"name": "title", "noise": "added_noise"}


def describe(mechanism: object, noise: NoiseSource) -> dict[str, Any]:
    """Return name and parameters of a mechanism and of its noise, as the ledger records them.

    A mechanism that is not a dataclass, has the name of one of labeldp's own, or a field `name` or
    `noise` is refused: its parameters could not be recorded without doubt.
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

    `private_digest` is a keyed digest of the labels or votes, `indices` the labels that it is of
    [M], None for all of them, and `public` the mechanism's public inputs.
    """
    parts = {
        "private": private_digest,
        "mechanism": description,
        "indices": None if indices is None else array_digest(indices),
        "public": [array_digest(np.asarray(values)) for values in public],
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def array_digest(values: NDArray[Any]) -> str:
    """Return a digest of an array's type, shape and content."""
    if values.dtype.hasobject or values.dtype.names is not None:
        raise TypeError(
            f"an input is an array of type {values.dtype}, whose bytes do not identify its "
            "content, so two releases could be confused; pass arrays of numbers, booleans or text"
        )
    digest = hashlib.sha256(f"{values.dtype.str}{values.shape}".encode())
    # No copy of the bytes, which may be a gigabyte.
    digest.update(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _refuse_namesake(kind: type) -> None:
    """Refuse another class of the name of a mechanism of ours: ledger, audits and readers go by it.

    In all loaded modules: what a package exports is not all that a reader knows.
    """
    loaded = list(sys.modules.items())  # another thread may import
    rooms = [room for name, room in loaded if name.startswith("labeldp.mechanisms")]
    for room in rooms:
        ours = getattr(room, kind.__name__, None)
        if isinstance(ours, type) and hasattr(ours, "release") and ours is not kind:
            raise TypeError(
                f"{kind.__module__}.{kind.__name__} has the name of a class of labeldp, so "
                "releases of the two could be confused; rename the class"
            )


def _parameters(thing: object) -> dict[str, Any]:
    if not is_dataclass(thing) or isinstance(thing, type):
        raise TypeError(
            f"{type(thing).__name__} is not a dataclass: its parameters can't be recorded, so "
            "its releases could not be distinguished"
        )
    taken = sorted(_OTHERWISE.keys() & {entry.name for entry in fields(thing)})
    if taken:
        raise TypeError(
            f"{type(thing).__name__} has a field called {taken[0]!r}; a release's address uses "
            "`name` and `noise` for its type and source of noise, so releases that differ in that "
            f"field could be confused; rename the field ({_OTHERWISE[taken[0]]})"
        )
    return {entry.name: _plain(getattr(thing, entry.name), entry.type) for entry in fields(thing)}


def _plain(value: object, hint: object) -> Any:
    """A parameter as JSON takes it; a dataclass with its type, but for those known without."""
    if is_dataclass(value) and not isinstance(value, type):
        inside = {each.name: _plain(getattr(value, each.name), each.type) for each in fields(value)}
        if vars(type(value)).get(_WITHOUT_TYPE, False):
            return inside
        return {"type": type(value).__name__, "parameters": inside}
    if isinstance(value, list | tuple):
        return [_plain(item, hint) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(
                f"a parameter is {value!r}, whose keys JSON would write as text, and might merge; "
                "use text for its keys"
            )
        return {key: _plain(item, hint) for key, item in value.items()}
    return _validate.plain(value, hint)  # epsilon 1 and 1.0 are one release, not two


def is_of(kind: type, described: Mapping[str, Any]) -> bool:
    """Whether a description (`describe`) is of a mechanism of this class."""
    # By name and fields, since a release may be older than the code that reads it.
    if described.get("name") != kind.__name__:
        return False
    return _has_fields(kind, {key: described[key] for key in described if key not in _OTHERWISE})


def _has_fields(kind: type, values: Mapping[str, Any]) -> bool:
    assert is_dataclass(kind), f"{kind.__name__} has no fields that identify it"
    hints = get_type_hints(kind)
    declared = {entry.name: hints[entry.name] for entry in fields(kind)}
    return set(values) == set(declared) and all(
        _is_a(values[name], hint) for name, hint in declared.items()
    )


def _is_a(value: object, hint: object) -> bool:
    """Whether a value is one of a type's as it is written down; of a type not foreseen, none is."""
    if get_origin(hint) in (Union, UnionType):
        return any(_is_a(value, each) for each in get_args(hint))
    if hint is float:  # whole ones too
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


_EVENTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (PureEvent, RandomizedResponseEvent, GaussianEvent, RenyiEvent, DecisionEvent)
}


class OtherLabels(ValueError):
    """A store that holds releases of other labels than those it is opened for."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """One line of the ledger."""

    key: str  # the release it paid for
    event: Event
    indices: NDArray[np.intp] | None  # the labels touched [M], or None for all of them
    mechanism: dict[str, Any]  # name and parameters, and where the noise came from
    failure_probability: float  # of the release costing more than `event`; a part of delta
    #: In UTC by the clock of the machine that drew it (`2026-11-21T23:40:15.120Z`), once on a disk.
    made: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _validate.delta(self.failure_probability, "failure_probability")

    @property
    def noise(self) -> NoiseKind:
        """Where its noise came from; SEEDED, which guarantees nothing, where that is not known.

        Anything but the operating system's entropy counts as repeatable: another name, other
        fields, or nothing at all.
        """
        noise = self.mechanism.get("noise")
        for source in (OsEntropy, SecureEntropy):
            if isinstance(noise, Mapping) and is_of(source, noise):
                return source.kind
        return NoiseKind.SEEDED

    @property
    def hands_out(self) -> bool:
        """Whether the labels left the vault as they are, so that nothing bounds what it reveals."""
        return isinstance(self.event, PureEvent) and math.isinf(self.event.epsilon)

    def is_beyond(self, training: int) -> bool:
        """Whether it is of held-out labels alone, which come after the N labels to train on."""
        _validate.whole(training=training)
        return self.indices is not None and bool((self.indices >= training).all())


class ReleaseStore(Protocol):
    """Where releases and charges are kept; one call to `record` keeps both or neither."""

    def salt(self) -> bytes:
        """Return 32 secret random bytes, the same for the life of the store."""

    def bind(self, labels_digest: str) -> None:
        """Tie a new store to the labels of this digest; refuse one that is tied to others."""

    def release(self, key: str) -> NDArray[Any] | None:
        """Return the values stored at `key`, or None."""

    def charges(self) -> Sequence[Charge]:
        """Return every charge so far, in order."""

    def record(self, charge: Charge, values: NDArray[Any], *, lines: int) -> bool:
        """Keep a charge and its release atomically; False, and nothing kept, if others came first.

        `lines` is the number of lines that the ledger had when this charge was found affordable and
        its release not there.
        """


@dataclass
class MemoryStore:
    """A store that lives as long as its process: for notebooks and tests."""

    # Shown to nobody: who knows the salt can try labels against the digest and the addresses.
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _releases: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    _charges: list[Charge] = field(default_factory=list, repr=False)
    _labels_digest: str | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def bind(self, labels_digest: str) -> None:
        """Tie the store to the labels of this digest."""
        if self._labels_digest not in (None, labels_digest):
            raise OtherLabels("this store holds releases of other labels; use one store per vault")
        self._labels_digest = labels_digest

    def salt(self) -> bytes:
        """Return this store's random bytes."""
        return self._salt

    def release(self, key: str) -> NDArray[Any] | None:
        """Return the values stored at `key`, or None."""
        return self._releases.get(key)

    def charges(self) -> Sequence[Charge]:
        """Return every charge so far, in order."""
        return tuple(self._charges)

    def record(self, charge: Charge, values: NDArray[Any], *, lines: int) -> bool:
        """Keep a charge and what it paid for, if the ledger still has so many `lines`."""
        with self._lock:
            if lines != len(self._charges) or charge.key in self._releases:
                return False
            self._charges.append(charge)
            self._releases[charge.key] = values
            return True


def write_event(event: Event) -> str:
    """Return an event as JSON; infinite values as JSON's 1e999."""
    text = json.dumps({"name": type(event).__name__, **asdict(event)})
    return text.replace("Infinity", "1e999")


def read_event(text: str) -> Event:
    """Return the event that `write_event` wrote."""
    fields = json.loads(text)
    kind = _EVENTS[fields.pop("name")]
    event: Event = kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    return event

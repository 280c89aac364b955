"""Where a vault keeps what it released and what that cost: an interface, and one in memory."""

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

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
    hands_out_labels,
)
from labeldp.mechanisms.randomness import NoiseKind
from labeldp.mechanisms.release_address import kind_of_described

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

    def __post_init__(self) -> None:
        _validate.delta(self.failure_probability, "failure_probability")

    @property
    def noise(self) -> NoiseKind:
        """Where its noise came from; SEEDED, which guarantees nothing, where that is not known."""
        return kind_of_described(self.mechanism.get("noise"))

    @property
    def hands_out(self) -> bool:
        """Whether the labels left the vault as they are, so that nothing bounds what it reveals."""
        return hands_out_labels(self.event)

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

        `lines` is the number of lines that the ledger had when this charge was found affordable.
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
            if lines != len(self._charges):
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

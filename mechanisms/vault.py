"""The label vault: the one object that holds training labels; everybody else sees releases.

A release is drawn once, charged once, and addressed by its inputs: the labels, the mechanism, its
parameters, the positions requested, its public inputs and the noise. An equal request reads the
stored release and pays nothing; a request for other noise pays again.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> vault = LabelVault(labels=np.array([0, 1, 1, 0]), num_classes=2)
>>> mechanism = RandomizedResponse(epsilon=1.0, num_classes=2)
>>> first = vault.release(mechanism)
>>> again = vault.release(mechanism)
>>> bool((first.values == again.values).all()), vault.epsilon(delta=0.0)
(True, 1.0)
>>> other = vault.release(mechanism, noise=OsEntropy(draw=1))
>>> vault.epsilon(delta=0.0)
2.0
"""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.ledger import (
    Budget,
    BudgetExceeded,
    Priced,
    PrivacyLedger,
    check_indices,
    ledger_of,
)
from labeldp.mechanisms.persons import Persons, event_of_persons
from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, generator_for
from labeldp.mechanisms.release_store import Charge as Charge
from labeldp.mechanisms.release_store import (
    MemoryStore,
    ReleaseStore,
    address,
    array_digest,
    describe,
)


class Mechanism(Priced, Protocol):
    """The vault's view of a mechanism: a frozen dataclass with a price and a release.

    The price is of one release, for each label that it touches. One that declares no
    `failure_probability`, in [0, 1), is refused: it has no default.
    """

    @property
    def release(self) -> Callable[..., Any]:
        """The function (labels [M], *public inputs, generator=) -> what leaves the vault.

        A property for type checkers: public inputs differ from mechanism to mechanism.
        """

    def __hash__(self) -> int:
        """As frozen dataclasses have it: equal settings request one release."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """The output of a mechanism: all that ever leaves the vault."""

    key: str  # its address
    values: NDArray[Any]  # the mechanism's output, floating-point values in single precision
    indices: NDArray[np.intp] | None  # the labels it speaks of [M], or None for all of them


@dataclass(frozen=True, kw_only=True, eq=False)
class Shard:
    """The true labels of one teacher; they never leave the trust boundary."""

    indices: NDArray[np.intp]  # training examples [n], in ascending order
    labels: NDArray[np.int64]  # their labels [n]

    def __repr__(self) -> str:
        """Say what is inside without showing it."""
        return f"Shard(num_labels={len(self.labels)})"


class LabelVault:
    """Training labels, their releases and their ledger."""

    def __init__(
        self,
        *,
        labels: object,
        num_classes: int,
        store: ReleaseStore | None = None,
        budget: Budget | None = None,
        persons: Persons | None = None,
    ) -> None:
        """Lock the labels [N] away; releases and charges are kept in memory without a store.

        With the public number 0..P-1 of each label's person [N], all charges are to persons: a
        release costs what all labels of a person together may reveal.
        """
        _validate.whole(num_classes=num_classes, minimum=2)
        self._labels = _validate.labels(labels, num_classes=num_classes, secret=True)
        if persons is not None and persons.shape != self._labels.shape:
            raise ValueError(f"persons has shape {persons.shape} for {len(self._labels)} labels")
        self.persons = persons
        self._labels.setflags(write=False)
        self.num_classes = num_classes
        self.budget = budget
        self._store = MemoryStore() if store is None else store
        # Two threads that both find no stored release would draw it twice and pay once.
        self._lock = threading.RLock()
        self._process = os.getpid()
        # An adversary who knows all labels but one could try each value of the last one against a
        # plain digest, so the address depends on the labels through a secret of the store only.
        digest = hashlib.blake2b(self._labels.tobytes(), key=self._store.salt(), digest_size=16)
        if persons is not None:  # another grouping is another ledger
            digest.update(persons.astype(np.int64).tobytes())
        self._labels_digest = digest.hexdigest()
        self._store.bind(self._labels_digest)
        self._ledger = PrivacyLedger(num_labels=self.num_people)
        self._in_ledger: set[str] = set()
        self.charges()

    def __repr__(self) -> str:
        """Say what is inside without showing it."""
        return f"LabelVault(num_labels={self.num_labels}, num_classes={self.num_classes})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied: a second vault would draw second noise for the same labels."""
        raise TypeError("a LabelVault can't be copied or sent; make it an actor and call that")

    @property
    def num_labels(self) -> int:
        """Number of labels."""
        return len(self._labels)

    @property
    def num_people(self) -> int:
        """Number of persons, or of labels if each person has one."""
        return len(self._labels) if self.persons is None else int(self.persons.max()) + 1

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
        noise: NoiseSource | None = None,
    ) -> Release:
        """Return the release of `mechanism`: the stored one, or a new one drawn and charged now.

        `public` are the mechanism's public inputs (a prior [M, K], clusters [M]), `indices` the
        labels to release [M], each once (all of them if not given), and `noise` is draw 0 of the
        operating system's entropy if not given. `BudgetExceeded` comes before any draw.
        """
        chosen = self._places(indices)
        labels = self._labels if chosen is None else self._labels[chosen]
        return self._release(mechanism, labels, self._labels_digest, public, chosen, noise)

    def charge_of(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
        noise: NoiseSource | None = None,
    ) -> Charge:
        """Return the line of the ledger that a release has, or would have."""
        chosen = self._places(indices)
        return self._charge(mechanism, self._labels_digest, public, chosen, noise or OsEntropy())

    def release_from_votes(
        self,
        mechanism: Mechanism,
        votes: NDArray[Any],
        *public: NDArray[Any],
        noise: NoiseSource | None = None,
        trained_on: NDArray[np.integer[Any]] | None = None,
        ensemble: str | None = None,
    ) -> Release:
        """Return answers of an ensemble that was trained on `partition`'s shards.

        One label changes one teacher and so one vote per query: `mechanism.event` prices that, and
        every label that the ensemble was `trained_on` (all if not given) is charged with it.

        `votes` are counts per query and class [Q, K]. `ensemble` are public words for this ensemble
        and these queries: that two ensembles vote alike is a secret, which their having one release
        would reveal. If not given, equal votes are taken for those of one ensemble.
        """
        keyed = hashlib.blake2b(key=self._store.salt(), digest_size=16)
        keyed.update(self._labels_digest.encode())
        keyed.update(array_digest(votes).encode())
        if ensemble is not None:
            keyed.update(ensemble.encode())
        chosen = self._places(trained_on)
        return self._release(mechanism, votes, keyed.hexdigest(), public, chosen, noise)

    def partition(
        self, teachers: int, *, seed: int, among: NDArray[np.integer[Any]] | None = None
    ) -> tuple["Shard", ...]:
        """Return disjoint shards of true labels for a PATE ensemble, inside the trust boundary.

        Nothing is charged here: knowledge of teachers leaves as answers only, through
        `release_from_votes`. The examples of a shard depend on public numbers alone: the seed
        of a shuffle, and T; every shard gets N // T labels or one more, of all labels or of those
        `among` [n], which shards number from 0.
        """
        _validate.whole(teachers=teachers, minimum=1)
        _validate.whole(seed=seed)
        every = slice(None) if among is None else check_indices(among, self.num_labels)
        labels = self._labels[every]
        if teachers > len(labels):
            raise ValueError(
                f"teachers is {teachers}, but there are {len(labels)} labels: some shards "
                "would be empty; take fewer teachers"
            )
        # By public numbers alone: shards that followed the labels would reveal them.
        order = np.random.default_rng(seed).permutation(len(labels))
        parts = [np.sort(part) for part in np.array_split(order, teachers)]
        times_used = np.bincount(np.concatenate(parts), minlength=len(labels))
        # Not an assertion: python -O removes those.
        if not (times_used == 1).all():
            raise ArithmeticError("a label is in two shards, and would change two votes")
        return tuple(Shard(indices=part, labels=labels[part]) for part in parts)

    def _places(self, indices: NDArray[np.integer[Any]] | None) -> NDArray[np.intp] | None:
        return None if indices is None else check_indices(indices, self.num_labels)

    def _charge(
        self,
        mechanism: Mechanism,
        private_digest: str,
        public: Sequence[NDArray[Any]],
        indices: NDArray[np.intp] | None,
        noise: NoiseSource,
    ) -> Charge:
        description = describe(mechanism, noise)
        # All labels of a person may change at once, so that a person pays more than a label.
        event = mechanism.event
        paying = indices
        if self.persons is not None:
            touched = self.persons if indices is None else self.persons[indices]
            event = event_of_persons(mechanism, touched, public)
            paying = None if indices is None else np.unique(touched)
        return Charge(
            key=address(private_digest, description, indices, public),
            event=event,
            indices=paying,
            mechanism=description,
            failure_probability=_declared(mechanism),
        )

    def _release(
        self,
        mechanism: Mechanism,
        private: NDArray[Any],
        private_digest: str,
        public: Sequence[NDArray[Any]],
        indices: NDArray[np.intp] | None,
        noise: NoiseSource | None,
    ) -> Release:
        self._refuse_a_fork()
        source = noise or OsEntropy()
        charge = self._charge(mechanism, private_digest, public, indices, source)
        key = charge.key
        with self._lock:
            stored = self._store.release(key)
            drawn = None
            while stored is None:
                # `record` refuses a charge if the ledger has grown since this count, so that the
                # look comes after it: another vault on the same store may have charged in between.
                # Its charges count first, and if it made this very release, that one stands.
                lines = len(self.charges())
                if (stored := self._store.release(key)) is not None:
                    break
                # Before the draw: what is refused must not have touched a label.
                self._afford(charge)
                # Once: a second draw of the same labels would be a second release.
                if drawn is None:
                    # A seeded experiment repeats in another store: what seeds its noise is public.
                    stream = address("", charge.mechanism, indices, public)
                    generator = generator_for(mechanism, source, stream)
                    drawn = _compact(
                        np.asarray(mechanism.release(private, *public, generator=generator))
                    )
                if self._store.record(charge, drawn, lines=lines):
                    self._add(charge)
                    stored = drawn
        return Release(key=key, values=stored, indices=indices)

    def _refuse_a_fork(self) -> None:
        """Refuse to draw in a copy of the process: it and this one would draw one release twice."""
        if os.getpid() != self._process:
            raise TypeError(
                f"this LabelVault belongs to process {self._process}, and process {os.getpid()} is "
                "a fork of it, whose releases the ledger would miss: release before the fork, "
                'start workers with multiprocessing.get_context("spawn"), or make the vault an '
                "actor and call that"
            )

    def epsilon(self, *, delta: float, keys: Sequence[str] | None = None) -> float:
        """Epsilon of the worst label at `delta`, over all releases or those at `keys` only.

        A key that no release has is refused, since it would otherwise count as free.
        """
        charges = self.charges()
        if keys is None:
            return self._ledger.epsilon(delta=delta)
        for key in keys:
            if not any(charge.key == key for charge in charges):
                raise ValueError(
                    f"no release has the key {key!r}, so what it cost is unknown; pass the `key` "
                    "of releases that this vault made"
                )
        read = (charge for charge in charges if charge.key in keys)
        return ledger_of(read, num_labels=self.num_people).epsilon(delta=delta)

    def charges(self) -> Sequence[Charge]:
        """Return the lines of the ledger, in order, other vaults' on the same store among them."""
        charges = self._store.charges()
        with self._lock:
            for charge in charges:
                self._add(charge)
        return charges

    def _add(self, charge: Charge) -> None:
        """Take a line of the store into account, once."""
        if charge.key not in self._in_ledger:
            self._ledger.add(charge)
            self._in_ledger.add(charge.key)

    def _afford(self, charge: Charge) -> None:
        if self.budget is None:
            return
        # On a copy, since a refused charge must leave no trace.
        trial = self._ledger.copy()
        trial.add(charge)
        requested = trial.epsilon_or_infinity(delta=self.budget.delta)
        if not self.budget.allows(requested):
            raise BudgetExceeded(
                budget=self.budget,
                spent=self._ledger.epsilon_or_infinity(delta=self.budget.delta),
                requested=requested,
                request=str(charge.mechanism["name"]),
            )


def _declared(mechanism: Mechanism) -> float:
    """The failure probability that a mechanism declares; none may be left out by accident."""
    declared = getattr(mechanism, "failure_probability", None)
    if declared is None:
        name = type(mechanism).__name__
        raise TypeError(
            f"{name} does not declare its failure_probability, the part of delta that a release "
            f"takes; write `failure_probability: ClassVar[float] = 0.0` in class {name} if a "
            "release always costs what its event states, otherwise the probability that it costs "
            "more"
        )
    return float(declared)


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """Single precision for floating-point values: post-processing, and half the store."""
    compact = values.astype(np.float32) if np.issubdtype(values.dtype, np.floating) else values
    compact = np.ascontiguousarray(compact)
    compact.setflags(write=False)
    return compact

"""Some of a vault's labels, as if they were all that it has: labels to train on, labels held out.

Whoever is given a part can't ask for a label outside of it. Parts that share no label are charged
apart, in one ledger: what all of them cost together is what the dearest one costs (adaptive
parallel composition), with no rule of its own.

>>> from labeldp.mechanisms.randomized_response import RandomizedResponse
>>> from labeldp.mechanisms.correct_count import CorrectCount
>>> vault = LabelVault(labels=np.array([0, 1, 1, 0, 1]), num_classes=2)
>>> training = VaultPart(vault, np.arange(3))
>>> held_out = VaultPart(vault, np.arange(3, 5))
>>> training.release(RandomizedResponse(epsilon=1.0, num_classes=2)).values.shape
(3,)
>>> count = held_out.release(CorrectCount(epsilon=0.25), np.array([1, 1]))
>>> vault.epsilon(delta=0.0)
1.0
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import check_indices
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release, Shard


class VaultPart:
    """A view of some labels of a vault, numbered from 0 in the order in which they are given."""

    def __init__(self, vault: LabelVault, rows: NDArray[np.integer[Any]]) -> None:
        """Look at the labels at `rows` [n] of `vault`.

        Raises:
            ValueError: Rows that the vault has not, none at all, or one twice.
        """
        self._vault = vault
        self._rows = check_indices(rows, vault.num_labels)

    @property
    def num_labels(self) -> int:
        """How many labels are in this part."""
        return len(self._rows)

    @property
    def num_classes(self) -> int:
        """K."""
        return self._vault.num_classes

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
        noise: NoiseSource | None = None,
    ) -> Release:
        """Return a release as `LabelVault.release`; indices count within this part."""
        rows = self._rows
        if indices is not None:
            rows = rows[check_indices(indices, self.num_labels)]
        release = self._vault.release(mechanism, *public, indices=rows, noise=noise)
        asked = None if indices is None else np.asarray(indices, dtype=np.intp)
        return replace(release, indices=asked)

    def release_from_votes(
        self,
        mechanism: Mechanism,
        votes: NDArray[Any],
        *public: NDArray[Any],
        noise: NoiseSource | None = None,
        ensemble: str | None = None,
    ) -> Release:
        """Return answers of an ensemble that was trained on shards of this part."""
        release = self._vault.release_from_votes(
            mechanism, votes, *public, noise=noise, trained_on=self._rows, ensemble=ensemble
        )
        return replace(release, indices=None)

    def partition(self, teachers: int, *, seed: int) -> tuple[Shard, ...]:
        """Return disjoint shards of this part, as `LabelVault.partition`."""
        return self._vault.partition(teachers, seed=seed, among=self._rows)

    def epsilon(self, *, delta: float, keys: Sequence[str] | None = None) -> float:
        """Epsilon of the worst label of the whole vault, as `LabelVault.epsilon`."""
        return self._vault.epsilon(delta=delta, keys=keys)


def divided(vault: LabelVault, *, training: int) -> tuple[LabelVault | VaultPart, VaultPart | None]:
    """Divide a vault's labels into the first ones, to train on, and the rest, which are held out.

    Returns both parts; the vault itself and None where nothing is held out.
    """
    if training == vault.num_labels:
        return vault, None
    rows = np.arange(vault.num_labels)
    return VaultPart(vault, rows[:training]), VaultPart(vault, rows[training:])

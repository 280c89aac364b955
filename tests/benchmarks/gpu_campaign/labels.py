"""Where a step's labels come from: one vault per data set, whose releases outlive a call.

Releases, their price and the vault's secret salt lie in one SQLite file, written in one
transaction. A step that is resumed asks for what it asked for before, under the same noise, and is
handed what is there: nothing is drawn a second time. What a step read is noted, for its epsilon.

The accelerator's machine may lack the library that secret noise is drawn with; there noise is
seeded, which is for experiments on labels that everybody knows, and every result says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource, OsEntropy, SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release


@dataclass(frozen=True, kw_only=True)
class NoiseChoice:
    """Where all noise of a campaign comes from.

    Attributes:
        seed: Of noise that anybody can repeat; None for the operating system's entropy.
    """

    seed: int | None = None

    def source(self, draw: int) -> NoiseSource:
        """Return where the noise of this repetition comes from."""
        return OsEntropy(draw=draw) if self.seed is None else SeededNoise(seed=self.seed, draw=draw)

    @property
    def words(self) -> str:
        """As results say it."""
        if self.seed is None:
            return "secret (operating system)"
        return f"seed {self.seed}: an experiment, anybody can repeat it"


@dataclass(kw_only=True)
class StepLabels:
    """What one step may ask of the vault, and what it has read so far.

    Attributes:
        vault: All labels, locked away.
        noise: Where noise comes from.
        keys: Of the releases that were read, in earlier calls too.
        votes: Counts of an ensemble [Q, K], where the step has one.
    """

    vault: LabelVault
    noise: NoiseSource
    keys: list[str] = field(default_factory=list)
    votes: NDArray[Any] | None = None

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return the release of `mechanism`: the stored one, or one drawn and charged now."""
        return self._noted(
            self.vault.release(mechanism, *public, indices=indices, noise=self.noise)
        )

    def answers(
        self,
        ensemble: object,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return the answers to one round of queries [Q, 2], from the votes that are here."""
        del ensemble, delta
        assert self.votes is not None and student_scores is None and not publish_cost
        (request,) = requests
        votes = self.votes[: request.queries]
        released = self._noted(
            self.vault.release_from_votes(request, votes, noise=self.noise)
        ).values
        return released.astype(np.int64)

    def epsilon(self, delta: float) -> float:
        """Epsilon at `delta` of all that the step has read; 0 where it read nothing."""
        return self.vault.epsilon(delta=delta, keys=self.keys) if self.keys else 0.0

    def _noted(self, release: Release) -> Release:
        if release.key not in self.keys:
            self.keys.append(release.key)
        return release

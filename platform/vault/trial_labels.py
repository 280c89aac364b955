"""What a trial or a fit has of a home: releases and audits with its own noise, and what it read.

A trial asks for releases, sends its confidences to be audited, and is told no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import Charge, Mechanism, Release
from labeldp.platform.vault.label_home import LabelHome

if TYPE_CHECKING:
    from labeldp.trainers.settings.pate import EnsembleConfig


@dataclass(kw_only=True)
class TrialLabels:
    """The labels of a home as one trial may ask for them.

    Attributes:
        home: In this process, or in an actor.
        noise: Where this trial's noise comes from.
        trial: Its hash, under which the home keeps what it finds; answers and audits are refused
            without one.
        keys: The releases that this trial has read.
    """

    home: LabelHome
    noise: NoiseSource
    trial: str = ""
    keys: list[str] = field(default_factory=list)

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return a release, as `LabelVault.release`, and remember that it was read."""
        release = self.home.release(mechanism, public, indices, self.noise)
        self._read(release.key)
        return release

    def release_held_out(self, mechanism: Mechanism, *public: NDArray[Any]) -> Release:
        """Return a release of the held-out labels, and remember that it was read."""
        release = self.home.release_held_out(mechanism, public, self.noise)
        self._read(release.key)
        return release

    def answers(
        self,
        ensemble: "EnsembleConfig",
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return an ensemble's answers [Q, 2]; the driver gets what is known of them."""
        reply = self.home.answers(
            self.trial, ensemble, requests, student_scores, delta, publish_cost, self.noise
        )
        self._read(*reply.keys)
        return reply.values

    def charges(self) -> list[Charge]:
        """Return the lines of the ledger for what was read here."""
        return self.home.charges(self.keys)

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        """Epsilon of the releases read here, and the delta at which it holds."""
        return self.home.epsilon(self.keys, delta)

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of the canaries among the training examples [M]."""
        # A copy: what lies in Ray's memory is read-only, of which torch warns.
        return np.array(self.home.canary_positions())

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        """Have a model audited by its confidences on the canaries [M, K]; the driver gets figures.

        Raises:
            ValueError: It was audited with others before, or they are no probabilities.
        """
        self.home.audit(self.trial, confidences, confidence, self.keys, delta)

    def _read(self, *keys: str) -> None:
        self.keys.extend(key for key in keys if key not in self.keys)

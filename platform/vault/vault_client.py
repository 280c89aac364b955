"""What a trial has of the vault: the home's answers to it, and which releases it has read.

A trial asks for releases, sends its confidences to be audited, and is told no figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import Mechanism, Release
from labeldp.platform.vault.home_handle import HomeHandle
from labeldp.platform.vault.home_handle import VaultLost as VaultLost

if TYPE_CHECKING:
    from labeldp.trainers.settings.ensemble import EnsembleConfig


@dataclass(kw_only=True)
class VaultClient:
    """What a trial has of the vault: releases, prices and audits, each with a time limit.

    Attributes:
        home: Where it asks.
        noise: Where this trial's noise comes from.
        trial: Its hash, under which the vault's side keeps what it finds; answers and audits are
            refused without one.
        keys: The releases that this trial has read.
    """

    home: HomeHandle
    noise: NoiseSource
    trial: str = ""
    keys: list[str] = field(default_factory=list)

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
        self.keys.extend(key for key in reply.keys if key not in self.keys)
        return reply.values

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return a release, as `LabelVault.release`, and remember that it was read."""
        return self._read(self.home.release(mechanism, public, indices, self.noise))

    def release_held_out(self, mechanism: Mechanism, *public: NDArray[Any]) -> Release:
        """Return a release of the held-out labels, and remember that it was read."""
        return self._read(self.home.release_held_out(mechanism, public, self.noise))

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        """Epsilon of the releases read here, and the delta at which it holds."""
        return self.home.epsilon(self.keys, delta)

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of the canaries among the training examples [M]."""
        return self.home.canary_positions()

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        """Have a model audited by its confidences on the canaries [M, K]; the driver gets figures.

        Raises:
            ValueError: It was audited with others before, or they are no probabilities.
        """
        self.home.audit(self.trial, confidences, confidence, self.keys, delta)

    def _read(self, release: Release) -> Release:
        if release.key not in self.keys:
            self.keys.append(release.key)
        return release

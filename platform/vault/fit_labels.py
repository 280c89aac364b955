"""The labels of one fit, in this process: what a sweep has in an actor, without Ray.

Canaries are planted only where they are asked for: each of them spoils a label.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import NoiseSource, SeededNoise
from labeldp.mechanisms.release_store import Charge
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.platform.vault.trial_labels import TrialLabels
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.pate import EnsembleConfig

#: A home of one fit has one trial.
_TRIAL = "0"


class FitLabels(TrialLabels):
    """What may be asked about a fit's labels, what it has cost, and the owner's figures."""

    def __init__(
        self,
        labels: SecretLabels,
        *,
        side: PublicSide,
        shared: SharedVault,
        noise: NoiseSource,
        audit: AuditSettings | None = None,
        fingerprint: str = "",
    ) -> None:
        """Lock the labels away.

        Args:
            labels: True ones.
            side: What is public of them.
            shared: Where releases and charges are kept.
            noise: Where noise comes from.
            audit: How many canaries of which kind are planted; None for none.
            fingerprint: Of the public features.

        Raises:
            ValueError: Labels, canaries or a vault that can't be used.
        """
        seed = noise.seed if isinstance(noise, SeededNoise) else None
        if audit is not None:  # equal labels differ by it, which is public
            side = replace(side, planted=f"{audit}, seed {seed}")
        self._audit = audit or AuditSettings(canaries=0, coin_canaries=0)
        self._authority = secrets.token_bytes(32)
        home = shared.lock_away(
            side,
            lambda store: LabelHome(
                labels,
                audit=self._audit,
                coin_seed=seed,
                places=HomePlaces(store=store, votes=shared.votes),
                fingerprint=fingerprint,
                budget=None,
                authority=self._authority,
            ),
        )
        home.begin(self._authority, _TRIAL)
        super().__init__(home=home, noise=noise, trial=_TRIAL)
        self._charged_before = {charge.key for charge in home.ledger()}

    def __repr__(self) -> str:
        """Never show a label."""
        return f"FitLabels({self.home!r})"

    def teach(
        self,
        ensemble: EnsembleConfig,
        *,
        data: PublicData,
        performance: Performance,
        tell: Callable[[str], None],
    ) -> None:
        """Train an ensemble's teachers here, as far as their votes are missing.

        Raises:
            ValueError: An ensemble that does not fit the data.
        """
        from labeldp.trainers.methods.teachers import TeacherVotes

        journal = self.home.ensemble_file(ensemble).journal()
        missing = [one for one in range(ensemble.teachers) if one not in journal.finished]
        if not missing:
            return
        vote = TeacherVotes(config=ensemble, performance=performance)
        shards = self.home.shards(ensemble)
        with journal.writing():
            for start in range(0, len(missing), ensemble.batch):
                batch = missing[start : start + ensemble.batch]
                journal.append(batch, vote(batch, [shards[one] for one in batch], data))
                tell(f"{min(start + ensemble.batch, len(missing))} of {len(missing)} teachers")

    def new_charges(self) -> list[Charge]:
        """Return the lines of the ledger that this fit added."""
        return [charge for charge in self.home.ledger() if self.is_new(charge)]

    def is_new(self, charge: Charge) -> bool:
        """Whether it was this fit that paid for a release, and no earlier one."""
        return charge.key not in self._charged_before

    def figures(
        self, probabilities: Callable[[NDArray[np.intp]], NDArray[np.float32]], *, delta: float
    ) -> Mapping[str, float]:
        """Return what only the labels' owner may know: how right the model is on their labels.

        Args:
            probabilities: Positions of training examples [M] -> the model's [M, K].
            delta: At which epsilon is stated.

        Returns:
            `private/training_accuracy` against the true labels; with canaries also what the audits
            of a sweep find.
        """
        guesses: NDArray[Any] = probabilities(np.arange(self.home.num_labels())).argmax(1)
        positions = self.canary_positions()
        return self.home.figures_of_model(
            self._authority,
            guesses,
            probabilities(positions) if len(positions) else np.empty(0),
            self._audit.confidence,
            self.keys,
            delta,
        )

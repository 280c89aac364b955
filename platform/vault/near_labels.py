"""The labels of one fit, in this process: what a sweep has in an actor, without Ray.

What learns asks here for releases and answers, as a trial asks its vault; the labels stay inside.
Canaries are planted only where they are asked for: each of them spoils a label.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import delta_of_total
from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource, SeededNoise
from labeldp.mechanisms.release_store import Charge, ReleaseStore
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.vault.answer_desk import AnswerDesk
from labeldp.platform.vault.audits import PlantedCanaries, check_room, curve_of
from labeldp.platform.vault.planting import canaries_of
from labeldp.platform.vault.release_figures import ReleasedByItself
from labeldp.platform.vault.shared_vault import PublicSide, SharedVault
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.pate.teachers import TeacherVotes
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.ensemble import EnsembleConfig


@dataclass(frozen=True, kw_only=True, eq=False)
class NearSecrets:
    """The true labels of a fit.

    Attributes:
        labels: True training labels [N], whole numbers 0..K-1.
        num_classes: K.
        audit: How many canaries of which kind are planted; None for none.
    """

    labels: NDArray[np.int64]
    num_classes: int
    audit: AuditSettings | None = None

    def __repr__(self) -> str:
        """Never show a label."""
        return f"NearSecrets(num_labels={len(self.labels)}, num_classes={self.num_classes})"


class NearLabels:
    """What may be asked about a fit's labels, and what it has cost."""

    def __init__(
        self, secrets: NearSecrets, *, side: PublicSide, shared: SharedVault, noise: NoiseSource
    ) -> None:
        """Lock the labels away.

        Args:
            secrets: The labels.
            side: What is public of them.
            shared: Where releases and charges are kept.
            noise: Where noise comes from.

        Raises:
            ValueError: Labels, canaries or a vault that can't be used.
        """
        self._truth = secrets.labels
        self._num_classes = secrets.num_classes
        self._side, self._shared, self._noise = side, shared, noise
        self._canaries: PlantedCanaries | None = None
        self._audit = secrets.audit
        self._desk: AnswerDesk | None = None
        if self._audit is not None:  # equal labels differ by it, which is public
            seed = noise.seed if isinstance(noise, SeededNoise) else None
            side = replace(side, planted=f"{self._audit}, seed {seed}")
        self._vault = shared.lock_away(side, self._lock)
        self._charged_before = {charge.key for charge in self._vault.charges()}
        self.keys: list[str] = []

    def __repr__(self) -> str:
        """Never show a label."""
        return f"NearLabels({self._vault!r})"

    def _lock(self, store: ReleaseStore) -> LabelVault:
        """Plant the canaries and make the vault; the same store has the same canaries again."""
        self._store, labels = store, self._truth
        if self._audit is not None:
            check_room(self._audit, num_labels=len(labels))
            self._canaries = canaries_of(
                store,
                labels,
                num_classes=self._num_classes,
                settings=self._audit,
                coin_seed=self._noise.seed if isinstance(self._noise, SeededNoise) else None,
            )
            labels = self._canaries.plant(labels)
        self._labels = labels
        return LabelVault(labels=labels, num_classes=self._num_classes, store=store)

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        """Return a release, as `LabelVault.release`, and remember that it was read."""
        found = self._vault.release(mechanism, *public, indices=indices, noise=self._noise)
        self._read(found.key)
        return found

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return an ensemble's answers [Q, 2], as `AnswerDesk.answers`."""
        assert self._desk is not None, "teachers are trained before anybody asks them"
        reply = self._desk.answers(
            ensemble,
            requests,
            student_scores,
            delta=delta,
            publish_cost=publish_cost,
            noise=self._noise,
        )
        for key in reply.keys:
            self._read(key)
        return reply.values

    @contextmanager
    def taught(
        self,
        ensemble: EnsembleConfig | None,
        *,
        data: PublicData,
        performance: Performance,
        tell: Callable[[str], None],
    ) -> Iterator[None]:
        """Have an ensemble's teachers trained, as far as their votes are missing, and ask it.

        Votes of a vault in memory lie in a folder that is gone at the end.

        Args:
            ensemble: The teachers; None for none.
            data: Public features.
            performance: Where and how fast they are trained.
            tell: Told how it goes.

        Raises:
            ValueError: An ensemble that does not fit the data.
        """
        if ensemble is None:
            yield
            return
        with TemporaryDirectory(prefix="labeldp-votes-") as gone:
            folder = Path(gone, "votes") if self._shared.votes is None else self._shared.votes
            self._desk = AnswerDesk(
                vault=self._vault,
                labels=self._labels,
                truth=self._truth,
                folder=folder,
                fingerprint=data.fingerprint,
            )
            self._teach(self._desk, ensemble, data, performance, tell)
            yield

    def _teach(
        self,
        desk: AnswerDesk,
        ensemble: EnsembleConfig,
        data: PublicData,
        performance: Performance,
        tell: Callable[[str], None],
    ) -> None:
        journal = desk.file_of(ensemble).journal()
        missing = [one for one in range(ensemble.teachers) if one not in journal.finished]
        if not missing:
            return
        vote, shards = TeacherVotes(config=ensemble, performance=performance), desk.shards(ensemble)
        with journal.writing():
            for start in range(0, len(missing), ensemble.batch):
                batch = missing[start : start + ensemble.batch]
                journal.append(batch, vote(batch, [shards[one] for one in batch], data))
                tell(f"{min(start + ensemble.batch, len(missing))} of {len(missing)} teachers")

    def charges(self) -> list[Charge]:
        """Return the lines of the ledger for what this fit has read."""
        return [charge for charge in self._vault.charges() if charge.key in self.keys]

    def new_charges(self) -> list[Charge]:
        """Return the lines of the ledger that this fit added."""
        return [charge for charge in self._vault.charges() if self.is_new(charge)]

    def is_new(self, charge: Charge) -> bool:
        """Whether it was this fit that paid for a release, and no earlier one."""
        return charge.key not in self._charged_before

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        """Epsilon of what this fit has read, and the delta at which it holds."""
        if not self.keys:
            return 0.0, 0.0
        total = delta_of_total(self.charges(), delta=delta)
        return self._vault.epsilon(delta=total, keys=self.keys), total

    @property
    def spoiled(self) -> int:
        """How many labels were replaced by canaries."""
        return 0 if self._canaries is None else len(self._canaries.positions)

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of all canaries [M]; that they are canaries is no secret, their labels are."""
        if self._canaries is None:
            return np.empty(0, dtype=np.intp)
        return np.asarray(self._canaries.positions)

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
        every = np.arange(len(self._truth))
        guesses = probabilities(every).argmax(1)
        found = {"private/training_accuracy": float((guesses == self._truth).mean())}
        if self._canaries is None or self._audit is None:
            return found
        charges, (epsilon, used) = self.charges(), self.epsilon(delta=delta)
        audited = self._canaries.audit(
            probabilities(self.canary_positions()),
            confidence=self._audit.confidence,
            epsilon=epsilon,
            delta=used,
            curve=curve_of(charges, delta=used),
            released=ReleasedByItself.find(charges, store=self._store, training=len(self._truth)),
        )
        return {**found, **audited.figures}

    def _read(self, key: str) -> None:
        if key not in self.keys:
            self.keys.append(key)

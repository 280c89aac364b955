"""Where an ensemble's votes are turned into answers: part of the vault's home.

Votes come from a journal on the driver's disk and go no further; what leaves is drawn and charged
by the vault. What only the owner may see (what answers really cost, how right they are) leaves for
tracking under names that say so.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.answer_price import ConditionsFailed
from labeldp.mechanisms.pate_release import (
    BY_TEACHERS,
    LABEL,
    PateAnswers,
    PublishedCost,
    private_costs,
)
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import LabelVault, Shard
from labeldp.mechanisms.vote_counts import count_votes
from labeldp.platform.vote_store import VoteJournal, VoteStore
from labeldp.trainers import teachers
from labeldp.trainers.teachers import EnsembleConfig


@dataclass(frozen=True, kw_only=True)
class EnsembleFile:
    """Where an ensemble's votes are kept, and what the file has to say of itself.

    Attributes:
        path: The journal.
        key: Hash of all that decides the votes.
        teachers: T.
        queries: Q.
        classes: K.
    """

    path: Path
    key: str
    teachers: int
    queries: int
    classes: int

    def journal(self) -> VoteJournal:
        """Open it."""
        return VoteJournal(
            self.path,
            key=self.key,
            teachers=self.teachers,
            queries=self.queries,
            classes=self.classes,
        )


@dataclass(frozen=True, kw_only=True)
class DeskAnswers:
    """What a request brought.

    Attributes:
        values: Answers [Q, 2], see `PateAnswers.release`.
        keys: The releases that were read.
        figures: Name -> number; those of the owner alone begin with `private/`, and the contract's
            `ensemble_accuracy` and `vote_label_accuracy` are the owner's too.
    """

    values: NDArray[np.int64]
    keys: tuple[str, ...]
    figures: Mapping[str, float]


class AnswerDesk:
    """Answers for trials, from votes that stay here."""

    def __init__(
        self, *, vault: LabelVault, labels: NDArray[np.int64], folder: Path, fingerprint: str
    ) -> None:
        """Take a seat beside the vault.

        Args:
            vault: Charges what leaves.
            labels: True labels with canaries [N].
            folder: Where votes are kept.
            fingerprint: Of the public features.
        """
        self._vault, self._labels, self._fingerprint = vault, labels, fingerprint
        self._store = VoteStore(folder)
        self._counts: dict[str, NDArray[np.integer[Any]]] = {}

    def file_of(self, ensemble: EnsembleConfig) -> EnsembleFile:
        """Return where an ensemble's votes are, or will be."""
        facts = {
            "ensemble": asdict(ensemble),
            "version": teachers.VERSION,
            "features": self._fingerprint,
        }
        key = self._store.key(labels=self._labels, facts=facts)
        return EnsembleFile(
            path=self._store.path(key),
            key=key,
            teachers=ensemble.teachers,
            queries=ensemble.queries,
            classes=self._vault.num_classes,
        )

    def shards(self, ensemble: EnsembleConfig) -> tuple[Shard, ...]:
        """Return the teachers' shards."""
        return self._vault.partition(ensemble.teachers, seed=ensemble.seed)

    def answers(
        self,
        ensemble: EnsembleConfig,
        request: PateAnswers,
        student_scores: tuple[NDArray[np.float32], ...],
        *,
        first: int,
        delta: float,
        noise: NoiseSource,
    ) -> DeskAnswers:
        """Answer queries, charge for the answers, and publish what they cost where that is proven.

        Args:
            ensemble: The teachers.
            request: What is asked for.
            student_scores: For an interactive round.
            first: Number of the ensemble's query that the request begins with.
            delta: At which costs are stated.
            noise: Where noise comes from.

        Raises:
            BudgetExceeded: The charge would take a label over the budget.
            VoteStoreUnusable: Teachers have not voted yet.
        """
        positions = ensemble.query_positions(len(self._labels))
        part = slice(first, first + request.queries)
        votes, truth = self._votes(ensemble)[part], self._labels[positions[part]]
        release = self._vault.release_from_votes(request, votes, *student_scores, noise=noise)
        released: NDArray[np.int64] = np.asarray(release.values)
        keys = [release.key]
        costs = private_costs(request, votes, released, *student_scores, delta=delta)
        figures = {
            "private/epsilon_data_dependent": costs.realised,
            "private/epsilon_expected": costs.expected,
            "epsilon_realised": costs.realised_data_independent,
            "ensemble_accuracy": float((votes.argmax(1) == truth).mean()),
            "answered_by_teachers": float((released[:, BY_TEACHERS] == 1).sum()),
        }
        known = released[:, LABEL] >= 0
        if known.any():
            figures["vote_label_accuracy"] = float((released[known, LABEL] == truth[known]).mean())
        published = PublishedCost.of(
            request, teachers=ensemble.teachers, classes=self._vault.num_classes, delta=delta
        )
        if published is not None:
            try:
                cost = self._vault.release_from_votes(published, votes, released, noise=noise)
                keys.append(cost.key)
                figures["epsilon_sanitized"] = float(cost.values[0])
            except ConditionsFailed:
                pass  # nothing is drawn or charged; the trial goes without this number
        return DeskAnswers(values=released, keys=tuple(keys), figures=figures)

    def _votes(self, ensemble: EnsembleConfig) -> NDArray[np.integer[Any]]:
        file = self.file_of(ensemble)
        if file.key not in self._counts:
            votes = file.journal().votes()
            self._counts[file.key] = count_votes(votes, num_classes=self._vault.num_classes)
        return self._counts[file.key]

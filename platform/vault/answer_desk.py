"""Where an ensemble's votes are turned into answers: part of the vault's home.

Votes come from a journal on the driver's disk and go no further; what leaves is drawn and charged
by the vault. What only the owner may see (what answers really cost, how right they are) leaves for
tracking under names that say so.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.pate.aggregators import InteractiveGNMax
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    BY_TEACHERS,
    LABEL,
    NOT_LOOKED_AT,
    AnsweredRequest,
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    private_costs,
)
from labeldp.mechanisms.pate.votes import count_votes
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import LabelVault, Shard
from labeldp.platform.records.results import VoteConsensus
from labeldp.platform.vault.vote_store import VoteJournal, VoteStore
from labeldp.trainers.methods import teachers
from labeldp.trainers.settings.pate import EnsembleConfig


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
class _Published:
    """A bound on a round's cost as it was released.

    Attributes:
        key: Of the release.
        mechanism: How it was drawn.
        epsilon: The bound, or what holds for any votes where that is less.
    """

    key: str
    mechanism: PublishedCost
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class DeskAnswers:
    """What a request brought.

    Attributes:
        values: Answers [Q, 2], see `PateAnswers.release`.
        keys: The releases that were read.
        figures: Name -> number; `accuracy_figures.py` tells those of the owner alone.
        consensus: How far teachers agreed; for the owner alone.
    """

    values: NDArray[np.int64]
    keys: tuple[str, ...]
    figures: Mapping[str, float]
    consensus: VoteConsensus | None = None


class AnswerDesk:
    """Answers for trials, from votes that stay here."""

    def __init__(
        self,
        *,
        vault: LabelVault,
        labels: NDArray[np.int64],
        truth: NDArray[np.int64],
        folder: Path,
        fingerprint: str,
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """Take a seat beside the vault.

        Args:
            vault: Charges what leaves.
            labels: True labels with canaries [N]: what teachers learn, and so what decides votes.
            truth: True labels without them [N]: what answers should be.
            folder: Where votes are kept.
            fingerprint: Of the public features.
            rows: Which of the vault's labels these are [N]; all of them if not given.
        """
        self._vault, self._labels, self._truth, self._rows = vault, labels, truth, rows
        self._fingerprint = fingerprint
        self._store = VoteStore(folder)
        self._counts: dict[str, NDArray[np.integer[Any]]] = {}

    def file_of(self, ensemble: EnsembleConfig) -> EnsembleFile:
        """Return where an ensemble's votes are, or will be."""
        key = self._store.key(labels=self._labels, facts=self._facts(ensemble))
        return EnsembleFile(
            path=self._store.path(key),
            key=key,
            teachers=ensemble.teachers,
            queries=ensemble.queries,
            classes=self._vault.num_classes,
        )

    def _facts(self, ensemble: EnsembleConfig) -> dict[str, Any]:
        """All that decides an ensemble's votes, but for the labels."""
        return {
            "ensemble": ensemble.facts(),
            "version": teachers.VERSION,
            "features": self._fingerprint,
        }

    def _named(self, ensemble: EnsembleConfig, *, first: int) -> str:
        """What tells votes on the queries from `first` on from all others; nothing secret."""
        facts = {**self._facts(ensemble), "first": first}
        return json.dumps(facts, sort_keys=True, default=str)

    def shards(self, ensemble: EnsembleConfig) -> tuple[Shard, ...]:
        """Return the teachers' shards."""
        return self._vault.partition(ensemble.teachers, seed=ensemble.seed, among=self._rows)

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
        noise: NoiseSource,
    ) -> DeskAnswers:
        """Answer queries, charge for the answers, and publish what they cost where that is asked.

        Args:
            ensemble: The teachers.
            requests: Rounds of the same run so far, over consecutive queries; those that were
                answered before are read again, for free, so that figures speak of the whole run.
            student_scores: For an interactive round [Q, K].
            delta: At which costs are stated.
            publish_cost: Release a bound on the cost too, where one is proven.
            noise: Where noise comes from.

        Raises:
            BudgetExceeded: The charge would take a label over the budget.
            ValueError: The cost of several rounds is to be published, for which nothing is proven.
            VoteStoreUnusable: Teachers have not voted yet.
        """
        if publish_cost and len(requests) != 1:
            raise ValueError(
                f"the cost of {len(requests)} rounds can't be published, a bound is proven for one "
                "only; ask in one round, or with publish_cost=False"
            )
        keys, rounds = self._rounds(ensemble, requests, student_scores, noise)
        released: NDArray[np.int64] = np.concatenate([each.released for each in rounds])
        figures = self._figures(ensemble, rounds, released)
        costs = private_costs(rounds, delta=delta)
        figures["private/epsilon_data_dependent"] = costs["realised"]
        figures["private/epsilon_expected"] = costs["expected"]
        figures["private/epsilon_expected_of_counts"] = costs["expected_of_counts"]
        figures["epsilon_realised"] = costs["realised_data_independent"]
        published = None
        if publish_cost:
            published = self._published_cost(ensemble, rounds[0], delta=delta, noise=noise)
        if published is not None:
            keys.append(published.key)
            figures["epsilon_sanitized"] = published.epsilon
        figures["epsilon_of_counts"] = epsilon_of_counts(
            requests, published.mechanism if published else None, delta=delta
        )
        return DeskAnswers(
            values=released,
            keys=tuple(keys),
            figures=figures,
            consensus=_consensus(rounds, released, teachers=ensemble.teachers),
        )

    def _rounds(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None,
        noise: NoiseSource,
    ) -> tuple[list[str], list[AnsweredRequest]]:
        """Answer requests over consecutive queries; returns their releases' keys, and them."""
        votes = self._votes(ensemble)
        keys: list[str] = []
        rounds: list[AnsweredRequest] = []
        first = 0
        for request in requests:
            interactive = isinstance(request.aggregator, InteractiveGNMax)
            scores = student_scores if interactive else None
            part = votes[first : first + request.queries]
            public = () if scores is None else (scores,)
            release = self._vault.release_from_votes(
                request,
                part,
                *public,
                noise=noise,
                trained_on=self._rows,
                ensemble=self._named(ensemble, first=first),
            )
            keys.append(release.key)
            rounds.append(
                AnsweredRequest(
                    request=request, votes=part, released=release.values, student_scores=scores
                )
            )
            first += request.queries
        return keys, rounds

    def _published_cost(
        self,
        ensemble: EnsembleConfig,
        answered: AnsweredRequest,
        *,
        delta: float,
        noise: NoiseSource,
    ) -> _Published | None:
        """Release a bound on what a round cost.

        None where no bound is proven; nothing is drawn or charged then.
        """
        published = PublishedCost.of(
            answered.request,
            teachers=ensemble.teachers,
            classes=self._vault.num_classes,
            delta=delta,
        )
        if published is None:
            return None
        try:
            release = self._vault.release_from_votes(
                published,
                answered.votes,
                answered.released,
                noise=noise,
                trained_on=self._rows,
                ensemble=self._named(ensemble, first=0),
            )
        except ConditionsFailed:
            return None  # the trial goes without this number
        return _Published(
            key=release.key,
            mechanism=published,
            epsilon=published.capped(float(release.values[0]), answered.request),
        )

    def _figures(
        self,
        ensemble: EnsembleConfig,
        rounds: Sequence[AnsweredRequest],
        released: NDArray[np.int64],
    ) -> dict[str, float]:
        """How right the ensemble is, and its answers."""
        votes = np.concatenate([each.votes for each in rounds])
        truth = self._truth[ensemble.query_positions(len(self._truth))[: len(votes)]]
        figures = {
            "ensemble_accuracy": float((votes.argmax(1) == truth).mean()),
            "answered_by_teachers": float((released[:, BY_TEACHERS] == 1).sum()),
        }
        known = released[:, LABEL] >= 0
        if known.any():
            figures["vote_label_accuracy"] = float((released[known, LABEL] == truth[known]).mean())
        return figures

    def _votes(self, ensemble: EnsembleConfig) -> NDArray[np.integer[Any]]:
        file = self.file_of(ensemble)
        if file.key not in self._counts:
            votes = file.journal().votes()
            self._counts[file.key] = count_votes(votes, num_classes=self._vault.num_classes)
        return self._counts[file.key]


def _consensus(
    rounds: Sequence[AnsweredRequest], released: NDArray[np.int64], *, teachers: int
) -> VoteConsensus:
    """Count the queries that were looked at by how far the teachers agreed."""
    shares = np.concatenate([each.votes.max(1) for each in rounds]) / teachers
    seen = released[:, BY_TEACHERS] != NOT_LOOKED_AT
    return VoteConsensus.of(shares[seen], answered=released[seen, BY_TEACHERS] == 1)

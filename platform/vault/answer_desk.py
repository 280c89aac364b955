"""Where an ensemble's votes are turned into answers: part of the labels' home.

Votes come from a journal on the driver's disk and go no further; answers are drawn and charged by
the vault. Figures for the owner alone (the data-dependent price of answers, their accuracy) are
returned under names that say so.
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
from labeldp.trainers.settings.pate import VOTES_VERSION, EnsembleConfig


@dataclass(frozen=True, kw_only=True)
class EnsembleFile:
    """Where an ensemble's votes are kept, and the header of the file."""

    path: Path  # the journal
    key: str  # hash of all that decides the votes
    teachers: int  # T
    queries: int  # Q
    classes: int  # K

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
    """The reply to a request: answers [Q, 2], and figures, of which some are the owner's alone.

    Attributes:
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
        """Open the desk beside the vault.

        Teachers learn from `labels`, which hold canaries [N]; answers are compared with the `truth`
        [N]. Votes are kept in `folder`, under the `fingerprint` of the public features; `rows` says
        which of the vault's labels these are [N], all of them if not given.
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
        return {
            "ensemble": ensemble.facts(),
            "version": VOTES_VERSION,
            "features": self._fingerprint,
        }

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
        """Answer queries, charge for the answers, and publish their cost where that is wanted.

        `requests` are the rounds of the same run so far, over consecutive queries; those that were
        answered before are read again, for free, so that figures speak of the whole run. An
        interactive round takes `student_scores` [Q, K]. `publish_cost` releases a bound on the cost
        too, where one is proven: for one round only.

        Raises:
            BudgetExceeded: The charge would take a label over the budget.
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
        mechanism = None
        if publish_cost and (
            published := self._published_cost(ensemble, rounds[0], delta=delta, noise=noise)
        ):
            mechanism, key, figures["epsilon_sanitized"] = published
            keys.append(key)
        figures["epsilon_of_counts"] = epsilon_of_counts(requests, mechanism, delta=delta)
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
            key, values = self._release(ensemble, request, part, *public, first=first, noise=noise)
            keys.append(key)
            rounds.append(
                AnsweredRequest(request=request, votes=part, released=values, student_scores=scores)
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
    ) -> tuple[PublishedCost, str, float] | None:
        """Release a bound on the cost of a round: its mechanism, key and epsilon.

        The epsilon is the bound that holds for any votes where that is less. Where no bound is
        proven this is None; nothing is drawn or charged then.
        """
        mechanism = PublishedCost.of(
            answered.request,
            teachers=ensemble.teachers,
            classes=self._vault.num_classes,
            delta=delta,
        )
        if mechanism is None:
            return None
        try:
            key, values = self._release(
                ensemble, mechanism, answered.votes, answered.released, first=0, noise=noise
            )
        except ConditionsFailed:
            return None  # the trial continues without this number
        return mechanism, key, mechanism.capped(float(values[0]), answered.request)

    def _release(
        self,
        ensemble: EnsembleConfig,
        mechanism: PateAnswers | PublishedCost,
        votes: NDArray[np.integer[Any]],
        *public: NDArray[Any],
        first: int,
        noise: NoiseSource,
    ) -> tuple[str, NDArray[Any]]:
        # Tells these votes from all others, and says nothing secret.
        facts = {**self._facts(ensemble), "first": first}
        release = self._vault.release_from_votes(
            mechanism,
            votes,
            *public,
            noise=noise,
            trained_on=self._rows,
            ensemble=json.dumps(facts, sort_keys=True, default=str),
        )
        return release.key, release.values

    def _figures(
        self,
        ensemble: EnsembleConfig,
        rounds: Sequence[AnsweredRequest],
        released: NDArray[np.int64],
    ) -> dict[str, float]:
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
    shares = np.concatenate([each.votes.max(1) for each in rounds]) / teachers
    seen = released[:, BY_TEACHERS] != NOT_LOOKED_AT
    return VoteConsensus.of(shares[seen], answered=released[seen, BY_TEACHERS] == 1)

"""Where labels live: the one object that holds true labels, canaries, votes and audits.

A sweep has its home in an actor on the driver's node (`actors`), a fit in its own process
(`shared_vault`). Trials request releases and answers from it, and send it their confidences to be
audited, once. They never see a true label, a vote, which labels the canaries replaced, or a figure
made of any of those: these go to the owner, who has the token that the home was made with.

Exact figures about canaries for chosen confidences would reveal the labels, one question a label. A
trial therefore only learns that it was audited, and is audited once: a digest of what it sent is
kept, also for a home that is made again. The same confidences once more change nothing.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import (
    Budget,
    BudgetExceeded,
    check_indices,
    least_total,
    ledger_of,
    shown,
)
from labeldp.mechanisms.pate.aggregators import InteractiveGNMax, count_votes
from labeldp.mechanisms.pate.published_cost import ConditionsFailed
from labeldp.mechanisms.pate.releases import (
    BY_TEACHERS,
    LABEL,
    AnsweredRequest,
    PateAnswers,
    PublishedCost,
    epsilon_of_counts,
    private_costs,
)
from labeldp.mechanisms.persons import Persons
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.release_store import Charge, MemoryStore, ReleaseStore
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release, Shard
from labeldp.platform.records.results import write_json
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.settings.metrics import PRIVATE_PREFIX
from labeldp.platform.vault.audits import (
    AttackEvidence,
    PlantedCanaries,
    curve_of,
    evidence_path,
    own_release,
)
from labeldp.platform.vault.vault_store import SqliteStore, VoteJournal, VoteStore
from labeldp.trainers.data.files import inner_folder
from labeldp.trainers.methods.pate_settings import VOTES_VERSION, EnsembleConfig

_HASH = re.compile(r"[0-9a-f]{1,64}")
#: Prices of answers alone, which would pass for the trial's where it paid for more.
_PRICES = ("epsilon_", f"{PRIVATE_PREFIX}epsilon_")


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretLabels:
    """True labels of K classes: to train on [N], and to estimate accuracy with [H] or None.

    `persons` are the numbers of the persons of [N], where nothing is held out; they are public.
    """

    training: NDArray[np.integer[Any]] = field(repr=False)
    held_out: NDArray[np.integer[Any]] | None = field(default=None, repr=False)
    num_classes: int
    persons: Persons | None = field(default=None, repr=False)


class LabelHome:
    """The vault, the truth about its canaries, the votes of ensembles, and the audits' findings."""

    def __init__(
        self,
        labels: SecretLabels,
        *,
        audit: AuditSettings,
        coin_seed: int | None,
        store: Path | ReleaseStore | None,
        votes: Path | None,
        shared_coins: bool = False,
        fingerprint: str,
        budget: Budget | None,
        authority: bytes,
    ) -> None:
        """Plant the canaries and lock the labels away.

        Args:
            labels: The true labels.
            audit: The canaries to plant.
            coin_seed: Seed of the coin canaries; without one the coins are a secret of the store.
            store: File of the vault in the results folder, or an open store; in memory if None.
            votes: Folder that sweeps beside each other share; a temporary one if None.
            shared_coins: Whether these sweeps share coins: teachers learn from planted labels.
            fingerprint: Hash of the public features.
            budget: The most that any label of the vault may pay.
            authority: The token for figures and shards.
        """
        self._results = store.parent if isinstance(store, Path) else None
        if isinstance(store, Path):
            # Teachers are shared by sweeps and learned from coins: other coins would need other
            # teachers.
            salt = VoteStore(votes).salt if shared_coins and votes else None
            store = SqliteStore(store, salt=salt)
        self._store = store = store or MemoryStore()
        self._truth = labels.training.astype(np.int64)
        # The same store has the same coins again, and nobody else can work them out.
        secret = store.salt() if coin_seed is None else b"coin seed %d" % coin_seed
        self._canaries = PlantedCanaries.draw(
            self._truth, num_classes=labels.num_classes, settings=audit, secret=secret
        )
        self._planted = self._canaries.plant(self._truth)
        # Canaries are wrong labels: none is planted where accuracy is estimated.
        every = self._planted
        self._rows = None
        self._held_out = None
        if labels.held_out is not None:
            every = np.append(self._planted, labels.held_out)
            rows = np.arange(len(every))
            # Training and held-out labels share none, so each pays for its own releases only.
            self._rows, self._held_out = np.split(rows, [len(self._truth)])
        self._vault = LabelVault(
            labels=every,
            num_classes=labels.num_classes,
            store=store,
            budget=budget,
            persons=labels.persons,
        )
        self._votes_folder = votes
        self._fingerprint = fingerprint
        self._authority = authority
        self._temporary: TemporaryDirectory[str] | None = None
        self._counts: dict[str, NDArray[np.integer[Any]]] = {}
        self._costs: dict[tuple[object, ...], dict[str, float]] = {}
        self._memory: dict[str, dict[str, Any]] = {}

    def end(self) -> None:
        """Remove what is kept for this process only: votes in a temporary folder."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    # Releases and their prices

    def num_labels(self) -> int:
        """Return the number of labels to train on."""
        return len(self._truth)

    def num_people(self) -> int:
        """Return how many the ledger counts: persons, or labels."""
        return self._vault.num_people

    def persons(self) -> Persons | None:
        """Return the number of the person of each label [N]; None where each has one label."""
        return self._vault.persons

    def release(
        self,
        mechanism: Mechanism,
        public: tuple[NDArray[Any], ...],
        indices: NDArray[np.integer[Any]] | None,
        noise: NoiseSource,
        held_out: bool = False,
    ) -> Release:
        """Return a release, as the vault's, of labels to train on, or of all `held_out` ones."""
        if held_out and self._held_out is None:
            raise ValueError(
                "no labels are held out in this sweep; set evaluation.held_out_share to hold some "
                "out, or use the public test split"
            )
        chosen = None if indices is None else check_indices(indices, len(self._truth))
        touched = self._rows if chosen is None else chosen
        if held_out:
            touched = self._held_out
        release = self._vault.release(mechanism, *public, indices=touched, noise=noise)
        return replace(release, indices=chosen)

    def epsilon(self, keys: Sequence[str], delta: float) -> tuple[float, float]:
        """Epsilon and delta of the worst label over the releases at `keys`."""
        charges = self.charges(keys)
        return least_total(partial(self._vault.epsilon, keys=keys), charges, delta=delta)

    def charges(self, keys: Sequence[str]) -> list[Charge]:
        """Return the lines of the ledger for the releases at `keys`, in the ledger's order."""
        wanted = set(keys)
        return [charge for charge in self._vault.charges() if charge.key in wanted]

    def ledger(self) -> Sequence[Charge]:
        """Return every line of the ledger, in order."""
        return self._vault.charges()

    # Ensembles

    def journal(self, ensemble: EnsembleConfig) -> partial[VoteJournal]:
        """Return a function that opens the journal of an ensemble's votes, in any process."""
        folder = self._votes_folder
        if folder is None:
            self._temporary = self._temporary or TemporaryDirectory(prefix="labeldp-votes-")
            folder = Path(self._temporary.name, "votes")
        store = VoteStore(folder)
        key = store.key(labels=self._planted, facts=self._facts(ensemble))
        return partial(
            VoteJournal,
            folder / key,
            teachers=ensemble.teachers,
            queries=ensemble.queries,
            classes=self._vault.num_classes,
        )

    def shards(self, authority: bytes, ensemble: EnsembleConfig) -> tuple[Shard, ...]:
        """Return the teachers' shards of labels, canaries among them; it takes the token."""
        self._check(authority)
        return self._vault.partition(ensemble.teachers, seed=ensemble.seed, among=self._rows)

    def answers(
        self,
        trial: str,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None,
        delta: float,
        publish_cost: bool,
        noise: NoiseSource,
    ) -> tuple[NDArray[np.int64], list[str]]:
        """Answer queries [Q, 2], charge for the answers, and return the keys of their releases too.

        Args:
            trial: Hash of the trial that asks. Figures of its answers stay here, for the driver.
            ensemble: Teachers who vote.
            requests: Rounds of the same run so far, over consecutive queries. Those that were
                answered before are read again, for free, so that figures speak of the whole run.
            student_scores: Probabilities [Q, K] that an interactive round takes.
            delta: Delta of the figures.
            publish_cost: Whether to release a bound on the cost too, which is proven for one round
                only.
            noise: Where the noise comes from.
        """
        record = self._private_record(trial)  # before anything is released and charged
        if publish_cost and len(requests) != 1:
            raise ValueError(
                f"the cost of {len(requests)} rounds can't be published, since the bound is proven "
                "for one round; use one round, or publish_cost=False"
            )
        bound = None
        if publish_cost:
            bound = PublishedCost.of(
                requests[0],
                teachers=ensemble.teachers,
                classes=self._vault.num_classes,
                delta=delta,
            )
        if bound and self._vault.budget:
            self._afford_both(requests[0], bound, self._vault.budget, noise)
        # The same votes for every round: a new count would be another release of them.
        votes = self._votes(ensemble)
        keys: list[str] = []
        rounds: list[AnsweredRequest] = []
        first = 0
        for request in requests:
            interactive = isinstance(request.aggregator, InteractiveGNMax)
            scores = student_scores if interactive else None
            part = votes[first : first + request.queries]
            public = () if scores is None else (scores,)
            answer = self._release_votes(ensemble, request, part, *public, first=first, noise=noise)
            keys.append(answer.key)
            rounds.append(
                AnsweredRequest(
                    request=request, votes=part, released=answer.values, student_scores=scores
                )
            )
            first += request.queries
        released: NDArray[np.int64] = np.concatenate([each.released for each in rounds])
        # For the owner: the trial gets none of these figures.
        truth = self._truth[ensemble.query_positions(len(self._truth))[:first]]
        figures = {
            "ensemble_accuracy": float((votes[:first].argmax(1) == truth).mean()),
            "answered_by_teachers": float((released[:, BY_TEACHERS] == 1).sum()),
        }
        if (known := released[:, LABEL] >= 0).any():
            figures["vote_label_accuracy"] = float((released[known, LABEL] == truth[known]).mean())
        if self._results is not None:  # nobody asks for these of a fit, and they take seconds
            asked = (*keys, delta)
            if asked not in self._costs:  # other trials read the same answers
                self._costs[asked] = private_costs(rounds, delta=delta)
            costs = self._costs[asked]
            figures["private/epsilon_data_dependent"] = costs["realised"]
            figures["private/epsilon_expected"] = costs["expected"]
            figures["private/epsilon_expected_of_counts"] = costs["expected_of_counts"]
            figures["epsilon_realised"] = costs["realised_data_independent"]
        published = None
        if bound:
            with suppress(ConditionsFailed):  # unproven: nothing is drawn, and the trial goes on
                about = rounds[0]
                priced = self._release_votes(
                    ensemble, bound, about.votes, about.released, first=0, noise=noise
                )
                keys.append(priced.key)
                # The bound that holds for any votes, where that is less.
                figures["epsilon_sanitized"] = bound.capped(float(priced.values[0]), about.request)
                published = bound
        figures["epsilon_of_counts"] = epsilon_of_counts(requests, published, delta=delta)
        # Of all answers that the trial has read so far, instead of the earlier ones.
        self._write(trial, {**record, "answers": {"keys": keys, "figures": figures}})
        return released, keys

    def _afford_both(
        self, answers: PateAnswers, bound: PublishedCost, budget: Budget, noise: NoiseSource
    ) -> None:
        """Refuse answers before they are drawn where the budget can't pay for their `bound` too."""
        first, second = (
            self._vault.charge_of(each, indices=self._rows, noise=noise)
            for each in (answers, bound)
        )
        charges = self._vault.charges()
        if any(line.mechanism == first.mechanism for line in charges):
            return  # such answers may be there and cost nothing: the vault decides
        ledger = ledger_of(charges, num_labels=self.num_people())
        spent = ledger.epsilon_or_infinity(delta=budget.delta)
        ledger.add(first)
        answered = ledger.epsilon_or_infinity(delta=budget.delta)
        ledger.add(second)
        requested = ledger.epsilon_or_infinity(delta=budget.delta)
        if budget.allows(answered) and not budget.allows(requested):
            raise BudgetExceeded(
                budget=budget,
                spent=spent,
                requested=requested,
                request="PublishedCost beside its PateAnswers",
                fix=f"the answers alone make it {shown(answered, 6)}: set "
                "trainer.publish_cost=false, request fewer answers, or raise the budget",
            )

    def _release_votes(
        self,
        ensemble: EnsembleConfig,
        mechanism: PateAnswers | PublishedCost,
        votes: NDArray[np.integer[Any]],
        *public: NDArray[Any],
        first: int,
        noise: NoiseSource,
    ) -> Release:
        # Distinguishes these votes from all others; not secret.
        facts = {**self._facts(ensemble), "first": first}
        return self._vault.release_from_votes(
            mechanism,
            votes,
            *public,
            noise=noise,
            trained_on=self._rows,
            ensemble=json.dumps(facts, sort_keys=True, default=str),
        )

    def _facts(self, ensemble: EnsembleConfig) -> dict[str, Any]:
        return {
            "ensemble": ensemble.facts(),
            "version": VOTES_VERSION,
            "features": self._fingerprint,
        }

    def _votes(self, ensemble: EnsembleConfig) -> NDArray[np.integer[Any]]:
        """Counts of votes [Q, K]."""
        journal = self.journal(ensemble)
        key = journal.args[0].name
        if key not in self._counts:
            votes = journal().votes()
            self._counts[key] = count_votes(votes, num_classes=self._vault.num_classes)
        return self._counts[key]

    # Audits

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of all canaries [M]; they are not secret, only their labels are."""
        return np.asarray(self._canaries.positions)

    def audit(
        self,
        trial: str,
        confidences: NDArray[Any],
        confidence: float,
        keys: Sequence[str],
        delta: float,
    ) -> None:
        """Audit a trial's model once by its confidences on the canaries [M, K]; return nothing."""
        record = self._private_record(trial)
        # Equal numbers have one digest, however they lie in memory.
        rows = np.ascontiguousarray(confidences)
        asked = repr((rows.shape, rows.dtype.str, (confidence, sorted(keys), delta)))
        digest = hashlib.sha256(asked.encode() + rows.tobytes()).hexdigest()
        known = record.get("audit", {}).get("digest")
        # The trial was restarted by Ray, and asks again for what it has asked.
        if known == digest:
            return
        if known is not None:
            raise ValueError(
                f"trial {trial} was audited already, with other confidences; a trial is audited "
                "once, since exact figures for chosen confidences would reveal the canaries' "
                "labels. It can be audited again after the driver restarts it"
            )
        figures, evidence = self._findings(confidences, confidence, keys, delta)
        if self._results is not None:
            evidence.write(evidence_path(self._results, trial))
        self._write(trial, {**record, "audit": {"digest": digest, "figures": figures}})

    def begin(self, authority: bytes, trial: str) -> None:
        """Open a record for a trial that starts, without the findings of its earlier start."""
        # Only the driver empties a record: otherwise a trial could ask again and again.
        self._check(authority)
        self._write(trial, {})

    def figures(
        self, authority: bytes, trial: str, release_keys: Sequence[str]
    ) -> dict[str, float]:
        """Return all figures of a trial that has ended; it takes the token.

        Of the releases that it read, where some hold no answers, prices of the answers alone are
        left out.
        """
        self._check(authority)
        record = self._private_record(trial)
        if "audit" not in record:
            raise ValueError(f"trial {trial} was not audited, so nothing is known of its leaks")
        answers = record.get("answers", {"keys": [], "figures": {}})
        # Held-out labels pay for themselves: their releases change no price of the answers.
        training = self.num_labels()
        apart = {line.key for line in self._vault.charges() if line.is_beyond(training)}
        others = set(release_keys) - set(answers["keys"]) - apart
        left_out = _PRICES if others else ()
        of_answers = {k: v for k, v in answers["figures"].items() if not k.startswith(left_out)}
        return {**of_answers, **record["audit"]["figures"]}

    def figures_of_model(
        self,
        authority: bytes,
        guesses: NDArray[np.integer[Any]],
        confidences: NDArray[Any],
        confidence: float,
        keys: Sequence[str],
        delta: float,
    ) -> dict[str, float]:
        """Return the owner's figures of a model of their own, of which nothing is kept.

        `guesses` are its predictions for the training examples [N], `confidences` its probabilities
        on the canaries [M, K]. It takes the token.
        """
        self._check(authority)
        found = {"private/training_accuracy": float((guesses == self._truth).mean())}
        if not len(self._canaries.positions):
            return found
        return {**found, **self._findings(confidences, confidence, keys, delta)[0]}

    def _findings(
        self, confidences: NDArray[Any], confidence: float, keys: Sequence[str], delta: float
    ) -> tuple[dict[str, float], AttackEvidence]:
        epsilon, used_delta = self.epsilon(keys, delta)
        charges = self.charges(keys)
        return self._canaries.audit(
            confidences,
            confidence=confidence,
            epsilon=epsilon,
            delta=used_delta,
            curve=curve_of(charges, delta=used_delta),
            released=own_release(charges, store=self._store, training=self.num_labels()),
        )

    def _check(self, authority: bytes) -> None:
        if not hmac.compare_digest(authority, self._authority):
            raise ValueError(
                "only the driver may read figures and shards: they are made of true labels, which "
                "a trial must not learn; read the driver's records"
            )

    # One record a trial, in the results folder or in memory

    def _file(self, trial: str) -> Path | None:
        if not _HASH.fullmatch(trial):
            raise ValueError(
                f"trial is {trial!r}; it must be a trial's hash, 1 to 64 hexadecimal digits, which "
                "names its audits and answers"
            )
        if self._results is None:
            return None
        return self._results / "private" / "figures" / f"{trial}.json"

    def _private_record(self, trial: str) -> dict[str, Any]:
        path = self._file(trial)
        record = self._memory.get(trial)
        try:
            if path is not None and path.exists():
                record = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} can't be read ({error}); remove it, and run again with --resume auto: the "
                "trial is then trained and audited again"
            ) from error
        if record is None:
            raise ValueError(
                f"trial {trial} was not begun by the driver, so it is not audited: a trial must "
                "send its own hash"
            )
        return record

    def _write(self, trial: str, record: dict[str, Any]) -> None:
        path = self._file(trial)
        if path is None:
            self._memory[trial] = record
            return
        for folder in (path.parent.parent, path.parent):
            inner_folder(folder)
        write_json(path, record)


@dataclass(kw_only=True)
class TrialLabels:
    """The labels of a home for one trial: releases and audits with its own noise, and no figure.

    Without a `trial` (its hash) answers and audits are refused.
    """

    home: LabelHome
    noise: NoiseSource
    trial: str = ""
    keys: list[str] = field(default_factory=list)

    @property
    def persons(self) -> Persons | None:
        """Numbers of the persons of the labels [N]; None where each has one label."""
        return self.home.persons()

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
        held_out: bool = False,
    ) -> Release:
        """Return a release, as `LabelHome.release`, and remember that it was read."""
        release = self.home.release(mechanism, public, indices, self.noise, held_out)
        self._read(release.key)
        return release

    def answers(
        self,
        ensemble: EnsembleConfig,
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None = None,
        *,
        delta: float,
        publish_cost: bool,
    ) -> NDArray[np.int64]:
        """Return an ensemble's answers [Q, 2]; their figures go to the driver."""
        values, keys = self.home.answers(
            self.trial, ensemble, requests, student_scores, delta, publish_cost, self.noise
        )
        self._read(*keys)
        return values

    def charges(self) -> list[Charge]:
        """Return the lines of the ledger for the releases read here."""
        return self.home.charges(self.keys)

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        """Epsilon of the releases read here, and the delta at which it holds."""
        return self.home.epsilon(self.keys, delta)

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of the canaries among the training examples [M]."""
        # A copy: an array in Ray's memory is read-only, of which torch warns.
        return np.array(self.home.canary_positions())

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        """Have a model audited by its confidences on the canaries [M, K], once."""
        self.home.audit(self.trial, confidences, confidence, self.keys, delta)

    def _read(self, *keys: str) -> None:
        self.keys.extend(key for key in keys if key not in self.keys)

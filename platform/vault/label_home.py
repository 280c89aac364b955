"""Where labels live: the one object that holds true labels, canaries and audits.

A sweep has its home in an actor on the driver's node (`home_proxy`), a fit in its own process
(`fit_labels`). Trials ask it for releases, and send it their confidences to be audited, once. They
never see a true label, nor which labels the canaries replaced, nor a figure made of either: figures
are for the owner of the labels, who has the token that the home was made with.

Exact figures about canaries for chosen confidences would tell the labels, one question a label. A
trial is therefore told only that it was audited, and is audited once. A digest of what it sent is
kept beside the evidence, so that a home that is made again, or a sweep that is resumed, answers no
second question either. The same confidences once more (a request that Ray repeats) change nothing.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.ledger import Budget, check_indices, delta_of_total
from labeldp.mechanisms.pate.releases import PateAnswers
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import (
    Charge,
    LabelVault,
    Mechanism,
    MemoryStore,
    Release,
    ReleaseStore,
    Shard,
)
from labeldp.platform.records.private_files import inner_folder
from labeldp.platform.records.results import consensus_path, write_json
from labeldp.platform.sweep.accuracy_figures import PRIVATE_PREFIX
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.audits import AuditFindings, PlantedCanaries, curve_of, evidence_path
from labeldp.platform.vault.release_figures import ReleasedByItself
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.platform.vault.vote_store import VoteStore

if TYPE_CHECKING:
    from labeldp.platform.vault.answer_desk import AnswerDesk, DeskAnswers, EnsembleFile
    from labeldp.trainers.settings.pate import EnsembleConfig

_HASH = re.compile(r"[0-9a-f]{1,64}")
#: Names of what answers alone have cost; they would pass for the trial's where it paid for more.
_PRICES = ("epsilon_", f"{PRIVATE_PREFIX}epsilon_")


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretLabels:
    """The labels that a home keeps.

    Attributes:
        training: True labels to train on [N].
        held_out: True labels that accuracy is estimated with [H]; None if none are held out.
        num_classes: K.
    """

    training: NDArray[np.integer[Any]] = field(repr=False)
    held_out: NDArray[np.integer[Any]] | None = field(default=None, repr=False)
    num_classes: int

    def small(self) -> "SecretLabels":
        """Return the same in as few bytes each as the classes need, where they fit."""
        kind = np.min_scalar_type(self.num_classes - 1)

        def fitted(labels: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
            cast = labels.astype(kind)
            return cast if np.array_equal(cast, labels) else labels  # for the vault to refuse

        return replace(
            self,
            training=fitted(self.training),
            held_out=None if self.held_out is None else fitted(self.held_out),
        )


@dataclass(frozen=True, kw_only=True)
class HomePlaces:
    """Where a home keeps what it must not forget.

    Attributes:
        store: File of the vault's releases and ledger, in the results folder, or an open store; in
            memory if None.
        votes: Folder of ensembles' votes, which sweeps beside each other share; a temporary one if
            None.
        shared_coins: Whether the coin canaries are those of all sweeps that share votes: teachers
            learn from planted labels.
    """

    store: Path | ReleaseStore | None
    votes: Path | None
    shared_coins: bool = False

    def open_store(self) -> ReleaseStore:
        """Open the vault's store, or make it."""
        if self.store is None:
            return MemoryStore()
        if not isinstance(self.store, Path):
            return self.store
        salt = VoteStore(self.votes).salt if self.shared_coins and self.votes else None
        return SqliteStore(self.store, salt=salt)


class LabelHome:
    """The vault, the truth about its canaries, and what audits found."""

    def __init__(
        self,
        labels: SecretLabels,
        *,
        audit: AuditSettings,
        coin_seed: int | None,
        places: HomePlaces,
        fingerprint: str,
        budget: Budget | None,
        authority: bytes | None = None,
    ) -> None:
        """Plant the canaries and lock the labels away.

        Args:
            labels: True ones.
            audit: How many canaries of which kind.
            coin_seed: Of the coins; None where they are a secret of the store.
            places: Where releases and votes are kept.
            fingerprint: Of the public data.
            budget: The most that any label may pay.
            authority: Token of the owner, who may ask for figures; nobody if none is given.

        Raises:
            ValueError: Labels, canaries or a store that can't be used.
        """
        self._truth = labels.training.astype(np.int64)
        self._store = store = places.open_store()
        # The same store has the same coins again, and nobody else can work them out.
        secret = store.salt() if coin_seed is None else b"coin seed %d" % coin_seed
        self._canaries = PlantedCanaries.draw(
            self._truth, num_classes=labels.num_classes, settings=audit, secret=secret
        )
        self._planted = self._canaries.plant(self._truth)
        # Canaries are wrong labels: none is planted where accuracy is estimated.
        every, self._rows, self._held_out = self._planted, None, None
        if labels.held_out is not None:
            every = np.append(self._planted, labels.held_out)
            rows = np.arange(len(every))
            # Training and held-out labels share none, so each pays for its own releases only.
            self._rows, self._held_out = np.split(rows, [len(self._truth)])
        self._vault = LabelVault(
            labels=every, num_classes=labels.num_classes, store=store, budget=budget
        )
        self._places, self._fingerprint, self._authority = places, fingerprint, authority
        self._results = places.store.parent if isinstance(places.store, Path) else None
        self._memory: dict[str, dict[str, Any]] = {}
        self._made_desk: AnswerDesk | None = None
        self._temporary: TemporaryDirectory[str] | None = None

    def __repr__(self) -> str:
        """Never show a label."""
        return f"{type(self).__name__}({self._vault!r})"

    def end(self) -> None:
        """Let go of what is kept for this process only: votes in a temporary folder."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = self._made_desk = None

    # Releases and their prices

    def num_labels(self) -> int:
        """How many labels there are to train on."""
        return len(self._truth)

    def release(
        self,
        mechanism: Mechanism,
        public: tuple[NDArray[Any], ...],
        indices: NDArray[np.integer[Any]] | None,
        noise: NoiseSource,
    ) -> Release:
        """Return a release of labels to train on, as `LabelVault.release`."""
        chosen = None if indices is None else check_indices(indices, len(self._truth))
        touched = self._rows if chosen is None else chosen
        release = self._vault.release(mechanism, *public, indices=touched, noise=noise)
        return replace(release, indices=chosen)

    def release_held_out(
        self, mechanism: Mechanism, public: tuple[NDArray[Any], ...], noise: NoiseSource
    ) -> Release:
        """Return a release of the held-out labels, which no training release touches."""
        if self._held_out is None:
            raise ValueError(
                "no labels are held out in this sweep; set evaluation.held_out_share to hold some "
                "out, or use the public test split"
            )
        release = self._vault.release(mechanism, *public, indices=self._held_out, noise=noise)
        return replace(release, indices=None)

    def epsilon(self, keys: Sequence[str], delta: float) -> tuple[float, float]:
        """Epsilon and delta of the worst label over the releases at `keys`."""
        total = delta_of_total(self.charges(keys), delta=delta)
        return self._vault.epsilon(delta=total, keys=keys), total

    def charges(self, keys: Sequence[str]) -> list[Charge]:
        """Return the lines of the ledger for the releases at `keys`, in the ledger's order."""
        wanted = set(keys)
        return [charge for charge in self._vault.charges() if charge.key in wanted]

    def ledger(self) -> Sequence[Charge]:
        """Return every line of the ledger, in order."""
        return self._vault.charges()

    # Ensembles

    @property
    def _desk(self) -> "AnswerDesk":
        """The desk, made when it is first asked for: it loads torch."""
        if self._made_desk is None:
            from labeldp.platform.vault.answer_desk import AnswerDesk

            folder = self._places.votes
            if folder is None:
                self._temporary = TemporaryDirectory(prefix="labeldp-votes-")
                folder = Path(self._temporary.name, "votes")
            self._made_desk = AnswerDesk(
                vault=self._vault,
                rows=self._rows,
                labels=self._planted,
                truth=self._truth,
                folder=folder,
                fingerprint=self._fingerprint,
            )
        return self._made_desk

    def ensemble_file(self, ensemble: "EnsembleConfig") -> "EnsembleFile":
        """Return where an ensemble's votes are, or will be."""
        return self._desk.file_of(ensemble)

    def shards(self, ensemble: "EnsembleConfig") -> tuple[Shard, ...]:
        """Return the teachers' shards, for the pool that trains them."""
        return self._desk.shards(ensemble)

    def answers(
        self,
        trial: str,
        ensemble: "EnsembleConfig",
        requests: Sequence[PateAnswers],
        student_scores: NDArray[np.float32] | None,
        delta: float,
        publish_cost: bool,
        noise: NoiseSource,
    ) -> "DeskAnswers":
        """Return an ensemble's answers, as `AnswerDesk.answers`, and keep their figures back."""
        page = self._page_of(trial)  # before anything is released and charged
        reply = self._desk.answers(
            ensemble,
            requests,
            student_scores,
            delta=delta,
            publish_cost=publish_cost,
            noise=noise,
        )
        # Of all answers that the trial has read so far, instead of the earlier ones.
        answers = {"keys": list(reply.keys), "figures": dict(reply.figures)}
        self._write(trial, {**page, "answers": answers})
        if reply.consensus is not None and self._results is not None:
            reply.consensus.write(consensus_path(self._results, trial))
        return replace(reply, figures={}, consensus=None)

    # Audits

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of all canaries [M]; that they are canaries is no secret, their labels are."""
        return np.asarray(self._canaries.positions)

    def audit(
        self,
        trial: str,
        confidences: NDArray[Any],
        confidence: float,
        keys: Sequence[str],
        delta: float,
    ) -> None:
        """Audit a trial's model by its confidences on the canaries [M, K]; once, and say nothing.

        Raises:
            ValueError: A trial that the driver has not begun, or that was audited with other
                confidences since it began; confidences that are not probabilities.
        """
        page = self._page_of(trial)
        digest = _digest_of(confidences, (confidence, sorted(keys), delta))
        known = page.get("audit", {}).get("digest")
        if known == digest:
            return
        if known is not None:
            raise ValueError(
                f"trial {trial} was audited already, with other confidences; a trial is audited "
                "once, since exact figures for chosen confidences would tell the canaries' labels. "
                "It can be audited again when the driver has started it again"
            )
        findings = self._findings(confidences, confidence, keys, delta)
        if self._results is not None:
            findings.evidence.write(evidence_path(self._results, trial))
        audit = {"digest": digest, "figures": dict(findings.figures)}
        self._write(trial, {**page, "audit": audit})

    def begin(self, authority: bytes, trial: str) -> None:
        """Open a page for a trial that starts, and forget what was found when it started before.

        Nothing of that has been told to anybody. A trial without a page is not audited.

        Raises:
            ValueError: The token is not the owner's.
        """
        self._check(authority)
        self._write(trial, {})

    def figures(
        self, authority: bytes, trial: str, release_keys: Sequence[str]
    ) -> dict[str, float]:
        """Return all that is known of a trial that has ended.

        Args:
            authority: The owner's token.
            trial: Its hash.
            release_keys: Every release that it read. Where some hold no answers, prices of the
                answers alone are left out.

        Raises:
            ValueError: The token is not the owner's, or the trial was not audited.
        """
        self._check(authority)
        page = self._read(trial) or {}
        if "audit" not in page:
            raise ValueError(f"trial {trial} was not audited, so nothing is known of its leaks")
        answers = page.get("answers", {"keys": [], "figures": {}})
        # Held-out labels pay for themselves: their releases change no price of the answers.
        training = self.num_labels()
        apart = {line.key for line in self._vault.charges() if line.is_beyond(training)}
        others = set(release_keys) - set(answers["keys"]) - apart
        left_out = _PRICES if others else ()
        of_answers = {k: v for k, v in answers["figures"].items() if not k.startswith(left_out)}
        return {**of_answers, **page["audit"]["figures"]}

    def figures_of_model(
        self,
        authority: bytes,
        guesses: NDArray[np.integer[Any]],
        confidences: NDArray[Any],
        confidence: float,
        keys: Sequence[str],
        delta: float,
    ) -> dict[str, float]:
        """Return what the owner may know of a model of their own; nothing of it is kept.

        Args:
            authority: The owner's token.
            guesses: What the model predicts for the training examples [N].
            confidences: Its probabilities on the canaries [M, K].
            confidence: Of every bound, each by itself.
            keys: The releases that it is made of.
            delta: At which epsilon is stated.

        Raises:
            ValueError: The token is not the owner's; confidences that are not probabilities.
        """
        self._check(authority)
        found = {"private/training_accuracy": float((guesses == self._truth).mean())}
        if not len(self._canaries.positions):
            return found
        return {**found, **self._findings(confidences, confidence, keys, delta).figures}

    def _findings(
        self, confidences: NDArray[Any], confidence: float, keys: Sequence[str], delta: float
    ) -> AuditFindings:
        epsilon, used_delta = self.epsilon(keys, delta)
        charges = self.charges(keys)
        return self._canaries.audit(
            confidences,
            confidence=confidence,
            epsilon=epsilon,
            delta=used_delta,
            curve=curve_of(charges, delta=used_delta),
            released=ReleasedByItself.find(charges, store=self._store, training=self.num_labels()),
        )

    def _check(self, authority: bytes) -> None:
        if self._authority is None or not hmac.compare_digest(authority, self._authority):
            raise ValueError(
                "what was found of trials is the driver's: it is made of true labels, and a trial "
                "that could ask for it could learn them; read the records that the driver keeps"
            )

    # One page a trial, in the results folder or in memory

    def _page_of(self, trial: str) -> dict[str, Any]:
        page = self._read(trial)
        if page is None:
            raise ValueError(
                f"trial {trial} was not begun by the driver, so nothing is found out or kept of "
                "it: a trial asks under its own hash, which the driver has opened when it started"
            )
        return page

    def _path(self, results: Path, trial: str) -> Path:
        return results / "private" / "figures" / f"{trial}.json"

    def _read(self, trial: str) -> dict[str, Any] | None:
        """What is known of a trial; None for one that was never begun."""
        _check_hash(trial)
        if self._results is None:
            return self._memory.get(trial)
        path = self._path(self._results, trial)
        try:
            page: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{path} can't be read ({error}); remove it, and run again with --resume auto: the "
                "trial is then trained and audited again"
            ) from error
        return page

    def _write(self, trial: str, page: dict[str, Any]) -> None:
        _check_hash(trial)
        if self._results is None:
            self._memory[trial] = page
            return
        path = self._path(self._results, trial)
        for folder in (path.parent.parent, path.parent):
            inner_folder(folder)
        write_json(path, page)


def _digest_of(confidences: NDArray[Any], facts: Any) -> str:
    """Digest of an audit's input: confidences [M, K] to the last bit, and plain facts."""
    rows = np.ascontiguousarray(confidences)
    head = repr((rows.shape, rows.dtype.str, facts))
    return hashlib.sha256(head.encode() + rows.tobytes()).hexdigest()


def _check_hash(trial: str) -> None:
    """Refuse a trial's hash that is not one: it names files."""
    if not _HASH.fullmatch(trial):
        raise ValueError(
            f"trial is {trial!r}; audits and answers are kept by a trial's hash, 1 to 64 "
            "hexadecimal digits, and without one none is made"
        )

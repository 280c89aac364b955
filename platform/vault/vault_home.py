"""Where a sweep's labels live: one actor on the driver's node.

Trials never see a true label, nor which labels the canaries replaced, nor a figure made of either:
they ask this home for releases, and send it their confidences to be audited, once
(`vault_client`). What was found is for the driver (`vault_owner`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from labeldp.mechanisms.ledger import Budget, delta_of_total
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
from labeldp.mechanisms.vault_part import divided
from labeldp.platform.sweep.audit_settings import AuditSettings
from labeldp.platform.vault.audits import AuditFindings, curve_of
from labeldp.platform.vault.figure_book import FigureBook, digest_of
from labeldp.platform.vault.home_handle import DEATHS_ALLOWED, HomeHandle
from labeldp.platform.vault.planting import canaries_of
from labeldp.platform.vault.release_figures import ReleasedByItself
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.platform.vault.vote_store import VoteStore

if TYPE_CHECKING:
    from labeldp.platform.vault.answer_desk import AnswerDesk, DeskAnswers, EnsembleFile
    from labeldp.trainers.settings.ensemble import EnsembleConfig


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
        store: File of the vault's releases and ledger, in the results folder; in memory if None.
        votes: Folder of ensembles' votes, which sweeps beside each other share.
        shared_coins: Whether the coin canaries are those of all sweeps that share votes: teachers
            learn from planted labels.
    """

    store: Path | None
    votes: Path
    shared_coins: bool = False

    def open_store(self) -> ReleaseStore:
        """Open the vault's store, or make it."""
        if self.store is None:
            return MemoryStore()
        return SqliteStore(
            self.store, salt=VoteStore(self.votes).salt if self.shared_coins else None
        )


class VaultHome:
    """The vault and the truth about its canaries; made into a `HomeActor` by `start`."""

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
            authority: Token of who may ask for figures; nobody if none is given.

        Raises:
            ValueError: Labels, canaries or a store that can't be used.
        """
        truth, num_classes = labels.training.astype(np.int64), labels.num_classes
        store = places.open_store()
        self._canaries = canaries_of(
            store, truth, num_classes=num_classes, settings=audit, coin_seed=coin_seed
        )
        results = None if places.store is None else places.store.parent
        self._book = FigureBook(results, authority=authority)
        planted = self._canaries.plant(truth)
        # Canaries are wrong labels: none is planted where accuracy is estimated.
        every = planted if labels.held_out is None else np.append(planted, labels.held_out)
        self._vault = LabelVault(labels=every, num_classes=num_classes, store=store, budget=budget)
        self._store = store
        self._training, self._held_out = divided(self._vault, training=len(planted))

        def make_desk() -> "AnswerDesk":
            # Here and not above: it loads torch, which most sweeps' homes can do without.
            from labeldp.platform.vault.answer_desk import AnswerDesk

            return AnswerDesk(
                vault=self._training,
                labels=planted,
                truth=truth,
                folder=places.votes,
                fingerprint=fingerprint,
            )

        self._make_desk = make_desk
        self._made_desk: AnswerDesk | None = None

    @property
    def _desk(self) -> "AnswerDesk":
        """The desk, made when it is first asked for: most sweeps have no ensemble."""
        if self._made_desk is None:
            self._made_desk = self._make_desk()
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
        self._book.check_begun(trial)  # before anything is released and charged
        reply = self._desk.answers(
            ensemble,
            requests,
            student_scores,
            delta=delta,
            publish_cost=publish_cost,
            noise=noise,
        )
        self._book.keep_answers(
            trial, keys=reply.keys, figures=reply.figures, consensus=reply.consensus
        )
        return replace(reply, figures={}, consensus=None)

    def release(
        self,
        mechanism: Mechanism,
        public: tuple[NDArray[Any], ...],
        indices: NDArray[np.integer[Any]] | None,
        noise: NoiseSource,
    ) -> Release:
        """Return a release, as `LabelVault.release`."""
        return self._training.release(mechanism, *public, indices=indices, noise=noise)

    def release_held_out(
        self, mechanism: Mechanism, public: tuple[NDArray[Any], ...], noise: NoiseSource
    ) -> Release:
        """Return a release of the held-out labels, which no training release touches."""
        if self._held_out is None:
            raise ValueError(
                "no labels are held out in this sweep; set evaluation.held_out_share to hold some "
                "out, or use the public test split"
            )
        return self._held_out.release(mechanism, *public, noise=noise)

    def num_labels(self) -> int:
        """How many labels there are to train on."""
        return self._training.num_labels

    def canary_positions(self) -> NDArray[np.intp]:
        """Positions of all canaries [M]; that they are canaries is no secret, their labels are."""
        return np.asarray(self._canaries.positions)

    def epsilon(self, keys: Sequence[str], delta: float) -> tuple[float, float]:
        """Epsilon and delta of the worst label over the releases at `keys`."""
        charges = [charge for charge in self._vault.charges() if charge.key in keys]
        total = delta_of_total(charges, delta=delta)
        return self._vault.epsilon(delta=total, keys=keys), total

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
            ValueError: No trial's hash, or of one that the driver has not begun; confidences that
                are not probabilities; a trial that was audited with other ones since the driver
                started it.
        """

        def find() -> AuditFindings:
            epsilon, used_delta = self.epsilon(keys, delta)
            charges = [charge for charge in self._vault.charges() if charge.key in keys]
            return self._canaries.audit(
                confidences,
                confidence=confidence,
                epsilon=epsilon,
                delta=used_delta,
                curve=curve_of(charges, delta=used_delta),
                released=ReleasedByItself.find(
                    charges, store=self._store, training=self._training.num_labels
                ),
            )

        facts = (confidence, sorted(keys), delta)
        self._book.audit(trial, digest=digest_of(confidences, facts), find=find)

    def begin(self, authority: bytes, trial: str) -> None:
        """Forget what was found of a trial that the driver starts, as `FigureBook.begin`."""
        self._book.begin(authority, trial)

    def figures(
        self, authority: bytes, trial: str, release_keys: Sequence[str]
    ) -> dict[str, float]:
        """Return what was found of a trial, to the driver alone, as `FigureBook.figures`."""
        # Held-out labels pay for themselves: their releases change no price of the answers.
        training = self._training.num_labels
        apart = {each.key for each in self._vault.charges() if each.is_beyond(training)}
        return self._book.figures(
            authority, trial, release_keys=[key for key in release_keys if key not in apart]
        )

    def charges(self, keys: Sequence[str]) -> Sequence[Charge]:
        """Return the lines of the ledger for the releases at `keys`, in the ledger's order."""
        wanted = set(keys)
        return [charge for charge in self._vault.charges() if charge.key in wanted]

    def ledger(self) -> Sequence[Charge]:
        """Return every line of the ledger, in order."""
        return self._vault.charges()


class HomeActor(VaultHome):
    """A home that can say what it lacks: an actor that raises while it is made tells nobody."""

    def __init__(self, labels: SecretLabels, **settings: Any) -> None:
        """Make the home, or keep what it was refused with until somebody asks."""
        self._refused: ValueError | None = None
        try:
            super().__init__(labels, **settings)
        except ValueError as error:
            self._refused = error

    def __getattr__(self, name: str) -> Any:
        """Raise what made the home, and so the vault in it, refuse."""
        if name.startswith("__") or self._refused is None:
            raise AttributeError(f"a {type(self).__name__} has no {name!r}")
        raise self._refused


def start(
    labels: SecretLabels,
    *,
    audit: AuditSettings,
    coin_seed: int | None,
    places: HomePlaces,
    fingerprint: str,
    budget: Budget | None,
    authority: bytes | None = None,
) -> HomeHandle:
    """Start the home beside the driver and return its handle; arguments as for `VaultHome`.

    Who has `authority` may ask it what was found of trials (`VaultOwner`); without, nobody.

    It stays on the driver's node, where the store is, and asks for no core: it waits most of the
    time. What it is made of stays in Ray's hands, so that it can be made again if its process dies.

    Raises:
        ValueError: What the home refuses, before any trial.
    """
    here = ray.get_runtime_context().get_node_id()
    remote: Any = ray.remote(HomeActor)
    actor = remote.options(
        num_cpus=0,
        max_restarts=DEATHS_ALLOWED,
        max_task_retries=DEATHS_ALLOWED,
        scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=False),
    )
    # One byte each: so few travel within the request that makes the actor, and need no place in
    # Ray's object store, which a home that is made again would depend on.
    home = HomeHandle(
        actor.remote(
            labels.small(),
            audit=audit,
            coin_seed=coin_seed,
            places=places,
            fingerprint=fingerprint,
            budget=budget,
            authority=authority,
        )
    )
    home.num_labels()  # what the vault refuses is said here, before any trial
    return home

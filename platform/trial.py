"""One trial: privatize, train, evaluate, audit; numbers out, labels never in."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from labeldp.platform.configuration import TrialConfig
from labeldp.platform.vault_home import VaultClient
from labeldp.trainers.data import PublicData
from labeldp.trainers.training import EpochMetrics


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """What came out.

    Attributes:
        metrics: Name -> number, as CONTRACTS has them.
        release_keys: The releases that were read.
        notes: What a reader of the numbers must know; text for the run card.
    """

    metrics: Mapping[str, float]
    release_keys: list[str]
    notes: list[str] = field(default_factory=list)


def run_trial(
    config: TrialConfig,
    *,
    data: PublicData,
    vault: VaultClient,
    on_epoch: Callable[[EpochMetrics], Any],
) -> TrialOutcome:
    """Run one trial to its end.

    Args:
        config: Everything that decides its numbers.
        data: Public features and the public test split.
        vault: Where labels can be asked for.
        on_epoch: Called after each epoch.

    Raises:
        BudgetExceeded: A release would take a label over the budget.
        TrainingDiverged: The loss is not finite any more.
    """
    started = time.perf_counter()
    trainer = config.trainer.start(
        data=data, labels=vault, seed=config.seed, performance=config.performance
    )
    for _ in range(config.trainer.epochs):
        on_epoch(trainer.epoch())
    accuracy = trainer.evaluate()
    train_seconds = time.perf_counter() - started
    epsilon, delta = vault.epsilon(delta=config.trainer.delta)
    positions = vault.canary_positions()
    confidences = trainer.predict(data.train_features[positions])
    figures = vault.audit(confidences, confidence=config.audit.confidence)
    return TrialOutcome(
        metrics={
            "accuracy": accuracy,
            "epsilon": epsilon,
            "delta": delta,
            "train_seconds": train_seconds,
            **vault.figures,
            **(trainer.figures() if hasattr(trainer, "figures") else {}),
            **figures,
        },
        release_keys=vault.keys,
    )

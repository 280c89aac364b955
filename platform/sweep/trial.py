"""One trial: privatize, train, evaluate, audit; numbers out, labels never in."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from labeldp.mechanisms.ledger import stated
from labeldp.platform.records.checkpoints import Checkpoints
from labeldp.platform.records.kept_models import ModelShelf
from labeldp.platform.sweep.accuracy_figures import figures_of, majority_figures
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.evaluation import estimate
from labeldp.platform.vault.trial_labels import TrialLabels
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from labeldp.trainers.trainer import Trainer


@dataclass(frozen=True, kw_only=True)
class TrialOutcome:
    """What came out.

    Attributes:
        metrics: Name -> number; what the vault's side found is added by the driver.
        release_keys: The releases that were read.
        stopped_early: After how many epochs it was stopped; 0 if it was not.
    """

    metrics: Mapping[str, float]
    release_keys: list[str]
    stopped_early: int = 0


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """Where a trial is compared with others, and may be told to stop.

    Attributes:
        epochs: After which of them.
        estimated: Whether it is compared by an estimate, which is asked for there, and paid.
        judged: Takes the figures of such an epoch, in place of `on_epoch`, and says whether to
            stop.
        stopped: Whether it has been told to, before its worker died.
    """

    epochs: tuple[int, ...]
    estimated: bool
    judged: Callable[[Mapping[str, float]], bool]
    stopped: Callable[[], bool]


def run_trial(
    config: TrialConfig,
    *,
    data: PublicData,
    vault: TrialLabels,
    on_epoch: Callable[[EpochMetrics], Any],
    checkpoints: Checkpoints | None = None,
    models: ModelShelf | None = None,
    rungs: Rungs | None = None,
) -> TrialOutcome:
    """Run one trial to its end.

    Args:
        config: Everything that decides its numbers.
        data: Public features and the public test split.
        vault: Where labels can be asked for.
        on_epoch: Called after each epoch; where a trial goes on, with the earlier ones first.
        checkpoints: Where states are kept and found; it runs through in one go if not given.
        models: Where the trained model is kept, if so configured; nowhere if not given.
        rungs: Where it may be told to stop; nowhere if not given.

    Raises:
        BudgetExceeded: A release would take a label over the budget.
        TrainingDiverged: The loss is not finite any more.
        ModelNotKept: The trained model can't be written.
    """
    clock = _Clock()
    trainer = config.trainer.start(
        data=data, labels=vault, seed=config.seed, performance=config.performance
    )
    epochs = _resume(trainer, checkpoints, vault=vault, clock=clock)
    for metrics in epochs:
        on_epoch(metrics)
    stopped = rungs is not None and bool(epochs) and rungs.stopped()
    while len(epochs) < config.trainer.epochs and not stopped:
        read = len(vault.keys)
        epochs.append(trainer.epoch())
        if rungs is not None and len(epochs) in rungs.epochs:
            figures = _plain(epochs[-1])
            if rungs.estimated:
                figures |= figures_of(estimate(config, trainer, data=data, vault=vault))
            stopped = rungs.judged(figures)
        else:
            on_epoch(epochs[-1])
        # What a later stage asks follows from a network, to the last digit: one that is trained
        # again, on more threads or another device, would ask anew, and labels would pay again.
        asked = len(vault.keys) > read
        if checkpoints is not None and (asked or checkpoints.due()):
            checkpoints.keep(_state_of(trainer, vault=vault, epochs=epochs, clock=clock))
    measured = _measured(config, trainer, data=data, vault=vault, clock=clock)
    if models is not None and config.models.keep:
        _keep(config, trainer, data=data, measured=measured, models=models)
    return TrialOutcome(
        metrics=measured,
        release_keys=vault.keys,
        stopped_early=len(epochs) if stopped else 0,
    )


def _state_of(
    trainer: Trainer, *, vault: TrialLabels, epochs: Sequence[EpochMetrics], clock: "_Clock"
) -> dict[str, Any]:
    """What `_resume` goes on from."""
    return {
        "trainer": trainer.state_dict(),
        "release_keys": list(vault.keys),
        "epochs": [_plain(metrics) for metrics in epochs],
        "seconds": clock.seconds,
        "processor_seconds": clock.processor_seconds,
    }


def _keep(
    config: TrialConfig,
    trainer: Trainer,
    *,
    data: PublicData,
    measured: Mapping[str, float],
    models: ModelShelf,
) -> None:
    """Have the trained model written, unless the trainer hands none over."""
    predictor = trainer.predictor()
    if predictor is None:
        return
    origin = Origin(
        method=config.method,
        epsilon=measured["epsilon"],
        delta=measured["delta"],
        num_classes=data.num_classes,
        classes=data.class_names,
        data_name=data.name,
        fingerprint=data.fingerprint,
        trial=models.digest,
        seed=config.seed,
        noise=config.noise.kind,
        provenance=data.provenance,
    )
    models.keep(TrainedModel(predictor=predictor, preprocessing=data.preprocessing, origin=origin))


class _Clock:
    """How long a trial has trained, before its worker was lost too."""

    def __init__(self) -> None:
        self.earlier, self._started = 0.0, time.perf_counter()
        self.earlier_processor, self._processor = 0.0, time.process_time()

    @property
    def seconds(self) -> float:
        return self.earlier + time.perf_counter() - self._started

    @property
    def processor_seconds(self) -> float:
        return self.earlier_processor + time.process_time() - self._processor


def _resume(
    trainer: Trainer, checkpoints: Checkpoints | None, *, vault: TrialLabels, clock: "_Clock"
) -> list[EpochMetrics]:
    """Put a trainer into the state that is kept, if one is; returns the epochs that led to it."""
    state = None if checkpoints is None else checkpoints.find()
    # A state that grew from other releases than those just read is of a ledger that is gone: to go
    # on from it would use labels that this ledger does not know to be paid for.
    if state is None or not set(vault.keys) <= set(state.get("release_keys", ())):
        return []
    trainer.load_state_dict(state["trainer"])
    # Later stages' releases are in that state, and `start` did not read them again.
    vault.keys.extend(key for key in state.get("release_keys", ()) if key not in vault.keys)
    clock.earlier = float(state["seconds"])
    clock.earlier_processor = float(state["processor_seconds"])
    return [EpochMetrics(**metrics) for metrics in state["epochs"]]


def _measured(
    config: TrialConfig,
    trainer: Trainer,
    *,
    data: PublicData,
    vault: TrialLabels,
    clock: _Clock,
) -> dict[str, float]:
    """Evaluate a trained model, have it audited, and ask what it cost."""
    measured = {"accuracy": trainer.evaluate()}
    measured |= trainer.figures()
    train_seconds, audited = clock.seconds, time.perf_counter()
    positions = vault.canary_positions()
    # Networks don't take batches of nothing.
    confidences = (
        trainer.predict(data.train_features[positions])
        if len(positions)
        else np.empty((0, data.num_classes))
    )
    vault.audit(confidences, confidence=config.audit.confidence, delta=config.trainer.delta)
    audit_seconds = time.perf_counter() - audited
    # After the audit, which is about what the model was trained on: canaries are not held out.
    estimated = figures_of(estimate(config, trainer, data=data, vault=vault))
    unlabeled = data.held_out_features if not len(data.test_labels) else None
    estimated |= majority_figures(
        data.test_labels, None if unlabeled is None else trainer.predict(unlabeled)
    )
    epsilon, delta = vault.epsilon(delta=config.trainer.delta)
    return {
        "epsilon": stated(epsilon),
        "delta": delta,
        "train_seconds": train_seconds,
        "audit_seconds": audit_seconds,
        "processor_seconds": clock.processor_seconds,
        # What can't be measured, for want of a public test split, is not there.
        **{name: value for name, value in measured.items() if not math.isnan(value)},
        **estimated,
    }


def _plain(metrics: EpochMetrics) -> dict[str, float]:
    """The figures of an epoch, by name."""
    return {field.name: getattr(metrics, field.name) for field in fields(EpochMetrics)}

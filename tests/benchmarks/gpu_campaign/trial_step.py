"""A trial: one trainer, from its releases to its accuracy, some epochs at a time.

The state is a trainer's own (`Trainer.state_dict`), from which it goes on bit for bit on a CPU; on
an accelerator last digits may differ from those of a run in one piece. Releases are not drawn
again: they are in the vault's file. A later stage's release (LP-MST, moment labels in stages)
depends on what a network has learned, so that the state is written right before: whoever is stopped
in between has the same network, and asks for the same release. Were its prior another in a last
digit, the ledger would charge a second release.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.encoders.provenance import League
from labeldp.trainers.models.features import ScaledStep
from labeldp.trainers.performance import Performance, Precision
from labeldp.trainers.settings.methods import LpMstConfig, StagedMomentsConfig
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.trainer import Trainer, TrainerConfig
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.labels import StepLabels
from tests.benchmarks.gpu_campaign.machine import machine_facts
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.step import KEEP_SECONDS

#: As fast as the device can: bfloat16 where it has units for it.
FAST = Performance(precision=Precision.AUTO, channels_last=True)


@dataclass(frozen=True, kw_only=True)
class TrialStep:
    """One trial.

    Attributes:
        name: Of the step.
        row: What the table calls the method.
        network: What the table calls the network.
        dataset: Whose images and labels.
        config: How it is trained.
        seed: Of training, and number of the draw of noise.
        encoder: Name of the step whose features it sees in place of images; None for images.
        features: Name of the step that computes what its prior is learned of; None for none.
        published: What the papers have there; "" for nothing.
        needs_seconds: See `Step`.
        performance: Where and how fast.
    """

    name: str
    row: str
    network: str
    dataset: str
    config: TrainerConfig | PateConfig
    seed: int = 0
    encoder: str | None = None
    features: str | None = None
    published: str = ""
    needs_seconds: float = 30.0
    performance: Performance = field(default=FAST)

    @property
    def after(self) -> str | None:
        """The step of the encoder, or of the features."""
        return self.encoder or self.features

    def advance(self, place: Place, clock: Clock) -> bool:
        """Train until all epochs are done, or the time is over."""
        data = self._data(place)
        labels = place.labels(self.dataset, draw=self.seed)
        self._give_votes(place, labels)
        trainer = self.config.start(
            data=data, labels=labels, seed=self.seed, performance=self.performance
        )
        progress = _Progress.restored(place.state(self.name, self._key(place)))
        if progress.trainer is not None:
            trainer.load_state_dict(progress.trainer)
            labels.keys = list(dict.fromkeys([*progress.keys, *labels.keys]))
        kept = time.monotonic()
        last = 0.0
        while progress.epochs < self.config.epochs:
            over = not clock.allows(last)
            due = time.monotonic() - kept >= KEEP_SECONDS or self._releases_next(progress.epochs)
            if progress.epochs and (over or due):
                self._keep(place, trainer, labels, progress)
                kept = time.monotonic()
            if over:
                return False
            began = time.monotonic()
            metrics = trainer.epoch()
            last = time.monotonic() - began
            progress.epochs += 1
            progress.seconds += metrics.seconds
            progress.curve.append(metrics.val_accuracy)
        place.finish(self.name, self._found(place, trainer, labels, progress))
        return True

    def _give_votes(self, place: Place, labels: StepLabels) -> None:
        """Hand the votes of teachers over; here there are none."""

    def _releases_next(self, epochs: int) -> bool:
        """Whether the next epoch begins with a release."""
        if not isinstance(self.config, LpMstConfig | StagedMomentsConfig):
            return False
        starts = np.cumsum([self.config.stage_epochs(n) for n in range(self.config.stages)])
        return epochs in starts.tolist()

    def _key(self, place: Place) -> str:
        return repr((self.dataset, place.limit, place.noise, self.seed, self.encoder, self.config))

    def _keep(
        self, place: Place, trainer: Trainer, labels: StepLabels, progress: "_Progress"
    ) -> None:
        state = {
            "trainer": dict(trainer.state_dict()),
            "keys": labels.keys,
            "epochs": progress.epochs,
            "seconds": progress.seconds,
            "curve": progress.curve,
        }
        place.keep_state(self.name, self._key(place), state)

    def _data(self, place: Place) -> PublicData:
        data = place.public(self.dataset)
        if self.encoder is None:
            return data
        return features_of_encoder(data, place, self.encoder)

    def _found(
        self, place: Place, trainer: Trainer, labels: StepLabels, progress: "_Progress"
    ) -> dict[str, Any]:
        delta = 0.0 if _pure(labels) else self.config.delta
        return {
            "step": self.name,
            "method": self.row,
            "network": self.network,
            "features": self.encoder or "images",
            "dataset": self.dataset,
            "training_images": len(place.public(self.dataset).train_features),
            "accuracy": trainer.evaluate(),
            "epsilon": labels.epsilon(delta),
            "delta": delta,
            "seed": self.seed,
            "noise": place.noise.words,
            "league": League.NONE.words,
            "published": self.published,
            "epochs": progress.epochs,
            "train_seconds": round(progress.seconds, 1),
            "curve": progress.curve,
            **{f"figure {name}": value for name, value in trainer.figures().items()},
            **machine_facts(self.performance, commit=place.commit),
        }


@dataclass(kw_only=True)
class _Progress:
    """How far a trial is."""

    trainer: dict[str, Any] | None = None
    keys: list[str] = field(default_factory=list)
    epochs: int = 0
    seconds: float = 0.0
    curve: list[float] = field(default_factory=list)

    @classmethod
    def restored(cls, state: dict[str, Any] | None) -> "_Progress":
        return cls() if state is None else cls(**state)


def _pure(labels: StepLabels) -> bool:
    """Whether all that was read holds at a delta of 0."""
    try:
        labels.epsilon(0.0)
    except ValueError:
        return False
    return True


def features_of_encoder(data: PublicData, place: Place, encoder: str) -> PublicData:
    """Return the same data, each image replaced by what an encoder of a step says of it."""
    kept = np.load(place.folder / "features" / f"{encoder}.npz")
    train, test = (torch.from_numpy(kept[part]) for part in ("train", "test"))
    step = ScaledStep.fit(train)
    return PublicData(
        name=data.name,
        num_classes=data.num_classes,
        train_features=step(train),
        test_features=step(test),
        test_labels=data.test_labels,
        class_names=data.class_names,
    )

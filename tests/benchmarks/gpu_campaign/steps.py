"""The kinds of steps: trials, encoders, features and speeds. Each can pause and resume.

A trial's state is its trainer's (`Trainer.state_dict`). It resumes bit for bit on a CPU; on an
accelerator last digits may differ. Releases are in the vault's file and are not drawn again. A
later stage's release (LP-MST, moment labels in stages) depends on a trained network, so the state
is written right before it. If a resumed network gave another last digit, the ledger would charge a
second release.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import torch

from labeldp.platform.records.private_files import replacing
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.encoders.image_encoder import read_encoder
from labeldp.trainers.encoders.pretraining import PretrainRequest, described, pretrain
from labeldp.trainers.encoders.provenance import League
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.models.features import ScaledStep
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.methods import LpMstConfig, PriorSettings, StagedMomentsConfig
from labeldp.trainers.settings.training import SelfSupervisedConfig
from labeldp.trainers.trainer import Trainer, TrainerConfig
from tests.benchmarks.benchmark import commit as commit_here
from tests.benchmarks.benchmark import machine
from tests.benchmarks.gpu import Sizes, Speed, Stopwatch, planned, yardstick
from tests.benchmarks.gpu_campaign.place import Place, StepLabels

#: States are written at most so often, and at the end of a call.
KEEP_SECONDS = 20.0
#: Bfloat16 where the device supports it.
FAST = Performance(precision=Precision.AUTO, channels_last=True)
_DESCRIBING_SECONDS = 20.0


class Clock:
    """Seconds that are left of a call."""

    def __init__(self, seconds: float) -> None:
        """Begin to count."""
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds; below 0 when the time is over."""
        return self._end - time.monotonic()

    def allows(self, seconds: float) -> bool:
        """Whether work of so many seconds ends in time."""
        return self.left() >= seconds


class Step(Protocol):
    """A piece of work with checkpoints; its settings decide its result."""

    @property
    def name(self) -> str:
        """Of the step and its files."""

    @property
    def needs_seconds(self) -> float:
        """Of work that cannot pause; a call with less time left ends before it."""

    @property
    def after(self) -> str | None:
        """The step that must finish first."""

    def advance(self, place: Place, clock: Clock) -> bool:
        """Work until the step is done or the time is over; return whether it is done."""


def facts(performance: Performance, *, commit: str | None) -> dict[str, Any]:
    """Return device, processor and versions, precision, commit and date."""
    cuda = performance.torch_device().type == "cuda"
    return {
        "accelerator": torch.cuda.get_device_name() if cuda else "none",
        "machine": machine(),
        "precision": performance.precision_here().value,
        "commit": commit or commit_here(),
        "date": datetime.now(UTC).date().isoformat(),
    }


@dataclass(frozen=True, kw_only=True)
class TrialStep:
    """One trainer, from its releases to its accuracy, some epochs at a time.

    Attributes:
        row: Method in the table.
        network: Network in the table.
        seed: Of training, and number of the draw of noise.
        encoder: Step whose features replace the images; None for images.
        features: Step that computes the features of the prior; None for none.
        published: The papers' accuracy; "" for none.
    """

    name: str
    row: str
    network: str
    dataset: str
    config: TrainerConfig
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
        """Train until all epochs are done or the time is over."""
        data = place.public(self.dataset)
        if self.encoder is not None:
            data = _encoded(data, place, self.encoder)
        labels = place.labels(self.dataset, draw=self.seed)
        key = repr(
            (self.dataset, place.limit, place.noise_seed, self.seed, self.after, self.config)
        )
        trainer = self.config.start(
            data=data, labels=labels, seed=self.seed, performance=self.performance
        )
        state = place.state(self.name, key)
        seconds, curve = 0.0, []
        if state is not None:
            trainer.load_state_dict(state["trainer"])
            labels.keys = list(dict.fromkeys([*state["keys"], *labels.keys]))
            seconds, curve = state["seconds"], list(state["curve"])
        kept, last = time.monotonic(), 0.0
        while len(curve) < self.config.epochs:
            over = not clock.allows(last)
            due = time.monotonic() - kept >= KEEP_SECONDS or len(curve) in self._stage_starts()
            if curve and (over or due):
                now = {
                    "trainer": dict(trainer.state_dict()),
                    "keys": labels.keys,
                    "seconds": seconds,
                    "curve": curve,
                }
                place.keep_state(self.name, key, now)
                kept = time.monotonic()
            if over:
                return False
            began = time.monotonic()
            metrics = trainer.epoch()
            last = time.monotonic() - began
            seconds += metrics.seconds
            curve.append(metrics.val_accuracy)
        place.finish(self.name, self._found(place, trainer, labels, seconds, curve))
        return True

    def _stage_starts(self) -> list[int]:
        """Epochs that begin with a release."""
        if not isinstance(self.config, LpMstConfig | StagedMomentsConfig):
            return []
        lengths = [self.config.stage_epochs(n) for n in range(self.config.stages)]
        return list(accumulate(lengths))

    def _found(
        self,
        place: Place,
        trainer: Trainer,
        labels: StepLabels,
        seconds: float,
        curve: Sequence[float],
    ) -> dict[str, Any]:
        try:
            delta, epsilon = 0.0, labels.epsilon(0.0)
        except ValueError:  # a release that holds at a positive delta only
            delta, epsilon = self.config.delta, labels.epsilon(self.config.delta)
        return {
            "step": self.name,
            "method": self.row,
            "network": self.network,
            "features": self.encoder or "images",
            "dataset": self.dataset,
            "training_images": len(place.public(self.dataset).train_features),
            "accuracy": trainer.evaluate(),
            "epsilon": epsilon,
            "delta": delta,
            "seed": self.seed,
            "noise": place.noise_words,
            "league": League.NONE.words,
            "published": self.published,
            "epochs": len(curve),
            "train_seconds": round(seconds, 1),
            "curve": list(curve),
            **{f"figure {name}": value for name, value in trainer.figures().items()},
            **facts(self.performance, commit=place.commit),
        }


def _encoded(data: PublicData, place: Place, encoder: str) -> PublicData:
    """Replace the images by the features of an encoder step."""
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


@dataclass(frozen=True, kw_only=True)
class EncoderStep:
    """An encoder trained on a data set's training images alone, and its features of all images."""

    name: str
    network: str
    dataset: str
    config: SelfSupervisedConfig
    seed: int = 0
    needs_seconds: float = 60.0
    performance: Performance = field(default=FAST)
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Train until all epochs are done or the time is over; then compute the features."""
        data, key = place.public(self.dataset), repr(self.config)
        file = place.folder / "encoders" / f"{self.name}.pt"
        seconds = [float((place.state(self.name, key) or {"seconds": 0.0})["seconds"])]
        request = PretrainRequest(
            images=data.train_features,
            out=file,
            config=self.config,
            seed=self.seed,
            seconds=max(1e-3, clock.left() - _DESCRIBING_SECONDS),
            performance=self.performance,
        )
        done = pretrain(request, told=lambda metrics: seconds.append(metrics.seconds))
        if not done.finished:
            place.keep_state(self.name, key, {"seconds": sum(seconds)})
            return False
        encoder = read_encoder(file)
        train, test = (
            described(encoder, images, performance=self.performance).numpy()
            for images in (data.train_features, data.test_features)
        )
        with replacing(place.folder / "features" / f"{self.name}.npz") as opened:
            np.savez(opened, train=train, test=test)
        found = {
            "step": self.name,
            "method": "self-supervised (VICReg)",
            "network": self.network,
            "dataset": self.dataset,
            "training_images": len(data.train_features),
            "dimensions": done.dimensions,
            "epochs": done.epochs,
            "loss": done.loss,
            "epsilon": 0.0,
            "delta": 0.0,
            "seed": self.seed,
            "noise": "none: reads no label",
            "league": League.NONE.words,
            "train_seconds": round(sum(seconds), 1),
            **facts(self.performance, commit=place.commit),
        }
        place.finish(self.name, found)
        return True


@dataclass(frozen=True, kw_only=True)
class FeaturesStep:
    """Features of random patches for moment priors: minutes of one thread that cannot pause."""

    name: str
    dataset: str
    prior: PriorSettings
    needs_seconds: float = 480.0
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Compute and keep them."""
        del clock
        data = place.public(self.dataset)
        prior_features(self.prior, data)
        found = {
            "step": self.name,
            "method": f"features: {self.prior.features}",
            "dataset": self.dataset,
            "training_images": len(data.train_features),
            "epsilon": 0.0,
            "delta": 0.0,
            "seed": self.prior.seed,
            "noise": "none: reads no label",
            "league": League.NONE.words,
            # Always on the processor: other last digits would be another release.
            **facts(Performance(device=Device.CPU), commit=place.commit),
        }
        place.finish(self.name, found)
        return True


@dataclass(frozen=True, kw_only=True)
class SpeedStep:
    """The speeds of `tests.benchmarks.gpu`, one measurement at a time."""

    seconds: float = 6.0
    sizes: Sizes = field(default_factory=Sizes)
    needs_seconds: float = 60.0  # the slowest measurement, with compilation
    name: str = "speeds"
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Measure until all is measured or the time is over."""
        watch, key = Stopwatch(self.seconds), repr(self.sizes)
        speeds: dict[str, Any] = dict((place.state(self.name, key) or {"speeds": {}})["speeds"])
        if "yardstick" not in speeds:
            speeds["yardstick"] = asdict(yardstick(watch, self.sizes))
        top = Speed(**speeds["yardstick"])
        for name, make in planned(watch, self.sizes):
            if name in speeds:
                continue
            if not clock.allows(self.needs_seconds):
                return False
            try:
                speeds[name] = asdict(make(top))
            except RuntimeError as error:  # a network that does not fit must not end the others
                speeds[name] = {"failed": str(error).splitlines()[0][:200]}
            place.keep_state(self.name, key, {"speeds": speeds})
        found = {"step": self.name, "speeds": [*speeds.values()]}
        place.finish(self.name, {**found, **facts(Performance(), commit=place.commit)})
        return True

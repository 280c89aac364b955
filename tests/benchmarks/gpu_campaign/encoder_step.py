"""An encoder that is trained on a data set's images alone, and what it says of all of them."""

from dataclasses import dataclass, field

import numpy as np

from labeldp.platform.records.private_files import replacing
from labeldp.trainers.encoders.image_encoder import read_encoder
from labeldp.trainers.encoders.pretraining import (
    Pretrained,
    PretrainingMetrics,
    PretrainRequest,
    described,
    pretrain,
)
from labeldp.trainers.encoders.provenance import League
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.training import SelfSupervisedConfig
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.machine import machine_facts
from tests.benchmarks.gpu_campaign.place import Place
from tests.benchmarks.gpu_campaign.trial_step import FAST

#: To describe all images once training is over.
_AFTERWARDS = 20.0


@dataclass(frozen=True, kw_only=True)
class EncoderStep:
    """One encoder; no label has a part in it.

    Attributes:
        name: Of the step.
        network: What the table calls it.
        dataset: On whose training images; testing ones are described, and never trained on.
        config: How it is trained.
        seed: Of training.
        needs_seconds: See `Step`.
        performance: Where and how fast.
    """

    name: str
    network: str
    dataset: str
    config: SelfSupervisedConfig
    seed: int = 0
    needs_seconds: float = 60.0
    performance: Performance = field(default=FAST)
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Train until all epochs are done, or the time is over; then describe all images."""
        data = place.public(self.dataset)
        seconds: list[float] = []

        def told(metrics: PretrainingMetrics) -> None:
            seconds.append(metrics.seconds)

        file = place.folder / "encoders" / f"{self.name}.pt"
        request = PretrainRequest(
            images=data.train_features,
            out=file,
            config=self.config,
            seed=self.seed,
            seconds=max(1e-3, clock.left() - _AFTERWARDS),
            performance=self.performance,
        )
        spent = place.state(self.name, repr(self.config)) or {"seconds": 0.0}
        done = pretrain(request, told=told)
        total = float(spent["seconds"]) + sum(seconds)
        if not done.finished:
            place.keep_state(self.name, repr(self.config), {"seconds": total})
            return False
        encoder = read_encoder(file)
        train, test = (
            described(encoder, images, performance=self.performance).numpy()
            for images in (data.train_features, data.test_features)
        )
        with replacing(place.folder / "features" / f"{self.name}.npz") as opened:
            np.savez(opened, train=train, test=test)
        self._finish(place, done, seconds=total)
        return True

    def _finish(self, place: Place, done: Pretrained, *, seconds: float) -> None:
        found = {
            "step": self.name,
            "method": "self-supervised (VICReg)",
            "network": self.network,
            "dataset": self.dataset,
            "training_images": len(place.public(self.dataset).train_features),
            "dimensions": done.dimensions,
            "epochs": done.epochs,
            "loss": done.loss,
            "epsilon": 0.0,
            "delta": 0.0,
            "seed": self.seed,
            "noise": "none: no label is asked for",
            "league": League.NONE.words,
            "train_seconds": round(seconds, 1),
        }
        place.finish(self.name, {**found, **machine_facts(self.performance, commit=place.commit)})

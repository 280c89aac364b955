"""Features of random patches, which moment priors are learned of: minutes of one thread, once.

They can't be stopped in between, and are a step of their own so that trials on them need not wait
for a call that has so long left.
"""

from dataclasses import dataclass

from labeldp.trainers.encoders.provenance import League
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import PriorSettings
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.machine import machine_facts
from tests.benchmarks.gpu_campaign.place import Place


@dataclass(frozen=True, kw_only=True)
class FeaturesStep:
    """Features of a data set's images; no label has a part in them.

    Attributes:
        name: Of the step.
        dataset: Whose images.
        prior: That is learned of them.
        needs_seconds: See `Step`.
    """

    name: str
    dataset: str
    prior: PriorSettings
    needs_seconds: float = 480.0
    after: None = None

    def advance(self, place: Place, clock: Clock) -> bool:
        """Compute and keep them, however long it takes."""
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
            "noise": "none: no label is asked for",
            "league": League.NONE.words,
            # On the processor whatever there is beside it: other last digits, another release.
            **machine_facts(Performance(device=Device.CPU), commit=place.commit),
        }
        place.finish(self.name, found)
        return True

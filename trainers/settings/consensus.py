"""Settings of consensus retraining (`consensus`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.alibi import AlibiConfig
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.settings.noise import Noise
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.consensus import Consensus


@dataclass(frozen=True, kw_only=True)
class ConsensusConfig(LearnerConfig, TrainerDefaults):
    """Settings of consensus retraining on ALIBI or randomized response.

    Attributes:
        noise: What is done to the labels: RANDOMIZED_RESPONSE, or LAPLACE and GAUSSIAN for ALIBI.
        epsilon: Privacy loss per label; retraining adds nothing.
        delta: At which epsilon holds; used by GAUSSIAN only.
        retrain_epochs: How many of the epochs belong to the second round.
    """

    noise: Noise = Noise.LAPLACE
    epsilon: float = 1.0
    delta: float = USUAL_DELTA
    retrain_epochs: int = 15

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        if self.noise is Noise.NONE:
            raise ValueError("noise is none; labels without noise need no consensus")
        _validate.whole(minimum=1, retrain_epochs=self.retrain_epochs)
        if self.retrain_epochs >= self.epochs:
            raise ValueError(
                f"retrain_epochs is {self.retrain_epochs} of {self.epochs} epochs; both rounds "
                "need at least one"
            )
        self.first()

    def first(self) -> AlibiConfig:
        """Return the settings of the first round."""
        own = vars(self.learner(epochs=self.epochs - self.retrain_epochs))
        return AlibiConfig(**own, noise=self.noise, epsilon=self.epsilon, delta=self.delta)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: that of the first round, and its release."""
        return self.first().planned_charge(num_classes=num_classes, seed=seed)

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "Consensus":
        """Ask for the release and set the first round up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.alibi import Alibi
        from labeldp.trainers.methods.consensus import Consensus

        first = self.first()
        release = labels.release(first.mechanism(data.num_classes))
        # A noisy vector's largest entry is its likeliest class, by all mechanisms there are.
        noisy = release.values if release.values.ndim == 1 else release.values.argmax(1)
        rows = np.arange(len(noisy))
        return Consensus(
            Alibi(first, data=data, release=release, seed=seed, performance=performance),
            noisy=lambda: (rows, noisy),
            first_epochs=first.epochs,
            second=self.learner(epochs=self.retrain_epochs),
            data=data,
            seed=seed,
            performance=performance,
        )

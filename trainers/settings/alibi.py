"""Settings of ALIBI (`alibi`), and of the simpler methods that it is compared with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.settings.noise import LabelMechanism, Noise, label_mechanism
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.alibi import Alibi

__all__ = ["AlibiConfig", "Noise"]


@dataclass(frozen=True, kw_only=True)
class AlibiConfig(LearnerConfig, TrainerDefaults):
    """Settings of ALIBI, and of the simpler methods that it is compared with.

    Attributes:
        noise: What is done to the labels; NONE trains on them as they are.
        epsilon: Privacy loss per label; NONE does not look at it. With LAPLACE it is 2 / lambda, of
            the paper's scale lambda, and `trainer.lambda=X` sets it so.
        delta: At which epsilon holds; used by GAUSSIAN only, the others are pure.
        post_processing: How the release becomes soft labels; NONE does not look at it.
    """

    noise: Noise = Noise.LAPLACE
    epsilon: float = 1.0
    delta: float = USUAL_DELTA
    post_processing: PostProcessing = PostProcessing.MAP_WITH_PRIOR

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        if self.noise is not Noise.NONE:
            self.recipe.refuse_smoothing(f"noise is {self.noise}")

    def mechanism(self, num_classes: int) -> LabelMechanism:
        """Return what is done to the labels of K classes."""
        return label_mechanism(
            self.noise, epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all who ask for the same noise."""
        del seed  # of training, which does not touch the labels
        mechanism = self.mechanism(num_classes)
        return PlannedCharge.of(mechanism)

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "Alibi":
        """Ask for the release and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.alibi import Alibi

        release = labels.release(self.mechanism(data.num_classes))
        return Alibi(self, data=data, release=release, seed=seed, performance=performance)

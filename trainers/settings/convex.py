"""Settings of projected SGD for logistic regression (`convex`)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.noise import LabelMechanism, Noise, label_mechanism
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.convex import Convex


class Iterate(StrEnum):
    """Which weights the method returns: the LAST, as in the paper, or the AVERAGE of all steps."""

    LAST = "last"
    AVERAGE = "average"


@dataclass(frozen=True, kw_only=True)
class ConvexConfig(TrainerDefaults):
    """Settings of projected SGD for logistic regression.

    Attributes:
        noise: RANDOMIZED_RESPONSE is LP-RR-SGD, GAUSSIAN LP-Normal-SGD, LAPLACE the latter's pure
            sibling, NONE plain SGD.
        epsilon: Privacy loss per label; NONE does not look at it.
        delta: At which epsilon holds; used by GAUSSIAN only.
        diameter: D of the ball around 0 that weights are projected to, for features of mean squared
            norm 1.
        step_factor: What the steps D / (G sqrt(t)) of the theorems are multiplied by.
        batch_size: Examples in a step; 1 in the paper.
        epochs: Passes; the theorems speak of one. More cost no privacy, for no noise is new.
        iterate: Which weights predict.
    """

    noise: Noise = Noise.RANDOMIZED_RESPONSE
    epsilon: float = 1.0
    delta: float = USUAL_DELTA
    diameter: float = 50.0
    step_factor: float = 1.0
    batch_size: int = 16
    epochs: int = 1
    iterate: Iterate = Iterate.AVERAGE

    def __post_init__(self) -> None:
        """Check every field."""
        _validate.members(self)
        _validate.positive(
            epsilon=self.epsilon, diameter=self.diameter, step_factor=self.step_factor
        )
        _validate.between(0, 1, delta=self.delta)
        _validate.whole(minimum=1, batch_size=self.batch_size, epochs=self.epochs)

    def mechanism(self, num_classes: int) -> LabelMechanism:
        """Return what is done to the labels of K classes."""
        return label_mechanism(
            self.noise, epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all who ask for the same noise."""
        del seed  # of the order of examples
        mechanism = self.mechanism(num_classes)
        return PlannedCharge.of(mechanism)

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "Convex":
        """Ask for the release; training runs on the CPU whatever `performance` says of devices.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
        """
        from labeldp.trainers.methods.convex import Convex

        performance.limit_threads()
        return Convex(
            self, data=data, release=labels.release(self.mechanism(data.num_classes)), seed=seed
        )

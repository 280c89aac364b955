"""Settings of learning from flipped bits (`bit_flip`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.bit_flip import BitFlipTrainer


@dataclass(frozen=True, kw_only=True)
class BitFlipConfig(LearnerConfig, TrainerDefaults):
    """Settings of learning from flipped bits.

    Attributes:
        epsilon: Privacy loss per label.
    """

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        self.recipe.refuse_smoothing("bits of the labels are flipped")

    @property
    def delta(self) -> float:
        """The release is pure."""
        return 0.0

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all who ask for the same flips."""
        del seed
        mechanism = BitFlip(epsilon=self.epsilon, num_classes=num_classes)
        return PlannedCharge.of(mechanism)

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "BitFlipTrainer":
        """Ask for the bits and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.bit_flip import BitFlipTrainer

        mechanism = BitFlip(epsilon=self.epsilon, num_classes=data.num_classes)
        bits = labels.release(mechanism).values
        return BitFlipTrainer(self, data=data, bits=bits, seed=seed, performance=performance)

"""Learning from bit-flipped one-hot labels: K sigmoids, each told by its own noisy bit.

Zhao et al., "Enhancing Learning with Label Differential Privacy by Vector Approximation", ICLR
2025. A sigmoid that regresses noisy bits learns how often bit j is set among similar examples,
q + (1 - 2 q) Pr[class j], with q the probability of a flip: the largest one is the likeliest class.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.trainers.data import PublicData
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.one_network import OneNetwork
from labeldp.trainers.performance import Performance
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults


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
        self, *, data: PublicData, labels: LabelSource, seed: int, performance: Performance
    ) -> "BitFlipTrainer":
        """Ask for the bits and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        mechanism = BitFlip(epsilon=self.epsilon, num_classes=data.num_classes)
        bits = labels.release(mechanism).values
        return BitFlipTrainer(self, data=data, bits=bits, seed=seed, performance=performance)


class BitFlipTrainer(OneNetwork):
    """A network of K sigmoids, trained on one release of flipped bits."""

    def __init__(
        self,
        config: BitFlipConfig,
        *,
        data: PublicData,
        bits: NDArray[np.uint8],
        seed: int,
        performance: Performance,
    ) -> None:
        """Set up the first epoch.

        Args:
            config: Settings.
            data: Public features and test split.
            bits: The release [N, K].
            seed: Of initial weights, order and augmentation.
            performance: Where and how fast.
        """
        super().__init__(Learner(config, data=data, seed=seed, performance=performance))
        self._bits = torch.from_numpy(np.array(bits)).to(self._learner.device)

    def predict(self, features: torch.Tensor) -> NDArray[np.float32]:
        """Scores of the classes [N, K] for unaugmented features, made to sum to 1.

        The softmax of the sigmoids' logits: the same order, rows that sum to 1.
        """
        return super().predict(features)

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of the bits, summed over the K of them."""
        bits = self._bits[rows].float()
        summed = functional.binary_cross_entropy_with_logits(logits, bits, reduction="none").sum(1)
        return summed.mean()

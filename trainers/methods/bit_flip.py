"""Learning from bit-flipped one-hot labels: K sigmoids, each told by its own noisy bit.

Zhao et al., "Enhancing Learning with Label Differential Privacy by Vector Approximation", ICLR
2025. A sigmoid that regresses noisy bits learns how often bit j is set among similar examples,
q + (1 - 2 q) Pr[class j], with q the probability of a flip: the largest one is the likeliest class.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.one_network import OneNetwork
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.methods import BitFlipConfig
from labeldp.trainers.trainer import LabelSource


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
        """Set up the first epoch."""
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


def start(
    config: BitFlipConfig,
    *,
    data: PublicData,
    labels: LabelSource,
    seed: int,
    performance: Performance,
) -> BitFlipTrainer:
    """Request the bits and set the network up."""
    mechanism = BitFlip(epsilon=config.epsilon, num_classes=data.num_classes)
    bits = labels.release(mechanism).values
    return BitFlipTrainer(config, data=data, bits=bits, seed=seed, performance=performance)

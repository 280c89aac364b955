"""FixMatch's loss and learning rate as plain functions.

Sohn et al. 2020, arXiv:2001.07685, equations 3 and 4.

>>> import torch
>>> sure, unsure = [8.0, 0.0], [1.0, 0.0]
>>> parts = fixmatch_loss(
...     logits_labeled=torch.tensor([sure]), labels=torch.tensor([0]),
...     logits_weak=torch.tensor([sure, unsure]), logits_strong=torch.tensor([unsure, unsure]),
...     threshold=0.95,
... )
>>> round(float(parts.confident), 3), round(float(parts.unlabeled), 3)
(0.5, 0.157)
"""

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class FixMatchLoss:
    """The parts of one step's loss, each a single number.

    Training takes `total`. The others say, to who trains by hand or compares with another
    implementation, what it is made of; no record has them.

    Attributes:
        total: What is minimized.
        labeled: Cross-entropy on the labeled examples.
        unlabeled: Cross-entropy of strong views to pseudo-labels, averaged over all unlabeled
            examples; those below the threshold count as 0.
        confident: Share of unlabeled examples above the threshold.
    """

    total: Tensor
    labeled: Tensor
    unlabeled: Tensor
    confident: Tensor


def fixmatch_loss(
    *,
    logits_labeled: Tensor,
    labels: Tensor,
    logits_weak: Tensor,
    logits_strong: Tensor,
    threshold: float,
    temperature: float = 1.0,
    unlabeled_weight: float = 1.0,
) -> FixMatchLoss:
    """Pull strong views to what the network is sure of on weak views.

    Args:
        logits_labeled: [B, K].
        labels: int64 [B].
        logits_weak: [U, K]; no gradient flows through them.
        logits_strong: Of the same examples [U, K].
        threshold: Probability that a pseudo-label needs to count.
        temperature: Divides the weak logits first.
        unlabeled_weight: lambda_u.
    """
    labeled = functional.cross_entropy(logits_labeled, labels)
    probability, pseudo_labels = (logits_weak.detach() / temperature).softmax(1).max(1)
    confident = (probability >= threshold).float()
    distances = functional.cross_entropy(logits_strong, pseudo_labels, reduction="none")
    unlabeled = (distances * confident).mean()
    return FixMatchLoss(
        total=labeled + unlabeled_weight * unlabeled,
        labeled=labeled,
        unlabeled=unlabeled,
        confident=confident.mean(),
    )


def cosine_factor(step: int, *, steps: int) -> float:
    """What the learning rate is multiplied by: cos(7 pi step / (16 steps)), 1 down to 0.195.

    Args:
        step: Counted from 0.
        steps: Of the whole training.
    """
    return math.cos(7 * math.pi * step / (16 * steps))

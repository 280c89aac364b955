"""Losses for labels that a mechanism may have changed, with what changed them taken into account.

Three answers to the same question, how a network learns from label y~ when the true one is y:
CROSS_ENTROPY takes y~ for y; DEBIASED is, on average over the noise, the cross-entropy of the true
label (Ghazi et al., NeurIPS 2021, appendices F and G); FORWARD sends the prediction through the
mechanism and scores what comes out, -log sum_c p_c Pr[y~ | c] (Patrini et al., CVPR 2017). The
gradient of the last is that of ALIBI: the posterior under the model's own prediction.

>>> mechanism, uniform = RRWithPrior(epsilon=1.0), np.full((1, 3), 1 / 3)
>>> evidence_of(np.array([1]), uniform, mechanism, RobustLoss.DEBIASED).round(3)
array([[-0.582,  2.164, -0.582]], dtype=float32)
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.debiased_loss import debiased_loss_weights
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.models.schedules import soft_cross_entropy

if TYPE_CHECKING:  # settings are read without it
    from torch import Tensor


class RobustLoss(StrEnum):
    """How noisy labels are learned from; the module's first lines say what each does.

    FORWARD uses most of what is known. DEBIASED has a large variance at a small epsilon, and is
    not bounded below: it wants few epochs or strong weight decay.
    """

    CROSS_ENTROPY = "cross_entropy"
    DEBIASED = "debiased"
    FORWARD = "forward"


def evidence_of(
    noisy: NDArray[np.int64], prior: NDArray[Any], mechanism: RRWithPrior, loss: RobustLoss
) -> NDArray[np.float32]:
    """Turn released labels [M] into the targets of `robust_loss` [M, K].

    They are weights of the classes, or their log-likelihood for FORWARD. The prior [M, K] is that
    of the release, uniform for plain randomized response.
    """
    if loss is RobustLoss.FORWARD:
        return mechanism.log_likelihood(noisy, prior).astype(np.float32)
    index = np.arange(len(noisy))
    weights = np.zeros(prior.shape)
    if loss is RobustLoss.CROSS_ENTROPY:
        weights[index, noisy] = 1
        return weights.astype(np.float32)
    possible = mechanism.outputs(prior)
    counts = possible.sum(1)
    for k in np.unique(counts).tolist():
        rows = index[counts == k]
        # One possible output says nothing about the label, and there is nothing to take back.
        own, shared = (
            (1.0, 0.0)
            if k == 1
            else debiased_loss_weights(epsilon=mechanism.epsilon, num_classes=k)
        )
        weights[rows] = -shared * possible[rows]
        weights[rows, noisy[rows]] += own
    return weights.astype(np.float32)


def robust_loss(loss: RobustLoss, logits: "Tensor", evidence: "Tensor") -> "Tensor":
    """Mean loss of a batch of logits [B, K]; `evidence` are its rows of `evidence_of`."""
    log_probabilities = logits.log_softmax(1)
    if loss is RobustLoss.FORWARD:
        return -(log_probabilities + evidence).logsumexp(1).mean()
    return soft_cross_entropy(log_probabilities, evidence)

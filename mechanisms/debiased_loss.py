"""A loss on randomized-response labels that is, on average, the loss on the true labels.

Eq. (7) of Ghazi et al., "Deep Learning with Label Differential Privacy", NeurIPS 2021 (appendix F),
as in appendix D.1 of "LabelDP-Pro", ICLR 2024. Randomized response keeps a label or, with
probability p = K / (e^epsilon + K - 1), draws it uniformly from all K; hence
(loss of the noisy label - p * mean loss over all classes) / (1 - p) is unbiased. The price is
variance: at a small epsilon the two terms are large and of opposite sign.

>>> losses = np.array([[0.1, 2.0, 3.0]])
>>> debiased_loss(losses, np.array([0]), epsilon=1.0).round(3)
array([-2.693])
"""

import math
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms._arrays import AnyArray, is_torch


def debiased_loss_weights(*, epsilon: float, num_classes: int) -> tuple[float, float]:
    """Factors (a, b) of the unbiased loss a * loss[noisy label] - b * sum of all K losses.

    a = (e^epsilon + K - 1) / (e^epsilon - 1) and b = 1 / (e^epsilon - 1).
    """
    _validate.positive(epsilon=epsilon)
    _validate.whole(num_classes=num_classes, minimum=2)
    rest = -math.expm1(-epsilon)
    return (1 + (num_classes - 1) * math.exp(-epsilon)) / rest, math.exp(-epsilon) / rest


def debiased_loss(losses: AnyArray, noisy_labels: AnyArray, *, epsilon: float) -> AnyArray:
    """Unbiased estimates [N] of the losses on the true labels; gradients flow through `losses`.

    `losses` [N, K] are those of every example under each class as its label, for instance
    -log_softmax(logits). Noisy labels outside 0..K-1 are refused, on an accelerator by itself.
    """
    if losses.ndim != 2 or tuple(noisy_labels.shape) != tuple(losses.shape[:1]):
        raise ValueError(
            f"losses has shape {tuple(losses.shape)} and noisy_labels "
            f"{tuple(noisy_labels.shape)}; they must be [N, K] and [N]"
        )
    num_classes = int(losses.shape[1])
    own, shared = debiased_loss_weights(epsilon=epsilon, num_classes=num_classes)
    values: Any = losses
    chosen: Any = noisy_labels
    if not is_torch(chosen) or chosen.device.type == "cpu":
        _validate.labels(chosen, num_classes=num_classes, name="noisy_labels")
    if is_torch(losses):
        picked = values.gather(1, chosen.long()[:, None])[:, 0]
    else:
        picked = values[np.arange(len(values)), chosen]
    result: AnyArray = own * picked - shared * values.sum(1)
    return result

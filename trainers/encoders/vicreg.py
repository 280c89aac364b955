"""VICReg: two views alike, numbers that vary, and none that says what another one says.

Bardes, Ponce and LeCun, "VICReg: Variance-Invariance-Covariance Regularization for Self-Supervised
Learning", ICLR 2022, equations 1 to 6. No pair of images is told to differ: that descriptions do
not all become one is what variance and covariance are for.

>>> same = Tensor([[1.0, 0.0], [0.0, 1.0]])
>>> parts = vicreg(same, same, invariance=25.0, variance=0.0, covariance=0.0)
>>> float(parts)
0.0
"""

import math

from torch import Tensor
from torch.nn import functional

#: Under the root of a variance, whose slope would be infinite at 0.
_LEAST_VARIANCE = 1e-4


def vicreg(
    first: Tensor, second: Tensor, *, invariance: float, variance: float, covariance: float
) -> Tensor:
    """Return the loss of two batches of descriptions.

    Args:
        first: Of one view of each image, single precision [B, D]; B of 2 at least.
        second: Of the other view, likewise.
        invariance: Weight of the mean squared distance of an image's two descriptions.
        variance: Weight of how far standard deviations over the batch are below 1.
        covariance: Weight of the squared covariances of different numbers.
    """
    spread = first.new_zeros(())
    common = first.new_zeros(())
    for rows in (first, second):
        centered = rows - rows.mean(0)
        deviations = (centered.square().sum(0) / (len(rows) - 1) + _LEAST_VARIANCE).sqrt()
        spread = spread + functional.relu(1 - deviations).mean() / 2
        products = centered.mT @ centered / (len(rows) - 1)
        others = products.square().sum() - products.diagonal().square().sum()
        common = common + others / rows.shape[1]
    apart = (first - second).square().mean()
    return invariance * apart + variance * spread + covariance * common


def loss_of_constant(*, variance: float) -> float:
    """Return the loss of descriptions that are the same for every image."""
    return variance * (1 - math.sqrt(_LEAST_VARIANCE))

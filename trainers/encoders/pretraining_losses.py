"""Losses of views [V, B, D]: V vectors of each of B images, which should agree and say much.

All of them weigh as published, up to a common factor that lets one learning rate fit.
"""

import torch
from torch import Tensor
from torch.nn import functional

from labeldp.trainers.settings.training import PretrainingLoss

#: VICReg: weights of invariance, variance and covariance.
_VICREG = (25.0, 25.0, 1.0)
#: Under the root of a variance, whose slope would be infinite at 0.
_LEAST_VARIANCE = 1e-4
#: Coding rate: the weight of agreement, and the squared precision of the code.
_AGREEMENT, _PRECISION = 200.0, 0.2
#: SimCLR: divides cosines.
_TEMPERATURE = 0.5


def loss_of(name: PretrainingLoss, views: Tensor) -> Tensor:
    """Return a loss of vectors [V, B, D], V and B >= 2, single precision."""
    match name:
        case PretrainingLoss.VICREG:
            return vicreg(views)
        case PretrainingLoss.CODING_RATE:
            return coding_rate(views)
        case PretrainingLoss.SIMCLR:
            return simclr(views)


def vicreg(views: Tensor) -> Tensor:
    """Return VICReg's loss (Bardes, Ponce and LeCun, ICLR 2022, equations 1 to 6).

    It weighs the mean squared distance between two vectors of an image, how far standard deviations
    over the batch are below 1, and squared covariances of different numbers; for two views of each
    image the paper's, for more the mean over all pairs.
    """
    count, images, dimensions = views.shape
    invariance, variance, covariance = _VICREG
    centered = views - views.mean(1, keepdim=True)
    deviations = (centered.square().sum(1) / (images - 1) + _LEAST_VARIANCE).sqrt()
    products = centered.mT @ centered / (images - 1)
    others = products.square().sum() - products.diagonal(dim1=1, dim2=2).square().sum()
    return (
        invariance * 2 * views.var(0).mean()  # of all pairs, half their mean squared distance
        + variance * functional.relu(1 - deviations).mean()
        + covariance * 2 * others / count / dimensions
    )


def coding_rate(views: Tensor) -> Tensor:
    """Return EMP-SSL's loss (Tong, Chen, Ma and LeCun, arXiv:2304.03977, section 2).

    Each view's vectors of unit length should need many nats to code (Yu et al., "Learning Diverse
    and Discriminative Representations", NeurIPS 2020), and each vector should point to the mean of
    its image's.
    """
    _, images, dimensions = views.shape
    units = functional.normalize(views, dim=2)
    # Both products have the same nonzero eigenvalues.
    gram = units @ units.mT if images < dimensions else units.mT @ units
    identity = torch.eye(gram.shape[1], device=views.device)
    # Half the logarithm of the determinant.
    factor: Tensor = torch.linalg.cholesky(identity + dimensions / images / _PRECISION * gram)
    nats = factor.diagonal(dim1=1, dim2=2).log().sum(1).mean()
    agreement = functional.cosine_similarity(units, units.mean(0, keepdim=True), dim=2).mean()
    return 25 * (1 - agreement - nats / _AGREEMENT)


def simclr(views: Tensor) -> Tensor:
    """Return SimCLR's loss (Chen et al., ICML 2020, equation 1), for more views the mean over all.

    A vector should tell the other views of its image from those of the other images.
    """
    count, images, _ = views.shape
    units = functional.normalize(views.flatten(0, 1), dim=1)
    near = units @ units.mT / _TEMPERATURE
    itself = torch.eye(len(units), dtype=torch.bool, device=views.device)
    logs = near.masked_fill(itself, -torch.inf).log_softmax(1)
    image = torch.arange(images, device=views.device).repeat(count)
    same = (image[:, None] == image) & ~itself
    return -logs[same].mean()

"""From a release of labels to what a loss needs: soft labels for each batch.

Two kinds of targets. Bayes' rule under the model's own prediction changes with the model, and is
worked out anew for every batch; every other rule gives soft labels that stay.

>>> mechanism = LaplaceNoise(epsilon=2.0, num_classes=3)
>>> released = mechanism.release(np.array([2, 0]), generator=np.random.default_rng(7))
>>> targets = targets_of(released, mechanism, PostProcessing.MAP_WITH_PRIOR)
>>> targets.batch(torch.tensor([0, 1]), log_prior=torch.zeros(2, 3)).shape
torch.Size([2, 3])
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.posterior import PostProcessing, posterior, soft_labels
from labeldp.mechanisms.randomized_response import NoNoise, RandomizedResponse
from labeldp.trainers.settings.noise import LabelMechanism


@dataclass(frozen=True, kw_only=True)
class FixedTargets:
    """Soft labels that stay as they are.

    Attributes:
        soft_labels: Probabilities [M, K], in the order of the release.
    """

    soft_labels: Tensor

    def batch(self, rows: Tensor, *, log_prior: Tensor) -> Tensor:
        """Return the targets of these rows [B] of the release, [B, K]."""
        del log_prior
        return self.soft_labels[rows]


@dataclass(frozen=True, kw_only=True)
class BayesTargets:
    """Posteriors under the model's prediction, worked out when a batch is trained on.

    Attributes:
        log_likelihood: Of every class [M, K], in the order of the release.
    """

    log_likelihood: Tensor

    def batch(self, rows: Tensor, *, log_prior: Tensor) -> Tensor:
        """Return the targets of these rows [B] under the prior [B, K], as constants [B, K]."""
        return posterior(self.log_likelihood[rows], log_prior.detach())


Targets = FixedTargets | BayesTargets


def targets_of(
    values: NDArray[Any],
    mechanism: LabelMechanism,
    post_processing: PostProcessing,
    *,
    device: torch.device | None = None,
    smoothing: float = 0.0,
) -> Targets:
    """Turn a release into targets, in single precision on the device.

    Args:
        values: Noisy vectors [M, K] of additive noise, or labels [M].
        mechanism: What made them.
        post_processing: The rule. Labels count as one-hot vectors where it looks at vectors; labels
            without noise are taken as they are by every rule.
        device: Where the targets go; the CPU if not given.
        smoothing: Share of each label without noise that is spread over all classes; noisy ones
            have none of it.

    Raises:
        ValueError: Values that the mechanism can't have made, or that are not finite.
    """
    noisy = _vectors(values, mechanism)
    if isinstance(mechanism, NoNoise):
        spread = (1 - smoothing) * noisy + smoothing / mechanism.num_classes
        return FixedTargets(soft_labels=_single(spread if smoothing else noisy, device))
    additive = isinstance(mechanism, LaplaceNoise | GaussianNoise)
    log_likelihood = mechanism.log_likelihood(noisy if additive else values)
    if post_processing.uses_prior:
        return BayesTargets(log_likelihood=_single(log_likelihood, device))
    uniform = np.zeros(mechanism.num_classes)
    fixed = soft_labels(
        post_processing, noisy=noisy, log_likelihood=log_likelihood, log_prior=uniform
    )
    return FixedTargets(soft_labels=_single(fixed, device))


def _vectors(values: NDArray[Any], mechanism: LabelMechanism) -> NDArray[np.float64]:
    """Noisy vectors as they are, labels as one-hot vectors [M, K]."""
    classes = mechanism.num_classes
    name = type(mechanism).__name__
    if isinstance(mechanism, RandomizedResponse | NoNoise):
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer):
            raise ValueError(
                f"the release has shape {values.shape} of {values.dtype}; {name} releases whole "
                "numbers [M]"
            )
        inside = (values >= 0) & (values < classes)
        if not inside.all():
            row = int(np.flatnonzero(~inside)[0])
            raise ValueError(
                f"the release has label {values[row]} in row {row}; {name} of {classes} classes "
                f"releases 0..{classes - 1}"
            )
        one_hot: NDArray[np.float64] = np.eye(classes)[values]
        return one_hot
    if values.ndim != 2 or values.shape[1] != classes:
        raise ValueError(
            f"the release has shape {values.shape}; {name} of {classes} classes releases "
            f"[M, {classes}]"
        )
    finite = np.isfinite(values).all(1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise ValueError(f"the release is not finite in row {row}: {values[row]}")
    return values.astype(np.float64)


def _single(values: NDArray[Any], device: torch.device | None) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32)).to(device)

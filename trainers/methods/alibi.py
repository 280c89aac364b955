"""ALIBI: additive noise on one-hot labels, and Bayes' rule with the model itself as the prior.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 4.
Each label is released once, with noise; all that follows is post-processing. In every step the
network's prediction for an example is the prior, its noisy label the evidence, and the posterior is
the target that the prediction is pulled to. The gradient is that of the likelihood of the release
itself, -log sum_c p_c L_c: the same as one step of expectation maximization per batch.

`AlibiPrior` adds a prior beside the model's own: likelihood x prior^w x prediction^(1 - w). Its
settings `AlibiPriorConfig` spend a share of the budget on the prior and the rest on noisy labels;
`PriorLabelsConfig` spends all of it on the prior, which is best at a small epsilon. The weight w
starts at 1, since an untrained model knows nothing, and falls to

    information of the prior / (information of the prior + pooled * information of a noisy label),

information being the mean divergence from uniform, as the releases themselves show it: a model
pools the labels of examples that look alike, and once these say more than the prior, the prior is
in the way. It is a rule of thumb, and costs nothing: it looks at releases only.

`BitFlipTrainer` learns from bit-flipped one-hot labels with K sigmoids (Zhao et al., "Enhancing
Learning with Label Differential Privacy by Vector Approximation", ICLR 2025). A sigmoid that
regresses noisy bits learns how often bit j is set among similar examples, q + (1 - 2 q) Pr[class
j], with q the probability of a flip: the largest one is the likeliest class.
"""

import math
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from labeldp.mechanisms import _validate
from labeldp.mechanisms.channels import StaircaseChannel
from labeldp.mechanisms.posterior import PostProcessing, posterior, soft_labels
from labeldp.mechanisms.randomized_response import BitFlip, NoNoise, RandomizedResponse
from labeldp.trainers.methods.priors import learned_prior
from labeldp.trainers.methods.settings import (
    AlibiConfig,
    AlibiPriorConfig,
    BitFlipConfig,
    LabelMechanism,
    Noise,
    PriorLabelsConfig,
)
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.optimization import soft_cross_entropy
from labeldp.trainers.settings.trainer import Given, released, without_labels
from labeldp.trainers.settings.training import EpochMetrics


def targets_of(
    values: NDArray[Any],
    mechanism: LabelMechanism,
    post_processing: PostProcessing,
    *,
    smoothing: float = 0.0,
) -> Tensor:
    """Return the rows [M, K] that a network learns from, in single precision.

    They are soft labels; with a rule that uses a prior, log-likelihoods of every class.

    `values` are noisy vectors [M, K], sets of classes bool [M, K], or labels [M], which count as
    one-hot vectors where the rule looks at vectors. Labels without noise are taken as they are by
    every rule, but for the share that `smoothing` spreads over all classes.
    """
    classes = mechanism.num_classes
    of_labels = isinstance(mechanism, RandomizedResponse | NoNoise)
    if of_labels:
        noisy = np.eye(classes)[_validate.labels(values, num_classes=classes, name="the release")]
    else:
        noisy = values.astype(np.float64)
        if noisy.shape[1:] != (classes,) or not np.isfinite(noisy).all():
            raise ValueError(
                f"the release has shape {noisy.shape}; {type(mechanism).__name__} of {classes} "
                f"classes releases finite numbers [M, {classes}]"
            )
    if isinstance(mechanism, NoNoise):
        return _single((1 - smoothing) * noisy + smoothing / classes)
    log_likelihood = mechanism.log_likelihood(values if of_labels else noisy)
    if post_processing.uses_prior:
        return _single(log_likelihood)
    return _single(soft_labels(post_processing, noisy=noisy, log_likelihood=log_likelihood))


#: Of expectation maximization.
_ROUNDS = 100
#: A class is rare if it has less than this part of an even share.
_RARE = 0.5


def gradient_scale(log_likelihood: Tensor) -> float:
    """Return the factor on the loss of a release [M, K] by which it pulls like true labels.

    A network that predicts every class alike gets a gradient posterior - 1/K on its logits. With
    noise that is short (a 30th at 100 classes and epsilon 2), and the weights shrink before
    they learn. The factor gives it the mean square length of the gradient of true labels. It looks
    at the release alone.
    """
    classes = log_likelihood.shape[1]
    squared = float(log_likelihood.double().softmax(1).square().sum(1).mean()) - 1 / classes
    return math.sqrt((1 - 1 / classes) / squared) if squared > 0 else 1.0


def class_shares(log_likelihood: Tensor) -> Tensor:
    """Return the shares of the classes [K] that make a release [N, K] likely.

    None is below their error: a class that seems to be absent may occur. With its own prediction as
    the prior, a network can unlearn a rare class in its first steps: no label outweighs that later.
    With shares as the prior at first, it can't.
    """
    shares = torch.full_like(log_likelihood[0], 1 / log_likelihood.shape[1])
    for _ in range(_ROUNDS):
        shares = posterior(log_likelihood, shares.log()).mean(0)
    shares = shares.clamp(min=0.5 / math.sqrt(len(log_likelihood)))
    return shares / shares.sum()


def _single(values: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


class Alibi(Learner):
    """A network trained on one noisy release of the labels."""

    def __init__(self, config: AlibiConfig, **given: Unpack[Given]) -> None:
        data = given["data"]
        labels = given["labels"]
        mechanism = config.mechanism(data.num_classes)
        release = released(labels, mechanism, data)
        #: Noisy labels [M], vectors [M, K], or sets of classes bool [M, K].
        self.noisy = release.values
        super().__init__(config, loss=self._loss, examples=release.indices, **without_labels(given))
        self._rows = targets_of(
            release.values,
            mechanism,
            config.post_processing,
            smoothing=config.recipe.label_smoothing,
        ).to(self.device)
        self._bayes = config.post_processing.uses_prior and config.noise is not Noise.NONE
        self._log_shares: Tensor | None = None
        # Of the shares; on the device, where a recorded step finds that of a later epoch.
        self._weight = torch.ones((), dtype=torch.float64, device=self.device)
        if self._bayes and config.recipe.start_at_shares:
            shares = class_shares(self._rows)
            # Even classes are not unlearned, and learn faster by the network's own prediction.
            # The release alone decides, so that this is post-processing.
            if shares.min() < _RARE / len(shares):
                self._log_shares = shares.log()
        even = self._bayes and config.recipe.even_gradient
        self._scale = gradient_scale(self._rows) if even else 1.0

    def noisy_labels(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the examples [M] and their noisy labels [M], or sets bool [M, K]."""
        noisy = self.noisy
        # A vector's largest entry is its likeliest class, by all mechanisms there are.
        if np.issubdtype(noisy.dtype, np.floating):
            noisy = noisy.argmax(1)
        return np.arange(len(noisy)), noisy

    def epoch(self) -> EpochMetrics:
        """Train for one epoch, and evaluate."""
        self._weight.fill_(1 - self.epoch_number / self.config.epochs)
        return super().epoch()

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy to the targets; prior and prediction are one forward pass."""
        log_probabilities = logits.log_softmax(1)
        targets = self._rows[rows]
        if self._bayes:
            # Without a gradient: through the target, a network would confirm itself.
            prior = log_probabilities.detach()
            if self._log_shares is not None:
                prior = self._weight * self._log_shares + (1 - self._weight) * prior
            targets = posterior(targets, prior)
        return self._scale * soft_cross_entropy(log_probabilities, targets)


#: Into how many groups of examples that look alike a model divides a data set, roughly: it pools
#: the labels of a group, 100 of them where there are 60,000 examples.
GROUPS = 600
#: Fraction of the epochs in which the weight falls from 1 to its last value.
_FALLING = 0.4


class AlibiPrior(Learner):
    """A network that learns from the posterior of noisy labels under a prior and itself."""

    def __init__(
        self, config: AlibiPriorConfig | PriorLabelsConfig, **given: Unpack[Given]
    ) -> None:
        """Request the prior, then the noisy labels if there are any, and set up the first epoch."""
        data = given["data"]
        labels = given["labels"]
        # Without noisy labels all of epsilon is for the prior.
        spent = config.epsilon
        if isinstance(config, AlibiPriorConfig):
            spent, _ = config.prior.split(config.epsilon)
        prior = learned_prior(config.prior, data, labels, epsilon=spent, delta=config.delta)
        # Zero is a release that says nothing: the posterior is the prior then.
        log_likelihood = torch.zeros(prior.shape)
        if isinstance(config, AlibiPriorConfig):
            mechanism = config.mechanism(data.num_classes)
            if isinstance(mechanism, StaircaseChannel):
                values = labels.release(mechanism, prior).values
                log_likelihood = _single(mechanism.log_likelihood(values))
            else:
                values = labels.release(mechanism).values
                log_likelihood = targets_of(values, mechanism, PostProcessing.MAP_WITH_PRIOR)
        super().__init__(config, loss=self._loss, **without_labels(given))
        self._falling = _FALLING * config.epochs
        self._now = torch.ones((), dtype=torch.float64, device=self.device)
        alone = isinstance(config, PriorLabelsConfig)
        self.weight = 1.0 if alone else weight_of_prior(prior, log_likelihood)
        self._log_likelihood = log_likelihood.to(self.device)
        self._log_prior = torch.from_numpy(np.log(prior).astype(np.float32)).to(self.device)

    def figures(self) -> dict[str, float]:
        """Return the weight that the prior's falls to."""
        return {"prior_weight": self.weight}

    def epoch(self) -> EpochMetrics:
        """Train for one epoch, and evaluate."""
        done = min(1.0, self.epoch_number / self._falling)
        self._now.fill_(1 - (1 - self.weight) * done)
        return super().epoch()

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        log_probabilities = logits.log_softmax(1)
        mixed = self._now * self._log_prior[rows] + (1 - self._now) * log_probabilities.detach()
        targets = posterior(self._log_likelihood[rows], mixed)
        return soft_cross_entropy(log_probabilities, targets)


def weight_of_prior(prior: NDArray[np.float64], log_likelihood: Tensor) -> float:
    """Return the weight of a prior [N, K] beside noisy labels of this log-likelihood [N, K]."""
    of_prior = _information(prior)
    of_labels = _information(log_likelihood.double().softmax(1).cpu().numpy())
    if of_prior + of_labels == 0:
        return 0.0
    return of_prior / (of_prior + len(prior) / GROUPS * of_labels)


def _information(rows: NDArray[np.float64]) -> float:
    """Mean divergence of rows of probabilities [N, K] from uniform, in nats."""
    terms = rows * np.log(np.maximum(rows, 1e-300))
    return max(0.0, float(terms.sum(1).mean()) + float(np.log(rows.shape[1])))


class BitFlipTrainer(Learner):
    """A network of K sigmoids, trained on one release of flipped bits.

    It predicts the softmax of their logits: the same order, rows that sum to 1.
    """

    def __init__(self, config: BitFlipConfig, **given: Unpack[Given]) -> None:
        data = given["data"]
        labels = given["labels"]
        bits = labels.release(BitFlip(epsilon=config.epsilon, num_classes=data.num_classes)).values
        super().__init__(config, loss=self._loss, **without_labels(given))
        self._bits = torch.from_numpy(np.array(bits)).to(self.device)

    def _loss(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Cross-entropy of the bits, summed over the K of them."""
        bits = self._bits[rows].float()
        summed = functional.binary_cross_entropy_with_logits(logits, bits, reduction="none").sum(1)
        return summed.mean()

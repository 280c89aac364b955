"""A student of a release: some labels, all features, and the release as evidence beside both.

Everything after a release is free, and features are public. The network learns from examples whose
class the release is surest of, or that teachers answered, and from strong views of all examples. A
moving average of its weights predicts their weak views. This prediction is a prior, the release is
evidence: probabilities are multiplied, the released ones to a power below 1, since errors of like
examples are not independent. FixMatch (arXiv:2001.07685) does without evidence; predictions are
aligned to the shares of the classes as in ReMixMatch (arXiv:1911.09785).
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.special import log_softmax, softmax
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.base import FeatureSet
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import FewLabels
from labeldp.trainers.methods.priors import prior_features
from labeldp.trainers.methods.settings import (
    PriorSettings,
    PriorSource,
    PriorStudentConfig,
)
from labeldp.trainers.models.networks import FastCnn
from labeldp.trainers.models.optimization import soft_cross_entropy
from labeldp.trainers.models.predictors import logits_of
from labeldp.trainers.settings.training import Schedule, SemiSupervisedConfig, rate_factor

#: Smaller probabilities of a release count as this one.
_LEAST = 1e-6
#: Weight of the past in the mean prediction that is aligned to the shares of the classes.
_PAST = 0.99
_WARMUP = 0.2
#: Examples from which the head of a network that starts from an encoder learns first, at most.
_OF_HEAD = 10_000


class _MovingMean(nn.Module):
    """The mean prediction of late, which begins at the shares of the classes [K]."""

    mean: Tensor

    def __init__(self, shares: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", shares.clone())

    def forward(self, predicted: Tensor) -> Tensor:
        """Take predictions [U, K] into account, and return the mean [K]."""
        self.mean.lerp_(predicted.mean(0), 1 - _PAST)
        return self.mean


class SemiSupervised(FewLabels):
    """A network that learns from labels, all examples, and probabilities of their classes."""

    config: SemiSupervisedConfig
    _judges = True

    def __init__(
        self, config: SemiSupervisedConfig, *, posterior: NDArray[np.floating], **given: Any
    ) -> None:
        """Set up the first step; `posterior` is what a release says of all examples [N, K]."""
        super().__init__(config, **given)
        released = torch.from_numpy(np.maximum(posterior, _LEAST).astype(np.float32))
        self._evidence = (config.power * released.log()).to(self.device)
        self._shares = released.mean(0).to(self.device)
        self._mean = _MovingMean(self._shares)
        if config.encoder is not None:
            self._fit_head(released)

    def _fit_head(self, released: Tensor) -> None:
        # Steps led by a head that knows nothing would spoil what the encoder knows (Kumar et al.
        # 2022, arXiv:2202.10054).
        assert isinstance(self.network, FastCnn) and self._average is not None
        every = math.ceil(len(released) / _OF_HEAD)
        *_, inputs = self._predictor.features(self._features[::every])
        self.network.fit_head(inputs.to(self.device), released[::every].to(self.device))
        self._average.module.load_state_dict(self.network.state_dict())

    def go_on_from(self, network: nn.Module) -> None:
        """Start from the weights of another student's network."""
        assert self._average is not None
        for own in (self.network, self._average.module):
            own.load_state_dict(network.state_dict())

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "mean": self._mean}

    def _rate(self, step: int) -> float:
        epoch = step / self.steps_per_epoch
        factor = rate_factor(
            epoch, epochs=self.config.epochs, schedule=Schedule.TRIANGLE, warmup=_WARMUP
        )
        self._done = epoch / self.config.epochs
        return self.config.learning_rate * factor

    def _views_of(self, chosen: Tensor, others: Tensor) -> tuple[Tensor, ...]:
        # Pseudo-labels are made here: they change with the step, and a recorded loss does not.
        config = self.config
        generator = self._generator
        unlabeled = self._features[others]
        labeled = self._views.weak(self._features[self._rows[chosen]], generator)
        strong = self._views.strong(unlabeled, generator)
        targets = self._judged(unlabeled, others)
        threshold = config.threshold + (config.last_threshold - config.threshold) * self._done
        weight = torch.full((), config.labeled_weight * (1 - self._done), device=self.device)
        # What is not sure enough counts nothing.
        targets *= targets.amax(1, keepdim=True) >= threshold
        return labeled, self._labels[chosen], strong, targets, weight

    @torch.no_grad()
    def _judged(self, examples: Tensor, places: Tensor) -> Tensor:
        """Return probabilities of the classes of examples [U, K]: predictions and the release."""
        assert self._average is not None
        self._average.eval()
        weak = self._views.weak(examples, self._generator)
        predicted = logits_of(self._average, weak, self.performance).log_softmax(1)
        aligned = predicted + (self._shares / self._mean(predicted.exp())).log()
        judged: Tensor = (aligned + self._evidence[places]).softmax(1)
        return judged

    def _loss_of_batch(self, *batch: Tensor) -> Tensor:
        labeled, labels, strong, targets, weight = batch
        logits = self._logits(torch.cat((labeled, strong)))
        known = functional.cross_entropy(logits[: len(labeled)], labels)
        free = soft_cross_entropy(logits[len(labeled) :].log_softmax(1), targets)
        return weight * known + self.config.unlabeled_weight * free


def student_of(
    posterior: NDArray[np.floating], config: PriorStudentConfig, **given: Any
) -> SemiSupervised:
    """Set up the student of probabilities of the classes of all training examples [N, K]."""
    examples, labels = most_probable(posterior, count=config.labeled)
    return SemiSupervised(config, posterior=posterior, examples=examples, labels=labels, **given)


def most_probable(
    posterior: NDArray[np.floating], *, count: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the `count` examples of each class of which a release [N, K] is surest [L], and it."""
    guesses = posterior.argmax(1)
    examples = []
    for label in range(posterior.shape[1]):
        members = np.flatnonzero(guesses == label)
        surest = np.argsort(-posterior[members, label], kind="stable")[:count]
        examples.append(members[surest])
    chosen = np.concatenate(examples)
    return chosen, guesses[chosen]


def smooth_functions(features: FeatureSet, data: PublicData) -> NDArray[np.float32]:
    """Return smooth functions of all training examples [N, M], with a mean squared norm of 1.

    They are the directions along which moment labels are asked, each as long as the root of its
    share of the kernel: a ridge regression on them is a Gaussian process with that kernel.
    """
    settings = PriorSettings(source=PriorSource.MOMENTS, features=features)
    directions = prior_features(settings, data).directions(settings)
    scaled = directions.values * np.sqrt(directions.strengths).astype(np.float32)
    norm = np.sqrt(np.square(scaled).sum(1).mean())
    return np.asarray(scaled / norm, np.float32)


#: Penalties of the ridge regression, and factors on its scores.
_RIDGES = np.geomspace(1e-4, 10, 26)
_SHARPNESS = np.geomspace(1, 64, 25)


def read_answers(
    functions: NDArray[np.floating],
    examples: NDArray[np.intp],
    labels: NDArray[np.integer[Any]],
    *,
    num_classes: int,
) -> NDArray[np.float64]:
    """Return probabilities of the classes of all examples [N, K] from some answers.

    A ridge regression along functions of the features. The answers that are left out one at a time
    choose its penalty, and how sharp probabilities are.

    Args:
        functions: Their values [N, M], with a mean squared norm of 1.
        examples: Places of the answered examples [A].
        labels: Their answers [A].
        num_classes: K.
    """
    known = functions[examples].astype(np.float64)
    targets = np.eye(num_classes)[labels]
    mean = (targets.sum(0) + 1) / (len(targets) + num_classes)
    vectors, lengths, others = svd(known, full_matrices=False)
    values = lengths**2
    turned = vectors.T @ (targets - mean)
    outside = targets - mean - vectors @ turned  # no function reaches it
    beside = 1 - np.square(vectors).sum(1)
    best = (-np.inf, 0.0, 0.0)
    for ridge in _RIDGES:
        inverse = 1 / (values + ridge)
        solution = vectors @ (inverse[:, None] * turned) + outside / ridge
        weights = np.square(vectors) @ inverse + beside / ridge
        left_out = targets - solution / weights[:, None]
        for sharpness in _SHARPNESS:
            likely = log_softmax(sharpness * left_out, axis=1)[np.arange(len(labels)), labels]
            best = max(best, (float(likely.mean()), ridge, sharpness))
    _, ridge, sharpness = best
    weights = others.T @ (turned * (lengths / (values + ridge))[:, None])
    scores = functions @ weights.astype(np.float32) + mean
    return np.asarray(softmax(sharpness * scores, axis=1))

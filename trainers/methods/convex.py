"""LP-RR-SGD and LP-Normal-SGD: label privacy with a guarantee of accuracy, for linear models.

Ghazi, Golowich, Kumar, Manurangsi, Zhang, "Deep Learning with Label Differential Privacy", NeurIPS
2021, appendix F. Both run projected SGD on gradients that are unbiased although labels are noisy,
and their excess risk falls as 1 / sqrt(N), whatever the number of features is.

The loss is multinomial logistic regression, whose gradient (p - e_y) x is linear in the one-hot
label e_y: an unbiased estimate of the label is enough, and each label is released once. Under a
prior, labels are released among the likeliest classes (RRTop-k, Corollaries 6 and 10): smaller
noise, and a bias where the true label is not among them. The
debiased vector of a noisy label gives the combined gradient of Eq. (7) (LP-RR-SGD, Algorithm 5);
Gaussian noise on e_y, projected to sum 1, times x is the projected noise of LP-Normal-SGD
(Algorithm 6).
"""

import math
import time
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax

from labeldp.mechanisms import _validate
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.methods.lp_mst import evidence_of
from labeldp.trainers.methods.priors import learned_prior
from labeldp.trainers.methods.settings import (
    ConvexConfig,
    Iterate,
    LabelMechanism,
    PriorSource,
    RobustLoss,
)
from labeldp.trainers.models.predictors import LinearPredictor, with_constant
from labeldp.trainers.settings.trainer import Given, LabelSource, Trainer, released
from labeldp.trainers.settings.training import EpochMetrics

#: Of the gradient at the true label: |p - e_y|^2 is 2 at most.
_TRUE_GRADIENT = 2.0


def unbiased_labels(values: NDArray[Any], mechanism: LabelMechanism) -> NDArray[np.float32]:
    """Vectors [N, K] that are the one-hot true labels on average, each with the sum 1.

    `values` are noisy labels [N], noisy vectors or sets of classes [N, K].
    """
    classes = mechanism.num_classes
    agreement = mechanism.agreement
    if values.ndim == 1:
        values = np.eye(classes)[_validate.labels(values, num_classes=classes, name="the release")]
    vectors = (values - agreement.wrong) / agreement.gain
    excess = (vectors.sum(1, keepdims=True) - 1) / classes
    return np.asarray(vectors - excess, dtype=np.float32)


def label_variance(mechanism: LabelMechanism) -> float:
    """Sum over the classes of the variances of `unbiased_labels`, the same for every label."""
    wrong, gain, noise_std = mechanism.agreement
    keep = wrong + gain
    others = mechanism.num_classes - 1
    entries = keep * (1 - keep) + others * wrong * (1 - wrong)
    # Without the part along the vector of ones, which is taken off.
    return entries / gain**2 + others * noise_std**2


class Convex(Trainer):
    """A linear model [D + 1, K] in training."""

    def __init__(self, config: ConvexConfig, **given: Unpack[Given]) -> None:
        """Request the release and set up the first step, at the center of the ball, on the CPU."""
        data = given["data"]
        labels = given["labels"]
        seed = given["seed"]
        given["performance"].limit_threads()
        data.require_numbers(user="convex")
        self.config = config
        self._seed = seed
        self._data = data
        self._labels, variance = self._released(labels)
        self._pixels = data.pixels
        features = with_constant(data.train_features, self._pixels)
        squared_norms = np.einsum("nd,nd->n", features, features, dtype=np.float64)
        self._scale = 1 / math.sqrt(float(squared_norms.mean()))
        self._features = features * np.float32(self._scale)
        # G^2: an example's gradient has the second moment |x|^2 (|p - e_y|^2 + variance), and |x|^2
        # is 1 on average. The paper bounds its root by 6 K L / epsilon, ten times as much.
        moment = _TRUE_GRADIENT + variance / config.batch_size
        self._rate = config.diameter / math.sqrt(moment)
        self._weights = np.zeros((features.shape[1], data.num_classes))
        self._average = np.zeros_like(self._weights)
        self._steps = self._epochs = 0

    def _released(self, labels: LabelSource) -> tuple[NDArray[np.float32], float]:
        """Request labels; return unbiased vectors [N, K] and the sum of their variances."""
        config = self.config
        data = self._data
        if config.prior.source is PriorSource.UNIFORM:
            mechanism = config.mechanism(data.num_classes)
            values = released(labels, mechanism, data).values
            return unbiased_labels(values, mechanism), label_variance(mechanism)
        spent, left = config.prior.split(config.epsilon)
        prior = learned_prior(config.prior, data, labels, epsilon=spent, delta=config.delta)
        within = RRWithPrior(epsilon=left)
        noisy = labels.release(within, prior).values
        vectors = evidence_of(noisy, prior, within, RobustLoss.DEBIASED)
        # A one-hot label has the squared length 1; what noise adds to it is the variance.
        return vectors, float(np.square(vectors).sum(1).mean()) - 1

    @property
    def weights(self) -> NDArray[np.float64]:
        """Those that predict [D + 1, K]; the last row is the bias, of a feature that is 1."""
        return self._average if self.config.iterate is Iterate.AVERAGE else self._weights

    def epoch(self) -> EpochMetrics:
        """Take one step per batch, in random order, and evaluate.

        The loss is measured on each batch before its step. Being linear in the label as well, it is
        an unbiased estimate of the loss on the true labels in the first pass, when the weights have
        not seen the noise of the batch; later it is too small, as on any training data.
        """
        started = time.perf_counter()
        count = len(self._features)
        size = self.config.batch_size
        order = np.random.default_rng([self._seed, self._epochs]).permutation(count)
        loss = 0.0
        for start in range(0, count, size):
            rows = order[start : start + size]
            features = self._features[rows]
            labels = self._labels[rows]
            log_probabilities = log_softmax(features @ self._weights, axis=1)
            loss -= float(np.vdot(labels, log_probabilities))
            gradient = features.T @ (np.exp(log_probabilities) - labels) / len(rows)
            self._steps += 1
            self._weights -= self._rate / math.sqrt(self._steps) * gradient
            norm = math.sqrt(float(np.vdot(self._weights, self._weights)))
            if norm > self.config.diameter / 2:  # back into the ball
                self._weights *= self.config.diameter / 2 / norm
            self._average += (self._weights - self._average) / self._steps
        self._epochs += 1
        return EpochMetrics(
            epoch=self._epochs,
            loss=loss / count,
            val_accuracy=self.evaluate(),
            seconds=time.perf_counter() - started,
        )

    def predictor(self) -> LinearPredictor:
        """Return the linear model of features as they come, apart from what trains it."""
        return LinearPredictor(weights=self.weights * self._scale, pixels=self._pixels)

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        return self._data.test_accuracy(self.predict(self._data.test_features).argmax(1))

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs."""
        return {
            "seed": self._seed,
            "epochs": self._epochs,
            "steps": self._steps,
            "weights": torch.from_numpy(self._weights.copy()),
            "average": torch.from_numpy(self._average.copy()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken, with the same configuration."""
        self._seed = state["seed"]
        self._epochs = state["epochs"]
        self._steps = state["steps"]
        self._weights = state["weights"].numpy().copy()
        self._average = state["average"].numpy().copy()

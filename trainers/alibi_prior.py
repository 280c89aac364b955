"""ALIBI with a prior beside the model's own: likelihood x prior^w x prediction^(1 - w).

Two methods share one trainer. `AlibiPriorConfig` spends a share of the budget on a prior
(`priors`) and the rest on noisy labels; the target of each example is the posterior under a
geometric mean of the prior and the model's prediction. `PriorLabelsConfig` spends all of it on the
prior, which is then what the model learns from: at a small epsilon the best that can be done.

The prior's weight w starts at 1, since an untrained model knows nothing, and falls to

    information of the prior / (information of the prior + pooled * information of a noisy label),

information being the mean divergence from uniform, as the releases themselves show it: a model
pools the labels of examples that look alike, and once these say more than the prior, the prior is
in the way. A rule of thumb, and free: it looks at releases only.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.posterior import PostProcessing, posterior
from labeldp.trainers.data import PublicData
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.one_network import OneNetwork
from labeldp.trainers.performance import Performance
from labeldp.trainers.priors import PriorSettings, PriorSource
from labeldp.trainers.schedules import soft_cross_entropy
from labeldp.trainers.targets import (
    BayesTargets,
    LabelMechanism,
    Noise,
    label_mechanism,
    targets_of,
)
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

#: Into how many groups of examples that look alike a model divides a data set, roughly: it pools
#: the labels of a group, 100 of them where there are 60,000 examples.
GROUPS = 600
#: Fraction of the epochs in which the weight falls from 1 to its last value.
_FALLING = 0.4


@dataclass(frozen=True, kw_only=True)
class AlibiPriorConfig(LearnerConfig, TrainerDefaults):
    """Settings of ALIBI with a prior.

    Attributes:
        noise: What is done to the labels; NONE would leave nothing for a prior to do.
        epsilon: Privacy loss per label, of prior and noisy labels together.
        delta: At which epsilon holds where a release is not pure.
        prior: The prior and its share of epsilon.
        prior_weight: Weight that w falls to, in [0, 1]; None for the one that information decides.
    """

    noise: Noise = Noise.LAPLACE
    epsilon: float = 1.0
    delta: float = 1e-5
    prior: PriorSettings = field(default_factory=lambda: PriorSettings(source=PriorSource.CLUSTERS))
    prior_weight: float | None = None

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        _check_weight(self.prior_weight)
        self.recipe.refuse_smoothing("labels are noisy, and a prior stands beside them")
        if self.noise is Noise.NONE:
            raise ValueError("noise is none; a prior has a place beside noisy labels only")

    def mechanism(self, num_classes: int) -> LabelMechanism:
        """Return what is done to the labels with what the prior leaves of epsilon."""
        _, left = self.prior.split(self.epsilon)
        return label_mechanism(self.noise, epsilon=left, delta=self.delta, num_classes=num_classes)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: for the noisy labels, and before that for the prior."""
        del seed
        spent, _ = self.prior.split(self.epsilon)
        before = self.prior.planned_charge(epsilon=spent, delta=self.delta, num_classes=num_classes)
        mechanism = self.mechanism(num_classes)
        return PlannedCharge.of(mechanism, before=before)

    def start(
        self, *, data: PublicData, labels: LabelSource, seed: int, performance: Performance
    ) -> "AlibiPrior":
        """Ask for the prior, then for the noisy labels, and set the network up.

        Raises:
            BudgetExceeded: A release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        spent, _ = self.prior.split(self.epsilon)
        prior = self.prior.learn(data, labels, epsilon=spent, delta=self.delta)
        mechanism = self.mechanism(data.num_classes)
        release = labels.release(mechanism)
        targets = targets_of(release.values, mechanism, PostProcessing.MAP_WITH_PRIOR)
        assert isinstance(targets, BayesTargets), "noise is not NONE"
        return AlibiPrior(
            self,
            data=data,
            prior=prior,
            log_likelihood=targets.log_likelihood,
            weight=self.prior_weight,
            seed=seed,
            performance=performance,
        )


@dataclass(frozen=True, kw_only=True)
class PriorLabelsConfig(LearnerConfig, TrainerDefaults):
    """Settings of a prior that is all there is to learn from.

    Attributes:
        epsilon: Privacy loss per label.
        delta: At which epsilon holds; histograms of clusters are pure and do not look at it.
        prior: The prior; it gets all of epsilon, whatever its share.
        prior_weight: Weight that w falls to; below 1 the model's own predictions join in.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    prior: PriorSettings = field(default_factory=lambda: PriorSettings(source=PriorSource.CLUSTERS))
    prior_weight: float = 1.0

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        _check_weight(self.prior_weight)
        self.recipe.refuse_smoothing("a prior is learned from, which is soft by itself")
        if self.prior.source is PriorSource.UNIFORM:
            raise ValueError("prior.source is uniform; there is nothing to learn from it")

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge | None:
        """Return what a trial will pay: one release, shared by all who ask for the same prior.

        None for the user's own, which was made without the labels.
        """
        del seed
        return self.prior.planned_charge(
            epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )

    def start(
        self, *, data: PublicData, labels: LabelSource, seed: int, performance: Performance
    ) -> "AlibiPrior":
        """Ask for the prior and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        prior = self.prior.learn(data, labels, epsilon=self.epsilon, delta=self.delta)
        return AlibiPrior(
            self,
            data=data,
            prior=prior,
            log_likelihood=None,
            weight=self.prior_weight,
            seed=seed,
            performance=performance,
        )


class AlibiPrior(OneNetwork):
    """A network that learns from the posterior of noisy labels under a prior and itself."""

    def __init__(
        self,
        config: LearnerConfig,
        *,
        data: PublicData,
        prior: NDArray[np.float64],
        log_likelihood: torch.Tensor | None,
        weight: float | None,
        seed: int,
        performance: Performance,
    ) -> None:
        """Set up the first epoch.

        Args:
            config: How to train.
            data: Public features and test split.
            prior: Of every training example [N, K], every entry above 0.
            log_likelihood: Of every class, given the noisy labels [N, K]; None if there are none.
            weight: Of the prior in the end; None for the one that information decides.
            seed: Of initial weights, order and augmentation.
            performance: Where and how fast.
        """
        super().__init__(Learner(config.learner(), data=data, seed=seed, performance=performance))
        self._config = config
        if log_likelihood is None:
            log_likelihood = torch.zeros(prior.shape)
        if weight is None:
            weight = weight_of_prior(prior, log_likelihood)
        self.weight = weight
        device = self._learner.device
        self._log_likelihood = log_likelihood.to(device)
        self._log_prior = torch.from_numpy(np.log(prior).astype(np.float32)).to(device)

    def figures(self) -> dict[str, float]:
        """Return the weight that the prior's falls to."""
        return {"prior_weight": self.weight}

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        log_probabilities = logits.log_softmax(1)
        # The learner counts an epoch as soon as it begins.
        done = (self._learner.epoch_number - 1) / (_FALLING * self._config.epochs)
        weight = 1 - (1 - self.weight) * min(1.0, done)
        mixed = weight * self._log_prior[rows] + (1 - weight) * log_probabilities.detach()
        targets = posterior(self._log_likelihood[rows], mixed)
        return soft_cross_entropy(log_probabilities, targets)


def weight_of_prior(prior: NDArray[np.float64], log_likelihood: torch.Tensor) -> float:
    """Return the weight of a prior [N, K] beside noisy labels of this log-likelihood [N, K].

    It is what the prior tells about an example, over that and what the noisy labels of a group of
    examples tell. Both are read off the releases.
    """
    of_prior = _information(prior)
    of_labels = _information(log_likelihood.double().softmax(1).cpu().numpy())
    if of_prior + of_labels == 0:
        return 0.0
    return of_prior / (of_prior + len(prior) / GROUPS * of_labels)


def _information(rows: NDArray[np.float64]) -> float:
    """Mean divergence of rows of probabilities [N, K] from uniform, in nats."""
    terms = rows * np.log(np.maximum(rows, 1e-300))
    return max(0.0, float(terms.sum(1).mean()) + float(np.log(rows.shape[1])))


def _check_weight(weight: float | None) -> None:
    if weight is None:
        return
    _validate.number(prior_weight=weight)
    if not 0 <= weight <= 1:
        raise ValueError(f"prior_weight is {weight}; it must lie in [0, 1]")

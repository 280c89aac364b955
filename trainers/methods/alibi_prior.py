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

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.posterior import posterior
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.one_network import OneNetwork
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.schedules import soft_cross_entropy
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig

#: Into how many groups of examples that look alike a model divides a data set, roughly: it pools
#: the labels of a group, 100 of them where there are 60,000 examples.
GROUPS = 600
#: Fraction of the epochs in which the weight falls from 1 to its last value.
_FALLING = 0.4


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

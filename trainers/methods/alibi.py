"""ALIBI: additive noise on one-hot labels, and Bayes' rule with the model itself as the prior.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 4.
Each label is released once, with noise; all that follows is post-processing. In every step the
network's prediction for an example is the prior, its noisy label the evidence, and the posterior is
the target that the prediction is pulled to. The gradient is that of the likelihood of the release
itself, -log sum_c p_c L_c: the same as one step of expectation maximization per batch.
"""

import torch

from labeldp.mechanisms.vault import Release
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.one_network import OneNetwork
from labeldp.trainers.methods.targets import targets_of
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.schedules import soft_cross_entropy
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.alibi import AlibiConfig


class Alibi(OneNetwork):
    """A network trained on one noisy release of the labels."""

    def __init__(
        self,
        config: AlibiConfig,
        *,
        data: PublicData,
        release: Release,
        seed: int,
        performance: Performance | None = None,
    ) -> None:
        """Set up the first epoch.

        Args:
            config: Settings; its mechanism must be the one that made the release.
            data: Public features and test split.
            release: Noisy vectors [N, K] or labels [N], of all training examples or of some.
            seed: Of initial weights, order and augmentation.
            performance: Where and how fast; the defaults if not given.

        Raises:
            ValueError: A release that does not fit the data or the mechanism.
        """
        expected = len(data.train_features if release.indices is None else release.indices)
        if len(release.values) != expected:
            raise ValueError(
                f"the release speaks of {len(release.values)} labels, but there are {expected} "
                f"training examples of {data.name} to go with them"
            )
        self.config = config
        learner = Learner(
            config,
            data=data,
            seed=seed,
            performance=Performance() if performance is None else performance,
            examples=release.indices,
        )
        super().__init__(learner)
        self._targets = targets_of(
            release.values,
            config.mechanism(data.num_classes),
            config.post_processing,
            device=learner.device,
            smoothing=config.recipe.label_smoothing,
        )

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Cross-entropy to the targets; prior and prediction are one forward pass."""
        log_probabilities = logits.log_softmax(1)
        targets = self._targets.batch(rows, log_prior=log_probabilities)
        return soft_cross_entropy(log_probabilities, targets)

"""ALIBI: additive noise on one-hot labels, and Bayes' rule with the model itself as the prior.

Malek et al., "Antipodes of Label Differential Privacy: PATE and ALIBI", NeurIPS 2021, section 4.
Each label is released once, with noise; all that follows is post-processing. In every step the
network's prediction for an example is the prior, its noisy label the evidence, and the posterior is
the target that the prediction is pulled to. The gradient is that of the likelihood of the release
itself, -log sum_c p_c L_c: the same as one step of expectation maximization per batch.
"""

from dataclasses import dataclass

import torch

from labeldp.mechanisms import _validate
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.mechanisms.vault import Release
from labeldp.trainers.data import PublicData
from labeldp.trainers.learner import Learner, LearnerConfig
from labeldp.trainers.one_network import OneNetwork
from labeldp.trainers.performance import Performance
from labeldp.trainers.schedules import soft_cross_entropy
from labeldp.trainers.targets import LabelMechanism, Noise, label_mechanism, targets_of
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

__all__ = ["Alibi", "AlibiConfig", "Noise"]


@dataclass(frozen=True, kw_only=True)
class AlibiConfig(LearnerConfig, TrainerDefaults):
    """Settings of ALIBI, and of the simpler methods that it is compared with.

    Attributes:
        noise: What is done to the labels; NONE trains on them as they are.
        epsilon: Privacy loss per label; NONE does not look at it.
        delta: At which epsilon holds; used by GAUSSIAN only, the others are pure.
        post_processing: How the release becomes soft labels; NONE does not look at it.
    """

    noise: Noise = Noise.LAPLACE
    epsilon: float = 1.0
    delta: float = 1e-5
    post_processing: PostProcessing = PostProcessing.MAP_WITH_PRIOR

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        if self.noise is not Noise.NONE:
            self.recipe.refuse_smoothing(f"noise is {self.noise}")

    def mechanism(self, num_classes: int) -> LabelMechanism:
        """Return what is done to the labels of K classes."""
        return label_mechanism(
            self.noise, epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all who ask for the same noise."""
        del seed  # of training, which does not touch the labels
        mechanism = self.mechanism(num_classes)
        return PlannedCharge.of(mechanism)

    def start(
        self, *, data: PublicData, labels: LabelSource, seed: int, performance: Performance
    ) -> "Alibi":
        """Ask for the release and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        release = labels.release(self.mechanism(data.num_classes))
        return Alibi(self, data=data, release=release, seed=seed, performance=performance)


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

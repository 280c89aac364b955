"""Moment labels in stages: each stage's network lends its features to the next stage's question.

Moment labels are a smooth function of features, fitted to noisy sums of labels (`priors`).
A network of convolutions that learns from them sees more than these features show, and is right
where they are wrong. So the budget is divided: the first stage queries label-free features; a
network learns from the answer; the next stage queries again, with those features and the network's
own side by side; and so on. The last network is the model.

Every stage requests all labels: what they cost adds up, as Gaussian noise does, in squares
(`StagedMomentsConfig.mechanism`). A network of an earlier stage is made of releases and public
features alone; to learn from it, or to ask along its features, costs nothing.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.priors import learned_moments
from labeldp.trainers.models.learner import Learner, OneNetwork
from labeldp.trainers.models.schedules import EpochMetrics, soft_cross_entropy
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.methods import StagedMomentsConfig
from labeldp.trainers.trainer import LabelSource


class StagedMoments(OneNetwork):
    """A sequence of networks, each trained on moment labels that the one before helped to ask."""

    def __init__(
        self,
        config: StagedMomentsConfig,
        *,
        data: PublicData,
        labels: LabelSource,
        seed: int,
        performance: Performance,
    ) -> None:
        """Ask for the first stage's moments and set its network up."""
        self.config = config
        self._data, self._labels, self._seed = data, labels, seed
        self._performance = performance
        self._mechanism = config.mechanism(data.num_classes)
        self._figures: dict[str, float] = {}
        self.stage = 0
        self._take(learned_moments(config.prior, data, labels, mechanism=self._mechanism))
        super().__init__(self._new_learner())

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate; where a stage is over, the next one starts first."""
        last = self.config.stages - 1
        if self.stage < last and self._learner.epoch_number == self.config.earlier_epochs:
            self._next_stage()
        metrics = super().epoch()
        self._figures[f"stage_{self.stage + 1}_accuracy"] = metrics.val_accuracy
        before = self.stage * self.config.earlier_epochs
        return replace(metrics, epoch=before + metrics.epoch)

    def figures(self) -> dict[str, float]:
        """Return `stage_t_accuracy` of every stage: on the public test split, after its end."""
        return dict(self._figures)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        return {
            "stage": self.stage,
            "targets": self._targets.cpu().clone(),
            "figures": dict(self._figures),
            "learner": self._learner.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self.stage = int(state["stage"])
        self._figures = dict(state["figures"])
        self._learner = self._new_learner()
        self._learner.load_state_dict(state["learner"])
        self._targets = state["targets"].to(self._learner.device)

    def _next_stage(self) -> None:
        """Ask again, along features that the network has found, and begin another network."""
        found = self._learner.predictor().features(self._data.train_features)
        moments = learned_moments(
            self.config.prior,
            self._data,
            self._labels,
            mechanism=self._mechanism,
            beside=found,
        )
        self.stage += 1
        self._learner = self._new_learner()
        self._take(moments)

    def _take(self, moments: NDArray[np.float64]) -> None:
        device = self._performance.torch_device()
        self._targets = torch.from_numpy(moments.astype(np.float32)).to(device)

    def _new_learner(self) -> Learner:
        own = np.random.SeedSequence([self._seed, self.stage]).generate_state(1)[0]
        return Learner(
            self.config.learner(epochs=self.config.stage_epochs(self.stage)),
            data=self._data,
            seed=int(own),
            performance=self._performance,
        )

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return soft_cross_entropy(logits.log_softmax(1), self._targets[rows])

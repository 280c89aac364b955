"""LP-MST: training in stages, each stage's model telling the next which labels are likely.

Ghazi, Golowich, Kumar, Manurangsi, Zhang, "Deep Learning with Label Differential Privacy", NeurIPS
2021, Algorithm 3. The examples are cut into parts without looking at labels. The first part's
labels are released by randomized response; a model learns from them; its predictions, sharpened by
a temperature, are the prior under which `RRWithPrior` releases the next part; and so on. A label is
asked for once, so that all stages together cost what one of them costs. One stage (LP-1ST) is
randomized response.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms.rr_with_prior import RRWithPrior, tempered
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.data.partition import partition
from labeldp.trainers.methods.one_network import OneNetwork
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.losses import evidence_of, robust_loss
from labeldp.trainers.models.schedules import EpochMetrics
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.lp_mst import LpMstConfig
from labeldp.trainers.trainer import LabelSource


@dataclass(frozen=True, kw_only=True, eq=False)
class _Part:
    """Released labels of one stage.

    Attributes:
        rows: Which training examples [M].
        noisy: Their released labels [M].
        evidence: What the loss compares predictions with [M, K].
        mean_top_k: Of the prior that they were released under.
    """

    rows: NDArray[np.intp]
    noisy: NDArray[np.int64]
    evidence: NDArray[np.float32]
    mean_top_k: float

    def state(self) -> dict[str, Any]:
        """Return tensors, which are read back without running code from a file."""
        arrays = {"rows": self.rows, "noisy": self.noisy, "evidence": self.evidence}
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return {**tensors, "mean_top_k": self.mean_top_k}

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> "_Part":
        """Return the part that `state` was taken of."""
        arrays = {name: state[name].numpy() for name in ("rows", "noisy", "evidence")}
        return cls(**arrays, mean_top_k=state["mean_top_k"])

    def only(self, kept: NDArray[np.bool_]) -> "_Part":
        """Return the examples that are kept [M]."""
        return replace(
            self, rows=self.rows[kept], noisy=self.noisy[kept], evidence=self.evidence[kept]
        )


class LpMst(OneNetwork):
    """A sequence of networks, each trained on all labels released so far."""

    def __init__(
        self,
        config: LpMstConfig,
        *,
        data: PublicData,
        labels: LabelSource,
        seed: int,
        performance: Performance | None = None,
        first_prior: NDArray[np.float64] | None = None,
        epsilon: float | None = None,
    ) -> None:
        """Release the first part and set the first stage up."""
        self.config = config
        self._data, self._labels, self._seed = data, labels, seed
        self._performance = Performance() if performance is None else performance
        self._mechanism = RRWithPrior(epsilon=config.epsilon if epsilon is None else epsilon)
        self._parts = partition(
            len(data.train_features), shares=config.shares, seed=config.partition_seed
        )
        self._released: list[_Part] = []
        self._figures: dict[str, float] = {}
        if first_prior is None:
            shape = (len(data.train_features), data.num_classes)
            first_prior = np.broadcast_to(1 / data.num_classes, shape)
        self._release(first_prior[self._parts[0]])
        super().__init__(self._new_learner())

    @property
    def stage(self) -> int:
        """The stage in training, counted from 0."""
        return len(self._released) - 1

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate; where a stage is over, the next one starts first."""
        stage = self.stage
        if (
            stage + 1 < self.config.stages
            and self._learner.epoch_number == self.config.stage_epochs(stage)
        ):
            self._next_stage()
        before = sum(self.config.stage_epochs(earlier) for earlier in range(self.stage))
        metrics = super().epoch()
        self._figures[f"stage_{self.stage + 1}_accuracy"] = metrics.val_accuracy
        return replace(metrics, epoch=before + metrics.epoch)

    def figures(self) -> dict[str, float]:
        """Figures of the stages, from releases and the public test split alone.

        `stage_t_accuracy`; and for every stage t after the first `mean_top_k_stage_t`, the mean k*
        of its part, `top_k_stage_t_share_k`, the share of its labels for which k* is k, for every k
        that there is, `top_k_accuracy_stage_t`, how often a test label is among the k* classes that
        the stage before finds likeliest, and `dropped_before_stage_t`, the share of earlier labels
        that the filter dropped. Without a number: those of the second stage.
        """
        second = {
            name: self._figures[f"{name}_stage_2"]
            for name in ("mean_top_k", "top_k_accuracy")
            if f"{name}_stage_2" in self._figures
        }
        return {**self._figures, **second}

    def noisy_labels(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the examples [M] whose labels are in use, and those labels [M] as released."""
        return (
            np.concatenate([part.rows for part in self._released]),
            np.concatenate([part.noisy for part in self._released]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        return {
            "released": [part.state() for part in self._released],
            "figures": dict(self._figures),
            "learner": self._learner.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._released = [_Part.of_state(part) for part in state["released"]]
        self._figures = dict(state["figures"])
        self._learner = self._new_learner()
        self._learner.load_state_dict(state["learner"])

    def _next_stage(self) -> None:
        """Release the next part under the model's prediction, and learn from all parts."""
        before, config = self._learner, self.config
        stage = self.stage + 1
        prior = self._prior(before, self._data.train_features[torch.from_numpy(self._parts[stage])])
        self._release(prior)
        top_k = self._released[-1].mean_top_k
        self._figures[f"mean_top_k_stage_{stage + 1}"] = top_k
        if self._data.has_test_split:
            possible = self._mechanism.outputs(self._prior(before, self._data.test_features))
            test_labels = self._data.test_labels
            hits = possible[np.arange(len(test_labels)), test_labels]
            self._figures[f"top_k_accuracy_stage_{stage + 1}"] = float(hits.mean())
        if config.filter_earlier:
            earlier = sum(len(part.rows) for part in self._released[:-1])
            self._released[:-1] = [
                part.only(self._among_top(before, part, int(top_k))) for part in self._released[:-1]
            ]
            left = sum(len(part.rows) for part in self._released[:-1])
            self._figures[f"dropped_before_stage_{stage + 1}"] = 1 - left / earlier
        self._learner = self._new_learner()
        if config.warm_start:
            self._learner.network.load_state_dict(before.judged.state_dict())

    def _prior(self, learner: Learner, features: torch.Tensor) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # a probability may underflow: the class is ruled out
            logits = np.log(learner.predict(features))
        return tempered(logits, temperature=self.config.temperature).astype(np.float64)

    def _release(self, prior: NDArray[np.float64]) -> None:
        rows = self._parts[len(self._released)]
        noisy = self._labels.release(self._mechanism, prior, indices=rows).values
        top_k = self._mechanism.top_k(prior)
        if self._released:  # the first stage's, without a model before it, are all alike
            stage = len(self._released) + 1
            for k, count in zip(*np.unique(top_k, return_counts=True), strict=True):
                self._figures[f"top_k_stage_{stage}_share_{k}"] = float(count / len(top_k))
        self._released.append(
            _Part(
                rows=rows,
                noisy=noisy,
                evidence=evidence_of(noisy, prior, self._mechanism, self.config.loss),
                mean_top_k=float(top_k.mean()),
            )
        )

    def _among_top(self, learner: Learner, part: _Part, k: int) -> NDArray[np.bool_]:
        """Whether the model finds each released label among the k likeliest classes [M]."""
        scores = learner.predict(self._data.train_features[torch.from_numpy(part.rows)])
        own = scores[np.arange(len(part.rows)), part.noisy]
        among: NDArray[np.bool_] = (scores > own[:, None]).sum(1) < k
        return among

    def _new_learner(self) -> Learner:
        config, stage = self.config, self.stage
        later = stage > 0 and config.later_mixup is not None
        changes = {"mixup": config.later_mixup} if later else {}
        learner = Learner(
            config.learner(epochs=config.stage_epochs(stage), **changes),
            data=self._data,
            seed=int(np.random.SeedSequence([self._seed, stage]).generate_state(1)[0]),
            performance=self._performance,
            examples=self.noisy_labels()[0],
        )
        evidence = np.concatenate([part.evidence for part in self._released])
        self._evidence = torch.from_numpy(evidence).to(learner.device)
        return learner

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return robust_loss(self.config.loss, logits, self._evidence[rows])

"""Training in stages, where each stage's model decides the next request.

LP-MST is Algorithm 3 of Ghazi, Golowich, Kumar, Manurangsi, Zhang, "Deep Learning with Label
Differential Privacy", NeurIPS 2021. The examples are cut into parts without looking at labels. The
first part's labels are released by randomized response; a model learns from them; its predictions,
sharpened by a temperature, are the prior under which `RRWithPrior` releases the next part; and so
on. A label is released once, so that all stages together cost what one of them costs. One stage
(LP-1ST) is randomized response.

A network learns from a released label y~ of a true label y in one of three ways. CROSS_ENTROPY
takes y~ for y. DEBIASED is, on average over the noise, the cross-entropy of the true label (Ghazi
et al., appendices F and G). FORWARD sends the prediction through the mechanism and scores what
comes out, -log sum_c p_c Pr[y~ | c] (Patrini et al., CVPR 2017); its gradient is that of ALIBI, the
posterior under the model's own prediction.

`StagedMoments` divides the budget of moment labels (`priors`): the first stage requests sums
along label-free features; a network learns from them; the next requests sums along those
features and the network's own side by side; the last network is the model. Every stage uses all
labels: their costs add up, as Gaussian noise does, in squares (`StagedMomentsConfig.mechanism`).
`StagedStudents` is one semi-supervised student for all stages.

>>> mechanism, uniform = RRWithPrior(epsilon=1.0), np.full((1, 3), 1 / 3)
>>> evidence_of(np.array([1]), uniform, mechanism, RobustLoss.DEBIASED).round(3)
array([[-0.582,  2.164, -0.582]], dtype=float32)
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from labeldp.mechanisms import _validate
from labeldp.mechanisms.channels import StaircaseChannel
from labeldp.mechanisms.rr_with_prior import RRWithPrior, tempered
from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.alibi import Alibi, gradient_scale
from labeldp.trainers.methods.priors import learned_moments, learned_prior
from labeldp.trainers.methods.semi_supervised import student_of
from labeldp.trainers.methods.settings import (
    ConsensusConfig,
    LpMstConfig,
    PriorSource,
    PriorStudentConfig,
    RecommenderConfig,
    RobustLoss,
    StagedMomentsConfig,
)
from labeldp.trainers.models.learner import BatchLoss, Classifying, Learner, OnLabels
from labeldp.trainers.models.optimization import soft_cross_entropy
from labeldp.trainers.settings.trainer import Given, Predictor, Trainer, without_labels
from labeldp.trainers.settings.training import EpochMetrics

#: Released labels of one stage: `rows` [M] are training examples, `noisy` their labels [M] or sets
#: bool [M, K], `evidence` targets of the loss [M, K].
_Part = dict[str, NDArray[Any]]


class InTurn(Trainer):
    """Trainers that take turns: the current one predicts."""

    _current: Trainer

    def __init__(self) -> None:
        self._figures: dict[str, float] = {}

    def predictor(self) -> Predictor | None:
        """Return what predicts in the turn that is being trained, or was last."""
        return self._current.predictor()

    def evaluate(self) -> float:
        """Accuracy on the public test split, in [0, 1]; NaN where there is none."""
        return self._current.evaluate()

    def figures(self) -> dict[str, float]:
        """Return figures of the turns, from releases and the public test split alone."""
        return dict(self._figures)


class Stages(InTurn):
    """A sequence of networks, where the network of a stage decides the next request.

    Figures are `stage_t_accuracy` of every stage: on the public test split, after its end.
    """

    #: In training, counted from 0.
    stage: int
    _current: Classifying

    def __init__(
        self,
        config: LpMstConfig | StagedMomentsConfig | PriorStudentConfig,
        **given: Unpack[Given],
    ) -> None:
        """Take the settings; a subclass requests the first release and sets its network up."""
        self.config = config
        self._data = given["data"]
        self._labels = given["labels"]
        self._seed = given["seed"]
        self._performance = given["performance"]
        super().__init__()

    @abstractmethod
    def _next_stage(self) -> None:
        """Request the next stage's release, and begin its network."""

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate; where a stage is over, the next one starts first."""
        config = self.config
        # At the beginning of an epoch, so that a state kept after the last one has no release of
        # the next stage.
        over = self._current.epoch_number == config.stage_epochs(self.stage)
        if over and self.stage + 1 < config.stages:
            self._next_stage()
        metrics = self._current.epoch()
        self._figures[f"stage_{self.stage + 1}_accuracy"] = metrics.val_accuracy
        before = sum(config.stage_epochs(earlier) for earlier in range(self.stage))
        return replace(metrics, epoch=before + metrics.epoch)

    @abstractmethod
    def _new_learner(self) -> Classifying:
        """Set up the network of the current stage."""

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        return {"figures": dict(self._figures), "learner": self._current.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._figures = dict(state["figures"])
        self._current = self._new_learner()
        self._current.load_state_dict(state["learner"])

    def _of_stage(self) -> dict[str, Any]:
        """Return what a stage's network is trained with, beside settings and targets."""
        # Another seed for each stage: equal initial weights would repeat the errors of the stage
        # before.
        seed = int(np.random.SeedSequence([self._seed, self.stage]).generate_state(1)[0])
        return {"data": self._data, "seed": seed, "performance": self._performance}

    def _learner(
        self,
        config: LpMstConfig | StagedMomentsConfig,
        *,
        loss: BatchLoss,
        examples: NDArray[np.intp] | None = None,
        **changes: Any,
    ) -> Learner:
        learner = config.learner(epochs=config.stage_epochs(self.stage), **changes)
        return Learner(learner, loss=loss, examples=examples, **self._of_stage())


class LpMst(Stages):
    """Networks that are each trained on all labels released so far.

    Further figures of every stage t after the first: `mean_top_k_stage_t`, the mean k* of its part,
    and `top_k_accuracy_stage_t`, how often a test label is among the k* classes that the stage
    before finds likeliest.
    """

    config: LpMstConfig

    def __init__(self, config: LpMstConfig, **given: Unpack[Given]) -> None:
        """Release the prior, if it costs something, and the first part; set its network up."""
        self._released: list[_Part] = []
        super().__init__(config, **given)
        data = self._data
        # The prior and a part touch the same labels, so that they share the budget.
        spent, left = config.prior.split(config.epsilon)
        self._mechanism = config.mechanism(left)
        self._parts = stage_parts(len(data.train_features), shares=config.shares)
        shape = (len(data.train_features), data.num_classes)
        prior = np.broadcast_to(1 / data.num_classes, shape)
        if config.prior.source is not PriorSource.UNIFORM:
            prior = learned_prior(
                config.prior, data, self._labels, epsilon=spent, delta=config.delta
            )
        self._release(prior[self._parts[0]])
        self._current = self._new_learner()

    @property
    def stage(self) -> int:  # type: ignore[override]
        """The stage in training, counted from 0."""
        return len(self._released) - 1

    def noisy_labels(self) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the examples that are in use [M] and their noisy labels [M], or sets [M, K]."""
        return (
            np.concatenate([part["rows"] for part in self._released]),
            np.concatenate([part["noisy"] for part in self._released]),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        tensors = [
            {name: torch.from_numpy(np.array(of)) for name, of in part.items()}
            for part in self._released
        ]
        return {**super().state_dict(), "released": tensors}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._released = [
            {name: part[name].numpy() for name in ("rows", "noisy", "evidence")}
            for part in state["released"]
        ]
        super().load_state_dict(state)

    def _next_stage(self) -> None:
        before = self._current
        stage = self.stage + 1
        # The network has seen other labels only, so that the prior of these is free.
        prior = self._prior(before, self._data.train_features[torch.from_numpy(self._parts[stage])])
        top_k = self._release(prior)
        self._figures[f"mean_top_k_stage_{stage + 1}"] = top_k
        if isinstance(self._mechanism, RRWithPrior):
            # On public test labels: on released ones it would need a price.
            if self._data.has_test_split:
                possible = self._mechanism.outputs(self._prior(before, self._data.test_features))
                test_labels = self._data.test_labels
                hits = possible[np.arange(len(test_labels)), test_labels]
                self._figures[f"top_k_accuracy_stage_{stage + 1}"] = float(hits.mean())
            for place, part in enumerate(self._released[:-1]):
                scores = before.predict(self._data.train_features[torch.from_numpy(part["rows"])])
                own = scores[np.arange(len(scores)), part["noisy"]]
                # Those that the model finds among the k likeliest classes: others are often wrong.
                kept = (scores > own[:, None]).sum(1) < int(top_k)
                self._released[place] = {name: of[kept] for name, of in part.items()}
        self._current = self._new_learner()
        # Training goes on from the weights of the stage before.
        self._current.network.load_state_dict(before.predictor().network.state_dict())

    def _prior(self, learner: Classifying, features: torch.Tensor) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):  # a probability may underflow: the class is ruled out
            logits = np.log(learner.predict(features))
        return tempered(logits, temperature=self.config.temperature).astype(np.float64)

    def _release(self, prior: NDArray[np.float64]) -> float:
        """Release the next part under its prior; return the mean k*, or the mean size of sets."""
        rows = self._parts[len(self._released)]
        noisy = self._labels.release(self._mechanism, prior, indices=rows).values
        if isinstance(self._mechanism, StaircaseChannel):
            evidence = self._mechanism.log_likelihood(noisy).astype(np.float32)
            sizes = noisy.sum(1)
        else:
            evidence = evidence_of(noisy, prior, self._mechanism, self.config.loss)
            sizes = self._mechanism.top_k(prior)
        self._released.append({"rows": rows, "noisy": noisy, "evidence": evidence})
        return float(sizes.mean())

    def _new_learner(self) -> Classifying:
        later = self.stage > 0 and self.config.later_mixup is not None
        changes = {"mixup": self.config.later_mixup} if later else {}
        rows, _ = self.noisy_labels()
        learner = self._learner(self.config, loss=self._loss, examples=rows, **changes)
        evidence = np.concatenate([part["evidence"] for part in self._released])
        self._evidence = torch.from_numpy(evidence).to(learner.device)
        sets = isinstance(self._mechanism, StaircaseChannel)
        self._read = RobustLoss.FORWARD if sets else self.config.loss
        even = self._read is RobustLoss.FORWARD and self.config.recipe.even_gradient
        self._scale = gradient_scale(self._evidence) if even else 1.0
        return learner

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self._scale * robust_loss(self._read, logits, self._evidence[rows])


class _OnMoments(Stages):
    """Networks on moment labels: each lends its features to the question of the next one.

    Its predictions are what the answer is read against: earlier releases count too.
    """

    config: StagedMomentsConfig | PriorStudentConfig
    #: Share of an earlier network's predictions in the probabilities that a later one learns from.
    _of_earlier = 0.0

    def __init__(
        self, config: StagedMomentsConfig | PriorStudentConfig, **given: Unpack[Given]
    ) -> None:
        """Request the first release, and set its network up."""
        self.stage = 0
        super().__init__(config, **given)
        self._ask()
        self._current = self._new_learner()

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs; no true label is in it."""
        own = {"stage": self.stage, "targets": self._targets.cpu().clone()}
        return {**super().state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self.stage = int(state["stage"])
        # The answers are in the state: to ask again would not be free where a network has changed.
        self._targets = state["targets"].to(self._performance.torch_device())
        super().load_state_dict(state)

    def _next_stage(self) -> None:
        examples = self._data.train_features
        network = self._current
        before = network.predict(examples)
        # Features of the released model alone, so that the next question reveals nothing new.
        self._ask(network.predictor().features(examples), before)
        self._targets.lerp_(torch.from_numpy(before).to(self._targets), self._of_earlier)
        self.stage += 1
        self._current = self._new_learner()

    def _ask(
        self,
        beside: Sequence[torch.Tensor] = (),
        before: NDArray[np.floating] | None = None,
    ) -> None:
        mechanism = self.config.mechanism(self._data.num_classes)
        moments = learned_moments(
            self.config.prior,
            self._data,
            self._labels,
            mechanism=mechanism,
            beside=beside,
            before=before,
        )
        device = self._performance.torch_device()
        self._targets = torch.from_numpy(moments.astype(np.float32)).to(device)


class StagedMoments(_OnMoments):
    """Networks that learn the probabilities as soft labels."""

    config: StagedMomentsConfig

    def _new_learner(self) -> Classifying:
        return self._learner(self.config, loss=self._loss)

    def _loss(self, logits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return soft_cross_entropy(logits.log_softmax(1), self._targets[rows])


class StagedStudents(_OnMoments):
    """A semi-supervised student, which goes on when the next probabilities are its evidence."""

    config: PriorStudentConfig
    _of_earlier = 0.3  # no class that the student believes in is ruled out

    def _new_learner(self) -> Classifying:
        config = replace(self.config, stages=1, epochs=self.config.stage_epochs(self.stage))
        targets = self._targets.cpu().numpy()
        if self.stage == 0:
            return student_of(targets, config, **self._of_stage())
        student = student_of(targets, replace(config, encoder=None), **self._of_stage())
        student.go_on_from(self._current.predictor().network)
        return student


def start_student(config: PriorStudentConfig, **given: Unpack[Given]) -> Trainer:
    """Request the first release, which gets all of epsilon if it is the only one."""
    if config.stages > 1:
        return StagedStudents(config, **given)
    prior = learned_prior(
        config.prior, given["data"], given["labels"], epsilon=config.epsilon, delta=config.delta
    )
    return student_of(prior, config, **without_labels(given))


def evidence_of(
    noisy: NDArray[np.int64], prior: NDArray[Any], mechanism: RRWithPrior, loss: RobustLoss
) -> NDArray[np.float32]:
    """Return weights of the classes [M, K] for `robust_loss`, or log-likelihoods for FORWARD.

    `noisy` are released labels [M] and `prior` theirs at the release [M, K]; uniform for plain
    randomized response.
    """
    if loss is RobustLoss.FORWARD:
        return mechanism.log_likelihood(noisy, prior).astype(np.float32)
    index = np.arange(len(noisy))
    weights = np.zeros(prior.shape)
    if loss is RobustLoss.CROSS_ENTROPY:
        weights[index, noisy] = 1
        return weights.astype(np.float32)
    possible = mechanism.outputs(prior)
    counts = possible.sum(1)
    odds = math.exp(-mechanism.epsilon)
    rest = -math.expm1(-mechanism.epsilon)
    # Eq. (7) of appendix F. One possible output reveals nothing, and nothing is to be taken back.
    several = counts > 1
    weights -= (several * odds / rest)[:, None] * possible
    weights[index, noisy] += np.where(several, (1 + (counts - 1) * odds) / rest, 1.0)
    return weights.astype(np.float32)


def robust_loss(loss: RobustLoss, logits: torch.Tensor, evidence: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of logits [B, K], given rows [B, K] of `evidence_of`."""
    log_probabilities = logits.log_softmax(1)
    if loss is RobustLoss.FORWARD:
        return -(log_probabilities + evidence).logsumexp(1).mean()
    return soft_cross_entropy(log_probabilities, evidence)


def start(config: LpMstConfig | ConsensusConfig, **given: Unpack[Given]) -> Trainer:
    """Set the first stage or round up, and a round of consensus after the last if there is one."""
    first: LpMst | Alibi
    if isinstance(config, LpMstConfig):
        first = LpMst(config, **given)
    else:
        first = Alibi(config.first(), **given)
    if not config.retrain_epochs:
        return first
    return Consensus(first, config, **without_labels(given))


def stage_parts(num_examples: int, *, shares: Sequence[float]) -> tuple[NDArray[np.intp], ...]:
    """Cut the examples 0..N-1 into disjoint parts of about these shares, before a label is seen.

    A part that depended on labels would tell about them, and two parts that share a label would
    charge it twice: the cut knows the number of examples alone, which is public. Shares sum to 1;
    positions of each part ascend.
    """
    _validate.whole(minimum=1, num_examples=num_examples)
    ends = np.rint(np.cumsum((0.0, *shares)) * num_examples).astype(np.intp)
    # Seed 0 always: trials of other seeds find the same parts, and share their releases.
    order = np.random.default_rng(0).permutation(num_examples)
    parts = tuple(np.sort(order[start:end]) for start, end in pairwise(ends))
    for stage, part in enumerate(parts):
        if not len(part):
            raise ValueError(
                f"splits[{stage}] is {shares[stage]}, which is less than one of {num_examples} "
                "examples; take larger shares or fewer stages"
            )
    return parts


class Recommender:
    """LP-MST whose figures have its error in stars too; all else is the wrapped trainer's.

    Ghazi et al., section 5.1: ratings of one to five stars are labels like any other, and the mean
    under the softmax is the prediction.
    """

    def __init__(self, config: RecommenderConfig, **given: Unpack[Given]) -> None:
        """Request the first part's ratings and set the first stage up."""
        self._data = given["data"]
        self._stars = stars_of(self._data)
        self._trainer = start(config, **given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._trainer, name)

    def figures(self) -> dict[str, float]:
        """Figures of the stages; with a public test split `rmse`, and `rmse_constant` beside it.

        The latter is that of the best constant, the mean of the test ratings.
        """
        data = self._data
        figures = dict(self._trainer.figures())
        if data.has_test_split:
            rated = self._stars[data.test_labels]
            mean = self.predict(data.test_features).astype(np.float64) @ self._stars
            figures["rmse"] = float(np.sqrt(np.mean((mean - rated) ** 2)))
            figures["rmse_constant"] = float(rated.std())
        return figures


def stars_of(data: PublicData) -> NDArray[np.float64]:
    """Return the number that each class stands for [K]: its name, read as one."""
    try:
        values = np.array([float(name) for name in data.class_names or ()])
    except ValueError:
        values = np.empty(0)
    if len(values) != data.num_classes or not np.isfinite(values).all():
        raise ValueError(
            f"the classes of {data.name} are named {data.class_names}; the error in stars needs "
            "numeric names: use method=lp_mst if classes are not ratings"
        )
    return values


class Consensus(InTurn):
    """A trainer for the first round, and a fresh network for the second.

    The second learns from the examples whose noisy label the first agrees with, which are right
    more often: Das et al., "Retraining with Predicted Hard Labels Provably Increases Model
    Accuracy", ICML 2025 (arXiv:2406.11206). All of it is post-processing of labels that were
    released before. It stacks on ALIBI and randomized response, and on all stages of LP-MST.
    """

    def __init__(
        self, first: Alibi | LpMst, config: ConsensusConfig | LpMstConfig, **given: Any
    ) -> None:
        """Set the first round up; `given` are data, seed and performance."""
        super().__init__()
        self._current = self._first = first
        self._first_epochs = config.epochs - config.retrain_epochs
        self._second_config = config.learner(epochs=config.retrain_epochs)
        self._given = given
        self._done = 0
        self._rows: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._labels: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def epoch(self) -> EpochMetrics:
        """Train for one epoch and evaluate; after the first round the second one starts."""
        if self._current is self._first and self._done == self._first_epochs:
            self._agree()
            self._current = self._new_second()
        metrics = replace(self._current.epoch(), epoch=self._done + 1)
        self._done += 1
        return metrics

    def figures(self) -> dict[str, float]:
        """Return `first_round_accuracy` and `consensus_share`, beside those of the first round."""
        return {**self._first.figures(), **self._figures}

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of all that a bit-identical continuation needs."""
        return {
            "done": self._done,
            "figures": dict(self._figures),
            "first": self._first.state_dict(),
            "rows": torch.from_numpy(self._rows.copy()),
            "labels": torch.from_numpy(self._labels.copy()),
            "second": None if self._current is self._first else self._current.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where `state` was taken."""
        self._done = int(state["done"])
        self._figures = dict(state["figures"])
        self._first.load_state_dict(state["first"])
        self._rows = state["rows"].numpy()
        self._labels = state["labels"].numpy()
        self._current = self._first
        if state["second"] is not None:
            self._current = self._new_second()
            self._current.load_state_dict(state["second"])

    def _agree(self) -> None:
        """Keep the examples whose noisy label is the model's own guess."""
        rows, noisy = self._first.noisy_labels()
        features = self._given["data"].train_features
        guesses = self._first.predict(features[torch.from_numpy(rows)]).argmax(1)
        agreeing = guesses == noisy if noisy.ndim == 1 else noisy[np.arange(len(noisy)), guesses]
        self._figures["first_round_accuracy"] = self._first.evaluate()
        self._figures["consensus_share"] = float(agreeing.mean())
        # A model that agrees with nothing has nothing to teach: then all labels stay.
        if not agreeing.any():
            agreeing = ~agreeing
            guesses = noisy if noisy.ndim == 1 else noisy.argmax(1)
        self._rows = rows[agreeing]
        self._labels = guesses[agreeing]

    def _new_second(self) -> OnLabels:
        kept: dict[str, Any] = {"labels": self._labels, "examples": self._rows}
        return OnLabels(self._second_config, **kept, **self._given)

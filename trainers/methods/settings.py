"""Settings of every method but PATE, and prices that follow from them before a trial runs."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import import_module
from itertools import accumulate
from typing import Any, Unpack

import numpy as np

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.amounts import AmountChannel, AmountNoise, AmountSums
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.mechanisms.randomized_response import BitFlip, NoNoise, RandomizedResponse
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, RRWithPrior, class_counts
from labeldp.trainers.base import (
    Count,
    FeatureSet,
    File,
    Fraction,
    ModelName,
    NonNegative,
    Positive,
    Seed,
    Share,
    Two,
    Whole,
    key,
    settings,
)
from labeldp.trainers.settings.trainer import Given, PlannedCharge, Trainer, TrainerDefaults
from labeldp.trainers.settings.training import (
    SCHEDULE,
    LearnerConfig,
    Model,
    Schedule,
    SemiSupervisedConfig,
    Work,
)

LabelMechanism = LaplaceNoise | GaussianNoise | RandomizedResponse | SubsetSelection | NoNoise
_EPSILON = "Privacy loss per label."
_DELTA = "Delta of epsilon, for Gaussian noise and other releases that are not pure."

_LOSS = (
    "Loss on noisy labels: `cross_entropy` (takes them as true), `debiased` (unbiased, "
    "large variance) or `forward` (likelihood of the noisy label)."
)


def _started_by(module: str, name: str) -> Callable[..., Trainer]:
    """Return the method `start` of settings, which loads the module of a trainer, and torch."""

    def start(self: Any, **given: Unpack[Given]) -> Trainer:
        """Return the trainer, which has requested its first releases."""
        trainer: Trainer = getattr(import_module(f"{__package__}.{module}"), name)(self, **given)
        return trainer

    return start


class Noise(StrEnum):
    """Noise on each label: SUBSET is best without a prior, and OPTIMAL under the one it needs."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    RANDOMIZED_RESPONSE = "randomized_response"
    SUBSET = "subset"
    OPTIMAL = "optimal"
    NONE = "none"


_PURE: Mapping[Noise, type[LaplaceNoise | RandomizedResponse | SubsetSelection]] = {
    Noise.LAPLACE: LaplaceNoise,
    Noise.RANDOMIZED_RESPONSE: RandomizedResponse,
    Noise.SUBSET: SubsetSelection,
}


def label_mechanism(
    noise: Noise, *, epsilon: float, delta: float, num_classes: int
) -> LabelMechanism:
    """Return the mechanism of a target epsilon.

    >>> label_mechanism(Noise.LAPLACE, epsilon=2.0, delta=1e-5, num_classes=3)
    LaplaceNoise(epsilon=2.0, num_classes=3)
    """
    if noise is Noise.OPTIMAL:
        raise ValueError("noise is optimal, which needs a prior; use subset, or method=alibi_prior")
    if noise is Noise.NONE:
        return NoNoise(num_classes=num_classes)
    if noise is Noise.GAUSSIAN:
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta)
        return GaussianNoise(noise_std=noise_std, num_classes=num_classes)
    return _PURE[noise](epsilon=epsilon, num_classes=num_classes)


class Randomizer(StrEnum):
    """Release of LP-MST's stages: as published, or sets of classes from the best pure channel."""

    RR_WITH_PRIOR = "rr_with_prior"
    OPTIMAL = "optimal"


#: Clusters are so many that noise has this standard deviation in the frequencies of an average one,
#: which has so many examples at least; and between these. All were chosen on true training labels
#: of Fashion-MNIST and digits.
_CLUSTER_NOISE = 0.15
_LEAST_CLUSTER = 10
_FEWEST_CLUSTERS = 16
_MOST_CLUSTERS = 1600


class PriorSource(StrEnum):
    """Where a prior comes from; `methods.priors` explains each."""

    UNIFORM = "uniform"
    CLUSTERS = "clusters"
    MOMENTS = "moments"
    SMOOTH_SUMS = "smooth_sums"


@settings
class PriorSettings:
    """A prior over the classes of every example, and its share of the budget."""

    source: PriorSource = key(
        PriorSource.UNIFORM,
        "Source of the prior: `uniform` (no prior), `clusters` (noisy class counts of k-means "
        "clusters), `moments` (noisy sums of labels) or `smooth_sums` (the same for tables).",
    )
    share: Share = key(
        0.5,
        "Share of epsilon for the prior's release.",
    )
    most_epsilon: Positive = key(
        1.0,
        "Largest epsilon for the prior. Of a large budget, noisy labels make better use.",
    )
    clusters: Count | None = key(
        None,
        "Number of k-means clusters, for `clusters`. Null: so many that noise leaves the "
        "frequencies of classes in an average cluster with a standard deviation of 0.15, but 16 to "
        "1600 and a tenth of the examples at most.",
    )
    landmarks: Two = key(
        1500,
        "Number of landmark examples in the kernel of `moments` and `clusters`, at most half of "
        "all examples.",
    )
    smoothing: Share = key(
        0.01, "Weight of the uniform distribution in each row, so that no class has probability 0."
    )
    seed: Seed = key(0, "Seed of k-means and landmarks. It is public.")
    features: FeatureSet = key(
        FeatureSet.AS_THEY_ARE,
        "Features from which the prior is learned: the trial's, or others as in `data.features`.",
    )
    encoder: File | None = key(
        None,
        "File that `labeldp self-supervise` wrote for the same images; the prior is learned from "
        "its vectors, beside `features` other than the images themselves.",
    )

    def __post_init__(self) -> None:
        learned_of = self.features is not FeatureSet.AS_THEY_ARE or self.encoder is not None
        if learned_of and self.source is PriorSource.UNIFORM:
            raise ValueError(
                f"prior.features is {self.features} and prior.encoder {self.encoder}, but a prior "
                f"from {self.source} is learned of no features; set prior.source to clusters or "
                "moments, or leave both out"
            )

    def split(self, epsilon: float) -> tuple[float, float]:
        """Return the prior's part of epsilon, and the rest."""
        if self.source is PriorSource.UNIFORM:
            return 0.0, epsilon
        spent = min(self.share * epsilon, self.most_epsilon)
        return spent, epsilon - spent

    def check_size(self, examples: int) -> None:
        """Refuse fewer examples than clusters, before any request or payment."""
        if self.source is PriorSource.CLUSTERS and (self.clusters or 0) > examples:
            raise ValueError(
                f"clusters is {self.clusters}, but there are {examples} examples; leave it out, or "
                "take at most one cluster per example, and far fewer for counts that noise does "
                "not drown"
            )

    def number_of_clusters(self, mechanism: ClusterHistograms, *, examples: int) -> int:
        """Return how many clusters are counted; no label affects it."""
        if self.clusters is not None:
            return self.clusters
        enough = int(_CLUSTER_NOISE * examples / mechanism.noise_std)
        most = min(examples // _LEAST_CLUSTER, _MOST_CLUSTERS)
        return max(2, min(max(enough, _FEWEST_CLUSTERS), most))

    def mechanism(
        self, *, epsilon: float, delta: float, num_classes: int
    ) -> ClusterHistograms | LabelMoments:
        """Return the prior's mechanism, which costs all of `epsilon`."""
        if self.source is PriorSource.CLUSTERS:
            return class_counts(epsilon=epsilon, num_classes=num_classes)
        # As for Gaussian noise on one-hot labels: the same sensitivity, the same noise.
        noise_std = calibrate_gaussian(epsilon=epsilon, delta=delta)
        return LabelMoments(noise_std=noise_std, num_classes=num_classes)

    def planned_charge(
        self, *, epsilon: float, delta: float, num_classes: int
    ) -> PlannedCharge | None:
        """Return what the prior will pay, `epsilon` being the prior's own; None if nothing."""
        if self.source is PriorSource.UNIFORM:
            return None
        return self.planned_release(
            self.mechanism(epsilon=epsilon, delta=delta, num_classes=num_classes)
        )

    def planned_release(self, mechanism: ClusterHistograms | LabelMoments) -> PlannedCharge:
        """Return what one release by this mechanism pays, of the prior's own features."""
        sizes = {PriorSource.CLUSTERS: self.clusters, PriorSource.MOMENTS: self.landmarks}
        own = (sizes.get(self.source), self.seed, self.features, self.encoder)
        return PlannedCharge.of(mechanism, release=(mechanism, *own))


@settings
class NoisyLabels(TrainerDefaults):
    """Settings of a method that requests each label once, with noise."""

    noise: Noise = key(
        Noise.LAPLACE,
        "Noise on each label. `subset` is the best pure noise without a prior; `none` trains "
        "on true labels.",
    )
    epsilon: Positive = key(1.0, "Privacy loss per label; noise `none` ignores it.")
    delta: Share = key(USUAL_DELTA, _DELTA)

    def mechanism(self, num_classes: int) -> LabelMechanism:
        """Return what is done to the labels of K classes."""
        return label_mechanism(
            self.noise, epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all trials with the same noise."""
        return PlannedCharge.of(self.mechanism(num_classes))


@settings
class AlibiConfig(LearnerConfig, NoisyLabels):
    """Settings of ALIBI, and of the simpler methods that it is compared with."""

    epsilon: Positive = key(
        1.0,
        "Privacy loss per label; noise `none` ignores it. With `laplace` it is 2 / lambda, "
        "where lambda is the paper's noise scale; `trainer.lambda=X` sets lambda.",
    )
    post_processing: PostProcessing = key(
        PostProcessing.MAP_WITH_PRIOR,
        "Conversion of the release to soft labels. `map_with_prior` is ALIBI: the posterior, "
        "with the model's own prediction as the prior.",
    )

    def __post_init__(self) -> None:
        if self.noise is not Noise.NONE:
            self.recipe.refuse_smoothing(f"noise is {self.noise}")

    start = _started_by("alibi", "Alibi")


@settings
class AlibiPriorConfig(LearnerConfig, TrainerDefaults):
    """Settings of ALIBI with a prior."""

    noise: Noise = key(
        Noise.LAPLACE, "Noise on each label. `optimal` is the best pure noise under the prior."
    )
    epsilon: Positive = key(1.0, "Privacy loss per label, for prior and noisy labels together.")
    delta: Share = key(USUAL_DELTA, _DELTA)
    prior: PriorSettings = key(
        PriorSettings(source=PriorSource.CLUSTERS), "The prior and its share of epsilon."
    )

    def __post_init__(self) -> None:
        self.recipe.refuse_smoothing("labels are noisy, and a prior stands beside them")
        if self.noise is Noise.NONE:
            raise ValueError("noise is none; a prior needs noisy labels beside it")

    def mechanism(self, num_classes: int) -> LabelMechanism | StaircaseChannel:
        """Return what is done to the labels with the part of epsilon that the prior leaves."""
        _, left = self.prior.split(self.epsilon)
        if self.noise is Noise.OPTIMAL:
            return StaircaseChannel(epsilon=left)
        return label_mechanism(self.noise, epsilon=left, delta=self.delta, num_classes=num_classes)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: for the noisy labels, and before that for the prior."""
        spent, _ = self.prior.split(self.epsilon)
        before = self.prior.planned_charge(epsilon=spent, delta=self.delta, num_classes=num_classes)
        mechanism = self.mechanism(num_classes)
        under = (mechanism, self.prior, self.epsilon, self.delta)
        release = under if self.noise is Noise.OPTIMAL else None
        return PlannedCharge.of(mechanism, release=release, before=before)

    start = _started_by("alibi", "AlibiPrior")


@settings
class _OfPrior(TrainerDefaults):
    """Settings of a method that learns from a prior alone."""

    epsilon: Positive = key(1.0, _EPSILON)
    delta: Share = key(USUAL_DELTA, _DELTA)
    prior: PriorSettings = key(
        PriorSettings(source=PriorSource.CLUSTERS),
        "The prior; it gets all of epsilon, whatever its share.",
    )

    def __post_init__(self) -> None:
        if self.prior.source is PriorSource.UNIFORM:
            raise ValueError("prior.source is uniform; there is nothing to learn from it")

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge | None:
        """Return what a trial will pay: one release, shared by all trials with the same prior."""
        return self.prior.planned_charge(
            epsilon=self.epsilon, delta=self.delta, num_classes=num_classes
        )


@settings
class PriorLabelsConfig(LearnerConfig, _OfPrior):
    """Settings of learning from a prior's soft labels."""

    def __post_init__(self) -> None:
        self.recipe.refuse_smoothing("a prior is learned from, which is soft by itself")
        super().__post_init__()

    start = _started_by("alibi", "AlibiPrior")


@settings
class _InStages(_OfPrior):
    """Settings of a method that learns from a prior, or from moment labels in stages."""

    stages: Count = key(
        1,
        "Number of releases of the labels. The noise of each grows with its square root. More than "
        "one are of moments.",
    )
    earlier_epochs: Count = key(
        4,
        "Epochs of each stage except the last, which has the rest of `epochs`.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stages > 1 and self.prior.source is not PriorSource.MOMENTS:
            raise ValueError(
                f"prior.source is {self.prior.source}; the stages are of moments: set it to "
                "moments, or stages to 1"
            )
        if self.stage_epochs(self.stages - 1) < 1:
            raise ValueError(
                f"epochs is {self.epochs} for {self.stages} stages, of which each but the last has "
                f"{self.earlier_epochs} (earlier_epochs); the last one needs an epoch too"
            )

    def stage_epochs(self, stage: int) -> int:
        """Epochs of a stage, counted from 0."""
        last = stage == self.stages - 1
        epochs: int = self.epochs  # of the network
        return epochs - stage * self.earlier_epochs if last else self.earlier_epochs

    def mechanism(self, num_classes: int) -> LabelMoments:
        """Return the mechanism that requests moments, in every stage.

        Gaussian noise adds up in squares: S releases whose noise is larger by the root of S cost
        what one release costs (Dong, Roth, Su, "Gaussian differential privacy", Corollary 3.3),
        whatever a later question owes to earlier answers.
        """
        once = calibrate_gaussian(epsilon=self.epsilon, delta=self.delta)
        return LabelMoments(noise_std=once * math.sqrt(self.stages), num_classes=num_classes)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge | None:
        """Return what a trial will pay: every label pays for as many releases as there are stages.

        The first is that of the prior's own features, which others may share. A later stage's
        request follows from the network before it, hence from everything that went into that.
        """
        if self.stages == 1:
            return super().planned_charge(num_classes=num_classes, seed=seed)
        mechanism = self.mechanism(num_classes)
        charge = self.prior.planned_release(mechanism)
        for stage in range(1, self.stages):
            charge = PlannedCharge.of(mechanism, release=(self, seed, stage), before=charge)
        return charge


@settings
class PriorStudentConfig(SemiSupervisedConfig, _InStages):
    """Settings of a semi-supervised student of a prior."""

    start = _started_by("lp_mst", "start_student")


@settings
class StagedMomentsConfig(LearnerConfig, _InStages):
    """Settings of moment labels in stages; `epochs` are those of all stages together."""

    stages: Count = key(
        2,
        "Number of releases of the labels. The noise of each grows with its square root.",
    )
    prior: PriorSettings = key(
        PriorSettings(source=PriorSource.MOMENTS),
        "How moments are taken; it gets all of epsilon, whatever its share.",
    )

    def __post_init__(self) -> None:
        self.recipe.refuse_smoothing("moment labels are learned from, which are soft by themselves")
        if self.prior.source is not PriorSource.MOMENTS:
            raise ValueError(
                f"prior.source is {self.prior.source}; the stages are of moments: leave it out, or "
                "take method prior_labels for another prior"
            )
        super().__post_init__()

    start = _started_by("lp_mst", "StagedMoments")


@settings
class BitFlipConfig(LearnerConfig, TrainerDefaults):
    """Settings of learning from flipped bits; the release is pure."""

    delta = 0.0

    epsilon: Positive = key(1.0, _EPSILON)

    def __post_init__(self) -> None:
        self.recipe.refuse_smoothing("bits of the labels are flipped")

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: one release, shared by all trials with the same flips."""
        return PlannedCharge.of(BitFlip(epsilon=self.epsilon, num_classes=num_classes))

    start = _started_by("alibi", "BitFlipTrainer")


@settings
class ConsensusConfig(LearnerConfig, NoisyLabels):
    """Settings of consensus retraining on ALIBI or randomized response."""

    retrain_epochs: Count = key(
        15,
        "Epochs of the second round, out of `epochs`. It retrains on noisy labels that the "
        "first round's model agrees with.",
    )

    def __post_init__(self) -> None:
        if self.noise is Noise.NONE:
            raise ValueError("noise is none; labels without noise need no consensus")
        if self.retrain_epochs >= self.epochs:
            raise ValueError(
                f"retrain_epochs is {self.retrain_epochs} of {self.epochs} epochs; both rounds "
                "need at least one"
            )
        self.first()

    def first(self) -> AlibiConfig:
        """Return the settings of the first round."""
        own = vars(self.learner(epochs=self.epochs - self.retrain_epochs))
        return AlibiConfig(**own, noise=self.noise, epsilon=self.epsilon, delta=self.delta)

    start = _started_by("lp_mst", "start")


class Iterate(StrEnum):
    """Weights that the method returns: the LAST, as in the paper, or the AVERAGE of all steps."""

    LAST = "last"
    AVERAGE = "average"


@settings
class ConvexConfig(NoisyLabels):
    """Settings of projected SGD for logistic regression."""

    noise: Noise = key(
        Noise.RANDOMIZED_RESPONSE,
        "Noise on each label: `randomized_response` is LP-RR-SGD, `gaussian` LP-Normal-SGD, "
        "`laplace` its pure variant, and `none` plain SGD.",
    )
    diameter: Positive = key(
        50.0,
        "Diameter D of the ball around 0 to which weights are projected, for features of norm 1.",
    )
    batch_size: Count = key(16, "Examples per step; 1 in the paper.")
    epochs: Count = key(
        1, "Passes over the examples. The theorems cover one; more cost no privacy."
    )
    iterate: Iterate = key(
        Iterate.AVERAGE,
        "Weights that predict: the `last`, as in the paper, or the `average` of all steps.",
    )
    prior: PriorSettings = key(
        PriorSettings(),
        "Prior and its share of epsilon. With one, labels are released by randomized response on "
        "the classes that it finds likely (Corollary 10 of the paper).",
    )

    def __post_init__(self) -> None:
        other = self.noise is not Noise.RANDOMIZED_RESPONSE
        if self.prior.source is not PriorSource.UNIFORM and other:
            raise ValueError(
                f"noise is {self.noise} and prior.source {self.prior.source}; a prior goes with "
                "randomized_response: set noise to it, or leave the prior out"
            )

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: for its labels, and before that for the prior."""
        if self.prior.source is PriorSource.UNIFORM:
            return PlannedCharge.of(self.mechanism(num_classes))
        spent, left = self.prior.split(self.epsilon)
        mechanism = RRWithPrior(epsilon=left)
        before = self.prior.planned_charge(epsilon=spent, delta=self.delta, num_classes=num_classes)
        release = (mechanism, self.prior, self.epsilon, self.delta)
        return PlannedCharge.of(mechanism, release=release, before=before)

    start = _started_by("convex", "Convex")


class RobustLoss(StrEnum):
    """How noisy labels are learned from; `methods.lp_mst` explains each.

    DEBIASED is not bounded below: it wants few epochs or strong weight decay.
    """

    CROSS_ENTROPY = "cross_entropy"
    DEBIASED = "debiased"
    FORWARD = "forward"


@settings
class LpMstConfig(LearnerConfig, TrainerDefaults):
    """Settings of LP-MST; `epochs` are those of all stages together, `mixup` is the first's."""

    epsilon: Positive = key(1.0, "Privacy loss per label, for all stages together.")
    stages: Count = key(
        2,
        "Number of stages, each with its own part of the labels; 1 to 4 in the paper. More "
        "help little.",
    )
    splits: tuple[Positive, ...] | None = key(
        None,
        "Share of the labels in each stage; they sum to 1. Null: 0.65 and 0.35 for two "
        "stages, otherwise equal shares.",
    )
    randomizer: Randomizer = key(
        Randomizer.RR_WITH_PRIOR,
        "Release of each stage: as published, or the best pure noise under the prior. "
        "`optimal` uses the loss `forward` and drops no earlier labels.",
    )
    temperature: Positive = key(
        0.5, "Temperature of the last stage's predictions as a prior; below 1 sharpens them."
    )
    later_mixup: NonNegative | None = key(
        None, "Alpha of mixup after the first stage. Null: `mixup`."
    )
    loss: RobustLoss = key(RobustLoss.CROSS_ENTROPY, _LOSS)
    prior: PriorSettings = key(
        PriorSettings(),
        "Prior of the first stage and its share of epsilon; the stages have the rest.",
    )
    delta: Share = key(USUAL_DELTA, _DELTA)
    retrain_epochs: Whole = key(
        0,
        "Epochs of a last round, out of `epochs`, on labels that the model agrees with; 0 for "
        "none.",
    )

    def __post_init__(self) -> None:
        self.recipe.refuse_smoothing("labels are released with noise")
        if self.epochs - self.retrain_epochs < self.stages:
            raise ValueError(
                f"epochs is {self.epochs}, {self.retrain_epochs} of them to retrain, for "
                f"{self.stages} stages; epochs are those of all stages together, and each stage "
                "needs at least one"
            )
        total = sum(self.shares)
        # Decimal fractions do not add up exactly.
        if len(self.shares) != self.stages or not math.isclose(total, 1):
            raise ValueError(
                f"splits holds {len(self.shares)} shares that sum to {total:.6g}, for "
                f"{self.stages} stages; give one share per stage, of all labels together, or none "
                "for the usual cut"
            )

    def mechanism(self, epsilon: float) -> RRWithPrior | StaircaseChannel:
        """Return what is done to the labels of every stage."""
        if self.randomizer is Randomizer.OPTIMAL:
            return StaircaseChannel(epsilon=epsilon)
        return RRWithPrior(epsilon=epsilon)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the labels that each stage releases."""
        if self.splits is not None:
            return self.splits
        return (0.65, 0.35) if self.stages == 2 else (1 / self.stages,) * self.stages

    def stage_epochs(self, stage: int) -> int:
        """Epochs of a stage, counted from 0; what cannot be divided goes to the first ones."""
        epochs = self.epochs - self.retrain_epochs
        return epochs // self.stages + (stage < epochs % self.stages)

    def work(self, examples: int) -> tuple[Work, ...]:
        """Return what networks learn from: each stage has the labels of those before, too."""
        released = accumulate(self.shares)
        shares = sum(self.stage_epochs(stage) * share for stage, share in enumerate(released))
        seen = (shares + self.retrain_epochs) * examples
        return (Work(network=self.learner(), examples=seen, epochs=self.epochs),)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: epsilon per label, however many stages there are.

        The request of a later stage follows from the model of the one before, hence from everything
        that went into that: trials share their releases only if they are the same throughout. A
        single stage requests under its first prior alone.
        """
        spent, left = self.prior.split(self.epsilon)
        before = self.prior.planned_charge(epsilon=spent, delta=self.delta, num_classes=num_classes)
        mechanism = self.mechanism(left)
        if self.stages == 1:
            alone = self.prior.source is PriorSource.UNIFORM
            # It names its labels one by one, so that no other method's request is the same.
            under = ("by index", mechanism, self.prior, self.epsilon, self.delta)
            release = None if alone else under
            return PlannedCharge.of(mechanism, release=release, before=before)
        return PlannedCharge.of(
            mechanism, release=(self, seed), releases=self.stages, before=before
        )

    start = _started_by("lp_mst", "start")


@settings
class RecommenderConfig(LpMstConfig):
    """Settings of LP-MST, with defaults for ratings.

    Weight decay pulls at all users in every step, while a user is in one batch of many: the decay
    of other networks would undo a user's progress before the next rating comes. FORWARD accounts
    for the noise in ratings, which would otherwise draw their mean to the middle.
    """

    model: Model = key(ModelName.TWO_BRANCH, "The network.")
    epochs: Count = key(20, "Passes over the training examples.")
    learning_rate: Positive = key(0.1, "Peak learning rate of SGD.")
    schedule: Schedule = key(Schedule.COSINE, SCHEDULE)
    weight_decay: NonNegative = key(1e-6, "Weight decay of all parameters.")
    loss: RobustLoss = key(RobustLoss.FORWARD, _LOSS)

    start = _started_by("lp_mst", "Recommender")


#: Sums are better up to this epsilon, and from so many rows on (docs/amounts.md).
_SUMS_UP_TO = 3.0
_SUMS_FROM = 600


class Task(StrEnum):
    """The task; the only one here, so that `trainer.task=regression` names this method."""

    REGRESSION = "regression"


class AmountRelease(StrEnum):
    """Release of the amounts; AUTO chooses by epsilon, delta, loss and the number of rows."""

    AUTO = "auto"
    SUMS = "sums"
    UNBIASED = AmountNoise.UNBIASED.value
    LEAST_ERROR = AmountNoise.LEAST_ERROR.value
    RANDOMIZED_RESPONSE = AmountNoise.RANDOMIZED_RESPONSE.value


class AmountLoss(StrEnum):
    """The loss that is minimized."""

    SQUARED = "squared"
    POISSON = "poisson"
    ABSOLUTE = "absolute"
    QUANTILE = "quantile"

    @property
    def of_mean(self) -> bool:
        """Whether the mean minimizes it."""
        return self in (AmountLoss.SQUARED, AmountLoss.POISSON)


def chosen_release(
    release: AmountRelease,
    *,
    epsilon: float,
    delta: float,
    loss: AmountLoss,
    rows: int | None = None,
) -> AmountRelease:
    """Return the release that AUTO stands for; refuse sums that cannot be.

    `rows` is the number of amounts; None, in a plan, stands for many.
    """
    sums = delta > 0 and loss.of_mean
    if release is AmountRelease.SUMS and not sums:
        raise ValueError(
            f"delta is {delta:g} and loss {loss.value!r}; sums have Gaussian noise, which needs a "
            "delta above 0, and give means: take a loss of squared, poisson, or request "
            "randomized_response in their place"
        )
    if release is not AmountRelease.AUTO:
        return release
    if sums and epsilon <= _SUMS_UP_TO and (rows is None or rows >= _SUMS_FROM):
        return AmountRelease.SUMS
    return AmountRelease.LEAST_ERROR if loss.of_mean else AmountRelease.RANDOMIZED_RESPONSE


#: Models of a stack, in the order in which they are fitted.
STACKED = ("constant", "linear", "kernel", "boosting")
#: A further one, of single labels.
NETWORK = "network"

#: Counts say more where a noisy label has less information than this, of 1 for a true one.
LEAST_INFORMATION = 0.2


def kept_information(*, epsilon: float, num_classes: int) -> float:
    """Return the information that the best set of classes has of a label, of 1 for a true one.

    It is the square of the correlation between a class and its place in the set.
    """
    sets = SubsetSelection(epsilon=epsilon, num_classes=num_classes)
    spread = sets.size * (num_classes - sets.size)
    return sets.agreement.gain**2 * (num_classes - 1) / spread


#: Directions at most along which sums are requested.
_MOST_FUNCTIONS = 400


def worthwhile(*, rows: int, noise_std: float) -> int:
    """Return how many functions of N rows (or persons) to request, at this noise of a sum.

    The more functions there are, the smaller is the share of each in a row of length 1. Twice the
    root of rows over noise was best on Adult and on `conversions`, at epsilon .1 and 1.
    """
    return max(2, min(int(2 * np.sqrt(rows / noise_std)), _MOST_FUNCTIONS))


@settings
class TableStackConfig(TrainerDefaults):
    """Settings of several models of a table, which learn from one release; it is pure."""

    epochs = 1
    delta = 0.0

    epsilon: Positive = key(1.0, "Privacy loss per label.")

    def mechanism(self, num_classes: int) -> ClusterHistograms | SubsetSelection:
        """Return the mechanism of the release; a plan knows neither rows nor columns."""
        kept = kept_information(epsilon=self.epsilon, num_classes=num_classes)
        if kept < LEAST_INFORMATION:
            return class_counts(epsilon=self.epsilon, num_classes=num_classes)
        return SubsetSelection(epsilon=self.epsilon, num_classes=num_classes)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay; trials of equal mechanisms share a release."""
        return PlannedCharge.of(self.mechanism(num_classes))

    start = _started_by("table_stack", "TableStack")


@settings
class AmountsConfig(TrainerDefaults):
    """Settings of regression on released amounts, by boosted trees."""

    epochs = 1

    task: Task = key(Task.REGRESSION, "Task; `regression` selects method=amounts.")
    release: AmountRelease = key(
        AmountRelease.AUTO,
        "Release of the amounts: `sums` (noisy sums along functions of the features), or a "
        "noisy amount per row (`unbiased`, `least_error` or `randomized_response`). `auto` "
        "chooses by epsilon, delta and loss, as for many rows.",
    )
    epsilon: Positive = key(1.0, "Privacy loss per amount.")
    delta: Fraction = key(USUAL_DELTA, "Delta of epsilon, for `sums`; 0 rules them out.")
    loss: AmountLoss = key(AmountLoss.SQUARED, "Loss to minimize.")
    quantile: Share = key(0.5, "Quantile to predict with the loss `quantile`.")

    def __post_init__(self) -> None:
        self.chosen()

    def chosen(self) -> AmountRelease:
        """Return the release that is requested."""
        return chosen_release(self.release, epsilon=self.epsilon, delta=self.delta, loss=self.loss)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: trials with the same release share it."""
        release = self.chosen()
        if release is AmountRelease.SUMS:
            return PlannedCharge.of(AmountSums.costing(epsilon=self.epsilon, delta=self.delta))
        kind = AmountNoise(release)
        counting, channel = AmountChannel.with_prior(epsilon=self.epsilon, kind=kind)
        return PlannedCharge.of(channel, before=PlannedCharge.of(counting))

    start = _started_by("amounts", "AmountTrainer")

"""Settings of ALIBI with a prior, and of a prior alone (`alibi_prior`)."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.trainers.methods.priors import PriorSettings, PriorSource
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.settings.noise import LabelMechanism, Noise, label_mechanism
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.alibi import AlibiPrior


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
    delta: float = USUAL_DELTA
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
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "AlibiPrior":
        """Ask for the prior, then for the noisy labels, and set the network up.

        Raises:
            BudgetExceeded: A release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.alibi import AlibiPrior, BayesTargets, targets_of

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
    delta: float = USUAL_DELTA
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
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "AlibiPrior":
        """Ask for the prior and set the network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.alibi import AlibiPrior

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


def _check_weight(weight: float | None) -> None:
    if weight is None:
        return
    _validate.number(prior_weight=weight)
    if not 0 <= weight <= 1:
        raise ValueError(f"prior_weight is {weight}; it must lie in [0, 1]")

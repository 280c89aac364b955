"""Settings of LP-MST (`lp_mst`): how many stages, and what each learns from."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.data.partition import checked_shares
from labeldp.trainers.methods.priors import PriorSettings, PriorSource
from labeldp.trainers.models.losses import RobustLoss
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.trainer import LabelSource, PlannedCharge, Trainer, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData


@dataclass(frozen=True, kw_only=True)
class LpMstConfig(LearnerConfig, TrainerDefaults):
    """Settings of LP-MST; `epochs` are those of all stages together, `mixup` is the first's.

    Attributes:
        epsilon: Privacy loss per label, of all stages together.
        stages: 1 to 4 in the paper; more hardly help.
        splits: Share of the labels that each stage releases; None for 65% and 35% of two stages,
            and equal shares of any other number.
        temperature: Of the prior: below 1 it sharpens the last stage's predictions.
        later_mixup: Alpha of mixup after the first stage, which needs less; None for the same.
        warm_start: Start a stage from the weights of the last one.
        filter_earlier: Drop earlier labels that the last model does not find among the k likeliest
            classes, k being the mean k* of the new part, rounded down.
        loss: How noisy labels are learned from.
        partition_seed: Of the cut; public.
        prior: Prior of the first stage and its share of epsilon; the stages have the rest.
        delta: At which epsilon holds; used by priors that are not pure.
        retrain_epochs: Epochs of a last round, on the labels that the last stage's model agrees
            with (`consensus`); 0 for none.
    """

    epsilon: float = 1.0
    stages: int = 2
    splits: tuple[float, ...] | None = None
    temperature: float = 0.5
    later_mixup: float | None = None
    warm_start: bool = True
    filter_earlier: bool = True
    loss: RobustLoss = RobustLoss.CROSS_ENTROPY
    partition_seed: int = 0
    prior: PriorSettings = field(default_factory=PriorSettings)
    delta: float = USUAL_DELTA
    retrain_epochs: int = 0

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon, temperature=self.temperature)
        _validate.between(0, 1, delta=self.delta)
        _validate.whole(partition_seed=self.partition_seed, retrain_epochs=self.retrain_epochs)
        checked_shares(self.splits, stages=self.stages)
        self.recipe.refuse_smoothing("labels are released with noise")
        if self.later_mixup is not None:
            _validate.non_negative(later_mixup=self.later_mixup)
        if self.epochs - self.retrain_epochs < self.stages:
            raise ValueError(
                f"epochs is {self.epochs}, {self.retrain_epochs} of them to retrain, for "
                f"{self.stages} stages; epochs are those of all stages together, and each stage "
                "needs at least one"
            )

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the labels that each stage releases."""
        return checked_shares(self.splits, stages=self.stages)

    def stage_epochs(self, stage: int) -> int:
        """Epochs of a stage, counted from 0; what can't be divided goes to the first ones."""
        epochs = self.epochs - self.retrain_epochs
        return epochs // self.stages + (stage < epochs % self.stages)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: epsilon per label, however many stages there are.

        What a later stage asks follows from the model of the one before, hence from everything
        that went into that: trials share their releases only if they are the same throughout. A
        single stage asks under its first prior alone.
        """
        spent, left = self.prior.split(self.epsilon)
        before = self.prior.planned_charge(epsilon=spent, delta=self.delta, num_classes=num_classes)
        mechanism = RRWithPrior(epsilon=left)
        if self.stages == 1:
            alone = self.prior.source is PriorSource.UNIFORM
            release = None if alone else (mechanism, self.prior, self.epsilon, self.delta)
            return PlannedCharge.of(mechanism, release=release, before=before)
        return PlannedCharge.of(
            mechanism, release=(self, seed), releases=self.stages, before=before
        )

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> Trainer:
        """Ask for the prior, if it costs something, and the first part's labels.

        Raises:
            BudgetExceeded: A release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.consensus import Consensus
        from labeldp.trainers.methods.lp_mst import LpMst

        spent, left = self.prior.split(self.epsilon)
        prior = None
        if self.prior.source is not PriorSource.UNIFORM:
            prior = self.prior.learn(data, labels, epsilon=spent, delta=self.delta)
        trainer = LpMst(
            self,
            data=data,
            labels=labels,
            seed=seed,
            performance=performance,
            first_prior=prior,
            epsilon=left,
        )
        if not self.retrain_epochs:
            return trainer
        return Consensus(
            trainer,
            noisy=trainer.noisy_labels,
            first_epochs=self.epochs - self.retrain_epochs,
            second=self.learner(epochs=self.retrain_epochs),
            data=data,
            seed=seed,
            performance=performance,
        )

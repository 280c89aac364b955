"""Settings of moment labels in stages (`staged_moments`)."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from labeldp.mechanisms import _validate
from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.calibration import calibrate_gaussian
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.trainers.methods.priors import PriorSettings, PriorSource
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.learner import LearnerConfig
from labeldp.trainers.trainer import LabelSource, PlannedCharge, TrainerDefaults

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.staged_moments import StagedMoments


@dataclass(frozen=True, kw_only=True)
class StagedMomentsConfig(LearnerConfig, TrainerDefaults):
    """Settings of moment labels in stages; `epochs` are those of all stages together.

    Attributes:
        epsilon: Privacy loss per label, of all stages together.
        delta: At which epsilon holds.
        stages: How often labels are asked for; each time with noise that is larger by the root of
            their number.
        earlier_epochs: Epochs of each stage but the last, which has the others: a network learns
            soon what is in moment labels, and is then wanted for its features alone.
        prior: How moments are taken, and of which features beside the network's own; it gets all
            of epsilon, whatever its share.
    """

    epsilon: float = 1.0
    delta: float = USUAL_DELTA
    stages: int = 2
    earlier_epochs: int = 4
    prior: PriorSettings = field(default_factory=lambda: PriorSettings(source=PriorSource.MOMENTS))

    def __post_init__(self) -> None:
        """Check every field."""
        super().__post_init__()
        _validate.positive(epsilon=self.epsilon)
        _validate.between(0, 1, delta=self.delta)
        _validate.whole(minimum=1, stages=self.stages, earlier_epochs=self.earlier_epochs)
        self.recipe.refuse_smoothing("moment labels are learned from, which are soft by themselves")
        if self.prior.source is not PriorSource.MOMENTS:
            raise ValueError(
                f"prior.source is {self.prior.source}; the stages are of moments: leave it out, or "
                "take method prior_labels for another prior"
            )
        if self.stage_epochs(self.stages - 1) < 1:
            raise ValueError(
                f"epochs is {self.epochs} for {self.stages} stages, of which each but the last has "
                f"{self.earlier_epochs} (earlier_epochs); the last one needs an epoch too"
            )

    def stage_epochs(self, stage: int) -> int:
        """Epochs of a stage, counted from 0."""
        last = stage == self.stages - 1
        return self.epochs - stage * self.earlier_epochs if last else self.earlier_epochs

    def mechanism(self, num_classes: int) -> LabelMoments:
        """Return what asks for the labels, in every stage.

        Gaussian noise adds up in squares: S releases whose noise is larger by the root of S cost
        what one release costs (Dong, Roth, Su, "Gaussian differential privacy", Corollary 3.3),
        whatever a later question owes to earlier answers.
        """
        once = calibrate_gaussian(epsilon=self.epsilon, delta=self.delta).noise_std
        return LabelMoments(noise_std=once * math.sqrt(self.stages), num_classes=num_classes)

    def planned_charge(self, *, num_classes: int, seed: int) -> PlannedCharge:
        """Return what a trial will pay: every label pays for as many releases as there are stages.

        The first is that of the prior's own features, which others may share. What a later stage
        asks follows from the network of the one before, hence from everything that went into that.
        """
        mechanism = self.mechanism(num_classes)
        charge = self.prior.planned_release(mechanism)
        for stage in range(1, self.stages):
            charge = PlannedCharge.of(mechanism, release=(self, seed, stage), before=charge)
        return charge

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "StagedMoments":
        """Ask for the first stage's labels and set its network up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data.
        """
        from labeldp.trainers.methods.staged_moments import StagedMoments

        return StagedMoments(self, data=data, labels=labels, seed=seed, performance=performance)

"""Settings of LP-MST on ratings (`recommender`)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from labeldp.trainers.models.losses import RobustLoss
from labeldp.trainers.models.schedules import Schedule
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.lp_mst import LpMstConfig
from labeldp.trainers.settings.model_name import ModelName
from labeldp.trainers.trainer import LabelSource

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData
    from labeldp.trainers.methods.recommender import Recommender


@dataclass(frozen=True, kw_only=True)
class RecommenderConfig(LpMstConfig):
    """Settings of LP-MST, with defaults for ratings.

    Weight decay pulls at all users in every step, while a user is in one batch of many: what suits
    other networks would undo what is learned of a user before the next rating comes. And the mean
    under the softmax is meant to be right, so that the noise in ratings is accounted for in the
    loss; trained on noisy ratings as if they were true, it would be drawn to the middle.
    """

    model: ModelName | str = ModelName.TWO_BRANCH
    epochs: int = 20
    learning_rate: float = 0.1
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 1e-6
    loss: RobustLoss = RobustLoss.FORWARD

    def start(
        self, *, data: "PublicData", labels: LabelSource, seed: int, performance: Performance
    ) -> "Recommender":
        """Ask for the first part's ratings and set the first stage up.

        Raises:
            BudgetExceeded: The release would take a label over the budget.
            ValueError: Settings that do not fit the data, or classes that are no numbers.
        """
        from labeldp.trainers.methods.recommender import Recommender, stars_of

        stars_of(data)
        trainer = super().start(data=data, labels=labels, seed=seed, performance=performance)
        return Recommender(trainer, data=data)

"""How a network is trained: what most trainers' settings begin with."""

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from labeldp.mechanisms import _validate
from labeldp.trainers.models.own_models import OwnModel, chosen_model
from labeldp.trainers.models.schedules import WARMUP_FRACTION, Recipe, Schedule
from labeldp.trainers.settings.model_name import ModelName

if TYPE_CHECKING:  # torch is loaded when a trial starts, and not to plan one
    from labeldp.trainers.data.labelled_data import PublicData


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """How a network is trained: plain fields, for trainers to inherit.

    Attributes:
        model: Which network; `module:Name` for one of the user's own (`own_models`).
        width: Its width, see `ModelName`; None takes the network's own.
        epochs: Passes over the training examples.
        batch_size: Examples in a step.
        learning_rate: Highest rate of SGD.
        momentum: In [0, 1).
        nesterov: Look ahead along the momentum.
        weight_decay: Pull of all parameters to 0.
        schedule: How the rate moves after its warm-up.
        warmup: Fraction of the epochs in which the rate rises.
        augment: Random crops and flips; for photographs, not for digits, and not for tables.
        mixup: Alpha of mixup (Zhang et al. 2018); 0 for none. One share per batch, drawn from
            Beta(alpha, alpha), mixes the batch with itself in reverse order.
        dropout: Share of hidden units that each step leaves out; for the MLP.
        recipe: Pieces that the fast network is trained with, and that others may have.
    """

    model: ModelName | str = ModelName.MLP
    width: int | None = None
    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 0.05
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 1e-4
    schedule: Schedule = Schedule.STEPS
    warmup: float = WARMUP_FRACTION
    augment: bool = False
    mixup: float = 0.0
    dropout: float = 0.0
    recipe: Recipe = field(default_factory=Recipe)

    def __post_init__(self) -> None:
        """Check every field."""
        object.__setattr__(self, "model", chosen_model(self.model))
        _validate.members(self, model=OwnModel)
        if self.width is not None:
            _validate.whole(minimum=1, width=self.width)
        _validate.whole(minimum=1, epochs=self.epochs, batch_size=self.batch_size)
        _validate.positive(learning_rate=self.learning_rate)
        _validate.non_negative(
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            warmup=self.warmup,
            mixup=self.mixup,
            dropout=self.dropout,
        )
        for name in ("momentum", "warmup", "dropout"):
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be below 1")

    def check_data(self, data: "PublicData") -> None:
        """Refuse a network of the user's that can't be built for these data.

        Raises:
            ValueError: Says why.
        """
        from labeldp.trainers.models.predictors import NetworkSettings

        NetworkSettings.check_own(data, model=self.model, width=self.width)

    def learner(self, **changes: Any) -> "LearnerConfig":
        """Return how a network is trained, less what a trainer adds to it, with some changes."""
        own = {each.name: getattr(self, each.name) for each in fields(LearnerConfig)}
        return LearnerConfig(**{**own, **changes})

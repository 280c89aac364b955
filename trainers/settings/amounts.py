"""Settings of regression on secret amounts."""

from enum import StrEnum

from labeldp.mechanisms.accounting import USUAL_DELTA
from labeldp.mechanisms.amounts import AmountChannel, AmountNoise, AmountSums
from labeldp.trainers.settings.base import Fraction, Positive, Share, key, settings
from labeldp.trainers.trainer import PlannedCharge, StartedMethod

#: Sums are better up to here, single amounts beyond (docs/amounts.md).
_SUMS_UP_TO = 3.0


class Task(StrEnum):
    """The task; the only one here, so that `trainer.task=regression` names this method."""

    REGRESSION = "regression"


class AmountRelease(StrEnum):
    """Release of the amounts; AUTO chooses by epsilon, delta and loss."""

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
    release: AmountRelease, *, epsilon: float, delta: float, loss: AmountLoss
) -> AmountRelease:
    """Return the release that AUTO stands for; refuse sums that cannot be."""
    sums = delta > 0 and loss.of_mean
    if release is AmountRelease.SUMS and not sums:
        raise ValueError(
            f"delta is {delta:g} and loss {loss.value!r}; sums have Gaussian noise, which needs a "
            "delta above 0, and give means: take a loss of squared, poisson, or request "
            "randomized_response in their place"
        )
    if release is not AmountRelease.AUTO:
        return release
    best = sums and epsilon <= _SUMS_UP_TO
    return AmountRelease.SUMS if best else AmountRelease.RANDOMIZED_RESPONSE


@settings
class AmountsConfig(StartedMethod):
    """Settings of regression on released amounts, by boosted trees."""

    started_by = "labeldp.trainers.methods.amounts:AmountTrainer"
    epochs = 1

    task: Task = key(Task.REGRESSION, "Task; `regression` selects method=amounts.")
    release: AmountRelease = key(
        AmountRelease.AUTO,
        "Release of the amounts: `sums` (noisy sums along functions of the features), or a "
        "noisy amount per row (`unbiased`, `least_error` or `randomized_response`). `auto` "
        "chooses by epsilon, delta and loss.",
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

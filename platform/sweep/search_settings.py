"""Searches that learn and schedulers that stop early, as settings of a sweep.

>>> AshaStop(grace_epochs=2, keep_one_in=3).rungs(30)
(2, 6, 18)
"""

from dataclasses import dataclass
from enum import StrEnum

from labeldp.mechanisms import _validate


class SearchName(StrEnum):
    """What `--search` takes."""

    OPTUNA = "optuna"


class StopName(StrEnum):
    """What `--stop` takes."""

    ASHA = "asha"


@dataclass(frozen=True, kw_only=True)
class OptunaSearch:
    """Random axes are searched: each trial's values follow from what earlier trials found.

    By tree-structured Parzen estimators (Bergstra et al. 2011), of Optuna through Ray Tune. The
    first ten trials are random draws. Axes that are grids stay grids: there is one search at each
    of their points and for each variant.

    Attributes:
        trials: Of each search; all of them are run.
        seed: Of what is suggested. Trials that run side by side end in an order of their own, and
            what is suggested depends on what has ended.
    """

    trials: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.whole(minimum=1, trials=self.trials)
        _validate.whole(seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class AshaStop:
    """Trials that fall behind are stopped (ASHA; Li et al. 2020), by Ray Tune's scheduler.

    Each trial is compared at its rungs, epochs `grace_epochs * keep_one_in**k`, with all that got
    there before it. One that is not among the best there ends as every trial does: it is
    evaluated, audited and recorded, after fewer epochs.

    Attributes:
        grace_epochs: The first rung; no trial stops before.
        keep_one_in: Of so many trials at a rung one goes on.
    """

    grace_epochs: int = 1
    keep_one_in: int = 4

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.whole(minimum=1, grace_epochs=self.grace_epochs)
        _validate.whole(minimum=2, keep_one_in=self.keep_one_in)

    def rungs(self, epochs: int) -> tuple[int, ...]:
        """Return after which epochs a trial of so many is compared; its last is none of them."""
        found = []
        rung = self.grace_epochs
        while rung < epochs:
            found.append(rung)
            rung *= self.keep_one_in
        return tuple(found)

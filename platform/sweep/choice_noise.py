"""Whether trials can be told apart by estimates of their accuracy, or noise decides.

An estimate is unbiased, and that of the luckiest of several trials is too high: of k equally good
ones the best looks better than it is by the largest of k draws of noise. Where that is much, the
choice is a lottery, and is refused.

>>> swamped = ChoiceNoise(candidates=9, noise=0.28)
>>> swamped.swamps, round(swamped.luck, 2)
(True, 0.42)
>>> ChoiceNoise(candidates=9, noise=0.04).swamps
False
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.sweep.accuracy_figures import ChooseBy, estimate_of
from labeldp.platform.sweep.configuration import two_digits

#: Of noise, and of the luck of the best, as shares of the labels: what a choice may rest on.
MOST_NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class ChoiceNoise:
    """What noise does to a choice.

    Attributes:
        candidates: How many trials are compared.
        noise: Standard deviation of an estimate's noise, of the noisiest of them. Which labels are
            held out is a matter of chance as well, but one that all trials share.
        spread: By how much the estimates differ; None where there are none yet.
        lead: By how much the best is ahead of the next; None beforehand, and for one alone.
        epsilon: Of the cheapest count; None where it is not known, or nothing is counted.
    """

    candidates: int
    noise: float
    spread: float | None = None
    lead: float | None = None
    epsilon: float | None = None

    @classmethod
    def among(cls, estimates: Sequence[AccuracyEstimate]) -> "ChoiceNoise":
        """Look at estimates that a trial is to be chosen by, at least one."""
        found = sorted(each.accuracy for each in estimates)
        return cls(
            candidates=len(estimates),
            noise=max(map(_noise, estimates)),
            spread=found[-1] - found[0],
            lead=found[-1] - found[-2] if len(found) > 1 else None,
        )

    @property
    def luck(self) -> float:
        """By how much the best of equally good trials looks better than it is, on average.

        The largest of k normal draws, by Blom (1958): within 0.03 standard deviations.
        """
        if self.candidates < 2:
            return 0.0
        return float(ndtri((self.candidates - 0.375) / (self.candidates + 0.25))) * self.noise

    @property
    def swamps(self) -> bool:
        """Whether the choice would be one of noise, and could cost much."""
        return self.candidates > 1 and max(self.noise, self.luck) > MOST_NOISE

    @property
    def within_noise(self) -> bool:
        """Whether the best is no further ahead of the next than noise alone may put it."""
        return self.lead is not None and self.lead <= math.sqrt(2) * self.noise

    @property
    def text(self) -> str:
        """What the noise is, in words."""
        said = f"an estimate's noise has a standard deviation of {_points(self.noise)}"
        if self.candidates > 1:
            said += (
                f", so that the luckiest of {self.candidates} equally good trials looks "
                f"{_points(self.luck)} better than it is"
            )
        if self.spread is not None and self.candidates > 1:
            said += f"; their estimates differ by {_points(self.spread)} at most"
        return said

    def refuse(self, *, instead: str) -> None:
        """Refuse a choice that noise would make.

        Args:
            instead: How to choose without the estimates, for the end of the message.

        Raises:
            ValueError: Names the noise, the bound, where it comes from and the ways out.
        """
        if self.swamps:
            enough = ""
            if self.epsilon is not None:
                asked = self.epsilon * max(self.noise, self.luck) / MOST_NOISE
                enough = f"; {two_digits(asked, math.ceil):g} would do"
            raise ValueError(
                f"noise is too large to choose by estimated accuracy: {self.text}, and more than "
                f"{_points(MOST_NOISE)} of noise or luck is refused. A count's noise is 1.4 / "
                "(evaluation.epsilon x held-out labels): hold more labels out "
                f"(evaluation.held_out_share), or ask for dearer counts "
                f"(evaluation.epsilon{enough}), which only those labels pay; or {instead}"
            )


def refuse_lottery(records: Sequence[TrialRecord], *, by: ChooseBy) -> None:
    """Refuse to choose among finished trials by estimates that noise swamps.

    Args:
        records: All that the best is chosen from.
        by: What it is chosen by.

    Raises:
        ValueError: Names the noise, the bound, and the ways out.
    """
    noise = _among(records, by=by)
    if noise is not None:
        noise.refuse(
            instead="name a trial yourself, or an epsilon that leaves fewer to choose from"
        )


def doubt_of(records: Sequence[TrialRecord], *, by: ChooseBy) -> str:
    """Say that the best of finished trials may be so by noise alone; empty if that is unlikely.

    Args:
        records: All that the best is chosen from.
        by: What it is chosen by.
    """
    noise = _among(records, by=by)
    if noise is None or not noise.within_noise:
        return ""
    return (
        "another of them may well be as good or better: the next is "
        f"{_points(noise.lead or 0.0)} behind, and {noise.text}"
    )


def _among(records: Sequence[TrialRecord], *, by: ChooseBy) -> ChoiceNoise | None:
    found = [each for each in (estimate_of(record.metrics) for record in records) if each]
    return ChoiceNoise.among(found) if by is ChooseBy.ESTIMATED and found else None


def _noise(estimate: AccuracyEstimate) -> float:
    if estimate.count_scale:
        return math.sqrt(2) * estimate.count_scale
    # Of a release all noise is in there, and how much of it two trials share nobody knows.
    return estimate.sampling_error


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"

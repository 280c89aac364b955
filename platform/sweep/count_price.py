"""What a count of right answers among held-out labels costs where nobody says.

Held-out labels pay for counts and for nothing else. As long as a trial's counts cost no more than
its training, and all of them together no more than all training, neither is dearer for them: that
much is free, and up to there the price is what makes the count of use. It is known before anything
is asked, is in the plan, and is hashed and recorded as if it had been stated.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.choice_noise import ChoiceNoise
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.evaluation_settings import Estimate, default_epsilon
from labeldp.platform.sweep.stand_ins import DataFacts, Search, learned
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep


def with_count_price(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    facts: DataFacts,
    *,
    by: ChooseBy,
    overrides: Mapping[str, Any],
    budgeted: bool,
    fingerprint: str,
) -> tuple[list[PlannedTrial], Search | None, float | None]:
    """Return what `learned` does, with the price of counts in every configuration, and that price.

    It is None where it is stated for every trial, or nothing is counted.

    Args:
        sized: At the size asked for.
        listed: Its trials, where there is no search.
        facts: Of the data.
        by: The accuracy that is learned from.
        overrides: Dotted key -> value, list or axis.
        budgeted: Whether there is a budget.
        fingerprint: Of the public data.

    Raises:
        ConfigurationError: As of `learned`.
    """
    asked: dict[str, Any] = {"by": by, "overrides": overrides, "budgeted": budgeted}
    trials, search = learned(sized, listed, facts, **asked, fingerprint=fingerprint)
    if not facts.held_out or not any(map(_unsaid, (trial.config for trial in trials))):
        return trials, search, None
    epsilon = facts.count_before or default_epsilon(
        held_out=facts.held_out, free=free_epsilon(trials, num_classes=facts.num_classes)
    )
    sized = replace(sized, base=_at(sized.base, epsilon))
    listed = [replace(trial, config=_at(trial.config, epsilon)) for trial in listed]
    return *learned(sized, listed, facts, **asked, fingerprint=fingerprint), epsilon


def free_epsilon(trials: Sequence[PlannedTrial], *, num_classes: int) -> float:
    """Return the most that each count may cost without making a trial or the sweep dearer.

    Baselines without noise pay without limit, and set none.

    Args:
        trials: Planned, or stand-ins of a search.
        num_classes: K of their data set.
    """
    training = cost_of(trials, num_classes=num_classes).epsilons
    pairs = list(zip(trials, training, strict=True))
    private = [trial for trial, epsilon in pairs if math.isfinite(epsilon)]
    if not private:
        return math.inf
    together = cost_of(private, num_classes=num_classes).epsilon_total
    each = [epsilon / trial.estimates_each for trial, epsilon in pairs]
    return min(together / counts_of(trials), *each)


def counts_of(trials: Sequence[PlannedTrial]) -> int:
    """Return how many counts are asked for; another price of the same trials asks for none more."""
    return sum(trial.estimates for trial in trials if trial.stands_for)


def choice_beforehand(trials: Sequence[PlannedTrial], *, held_out: int) -> ChoiceNoise | None:
    """Return what noise will do to a choice among trials; None where it is not one of counts.

    Args:
        trials: With the price of their counts.
        held_out: H, labels that are counted.
    """
    found = [trial.config.evaluation for trial in trials]
    if not held_out or any(each.estimate is not Estimate.COUNT for each in found):
        return None
    cheapest = min(each.count_epsilon for each in found)
    return ChoiceNoise(
        candidates=sum(trial.stands_for for trial in trials),
        noise=CorrectCount(epsilon=cheapest).noise_std / held_out,
        epsilon=cheapest,
    )


def count_note(trials: Sequence[PlannedTrial], *, held_out: int) -> str:
    """Say what counts will cost and how noisy they are; empty where there are none."""
    noise = choice_beforehand(trials, held_out=held_out)
    if noise is None:
        return ""
    prices = sorted({trial.config.evaluation.count_epsilon for trial in trials})
    many = counts_of(trials)
    price = f"{prices[0]:.3g}" if len(prices) == 1 else f"{prices[0]:.3g} to {prices[-1]:.3g}"
    counts = "one count" if many == 1 else f"each of {many} counts"
    useless = ": too much to choose a trial by" if noise.swamps else ""
    return (
        f"accuracy is estimated on {held_out:,} held-out labels, which pay epsilon {price} for "
        f"{counts} of right answers and for nothing else; {noise.text}{useless}"
    )


def _unsaid(config: TrialConfig) -> bool:
    evaluation = config.evaluation
    return evaluation.estimate is Estimate.COUNT and evaluation.epsilon is None


def _at(config: TrialConfig, epsilon: float) -> TrialConfig:
    """A configuration with the price of its counts, if nobody has said one."""
    if config.evaluation.epsilon is not None:
        return config
    return replace(config, evaluation=replace(config.evaluation, epsilon=epsilon))

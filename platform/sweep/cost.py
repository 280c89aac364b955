"""The releases that trials request, their price, and whether a budget allows it."""

import json
import math
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.amounts import ErrorSums
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.ledger import (
    Budget,
    BudgetExceeded,
    Priced,
    epsilon_of_prices,
    least_total,
    ledger_of,
    total_of_prices,
)
from labeldp.mechanisms.release_store import describe
from labeldp.mechanisms.score_histogram import ScoreHistogram
from labeldp.mechanisms.vault import Charge
from labeldp.platform.settings.configuration import ConfigurationError, Estimate, TrialConfig
from labeldp.platform.settings.sweep import PlannedTrial
from labeldp.trainers.data.splits import DataSize
from labeldp.trainers.settings.trainer import PlannedCharge


@dataclass(frozen=True, kw_only=True)
class SweepCost:
    """The price of a list of trials.

    Attributes:
        epsilon_total: Of a label that all releases touch: all of them composed.
        delta: At which the total holds; 0 where it is a sum of pure epsilons.
        epsilon_estimates: Of a held-out label, which pays for estimates of accuracy alone.
    """

    epsilons: tuple[float, ...]
    releases: int
    epsilon_total: float
    delta: float
    trials: int
    epsilon_estimates: float = 0.0
    trained: Sequence[Priced] = field(default=(), repr=False)
    estimated: Sequence[Priced] = field(default=(), repr=False)

    def epsilon_at(self, delta: float) -> float:
        """Epsilon of the label that pays most, at another delta than the total is stated at."""
        return _dearest((self.trained, self.estimated), delta=delta)


def _dearest(parts: Sequence[Sequence[Priced]], *, delta: float) -> float:
    return max(epsilon_of_prices(part, delta=delta) for part in parts)


def cost_of(
    trials: Sequence[PlannedTrial], *, num_classes: int, with_estimates: bool = False
) -> SweepCost:
    """Compose the requests of `trials` to one vault.

    Held-out labels pay for estimates of accuracy and for nothing else: the dearest label pays the
    larger of the two sums, and not both. `with_estimates`: whether labels are held out.
    """
    epsilons: list[float] = []
    charges: dict[tuple[object, ...], PlannedCharge] = {}
    estimates: dict[tuple[object, ...], PlannedCharge] = {}
    for number, trial in enumerate(trials):
        config = trial.config
        copies: list[object] = [0]
        if trial.own_releases:
            copies = [(number, copy) for copy in range(trial.own_releases)]
        own = releases_of(trial, num_classes=num_classes)
        # Where much may fail that is a larger delta, as in the trial's record, and never the sum's.
        epsilon, _ = total_of_prices(own.values(), delta=config.trainer.delta)
        charges |= {(*key, copy): part for key, part in own.items() for copy in copies}
        if with_estimates:
            asked = planned_estimate(config, num_classes=num_classes)
            each = 1
            if config.evaluation.estimate is not Estimate.RELEASE:
                copies = list(range(trial.estimates))
                each = trial.estimates_each
            estimates |= {(asked.release, config.noise, copy): asked for copy in copies}
            shown = epsilon_of_prices([asked] * each, delta=config.trainer.delta)
            epsilon = max(epsilon, shown)
        epsilons.append(epsilon)
    trained = tuple(charges.values())
    estimated = tuple(estimates.values())
    every = [*trained, *estimated]
    most = max(trial.config.trainer.delta for trial in trials)
    epsilon, delta = least_total(partial(_dearest, (trained, estimated)), every, delta=most)
    return SweepCost(
        epsilons=tuple(epsilons),
        releases=sum(charge.releases for charge in every),
        epsilon_total=epsilon,
        delta=delta,
        trials=sum(trial.stands_for for trial in trials),
        epsilon_estimates=epsilon_of_prices(estimated, delta=delta),
        trained=trained,
        estimated=estimated,
    )


def releases_of(
    trial: PlannedTrial, *, num_classes: int
) -> dict[tuple[Hashable, ...], PlannedCharge]:
    """Return a trial's charges on labels to train on; equal keys are one release."""
    config = trial.config
    charge = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    if charge is None:
        return {}
    # Another device or precision trains another model, and so requests a release of its own
    # wherever the release depends on a model; elsewhere one too many is planned.
    how = config.performance
    return {(part.release, config.noise, how): part for part in charge.chain()}


def held_out_mechanism(config: TrialConfig, *, num_classes: int) -> Any:
    """Return the mechanism of a trial's estimate of accuracy."""
    settings = config.evaluation
    if config.of_amounts:
        if settings.estimate is not Estimate.COUNT:
            raise ConfigurationError(
                f"evaluation.estimate is {settings.estimate}, which is of classes; errors of "
                "amounts are estimated from sums: leave it out"
            )
        largest = settings.largest_error or 1.0
        return ErrorSums(epsilon=settings.count_epsilon, largest=largest)
    if settings.estimate is Estimate.COUNT:
        return CorrectCount(epsilon=settings.count_epsilon)
    if settings.estimate is Estimate.HISTOGRAM:
        return ScoreHistogram(epsilon=settings.count_epsilon)
    planned = config.trainer.planned_charge(num_classes=num_classes, seed=config.seed)
    own = None if planned is None else planned.release
    if not isinstance(own, PerLabel):
        raise ConfigurationError(
            f"evaluation.estimate is release, but method {config.method!r} with these settings "
            "releases nothing about single labels; use evaluation.estimate=count"
        )
    return own


def planned_estimate(config: TrialConfig, *, num_classes: int) -> PlannedCharge:
    """Return the charge on each held-out label for a trial's estimate of accuracy."""
    mechanism = held_out_mechanism(config, num_classes=num_classes)
    shared = config.evaluation.estimate is Estimate.RELEASE
    # Counts depend on predictions: a plan can't foresee which trials predict alike and share one.
    return PlannedCharge.of(mechanism, release=None if shared else (config, "count"))


def budget_of(
    stated: Budget | None, max_epsilon_total: float | None, *, delta: float
) -> Budget | None:
    """Return the most that a label may pay: the smaller epsilon of sweep and command line.

    The delta of `stated` stands; `delta` is of a budget that the command line alone sets.
    """
    if max_epsilon_total is None:
        return stated
    requested = Budget(epsilon=max_epsilon_total, delta=delta)
    if stated is None:
        return requested
    return replace(stated, epsilon=min(stated.epsilon, requested.epsilon))


def check_budget(
    cost: SweepCost, budget: Budget | None, *, trials: Sequence[PlannedTrial] = ()
) -> None:
    """Refuse a plan that the budget can't pay; `trials` are in the order of `cost.epsilons`."""
    if budget is None or budget.allows(requested := cost.epsilon_at(budget.delta)):
        return
    bare = sorted(
        {
            trial.variant
            for trial, epsilon in zip(trials, cost.epsilons, strict=False)
            if math.isinf(epsilon)
        }
    )
    fix = ""
    if bare:
        named = " ".join(f'--without "{name}"' for name in bare)
        fix = (
            f"the line {' and '.join(map(repr, bare))} trains on labels without noise, which makes "
            f"the total infinite; leave it out with {named}"
        )
    request = f"a sweep of {cost.trials} trials with {cost.releases} releases"
    raise BudgetExceeded(budget=budget, spent=0.0, requested=requested, request=request, fix=fix)


def check_what_is_left(
    trials: Sequence[PlannedTrial],
    earlier: Sequence[Charge],
    size: DataSize,
    *,
    read: Collection[str] = (),
    budget: Budget | None,
) -> None:
    """Refuse a plan that the budget can't pay beside the releases of earlier starts (`earlier`).

    A release that the ledger may hold already counts as paid. Whether it does depends on labels and
    on public inputs, so the vault decides; nothing is refused here that it would grant. Held-out
    labels pay for no training. `read`: keys of the releases that finished trials have read.
    """
    if budget is None:
        return
    num_labels = size.num_labels
    every = size.num_labels + size.held_out
    apart = [charge for charge in earlier if charge.is_beyond(num_labels)]
    paid = {_line(each.mechanism) for each in earlier if not each.is_beyond(num_labels)}
    planned: dict[str, PlannedCharge] = {}
    new: list[PlannedCharge] = []
    for trial in trials:
        for part in releases_of(trial, num_classes=size.num_classes).values():
            if trial.own_releases:
                new += [part] * trial.own_releases
            elif is_dataclass(part.release) and not isinstance(part.release, type):
                planned[_line(describe(part.release, trial.config.noise.source()))] = part
    new += [part for line, part in planned.items() if line not in paid]
    estimates = _new_estimates(trials, apart, size, read) if size.held_out else []
    ledger = ledger_of(earlier, num_labels=every)
    spent = ledger.epsilon_or_infinity(delta=budget.delta)
    for parts, labels in ((new, range(num_labels)), (estimates, range(num_labels, every))):
        ledger.add_failures(parts)
        for part in parts:
            ledger.charge(part.event, indices=np.array(labels))
    requested = ledger.epsilon_or_infinity(delta=budget.delta)
    number = len(new) + len(estimates)
    if not number or budget.allows(requested):
        return
    left = sum(trial.stands_for for trial in trials)
    raise BudgetExceeded(
        budget=budget,
        spent=spent,
        requested=requested,
        request=f"a sweep with {left} trials left and {number} releases that are new",
    )


def _new_estimates(
    trials: Sequence[PlannedTrial], stored: Sequence[Charge], size: DataSize, read: Collection[str]
) -> list[PlannedCharge]:
    """Charges that estimates of accuracy will add on held-out labels.

    A stored release serves every trial. A count is of one trial's predictions: those that no
    finished trial has read may be of trials that ended too early for a record; further trials
    request new ones.
    """
    known = {_line(charge.mechanism) for charge in stored}
    begun = Counter(_line(charge.mechanism) for charge in stored if charge.key not in read)
    new: list[PlannedCharge] = []
    for trial in trials:
        asked = planned_estimate(trial.config, num_classes=size.num_classes)
        mechanism = held_out_mechanism(trial.config, num_classes=size.num_classes)
        line = _line(describe(mechanism, trial.config.noise.source()))
        if trial.config.evaluation.estimate is not Estimate.RELEASE:
            begun[line] -= trial.estimates
            fresh = min(max(-begun[line], 0), trial.estimates)
        elif trial.own_releases:
            fresh = trial.own_releases
        else:
            fresh = int(line not in known)
            known.add(line)
        new += [asked] * fresh
    return new


def _line(description: Mapping[str, Any]) -> str:
    return json.dumps(description, sort_keys=True, default=str)

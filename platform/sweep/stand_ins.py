"""What a search may cost before it has chosen anything, and which of its axes touch a release.

Trials that read one stored release pay for it once, whatever they were chosen by: what is computed
from a release is post-processing. So an axis that no release depends on may be searched at no cost.
Whether one does is asked of `planned_charge` itself, at probes of the axes and again at every
setting that is suggested (`Search.planned`): no list of names decides, and what was not foreseen
is not run.

An axis that does touch a release makes every trial ask for another one, and which ones depends on
what came out before. Such a search is held to the dearest way that it could go, and that has to fit
a budget beforehand.
"""

import operator
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labeldp.mechanisms.accounting import DecisionEvent, Event, GaussianEvent, epsilon_of
from labeldp.mechanisms.ledger import all_pure, failure_of
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.cost import releases_of
from labeldp.platform.sweep.evaluation import planned_evaluation
from labeldp.platform.sweep.evaluation_settings import Estimate
from labeldp.platform.sweep.search_settings import AshaStop
from labeldp.platform.sweep.strands import Numbers, Strand, strands_of
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep

#: What a trial asks of the vault, but for counts of right answers, which all trials ask anew.
Asked = frozenset[Hashable]


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What trials ask depends on, beside their settings.

    Attributes:
        num_classes: K.
        with_estimates: Whether labels are held out, and each trial asks how accurate it is.
        held_out: H, how many of them.
        count_before: What a count cost in an earlier start where nobody said; None if there was
            none.
    """

    num_classes: int
    with_estimates: bool
    held_out: int = 0
    count_before: float | None = None


def asked_by(trial: PlannedTrial, facts: DataFacts) -> Asked:
    """Return what a trial will ask of the vault; trials with equal answers share all of it."""
    config = trial.config
    asked: set[Hashable] = set(releases_of(trial, num_classes=facts.num_classes))
    asked.add(config.trainer.ensemble)
    if facts.with_estimates:
        estimate = planned_evaluation(config, num_classes=facts.num_classes)
        shared = config.evaluation.estimate is Estimate.RELEASE
        asked.add(("estimate", estimate.release if shared else estimate.event, config.noise))
    return frozenset(asked)


def touching(strand: Strand, facts: DataFacts) -> list[str]:
    """Return the axes on which a strand's releases depend; all of them if only together."""
    found = {numbers: asked_by(trial, facts) for numbers, trial in strand.probed.items()}
    if len(set(found.values())) == 1:
        return []
    guilty = []
    for place, key in enumerate(strand.axes):
        others: dict[Numbers, set[Asked]] = {}
        for numbers, asked in found.items():
            rest = (*numbers[:place], *numbers[place + 1 :])
            others.setdefault(rest, set()).add(asked)
        if any(len(different) > 1 for different in others.values()):
            guilty.append(key)
    return guilty or list(strand.axes)


@dataclass(frozen=True, kw_only=True)
class Search:
    """Searches whose price is known.

    Attributes:
        strands: One search each.
        stand_ins: For each strand, what is priced in place of its trials.
        foreseen: What each strand's trials ask of the vault; None where a budget covers whatever
            they may ask.
        facts: What that depends on beside their settings.
        by: The accuracy that is learned from.
        fingerprint: Of the public data.
    """

    strands: Sequence[Strand]
    stand_ins: Sequence[Sequence[PlannedTrial]]
    foreseen: Sequence[Asked | None]
    facts: DataFacts
    by: ChooseBy
    fingerprint: str

    @property
    def trials(self) -> list[PlannedTrial]:
        """All stand-ins."""
        return [trial for each in self.stand_ins for trial in each]

    def planned(self, place: int, numbers: Numbers) -> PlannedTrial:
        """Return a trial of the strand at `place`.

        Raises:
            ConfigurationError: It can't be used, or asks for a release that its search was not
                priced with.
        """
        trial, foreseen = self.strands[place].planned(numbers), self.foreseen[place]
        if foreseen is not None and asked_by(trial, self.facts) != foreseen:
            raise ConfigurationError(
                f"the search suggests {dict(trial.point)}, which asks for another release of the "
                "labels than the plan has; it is not run. Make the axis a grid, or give the sweep "
                "a budget with --max-epsilon-total"
            )
        return replace(trial, estimates=self.stand_ins[place][0].estimates_each)

    def rest(self, place: int, number: int) -> list[PlannedTrial]:
        """Return what stands in for the trials of a strand that come after `number` of them."""
        left = self.strands[place].size - number
        return [
            replace(
                each,
                stands_for=left if each.stands_for else 0,
                own_releases=left if each.own_releases else 0,
                estimates=left * each.estimates_each,
            )
            for each in self.stand_ins[place]
            if left
        ]


def priced(
    strands: Sequence[Strand],
    facts: DataFacts,
    *,
    by: ChooseBy,
    stop: AshaStop | None,
    budgeted: bool,
    fingerprint: str,
) -> Search:
    """Find out what searches may ask for.

    Args:
        strands: The searches.
        facts: Of the data.
        by: The accuracy that is learned from.
        stop: What stops trials early; by estimates it asks for one at each rung.
        budgeted: Whether there is a budget that the dearest way has to fit.
        fingerprint: Of the public data.

    Raises:
        ConfigurationError: An axis touches a release, and there is no budget.
    """
    trials: list[list[PlannedTrial]] = []
    foreseen: list[Asked | None] = []
    for strand in strands:
        guilty = touching(strand, facts)
        if guilty and not budgeted:
            raise ConfigurationError(
                f"{' and '.join(guilty)} of {strand.name} can't be searched without a budget: each "
                f"of {strand.size} trials could ask for another release of the labels, at a price "
                "that depends on what came out before; make it a grid ([a,b,c]), or say what the "
                "dearest way may cost with --max-epsilon-total"
            )
        probes = list(strand.probed.values())
        foreseen.append(None if guilty else asked_by(probes[0], facts))
        dearest = _dearest(probes, facts) if guilty else probes[:1]
        epochs = max(probe.config.trainer.epochs for probe in probes)
        counted = stop is not None and by is ChooseBy.ESTIMATED
        each = 1 + len(stop.rungs(epochs)) if stop is not None and counted else 1
        size = strand.size
        trials.append(
            [
                replace(
                    trial,
                    stands_for=0 if number else size,
                    own_releases=size if guilty else 0,
                    estimates=size * each,
                )
                for number, trial in enumerate(dearest)
            ]
        )
    return Search(
        strands=strands,
        stand_ins=trials,
        foreseen=foreseen,
        facts=facts,
        by=by,
        fingerprint=fingerprint,
    )


def learned(
    sized: Sweep,
    listed: Sequence[PlannedTrial],
    facts: DataFacts,
    *,
    by: ChooseBy,
    overrides: Mapping[str, Any],
    budgeted: bool,
    fingerprint: str,
) -> tuple[list[PlannedTrial], Search | None]:
    """Return the trials that a sweep is priced by, and its search if it has one.

    Args:
        sized: At the size asked for.
        listed: Its trials, where there is no search.
        facts: Of the data.
        by: The accuracy that is learned from.
        overrides: Dotted key -> value, list or axis.
        budgeted: Whether there is a budget.
        fingerprint: Of the public data.

    Raises:
        ConfigurationError: An axis touches a release, and there is no budget.
    """
    if sized.search is not None:
        search = priced(
            strands_of(sized, overrides),
            facts,
            by=by,
            stop=sized.stop,
            budgeted=budgeted,
            fingerprint=fingerprint,
        )
        return search.trials, search
    if sized.stop is None:
        return list(listed), None
    return [asking_at(trial, sized.stop, by=by) for trial in listed], None


def asking_at(trial: PlannedTrial, stop: AshaStop, *, by: ChooseBy) -> PlannedTrial:
    """Return a trial with the estimates that it asks for at its rungs, beside that at its end."""
    if by is ChooseBy.TEST:
        return trial
    return replace(trial, estimates=1 + len(stop.rungs(trial.config.trainer.epochs)))


def _dearest(probes: Sequence[PlannedTrial], facts: DataFacts) -> list[PlannedTrial]:
    """Return probes that together cost as much as any mixture of probes may.

    A probe is left out if another one with the same counts costs at least as much in any company.
    Less noise may fail less often, so that the probe that fails most stands beside those.
    """
    own = {
        id(probe): list(releases_of(probe, num_classes=facts.num_classes).values())
        for probe in probes
    }

    def covers(dear: PlannedTrial, cheap: PlannedTrial) -> bool:
        counts = [each.config.evaluation for each in (dear, cheap)]
        alike = len({(each.estimate, each.count_epsilon) for each in counts}) == 1
        events = ([part.event for part in own[id(each)]] for each in (dear, cheap))
        return alike and _at_least(*events)

    kept: list[PlannedTrial] = []
    for probe in probes:
        if not any(covers(each, probe) for each in kept):
            kept = [each for each in kept if not covers(probe, each)] + [probe]
    failing = max(probes, key=lambda probe: failure_of(own[id(probe)]))
    if failure_of(own[id(failing)]) and failing not in kept:
        kept.append(failing)
    return kept


def _at_least(dear: Sequence[Event], cheap: Sequence[Event]) -> bool:
    """Whether events cost at least as much as others, whatever both are composed with."""
    if list(dear) == list(cheap):
        return True
    if all_pure([*dear, *cheap]):
        return epsilon_of(dear, delta=0.0) >= epsilon_of(cheap, delta=0.0)
    if len(dear) != 1 or len(cheap) != 1 or type(dear[0]) is not type(cheap[0]):
        return False
    one, other = dear[0], cheap[0]
    if not isinstance(one, GaussianEvent) or not isinstance(other, GaussianEvent):
        return False
    noisier = one.noise_multiplier <= other.noise_multiplier
    if isinstance(one, DecisionEvent) and isinstance(other, DecisionEvent):
        # One epsilon does not order decisions: of two curves that cross, either may be the dearer.
        same = one.orders == other.orders
        return noisier and same and all(map(operator.ge, one.rdp, other.rdp))
    return noisier

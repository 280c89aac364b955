"""The Pareto front of accuracy against provable epsilon, over the trials of a sweep."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from labeldp.platform.results import TrialRecord, dumps


@dataclass(frozen=True, kw_only=True)
class Point:
    """Trials that differ in nothing but their seeds.

    Attributes:
        variant: The line of the comparison.
        point: Values of the axes, but for seeds.
        accuracy: Mean over the trials, in [0, 1].
        accuracy_std: Standard deviation over them; 0 for a single one.
        epsilon: The largest of them.
        delta: The largest of them.
        epsilon_m_low: The smallest lower end of the attack's interval. Each one fails with
            probability 1 - confidence; the largest of several fails more often, the smallest not,
            however the trials depend on each other. Proven at delta 0.
        epsilon_m_high: The largest upper end, for the same reason.
        hashes: The trials.
        noise: Where the trials' noise came from, each kind once.
    """

    variant: str
    point: tuple[tuple[str, Any], ...]
    accuracy: float
    accuracy_std: float
    epsilon: float
    delta: float
    epsilon_m_low: float
    epsilon_m_high: float
    hashes: tuple[str, ...]
    noise: str = ""


def points(records: Iterable[TrialRecord]) -> list[Point]:
    """Group finished trials that differ in seeds only, in order of epsilon."""
    groups: dict[tuple[str, str], list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.finished:
            groups[record.variant, dumps(_axes(record))].append(record)
    found = [_point(members) for members in groups.values()]
    return sorted(found, key=lambda point: (point.epsilon, -point.accuracy))


def same_epsilon(epsilon: float) -> float:
    """Nine digits of epsilon: those that are to be equal, composed in other ways, then are."""
    return float(f"{epsilon:.9g}")


def front(candidates: Iterable[Point]) -> list[Point]:
    """Points that no other beats: none costs less or the same and is more accurate."""
    best: list[Point] = []
    for point in sorted(candidates, key=lambda each: (same_epsilon(each.epsilon), -each.accuracy)):
        if not best or point.accuracy > best[-1].accuracy:
            best.append(point)
    return best


def _axes(record: TrialRecord) -> tuple[tuple[str, Any], ...]:
    seeds = ("seed", "draw")
    return tuple((k, v) for k, v in record.point.items() if k.rpartition(".")[2] not in seeds)


def _point(members: list[TrialRecord]) -> Point:
    def column(name: str) -> list[float]:
        return [record.metrics[name] for record in members]

    accuracies = column("accuracy")
    return Point(
        variant=members[0].variant,
        point=_axes(members[0]),
        accuracy=fmean(accuracies),
        accuracy_std=stdev(accuracies) if len(accuracies) > 1 else 0.0,
        epsilon=max(column("epsilon")),
        delta=max(column("delta")),
        epsilon_m_low=min(column("epsilon_m_low")),
        epsilon_m_high=max(column("epsilon_m_high")),
        hashes=tuple(record.hash for record in members),
        noise=", ".join(sorted({record.noise.value for record in members})),
    )

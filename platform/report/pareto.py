"""The Pareto front of accuracy against provable epsilon, over the trials of a sweep.

Accuracy is that on the public test split, or that which was estimated on held-out labels; or it is
another figure that trials are compared by.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.records.results import TrialRecord, dumps
from labeldp.platform.settings.configuration import LOCAL_KEYS
from labeldp.platform.settings.metrics import (
    SCORE_FIGURES,
    ChoiceNoise,
    ChooseBy,
    chosen_by,
    estimate_of,
)
from labeldp.platform.settings.sweep import without_seeds
from labeldp.trainers.data.splits import League


@dataclass(frozen=True, kw_only=True)
class Point:
    """Trials that differ in nothing but their seeds.

    Attributes:
        point: Values of the axes, but for seeds.
        accuracy: Mean over the trials of what points are compared by (`accuracy_by`).
        epsilon: The largest of them, like `delta`.
        epsilon_m_low: The smallest lower end of the attack's interval. Each one fails with
            probability 1 - confidence; the largest of several fails more often, the smallest not,
            however the trials depend on each other. Proven at delta 0.
        epsilon_m_high: The largest upper end, for the same reason.
        epsilon_m_ceiling: The most that the attack could have proved, of each of them; 0 where
            nothing was attacked, or nothing could be compared.
        league: Of the features, in words; points of different leagues are not compared.
        noise_std: Of privacy's noise in what points are compared by.
        scores: Means of the trials' figures in `SCORES`, estimated or not, with their intervals.
        estimate: Of the accuracy, on held-out labels; of several trials the mean with mean errors,
            for they share the held-out examples.
        seconds: Mean time of a trial; 0 in public.
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
    epsilon_m_ceiling: float = 0.0
    noise: str = ""
    accuracy_by: ChooseBy = ChooseBy.TEST
    noise_std: float = 0.0
    accuracy_test: float | None = None
    league: str = League.NONE.words
    estimate: AccuracyEstimate | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def rank(self) -> float:
        """The figure that compares points, such that more is better."""
        return self.accuracy_by.rank(self.accuracy)


def points(records: Iterable[TrialRecord], *, choose_by: ChooseBy | None = None) -> list[Point]:
    """Group finished trials that differ in seeds only, in order of epsilon, method and accuracy.

    They are compared by the test split's accuracy, where there is one, if `choose_by` is None.
    """
    finished = [record for record in records if record.finished]
    by = chosen_by((record.metrics for record in finished), choose_by)
    groups: dict[tuple[str, str, str], list[TrialRecord]] = defaultdict(list)
    for record in finished:
        league = record.features_from.league.words
        settings = without_seeds({**record.config, **record.point})
        settings = {name: of for name, of in settings.items() if name not in LOCAL_KEYS}
        groups[record.variant, dumps(settings), league].append(record)
    found = [_point(members, by) for members in groups.values()]
    return sorted(
        found, key=lambda x: (same_epsilon(x.epsilon), x.variant.casefold(), x.variant, -x.rank)
    )


def settings_beside_epsilon(points: Sequence[Point]) -> list[str]:
    """Return axes of the search space in order, but for one that repeats epsilon."""
    keys = dict.fromkeys(key for point in points for key, _ in point.point)
    return [key for key in keys if not _is_epsilon(key, points)]


def _is_epsilon(key: str, points: Sequence[Point]) -> bool:
    asked = [(dict(point.point).get(key), point.epsilon) for point in points]
    return key.endswith("epsilon") and all(
        isinstance(value, int | float) and same_epsilon(value) == same_epsilon(epsilon)
        for value, epsilon in asked
        if value is not None
    )


def same_epsilon(epsilon: float) -> float:
    """Nine digits of epsilon: those that are to be equal, composed in other ways, then are."""
    return float(f"{epsilon:.9g}")


def front(candidates: Iterable[Point]) -> list[Point]:
    """Points that no other of their league beats: none costs no more and is more accurate."""
    best: dict[str, list[Point]] = defaultdict(list)
    for point in sorted(candidates, key=lambda x: (same_epsilon(x.epsilon), -x.rank, x.delta)):
        own = best[point.league]
        if not own or point.rank > own[-1].rank:
            own.append(point)
    return [point for own in best.values() for point in own]


def noise_among(points: Sequence[Point]) -> ChoiceNoise:
    """Return the noise of a choice among points, at least one."""
    values, noises = ([getattr(x, name) for x in points] for name in ("accuracy", "noise_std"))
    return ChoiceNoise.among(values, noises, by=points[0].accuracy_by)


def row_of(point: Point) -> dict[str, Any]:
    """Return a point as tables have it; what was not measured is absent."""
    row: dict[str, Any] = {"variant": point.variant}
    if point.accuracy_test is not None:
        row["accuracy"] = point.accuracy_test
    if point.estimate is not None:
        row["accuracy_estimated"] = point.estimate.accuracy
        row["accuracy_estimated_error"] = point.estimate.error
    if point.accuracy_by.of_scores:
        row[point.accuracy_by.metric] = point.accuracy
    figures = ("accuracy_std", "epsilon", "delta", "epsilon_m_low", "epsilon_m_high")
    names = (*figures, "epsilon_m_ceiling", "noise", "league")
    return row | {name: getattr(point, name) for name in names}


def front_rows(
    records: Iterable[TrialRecord], *, choose_by: ChooseBy | None, run_id: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return the front as a sweep's JSON has it."""
    found = front(points(records, choose_by=choose_by))
    return [{"run_id": run_id(point.hashes[0]), **row_of(point)} for point in found]


def _mean_estimate(members: list[TrialRecord]) -> AccuracyEstimate | None:
    found = [each for each in (estimate_of(record.metrics) for record in members) if each]
    if not found:
        return None
    return AccuracyEstimate(
        accuracy=fmean(each.accuracy for each in found),
        sampling_error=fmean(each.sampling_error for each in found),
        count_scale=fmean(each.count_scale for each in found),
    )


def _point(members: list[TrialRecord], by: ChooseBy) -> Point:
    def column(name: str) -> list[float]:
        return [record.metrics[name] for record in members]

    accuracies = column(by.metric)
    measured = all("accuracy" in record.metrics for record in members)
    return Point(
        variant=members[0].variant,
        point=tuple(without_seeds(members[0].point).items()),
        accuracy=fmean(accuracies),
        accuracy_std=stdev(accuracies) if len(accuracies) > 1 else 0.0,
        epsilon=max(column("epsilon")),
        delta=max(column("delta")),
        epsilon_m_low=min(column("epsilon_m_low")),
        epsilon_m_high=max(column("epsilon_m_high")),
        epsilon_m_ceiling=min(r.metrics.get("epsilon_m_ceiling", 0.0) for r in members),
        hashes=tuple(record.hash for record in members),
        noise=", ".join(sorted({record.noise.value for record in members})),
        accuracy_by=by,
        noise_std=fmean(by.noise(record.metrics) for record in members),
        accuracy_test=fmean(column("accuracy")) if measured else None,
        league=members[0].features_from.league.words,
        estimate=_mean_estimate(members),
        seconds=fmean(record.seconds for record in members),
        scores={
            name: fmean(column(name))
            for name in SCORE_FIGURES
            if all(name in record.metrics for record in members)
        },
    )

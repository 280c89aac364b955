"""Searches of a sweep: what each may cost, what it suggests next, and the file of suggestions.

There is one search for each variant at each point of its grids. A suggestion is a row of numbers,
one per searched axis: a place in a `Choice`, a value of any other axis. It follows from the results
so far, so that an interrupted sweep continues with the same suggestions.

Prices. Trials that read one stored release pay for it once: an axis that no release depends on is
searched at no cost. Probes of the axes show whether one does, and every suggestion is checked
again. An axis that does is refused: results would decide which releases are drawn.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter

from labeldp.platform.records.results import TrialRecord, read_json, write_json
from labeldp.platform.settings.configuration import (
    ConfigurationError,
    Estimate,
    TrialConfig,
    config_hash,
)
from labeldp.platform.settings.metrics import ChooseBy, chosen_by
from labeldp.platform.settings.sweep import (
    Choice,
    Grid,
    LogUniform,
    PlannedTrial,
    RandomAxis,
    Sweep,
    Variant,
    check_one_vault,
    points,
    variants_of,
)
from labeldp.platform.sweep.cost import planned_estimate, releases_of
from labeldp.trainers.data.splits import DataSize

if TYPE_CHECKING:  # an extra
    import optuna

#: A search with at most this many settings is probed at all of them, a larger one at samples.
_FEW = 64
#: From this ratio of its ends on, an axis is drawn by its logarithm.
_WIDE = 100
#: Attempts at a suggestion that was not tried before.
_ATTEMPTS = 20

Numbers = tuple[float, ...]
_ROWS = TypeAdapter(dict[str, list[list[float]]], config=ConfigDict(strict=True))
#: A trial's requests to the vault, but for counts of right answers, which every trial repeats.
Asked = frozenset[Hashable]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One search.

    Attributes:
        axes: Searched, by dotted key; none for a trial that stands alone.
        estimates: Of accuracy, that each of its trials requests; known when it is `priced`.
        foreseen: Everything each of its trials requests of the vault.
    """

    variant: Variant
    base: TrialConfig
    point: Mapping[str, Any]
    axes: Mapping[str, RandomAxis]
    trials: int
    seed: int
    estimates: int = 1
    foreseen: Asked = frozenset()

    @cached_property
    def id(self) -> str:
        """Identity in later starts too, whatever the number of trials."""
        axes = {key: repr(axis) for key, axis in self.axes.items()}
        settings = config_hash(self.priced_as.config, data_fingerprint="")
        text = json.dumps([self.variant.name, settings, axes, self.seed])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def combinations(self) -> int | None:
        """Number of settings; None where an axis is continuous."""
        sizes = [len(axis.values) for axis in self.axes.values() if isinstance(axis, Choice)]
        return math.prod(sizes) if len(sizes) == len(self.axes) else None

    @property
    def size(self) -> int:
        """Number of trials: no setting is tried twice."""
        return min(self.trials, self.combinations or self.trials)

    @property
    def priced_as(self) -> PlannedTrial:
        """A trial that stands for all of this search's."""
        first = self.planned(self.probes()[0])
        return replace(first, stands_for=self.size, estimates=self.estimates)

    def planned(self, numbers: Sequence[float]) -> PlannedTrial:
        """Return the trial at these numbers."""
        searched = {
            key: axis.values[int(number)] if isinstance(axis, Choice) else float(number)
            for (key, axis), number in zip(self.axes.items(), numbers, strict=True)
        }
        return self.variant.planned(self.base, {**self.point, **searched})

    def suggested(self, numbers: Numbers, size: DataSize) -> PlannedTrial:
        """Return the trial at suggested numbers, with its part of the price."""
        trial = self.planned(numbers)
        if asked_by(trial, size) != self.foreseen:
            raise ConfigurationError(
                f"the search suggests {dict(trial.point)}, which requests another release of the "
                "labels than the plan has; it is not run. Make the axis a grid"
            )
        return replace(trial, estimates=self.estimates)

    @cached_property
    def probed(self) -> Mapping[Numbers, PlannedTrial]:
        """The trials at the probes."""
        return {numbers: self.planned(numbers) for numbers in self.probes()}

    def all_numbers(self) -> Iterator[Numbers]:
        """Yield every setting of a search without a continuous axis."""
        assert self.combinations is not None
        yield from itertools.product(*map(_landmarks, self.axes.values()))

    def probes(self) -> list[Numbers]:
        """Return settings that show the axes' effects: all if they are few, or else samples.

        Samples are every axis alone at its landmarks, and corners, where axes act together.
        """
        if self.combinations is not None and self.combinations <= _FEW:
            return list(self.all_numbers())
        landmarks = [_landmarks(axis) for axis in self.axes.values()]
        first = [each[0] for each in landmarks]
        found: list[Numbers] = [tuple(first)]
        for place, values in enumerate(landmarks):
            found += [(*first[:place], value, *first[place + 1 :]) for value in values]
        corners = itertools.product(*([each[0], each[-1]] for each in landmarks))
        found += itertools.islice(corners, _FEW)
        return list(dict.fromkeys(found))


def searches_of(sweep: Sweep) -> tuple[Search, ...]:
    """Return the searches of a sweep at its final size, each checked at its probes."""
    search = sweep.search
    assert search is not None
    found: dict[tuple[str, str], Search] = {}
    for variant in variants_of(sweep):
        grids = {key: axis for key, axis in variant.space.items() if isinstance(axis, Grid)}
        axes = {key: axis for key, axis in variant.space.items() if not isinstance(axis, Grid)}
        for key, axis in axes.items():
            if isinstance(axis, Choice):  # equal values, as 1 and 1.0, make one trial
                values = enumerate(axis.values)
                axes[key] = Choice([x for place, x in values if x not in axis.values[:place]])
        # A search for each point of the grids: a sampler must not choose between prices.
        for point in points(grids):
            each = Search(
                variant=variant,
                base=sweep.base,
                point=point,
                axes=axes,
                trials=search.trials if axes else 1,
                seed=search.seed,
            )
            # Lines of another name and the same settings have the same trials.
            found.setdefault((each.priced_as.hash(""), repr(axes)), each)
    searches = tuple(found.values())
    if not any(each.axes for each in searches):
        raise ConfigurationError(
            f"sweep {sweep.name!r} has a search but nothing to search: give an axis a range, such "
            "as 'trainer.learning_rate=loguniform(0.001, 0.3)', or leave the search out"
        )
    check_one_vault([trial for each in searches for trial in each.probed.values()])
    return searches


def check_installed() -> None:
    """Refuse a search, or a study's file, where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise ConfigurationError(
            "--search optuna and --study need the package optuna, which is not installed; install "
            "it with `pip install optuna`, or leave the option out (a search draws at random then)"
        )


def suggest(
    axes: Mapping[str, RandomAxis],
    results: Sequence[tuple[Numbers, float]],
    *,
    seed: int,
    number: int,
    attempt: int = 0,
) -> Numbers:
    """Return the setting to try next, by a study that is made anew from the results so far.

    `number` suggestions came before; `attempt` counts those of this one that were tried already.
    """
    import optuna

    def distribution(axis: RandomAxis) -> optuna.distributions.BaseDistribution:
        if isinstance(axis, Choice):
            return optuna.distributions.CategoricalDistribution(list(range(len(axis.values))))
        log = isinstance(axis, LogUniform)
        return optuna.distributions.FloatDistribution(axis.low, axis.high, log=log)

    def point(numbers: Numbers) -> dict[str, float]:
        pairs = zip(axes.items(), numbers, strict=True)
        return {key: int(each) if isinstance(axis, Choice) else each for (key, axis), each in pairs}

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # By the number of the suggestion: a study that is made anew after a restart suggests the same.
    mixed = np.random.SeedSequence([seed, number, attempt]).generate_state(1)
    # A fresh study for each suggestion: its state would be one more file to keep consistent.
    sampler = optuna.samplers.TPESampler(seed=int(mixed[0]))
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = {key: distribution(axis) for key, axis in axes.items()}
    for numbers, accuracy in results:
        study.add_trial(
            optuna.trial.create_trial(params=point(numbers), distributions=space, value=accuracy)
        )
    found = study.ask(space).params
    return tuple(float(found[key]) for key in axes)


def write_study(
    records: Iterable[TrialRecord], file: Path, *, choose_by: ChooseBy | None, name: str
) -> dict[str, float]:
    """Write finished trials as an Optuna study into a new SQLite `file`.

    Its value is the figure that trials are compared by, such that more is better. Its parameters
    are the line and the axes. Epsilon and epsilon_m are attributes of each trial.

    Returns:
        The share of each parameter in the variance of the value (fANOVA; Hutter et al. 2014), of
        those that every trial has. It is empty for fewer than two trials or equal values.
    """
    import optuna

    finished = [record for record in records if record.finished]
    by = chosen_by((record.metrics for record in finished), choose_by)
    settings = [{"line": record.variant, **record.point} for record in finished]
    found: dict[str, list[Any]] = {}
    for each in settings:
        for key, value in each.items():
            found.setdefault(key, []).append(value)
    axes = {key: _axis_of(values) for key, values in found.items() if len({*map(str, values)}) > 1}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", storage=f"sqlite:///{file}", study_name=name)
    for record, values in zip(finished, settings, strict=True):
        own = {key: axis for key, axis in axes.items() if key in values}
        kept = {
            figure: record.metrics[figure]
            for figure in ("epsilon", "epsilon_m_low")
            if math.isfinite(record.metrics.get(figure, math.inf))
        }
        study.add_trial(
            optuna.trial.create_trial(
                params={key: _on_axis(values[key], axis) for key, axis in own.items()},
                distributions=own,
                value=by.rank(record.metrics[by.metric]),
                user_attrs=kept,
            )
        )
    if len({trial.value for trial in study.trials}) < 2:
        return {}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    return optuna.importance.get_param_importances(study, evaluator=evaluator)


def _axis_of(values: Sequence[Any]) -> "optuna.distributions.BaseDistribution":
    """Return the range of numbers, by its logarithm if it is wide; or the texts of other values."""
    import optuna

    if not all(type(each) in (int, float) and math.isfinite(each) for each in values):
        return optuna.distributions.CategoricalDistribution(sorted({*map(str, values)}))
    low = float(min(values))
    high = float(max(values))
    return optuna.distributions.FloatDistribution(low, high, log=low > 0 and high / low >= _WIDE)


def _on_axis(value: Any, axis: "optuna.distributions.BaseDistribution") -> float | str:
    return float(value) if hasattr(axis, "low") else str(value)


def _landmarks(axis: RandomAxis) -> list[float]:
    """Both ends of an axis; all places of a `Choice`."""
    if isinstance(axis, Choice):
        return [float(place) for place in range(len(axis.values))]
    return [axis.low, axis.high]


# --- what a search may cost -----------------------------------------------------------------------


def asked_by(trial: PlannedTrial, size: DataSize) -> Asked:
    """Return a trial's requests to the vault; trials with equal ones share all of them."""
    config = trial.config
    asked: set[Hashable] = set(releases_of(trial, num_classes=size.num_classes))
    asked.add(config.trainer.ensemble)
    if size.held_out:
        estimate = planned_estimate(config, num_classes=size.num_classes)
        shared = config.evaluation.estimate is Estimate.RELEASE
        asked.add(("estimate", estimate.release if shared else estimate.event, config.noise))
    return frozenset(asked)


def priced(search: Search, size: DataSize, *, rungs_of: Callable[[PlannedTrial], int]) -> Search:
    """Return a search with its price and the requests of its trials; no axis may change these.

    `rungs_of`: number of a trial's estimates before its last epoch.
    """
    probes = list(search.probed.values())
    requests = {asked_by(trial, size) for trial in probes}
    if len(requests) > 1:
        raise ConfigurationError(
            f"{', '.join(search.axes)} of {search.variant.name} can't be searched: trials would "
            "request different releases of the labels, and results would decide which; make that "
            "axis a grid ([a,b,c]), or leave the search out for random draws, whose price is known"
        )
    return replace(search, foreseen=requests.pop(), estimates=1 + max(map(rungs_of, probes)))


# --- the file of suggestions ----------------------------------------------------------------------


@dataclass(eq=False)
class Suggestions:
    """Suggestions in their order, kept in a file; `plans` has their trials by hash.

    Each is written down before its trial starts, so that a later start runs that trial. The records
    tell which trials are done.
    """

    path: Path
    searches: Sequence[Search]
    size: DataSize
    fingerprint: str
    by: ChooseBy

    def __post_init__(self) -> None:
        self.plans: dict[str, PlannedTrial] = {}
        self._kept = _read(self.path, {search.id: len(search.axes) for search in self.searches})
        #: Numbers -> hash, of each search.
        self._suggested: list[dict[Numbers, str]] = [{} for _ in self.searches]
        for place, search in enumerate(self.searches):
            for numbers in self._kept.get(search.id, [])[: search.size]:
                self._add(place, tuple(numbers))
        self._handed_out: set[str] = set()

    def next(self, records: Mapping[str, TrialRecord]) -> str | None:
        """Return the hash of the next trial, written down, after `records`; None at the end."""
        for digest in self.plans:
            if digest not in self._handed_out and digest not in records:
                self._handed_out.add(digest)
                return digest
        numbers = [len(entries) for entries in self._suggested]
        open_ones = [
            place for place, search in enumerate(self.searches) if numbers[place] < search.size
        ]
        if not open_ones:
            return None
        place = min(open_ones, key=numbers.__getitem__)
        digest = self._add(place, self._new(place, records))
        self._handed_out.add(digest)
        self._kept[self.searches[place].id] = [list(each) for each in self._suggested[place]]
        write_json(self.path, self._kept)
        return digest

    @property
    def rest(self) -> list[PlannedTrial]:
        """The price of the trials that are not suggested yet."""
        known = zip(self.searches, self._suggested, strict=True)
        left = [(search, search.size - len(entries)) for search, entries in known]
        return [replace(search.priced_as, stands_for=number) for search, number in left if number]

    def _new(self, place: int, records: Mapping[str, TrialRecord]) -> Numbers:
        search = self.searches[place]
        if not search.axes:
            return ()
        tried = self._suggested[place]
        ended = {each: records[digest] for each, digest in tried.items() if digest in records}
        found = {
            each: self.by.rank(record.metrics[self.by.metric])
            for each, record in ended.items()
            if record.finished
        }
        # A failed trial counts as one of accuracy 0, or as the worst by another figure.
        worst = min([0.0, *found.values()])
        results = [(each, found.get(each, worst)) for each in ended]
        for attempt in range(_ATTEMPTS):
            numbers = suggest(
                search.axes, results, seed=search.seed, number=len(tried), attempt=attempt
            )
            if numbers not in tried:
                return numbers
        return next(each for each in search.all_numbers() if each not in tried)

    def _add(self, place: int, numbers: Numbers) -> str:
        trial = self.searches[place].suggested(numbers, self.size)
        digest = trial.hash(self.fingerprint)
        self.plans[digest] = trial
        self._suggested[place][numbers] = digest
        return digest


def _read(path: Path, axes: Mapping[str, int]) -> dict[str, list[list[float]]]:
    if not path.exists():
        return {}
    try:
        kept = _ROWS.validate_python(read_json(path))
        if any(len(row) != axes.get(name, len(row)) for name in kept for row in kept[name]):
            raise ValueError("a row has another number of axes")
    except ValueError as error:
        raise ValueError(
            f"{path} is damaged: it should hold the suggestions of a search, a row of numbers "
            "each; restore it, or choose another folder with --results DIR"
        ) from error
    return kept

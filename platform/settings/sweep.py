"""A sweep as files in `sweeps/` describe it, the options of a run, and the trials that they make.

Files in `sweeps/` build one `Sweep` each and pass it to `sweep_command.main`. Nothing here starts
anything. All trials are listed before the first one starts: the plan is exact, the budget can be
checked, and a resumed sweep is the same one. Grids are tried in full, random axes by seeded
independent draws, as the price of selection presumes (Papernot and Steinke, ICLR 2022).

>>> list(points({"a": Grid(1, 2), "b": Uniform(0.0, 1.0)}))[0]["a"]
1
"""

import itertools
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from labeldp.mechanisms import _validate
from labeldp.mechanisms.ledger import Budget
from labeldp.platform.settings.configuration import (
    LAMBDA,
    AshaStop,
    Checkpoint,
    ConfigurationError,
    OptunaSearch,
    TrialConfig,
    config_hash,
    flatten,
    takes,
    with_calibration,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.trainers.base import Count, NonNegative, Positive, check_name, near_miss
from labeldp.trainers.methods.pate_settings import EnsembleConfig
from labeldp.trainers.performance import Performance

#: All trials of a sweep share one vault, so that the settings that decide its labels are equal.
FIXED_SECTIONS = ("data.", "audit.canar", "audit.coin", "evaluation.held_out")
_CANARIES = ("audit.canaries", "audit.coin_canaries")
#: Sections of a sweep that say what a trial, and an actor that trains teachers, takes.
RESOURCES = ("resources", "teacher")
#: Between the name of a line and settings that it does not stand for.
_WITH = " with "


# --- axes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class _Values:
    values: tuple[Any, ...]

    def __init__(self, *values: object) -> None:
        """Take values, or one list, tuple or array of them; NumPy's numbers become Python's."""
        if len(values) == 1 and isinstance(values[0], list | tuple | np.ndarray):
            values = tuple(values[0])
        values = tuple(each.item() if isinstance(each, np.generic) else each for each in values)
        if not values:
            raise ValueError(f"a {type(self).__name__} holds no value; name at least one")
        object.__setattr__(self, "values", values)


class Grid(_Values):
    """Every one of `values`."""


class Choice(_Values):
    """One of `values`, each equally likely."""

    def sample(self, generator: np.random.Generator) -> Any:
        """Draw one value."""
        return self.values[int(generator.integers(len(self.values)))]


@dataclass(frozen=True)
class Uniform:
    """A number between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _validate.number(low=self.low, high=self.high)
        # 1 and 1.0 are one axis, and one search.
        for name in ("low", "high"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError(
                f"{type(self).__name__}({self.low}, {self.high}): low must be below high, both "
                "finite"
            )

    def sample(self, generator: np.random.Generator) -> float:
        """Draw one number."""
        return float(generator.uniform(self.low, self.high))


class LogUniform(Uniform):
    """A number between `low` and `high` whose logarithm is uniform."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.positive(low=self.low)

    def sample(self, generator: np.random.Generator) -> float:
        """Draw one number."""
        return float(math.exp(generator.uniform(math.log(self.low), math.log(self.high))))


RandomAxis = Choice | Uniform | LogUniform
Axis = Grid | RandomAxis


def without_seeds(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point without seeds, by any name: trials that differ in them are repetitions."""
    return {k: v for k, v in point.items() if k.rpartition(".")[2] not in ("seed", "draw")}


def points(space: Mapping[str, Axis], *, samples: int = 1) -> Iterator[dict[str, Any]]:
    """Yield the settings of every trial.

    The random axes are drawn `samples` times, with the same draws at every point of the grid, so
    that columns compare.
    """
    _validate.whole(samples=samples, minimum=1)
    grids = {key: axis.values for key, axis in space.items() if isinstance(axis, Grid)}
    random = {key: axis for key, axis in space.items() if not isinstance(axis, Grid)}
    generator = np.random.default_rng(0)
    draws = [
        {key: axis.sample(generator) for key, axis in random.items()}
        for _ in range(samples if random else 1)
    ]
    for values in itertools.product(*grids.values()):
        for draw in draws:
            yield {**dict(zip(grids, values, strict=True)), **draw}


# --- sweeps --------------------------------------------------------------------------------------


class CannotFit(RuntimeError):
    """The cluster can never hold a trial or an actor; the message names the missing resource."""


class Unfinished(RuntimeError):
    """A run ended early; finished work is kept, and the next run continues from there."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One line of a comparison: changes of the sweep's base, and axes."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Axis] = field(default_factory=dict)

    def config(self, base: TrialConfig, point: Mapping[str, Any]) -> TrialConfig:
        """Return the configuration at a point of the axes."""
        try:
            config = with_calibration(with_changes(base, {**self.changes, **point}))
        except ConfigurationError as error:
            raise ConfigurationError(f"line {self.name!r}: {error}") from error
        noise = config.noise
        if config.data.name != "own" or noise.seed is not None or noise.secure is not None:
            return config
        return replace(config, noise=replace(noise, secure=True))  # the labels are the user's own

    def planned(self, base: TrialConfig, point: Mapping[str, Any]) -> "PlannedTrial":
        """Return the trial at a point of the axes; its name shows an accuracy that is too high."""
        config = self.config(base, point)
        chosen = config.evaluation.checkpoint
        name = self.name if chosen is Checkpoint.LAST else f"{self.name} ({chosen})"
        return PlannedTrial(variant=name, config=config, point=point)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Cores and GPUs of one trial or actor; several share a GPU with a share of it each.

    `shared`: as many share a GPU as its memory holds, which is measured when a sweep starts.
    """

    cpu: Positive = 1.0
    gpu: NonNegative = 0.0
    shared: bool = False

    def __post_init__(self) -> None:
        _validate.positive(cpu=self.cpu)  # Ray Tune starts no trial without a core
        _validate.non_negative(gpu=self.gpu)
        if (self.gpu > 1 and self.gpu % 1) or 0 < self.gpu < 0.0001:  # Ray counts no less
            raise ConfigurationError(
                f"gpu is {self.gpu:g}; it is a share of one GPU, such as 0.25, or whole GPUs"
            )


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Another size of a sweep, such as `home` or its smoke test.

    Attributes:
        changes: Dotted key -> value, in every trial; they replace those of the sweep's lines.
        space: Axes that replace those of the same key.
        variants: In place of the sweep's own lines, if any are given.
        samples: Draws of the random axes, or trials of each search.
        resources: In place of the sweep's, if given; so is `teacher`.
        needs_gpu: As of the sweep.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Axis] = field(default_factory=dict)
    variants: Sequence[Variant] = ()
    samples: Count = 1
    resources: Resources | None = None
    teacher: Resources | None = None
    needs_gpu: bool = False


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A claim and the trials that test it.

    Attributes:
        name: Also of the tracking experiment and the results folder.
        variants: Lines of a comparison; a single one named after the sweep if not given.
        space: Axes shared by all variants.
        samples: Draws of the random axes at every point of the grid.
        presets: Other sizes, by the name that `--preset` takes.
        teacher: Resources of one actor that trains teachers.
        budget: The most that any label may pay in the whole sweep.
        needs_gpu: Refuse it where there is no GPU; processors would take days.
        choose_by: The accuracy that trials are compared by. Default: on the public test split,
            where there is one; a search takes an estimate without test labels.
        search: Learns where to draw the random axes next, in place of `samples`.
        stop: Ends trials early that fall behind others on the same releases.
        blocks: With how many disjoint blocks of the canaries it runs once more, each in a vault of
            its own (`sweep.block_check`).
        notes: To be shown with its plan.
    """

    name: str
    base: TrialConfig
    variants: Sequence[Variant] = ()
    space: Mapping[str, Axis] = field(default_factory=dict)
    samples: Count = 1
    smoke: Preset = field(default_factory=Preset)
    presets: Mapping[str, Preset] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    teacher: Resources = field(default_factory=Resources)
    budget: Budget | None = None
    needs_gpu: bool = False
    choose_by: ChooseBy | None = None
    search: OptunaSearch | None = None
    stop: AshaStop | None = None
    blocks: int = 0
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the name: results go to a folder of that name, and to nowhere else."""
        _check_kinds(self, choose_by=ChooseBy, search=OptunaSearch, stop=AshaStop)
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ConfigurationError(
                f"a sweep can't be called {self.name!r}: its results lie in a folder of that name; "
                "use letters, digits, '_', '-' and '.'"
            )

    @property
    def learns(self) -> bool:
        """Whether results of trials decide which trials run, or for how long."""
        return self.search is not None or self.stop is not None


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One trial before it runs.

    Attributes:
        stands_for: Number of trials of a search that are priced as this one.
        estimates: Number of estimates of accuracy of each of them.
    """

    variant: str
    config: TrialConfig
    point: Mapping[str, Any]
    stands_for: int = 1
    estimates: int = 1

    def hash(self, data_fingerprint: str) -> str:
        """Return the trial's identity."""
        return config_hash(self.config, data_fingerprint=data_fingerprint)


def ensembles_of(trials: Sequence[PlannedTrial]) -> dict[EnsembleConfig, Performance]:
    """Return the different ensembles that trials read, and how fast to train them."""
    found: dict[EnsembleConfig, Performance] = {}
    for trial in trials:
        ensemble = trial.config.trainer.ensemble
        if ensemble is not None:
            found.setdefault(ensemble, trial.config.performance)
    return found


def _check_kinds(of: object, **kinds: type) -> None:
    """Put members in the place of their names, and refuse what is not of its kind."""
    for name, kind in kinds.items():
        value = getattr(of, name)
        if isinstance(value, str) and issubclass(kind, Enum):
            check_name([each.value for each in kind], **{name: value})
            object.__setattr__(of, name, kind(value))
        elif not isinstance(value, kind | None):
            raise ConfigurationError(
                f"{name} is {value!r}; give {kind.__name__}(...) of {kind.__module__}"
            )


class Resume(Enum):
    """Whether to continue from trials that an earlier start left in the results folder."""

    AUTO = "auto"
    MUST = "must"
    NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How to run a sweep; nothing here changes a trial's numbers.

    Attributes:
        address: Address of a Ray cluster; a private one is started if not given.
        tracking_uri: Address of a tracking store; by default MLFLOW_TRACKING_URI, or else SQLite
            beside the results.
        max_epsilon_total: The most that any label may pay in the whole sweep.
        max_minutes: Stop after so long; the next run continues trials in training.
        moved: The results folder was moved to another disk or restored from a copy, and no other
            copy of it will be used any more. (A renamed one is recognized.)
        choose_by: In place of the sweep's own; so are `search` and `stop`.
        only: Run these variants alone, by name or its beginning; all if none is named.
        on_processors: Run a sweep for GPUs without one.
        price_per_hour: Price of an hour of the device, for the plan.
    """

    smoke: bool = False
    preset: str | None = None
    resume: Resume = Resume.AUTO
    results: Path
    address: str | None = None
    tracking_uri: str | None = field(
        default_factory=lambda: os.environ.get("MLFLOW_TRACKING_URI") or None
    )
    overrides: Mapping[str, Any] = field(default_factory=dict)
    max_epsilon_total: float | None = None
    max_minutes: float | None = None
    moved: bool = False
    choose_by: ChooseBy | None = None
    search: OptunaSearch | None = None
    stop: AshaStop | None = None
    only: Sequence[str] = ()
    without: Sequence[str] = ()
    quiet: bool = False
    on_processors: bool = False
    price_per_hour: float | None = None

    def __post_init__(self) -> None:
        _check_kinds(self, resume=Resume, choose_by=ChooseBy, search=OptunaSearch, stop=AshaStop)
        for name in ("only", "without"):
            if isinstance(names := getattr(self, name), str):
                object.__setattr__(self, name, (names,))
        if self.max_minutes is not None:
            _validate.positive(max_minutes=self.max_minutes)
        if self.price_per_hour is not None:
            _validate.non_negative(price_per_hour=self.price_per_hour)

    @property
    def shared_folder(self) -> Path:
        """Where sweeps with results beside each other share features and votes."""
        return self.results.expanduser().absolute().parent


# --- sizes and lines ------------------------------------------------------------------------------


def sized_sweep(sweep: Sweep, options: SweepOptions) -> Sweep:
    """Return the sweep at the requested size, with the chosen lines after overrides."""
    sized = sweep
    name = options.preset
    lines = sweep.variants
    if name is not None:
        if name not in sweep.presets:
            hint = near_miss(name, sweep.presets) if sweep.presets else "it has none: leave it out"
            raise ConfigurationError(f"sweep {sweep.name!r} has no preset {name!r}; {hint}")
        sized = resized(sweep, sweep.presets[name])
        lines = sweep.presets[name].variants or lines
    if options.smoke:
        sized = resized(sized, sweep.smoke)
        lines = sweep.smoke.variants or lines
    if options.overrides.get("data.name") == "own":  # a file of the user's replaces the data set
        sized = _without_canaries(sized)
    sized, asked = with_resources(sized, options.overrides)
    variants = variants_of(replace(sized, variants=_chosen(sized, options)), asked)
    variants = _renamed(sized, variants, stated={key for line in lines for key in line.changes})
    # Of lines of one name, such as repetitions, one note is enough.
    left_out = dict.fromkeys(
        f"{key} is an axis of other lines; the line {line.name!r} runs without it"
        if takes(sized.base, line.changes, key)
        else f"{key} does not apply to the line {line.name!r}, which runs without it"
        for line in variants
        for key in sorted(asked.keys() - line.changes.keys() - line.space.keys() - {"method"})
    )
    return replace(
        sized,
        variants=variants,
        space={},
        search=options.search or sized.search,
        stop=options.stop or sized.stop,
        notes=[*left_out, *sized.notes],
    )


def overridden(sweep: Sweep, overrides: Mapping[str, Any]) -> Sweep:
    """Return the sweep with these settings at every size, as if a command line gave them."""
    options = SweepOptions(results=Path(), overrides=overrides)
    stated = {*overrides, *(["trainer.epsilon"] if LAMBDA in overrides else [])}
    stated.update(_CANARIES if overrides.get("data.name") == "own" else [])

    def rest(values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if key not in stated}

    def sized(size: Preset) -> Preset:
        base = with_changes(sweep.base, size.changes)
        own = replace(sweep, base=base, variants=size.variants)
        lines = sized_sweep(own, options).variants if size.variants else ()
        return replace(size, changes=rest(size.changes), space=rest(size.space), variants=lines)

    return replace(
        sized_sweep(sweep, options),
        smoke=sized(sweep.smoke),
        presets={name: sized(size) for name, size in sweep.presets.items()},
    )


def with_resources(sweep: Sweep, overrides: Mapping[str, Any]) -> tuple[Sweep, dict[str, Any]]:
    """Return the sweep with `resources.gpu` and the like, and the overrides of trials."""
    rest = dict(overrides)
    for key in [key for key in overrides if key.partition(".")[0] in RESOURCES]:
        name, _, part = key.partition(".")
        value = rest.pop(key)
        if part not in ("cpu", "gpu"):
            known = [f"{name}.cpu", f"{name}.gpu"]
            raise ConfigurationError(f"unknown key {key!r}; {near_miss(key, known)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigurationError(f"{key} is {value!r}; it is one number, such as 0.25")
        own = getattr(sweep, name)
        changed = replace(own, **{part: float(value)}, shared=own.shared and part != "gpu")
        sweep = replace(sweep, **{name: changed})
    return sweep, rest


def resized(sweep: Sweep, size: Preset) -> Sweep:
    """Return the sweep at another size."""
    # Lines of the preset's own are made for its size: their settings stand.
    lines = [replace(own, changes={**size.changes, **own.changes}) for own in size.variants] or [
        # A key that a line's method does not have is left out, as one of the command line is.
        replace(
            line,
            changes={
                **line.changes,
                **{k: x for k, x in size.changes.items() if takes(sweep.base, line.changes, k)},
            },
        )
        for line in sweep.variants
    ]
    elsewhere = {key for line in lines for key in line.space}
    own = {
        key: axis
        for key, axis in size.space.items()
        if key not in elsewhere and not _is_of_no_line(key, lines, base=sweep.base)
    }
    stated = [line.changes for line in sweep.variants if not size.variants]
    shared = [
        key
        for key in without_seeds(size.changes)
        if len({repr(each.get(key)) for each in stated}) > 1
    ]
    note = f"lines differ in {', '.join(shared)} at the full size that they are named for, not here"
    return replace(
        sweep,
        notes=[*sweep.notes, note] if shared else sweep.notes,
        base=with_changes(sweep.base, size.changes),
        variants=[
            replace(
                line, space={key: size.space.get(key, axis) for key, axis in line.space.items()}
            )
            for line in lines
        ],
        space={**sweep.space, **own},
        samples=size.samples,
        search=sweep.search and replace(sweep.search, trials=size.samples),
        resources=size.resources or sweep.resources,
        teacher=size.teacher or sweep.teacher,
        needs_gpu=size.needs_gpu,
    )


def _is_of_no_line(key: str, lines: Sequence[Variant], *, base: TrialConfig) -> bool:
    """Whether other methods than those of these lines have a key; no method has a wrong one."""
    if not lines or any(takes(base, line.changes, key) for line in lines):
        return False
    return any(takes(base, {"method": method}, key) for method in METHODS)


def _renamed(sweep: Sweep, asked: Sequence[Variant], *, stated: Collection[str]) -> list[Variant]:
    """Name the lines in `asked` for what they have, the ones that keep their name first.

    A name stands for settings that lines state and differ in. Repetitions differ in seeds, and an
    axis is shown with its values: neither is in a name.
    """
    found: dict[str, dict[str, Any]] = {}
    for line in sweep.variants:
        space = {**sweep.space, **line.space}
        config = line.config(sweep.base, next(points(space)))
        values = _shown({**flatten(config), **line.changes})
        found[line.name] = {key: value for key, value in values.items() if key not in space}
    meant = [
        key
        for key in without_seeds(dict.fromkeys(sorted(stated)))
        if len(found) == 1 or len({str(each[key]) for each in found.values() if key in each}) > 1
    ]
    lines = []
    for line in asked:
        own = found.get(line.name, {})
        now = _shown({**own, **line.changes})
        varied = {"trainer.epsilon" if key == LAMBDA else key for key in line.space}
        changed = [
            f"{key} varied" if key in varied else f"{key}={now[key]}"
            for key in meant
            if key in own and (key in varied or now[key] != own[key])
        ]
        name = f"{line.name}{_WITH}{', '.join(changed)}" if changed else line.name
        lines.append(replace(line, name=name))
    return sorted(lines, key=lambda line: line.name not in found)


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    by_lambda = {"trainer.epsilon": f"2 / {values[LAMBDA]}"} if LAMBDA in values else {}
    return {**values, **by_lambda}


def _chosen(sweep: Sweep, options: SweepOptions) -> Sequence[Variant]:
    wanted = _lines_of(options.only, sweep) or {line.name for line in sweep.variants}
    chosen = wanted - _lines_of(options.without, sweep)
    if sweep.variants and not chosen:
        raise ConfigurationError(
            f"--only and --without leave nothing of sweep {sweep.name!r}; its lines are "
            f"{_names(line.name for line in sweep.variants)}"
        )
    return [line for line in sweep.variants if line.name in chosen]


def _lines_of(names: Iterable[str], sweep: Sweep) -> set[str]:
    """Return the lines that are called so; where none is, all whose names begin so."""
    known = {line.name.lower(): line.name for line in sweep.variants}
    found: set[str] = set()
    for name in names:
        asked = name.lower()
        begun = {
            known[each]
            for each in known
            if name and (each.startswith(asked) or asked.startswith(each + _WITH))
        }
        if not begun:
            raise ConfigurationError(
                f"{name!r} names no line of sweep {sweep.name!r}; its lines are "
                f"{_names(known.values())}"
            )
        found |= {known[asked]} if asked in known else begun
    return found


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, dict.fromkeys(names)))


def _without_canaries(sweep: Sweep) -> Sweep:
    # A sweep's number suits its own data set: 100 wrong labels would spoil a ninth of a user's 900.
    # A sweep that spoils no label of its own set spoils none of another file's.
    own = sweep.base.audit
    if own.spoiled or None in (own.canaries, own.coin_canaries):
        own = replace(own, canaries=None, coin_canaries=None)
    variants = [
        replace(
            variant,
            changes={key: each for key, each in variant.changes.items() if key not in _CANARIES},
        )
        for variant in sweep.variants
    ]
    return replace(sweep, base=replace(sweep.base, audit=own), variants=variants)


# --- trials ---------------------------------------------------------------------------------------


def variants_of(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """Return a sweep's variants after overrides, each with all its axes.

    `overrides`: dotted key -> value. A single value fixes the key, and replaces an axis of the
    sweep; a list or an axis makes it an axis. `method` chooses the lines of that method; if there
    are none, the method runs on those of the sweep's axes that it has, otherwise with its own
    defaults. A key that applies to some lines only is left out of the others. `trainer.lambda`
    replaces the epsilons of its lines.
    """
    overrides = overrides or {}
    empty = [key for key, value in overrides.items() if isinstance(value, list) and not value]
    if empty:
        raise ConfigurationError(f"{empty[0]} is an empty list; name at least one value")
    if isinstance(classes := overrides.get("data.classes"), list):
        raise ConfigurationError(
            f"data.classes is the list {classes}, whose values would be trials; write the names "
            "with commas: data.classes=no,yes"
        )
    if isinstance(method := overrides.get("method"), str):
        sweep = _with_method(sweep, method)
    moved: dict[str, Axis] = {
        key: value if isinstance(value, Axis) else Grid(value)
        for key, value in overrides.items()
        # Shares of stages are a tuple themselves.
        if isinstance(value, list | np.ndarray | Axis)
        or (isinstance(value, tuple) and key != "trainer.splits")
    }
    fixed = {key: value for key, value in overrides.items() if key not in moved}
    stated = "trainer.epsilon" in overrides
    variants = sweep.variants or (Variant(name=sweep.name),)
    spaces = [{**sweep.space, **variant.space} for variant in variants]
    taken = {key for space in spaces for key in space}
    changed = [{**variant.changes, **fixed} for variant in variants]
    fits = [{key for key in overrides if takes(sweep.base, its, key)} for its in changed]
    of_some = set().union(*fits)
    found = []
    for variant, space, fit in zip(variants, spaces, fits, strict=True):
        # A key that fits no line is left to be refused, with its near miss.
        own = {key: value for key, value in fixed.items() if key in fit or key not in of_some}
        for key, axis in moved.items():
            # An axis of some variants is not for one that says nothing of it, such as stages of the
            # line with one stage.
            here = key not in taken or key in space or key in variant.changes
            if here and (key in fit or key not in of_some):
                space[key] = axis
        axes = {key: axis for key, axis in space.items() if key not in own}
        changes = {**variant.changes, **own}
        if LAMBDA in overrides and LAMBDA in (own.keys() | axes) and not stated:
            # A lambda of the command line replaces the line's epsilons.
            axes.pop("trainer.epsilon", None)
            changes.pop("trainer.epsilon", None)
        found.append(replace(variant, changes=changes, space=axes))
    return found


def _with_method(sweep: Sweep, method: str) -> Sweep:
    variants = sweep.variants or (Variant(name=sweep.name),)
    own = sweep.base.method
    chosen = [each for each in variants if each.changes.get("method", own) == method]
    if chosen:
        return replace(sweep, variants=chosen)
    known = flatten(with_changes(TrialConfig(), {"method": method}))
    spaces = (sweep.space, *(each.space for each in variants))
    axes = {key: axis for space in spaces for key, axis in space.items()}
    return replace(
        sweep,
        variants=[Variant(name=method)],
        space={key: axis for key, axis in axes.items() if key in known},
    )


def plan_trials(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> list[PlannedTrial]:
    """List a sweep's trials in order, once each and checked; its search plays no part."""
    trials: dict[str, PlannedTrial] = {}
    for variant in variants_of(sweep, overrides):
        for point in points(variant.space, samples=sweep.samples):
            trial = variant.planned(sweep.base, point)
            trials.setdefault(trial.hash(""), trial)
    check_one_vault(list(trials.values()))
    return list(trials.values())


def check_one_vault(trials: Sequence[PlannedTrial]) -> None:
    """Refuse trials on different labels."""
    one = trials[0].config
    first = flatten(one)
    for trial in trials[1:]:
        config = trial.config
        if (config.data, config.audit, config.evaluation) == (one.data, one.audit, one.evaluation):
            continue  # as nearly always: flattening takes most of a large plan's time
        for key, value in flatten(config).items():
            if key.startswith(FIXED_SECTIONS) and value != first[key]:
                raise ConfigurationError(
                    f"{key} is {first[key]!r} in one trial and {value!r} in variant "
                    f"{trial.variant!r}; one sweep has one vault with one set of labels: run a "
                    "sweep for each value"
                )

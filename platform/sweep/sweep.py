"""What a sweep is: a base configuration, variants of it, a search space, and a smoke-test size.

Files in `sweeps/` build one `Sweep` each and hand it to `sweep_command.main`. Nothing here starts
anything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from labeldp.mechanisms import _validate
from labeldp.mechanisms.ledger import Budget
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import (
    LAMBDA,
    AshaStop,
    AuditSettings,
    ConfigurationError,
    OptunaSearch,
    TrialConfig,
    config_hash,
    flatten,
    takes,
    with_calibration,
    with_changes,
)
from labeldp.platform.sweep.space import Axis, Choice, Grid, LogUniform, Uniform, points
from labeldp.trainers.performance import Performance
from labeldp.trainers.settings.base import near_miss
from labeldp.trainers.settings.pate import EnsembleConfig

#: One sweep asks one vault: what decides its labels is the same in every trial.
FIXED_SECTIONS = ("data.", "audit.canar", "audit.coin", "evaluation.held_out")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One line of a comparison.

    Attributes:
        name: Shown in tables and figures.
        changes: Dotted key -> value, on top of the sweep's base.
        space: Dotted key -> axis, beside the sweep's own.
        unfit: Overrides that do not apply to it.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Axis] = field(default_factory=dict)
    unfit: Sequence[str] = ()

    def config(self, base: TrialConfig, point: Mapping[str, Any]) -> TrialConfig:
        """Return the configuration at a point of the axes.

        Raises:
            ConfigurationError: A key or value that can't be used.
        """
        try:
            config = with_calibration(with_changes(base, {**self.changes, **point}))
        except ConfigurationError as error:
            raise ConfigurationError(f"line {self.name!r}: {error}") from error
        noise = config.noise
        if config.data.name != "own" or noise.seed is not None or noise.secure is not None:
            return config
        return replace(config, noise=replace(noise, secure=True))  # labels of the user's own


@dataclass(frozen=True, kw_only=True)
class Smoke:
    """What makes a sweep small enough to try: minutes on two cores.

    Attributes:
        changes: Dotted key -> value.
        space: Axes that replace those of the same key.
        samples: Draws of the random axes.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Axis] = field(default_factory=dict)
    samples: int = 1


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one trial occupies."""

    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        _validate.non_negative(cpus=self.cpus, gpus=self.gpus)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A size of a sweep that is neither its full one nor a smoke test, such as `home`.

    Attributes:
        changes: Dotted key -> value, in every trial; over what lines of the comparison say.
        space: Axes that replace those of the same key.
        variants: In place of the sweep's own lines; none for these.
        samples: Draws of the random axes; None for as many as the sweep has.
        resources: What one trial occupies.
        teacher: What one actor occupies that trains teachers.
    """

    changes: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Axis] = field(default_factory=dict)
    variants: Sequence[Variant] = ()
    samples: int | None = None
    resources: Resources = field(default_factory=Resources)
    teacher: Resources = field(default_factory=Resources)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A claim and the trials that test it.

    Attributes:
        name: Also the tracking experiment's, and the results folder's.
        base: The configuration that every trial starts from.
        variants: Lines of a comparison; a single one named after the sweep if not given.
        space: Axes shared by all variants.
        samples: Draws of the random axes at every point of the grid.
        sample_seed: Of those draws.
        smoke: The small size.
        presets: Other sizes, by the name that `--preset` takes.
        resources: What one trial occupies.
        teacher: What one actor occupies that trains teachers.
        budget: The most that any label may pay in the whole sweep.
        gpu_hours_per_trial: An estimate for the full size; 0 where a CPU does.
        choose_by: Which accuracy trials are compared by; that on the public test split, where there
            is one, if not given. A search asks for one that needs no test labels, unless it is
            told to look at them.
        search: Learns where to draw the random axes next, in place of `samples`.
        stop: Ends trials early that fall behind others on the same releases.
    """

    name: str
    base: TrialConfig
    variants: Sequence[Variant] = ()
    space: Mapping[str, Axis] = field(default_factory=dict)
    samples: int = 1
    sample_seed: int = 0
    smoke: Smoke = field(default_factory=Smoke)
    presets: Mapping[str, Preset] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    teacher: Resources = field(default_factory=Resources)
    budget: Budget | None = None
    gpu_hours_per_trial: float = 0.0
    choose_by: ChooseBy | None = None
    search: OptunaSearch | None = None
    stop: AshaStop | None = None

    def __post_init__(self) -> None:
        """Check the name: results go to a folder of that name, and to nowhere else."""
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ConfigurationError(
                f"a sweep can't be called {self.name!r}: its results lie in a folder of that name; "
                "use letters, digits, '_', '-' and '.'"
            )

    @property
    def learns(self) -> bool:
        """Whether what trials find decides what is run."""
        return self.search is not None or self.stop is not None


@dataclass(frozen=True, kw_only=True)
class PlannedTrial:
    """One trial before it runs.

    Attributes:
        variant: Name of its line in the comparison.
        config: Everything that decides its numbers.
        point: The values of the axes, by dotted key.
        stands_for: How many trials are priced by this one, where they are not known yet; 0 for
            another price that those of the one before may have.
        own_releases: How many trials may ask for such releases of their own; 0 where all share
            them.
        estimates: How often trials ask how accurate they are, all together.
    """

    variant: str
    config: TrialConfig
    point: Mapping[str, Any]
    stands_for: int = 1
    own_releases: int = 0
    estimates: int = 1

    @property
    def estimates_each(self) -> int:
        """How often one trial asks how accurate it is."""
        return self.estimates // (self.own_releases or self.stands_for)

    def standing_for(self, number: int) -> "PlannedTrial":
        """Return the same price for `number` trials."""
        return replace(
            self,
            stands_for=number if self.stands_for else 0,
            own_releases=number if self.own_releases else 0,
            estimates=number * self.estimates_each,
        )

    def hash(self, data_fingerprint: str) -> str:
        """Return the trial's identity."""
        return config_hash(self.config, data_fingerprint=data_fingerprint)


def ensembles_of(trials: Sequence[PlannedTrial]) -> dict[EnsembleConfig, Performance]:
    """Return the different ensembles that trials ask, and how fast to train them."""
    found: dict[EnsembleConfig, Performance] = {}
    for trial in trials:
        ensemble = trial.config.trainer.ensemble
        if ensemble is not None:
            found.setdefault(ensemble, trial.config.performance)
    return found


def smoke_sized(sweep: Sweep) -> Sweep:
    """Return the sweep at its smoke size."""
    smoke = sweep.smoke
    return replace(
        _resized(sweep, smoke.changes, smoke.space),
        samples=smoke.samples,
        search=sweep.search and replace(sweep.search, trials=smoke.samples),
    )


def preset_sized(sweep: Sweep, name: str) -> Sweep:
    """Return the sweep at a size that it has a name for.

    Raises:
        ConfigurationError: It has none of that name; the message says which come near.
    """
    if name not in sweep.presets:
        hint = near_miss(name, sweep.presets) if sweep.presets else "it has none: leave it out"
        raise ConfigurationError(f"sweep {sweep.name!r} has no preset {name!r}; {hint}")
    preset = sweep.presets[name]
    # Lines of the preset's own know its size: what they say for themselves stands.
    own = tuple(
        replace(variant, changes={**preset.changes, **variant.changes})
        for variant in preset.variants
    )
    changes = {} if own else preset.changes
    resized = _resized(replace(sweep, variants=own or sweep.variants), changes, preset.space)
    return replace(
        resized,
        base=with_changes(sweep.base, preset.changes),
        samples=sweep.samples if preset.samples is None else preset.samples,
        resources=preset.resources,
        teacher=preset.teacher,
        gpu_hours_per_trial=0.0,
    )


def _resized(sweep: Sweep, changes: Mapping[str, Any], space: Mapping[str, Axis]) -> Sweep:
    variants = [
        replace(
            variant,
            changes={**variant.changes, **changes},
            space={key: space.get(key, axis) for key, axis in variant.space.items()},
        )
        for variant in sweep.variants
    ]
    elsewhere = {key for variant in sweep.variants for key in variant.space}
    own = {key: axis for key, axis in space.items() if key not in elsewhere}
    return replace(
        sweep,
        base=with_changes(sweep.base, changes),
        variants=variants,
        space={**sweep.space, **own},
    )


def variants_of(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> list[Variant]:
    """Return a sweep's variants as overrides leave them, each with all its axes.

    Args:
        sweep: What to run.
        overrides: Dotted key -> value. A single value fixes the key, also where the sweep has an
            axis for it; a list makes it an axis, and an axis takes its place. `method` chooses the
            lines of that method; if there are none, the method runs on the sweep's axes that it
            has, otherwise with its own defaults. A key that means something to some lines only is
            left out of the others.

    Raises:
        ConfigurationError: An axis that no sweep can have.
    """
    overrides = overrides or {}
    empty = [key for key, value in overrides.items() if value == []]
    if empty:
        raise ConfigurationError(f"{empty[0]} is an empty list; name at least one value")
    if isinstance(method := overrides.get("method"), str):
        sweep = _with_method(sweep, method)
    moved: dict[str, Axis] = {}
    for key, value in overrides.items():
        if isinstance(value, list):
            moved[key] = Grid(*value)
        elif isinstance(value, Grid | Choice | Uniform | LogUniform):
            moved[key] = value
    fixed = {key: value for key, value in overrides.items() if key not in moved}
    variants = sweep.variants or (Variant(name=sweep.name),)
    spaces = [{**sweep.space, **variant.space} for variant in variants]
    taken = {key for space in spaces for key in space}
    told = [{**variant.changes, **fixed} for variant in variants]
    fits = [{key for key in overrides if takes(sweep.base, its, key)} for its in told]
    of_some = set().union(*fits)
    found = []
    for variant, space, fit in zip(variants, spaces, fits, strict=True):
        # A key that fits no line is left to be refused, with its near miss.
        own = {key: value for key, value in fixed.items() if key in fit or key not in of_some}
        unfit = [key for key in fixed if key not in own]
        for key, axis in moved.items():
            # An axis that only some variants have (the baseline has no epsilon) stays theirs.
            if (key in space or key not in taken) and (key in fit or key not in of_some):
                space[key] = axis
            else:
                unfit.append(key)
        changes = dict(variant.changes)
        if LAMBDA in own or LAMBDA in space:  # replaces the variant's own epsilon
            space.pop("trainer.epsilon", None)
            changes.pop("trainer.epsilon", None)
        axes = {key: axis for key, axis in space.items() if key not in own}
        for key in axes:
            if key.startswith(FIXED_SECTIONS):
                raise ConfigurationError(
                    f"{key} can't be an axis: one sweep asks one vault about one set of "
                    "labels; run a sweep for each value"
                )
        found.append(replace(variant, changes={**changes, **own}, space=axes, unfit=tuple(unfit)))
    return found


def _with_method(sweep: Sweep, method: str) -> Sweep:
    """Return a sweep of one method.

    Raises:
        ConfigurationError: No method has this name.
    """
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


def unfit_notes(found: Sequence[Variant]) -> list[str]:
    """Return a note for each override that does not apply to some variants."""
    of_key: dict[str, dict[str, None]] = {}
    for variant in found:
        for key in variant.unfit:
            of_key.setdefault(key, {})[variant.name] = None
    return [
        f"{key} does not apply to {', '.join(map(repr, names))}, which run as they are without it"
        for key, names in of_key.items()
    ]


def plan_trials(sweep: Sweep, overrides: Mapping[str, Any] | None = None) -> list[PlannedTrial]:
    """List a sweep's trials, each with its resolved and checked configuration.

    Args:
        sweep: What to run; a search that it names is not asked.
        overrides: As for `variants_of`.

    Returns:
        The trials in order, without repetitions.

    Raises:
        ConfigurationError: A key or value that can't be used.
    """
    trials: dict[str, PlannedTrial] = {}
    for variant in variants_of(sweep, overrides):
        for point in points(variant.space, samples=sweep.samples, seed=sweep.sample_seed):
            config = variant.config(sweep.base, point)
            trial = PlannedTrial(variant=variant.name, config=config, point=point)
            trials.setdefault(trial.hash(""), trial)
    check_one_vault(list(trials.values()))
    return list(trials.values())


def with_canaries(
    trials: Sequence[PlannedTrial],
    *,
    num_labels: int,
    num_classes: int,
    before: AuditSettings | None = None,
) -> list[PlannedTrial]:
    """Return trials with the numbers of canaries that nobody stated, as they are hashed.

    Args:
        trials: Planned trials of one sweep.
        num_labels: N, labels to train on.
        num_classes: K.
        before: Of trials that the results folder holds: its labels are spoiled already, and stay
            as they are where nobody states another number.
    """

    def settled(config: TrialConfig) -> TrialConfig:
        audit = config.audit
        if before is not None:
            kept = {name: getattr(before, name) for name in ("canaries", "coin_canaries")}
            audit = replace(
                audit, **{name: n for name, n in kept.items() if getattr(audit, name) is None}
            )
        audit = audit.settled(num_labels=num_labels, num_classes=num_classes)
        return replace(config, audit=audit)

    return [replace(trial, config=settled(trial.config)) for trial in trials]


def check_one_vault(trials: Sequence[PlannedTrial]) -> None:
    """Refuse trials that are of different labels.

    Raises:
        ConfigurationError: Names the key and the variant.
    """

    def vault_of(trial: PlannedTrial) -> dict[str, Any]:
        flat = flatten(trial.config)
        return {key: value for key, value in flat.items() if key.startswith(FIXED_SECTIONS)}

    one, first = trials[0].config, vault_of(trials[0])
    for trial in trials[1:]:
        config = trial.config
        if (config.data, config.audit, config.evaluation) == (one.data, one.audit, one.evaluation):
            continue  # as nearly always: most of a large plan's time would go to spelling it out
        for key, value in vault_of(trial).items():
            if value != first[key]:
                raise ConfigurationError(
                    f"{key} is {first[key]!r} in one trial and {value!r} in variant "
                    f"{trial.variant!r}; one sweep asks one vault about one set of labels"
                )

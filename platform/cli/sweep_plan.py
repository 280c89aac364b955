"""What a sweep would run and cost, of which nothing is started: what `labeldp plan` does."""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from labeldp.platform.cli.sweep_command import sweep_file
from labeldp.platform.configuration import ConfigurationError, FeatureSet
from labeldp.platform.cost import check_budget, check_priors, cost_of
from labeldp.platform.driver import SweepOptions, load_data, prepare
from labeldp.platform.overrides import parse_overrides, read_yaml
from labeldp.platform.sweep import PlannedTrial, Sweep
from labeldp.platform.trusted.audits import check_room
from labeldp.platform.trusted.ensembles import ensembles_of
from labeldp.trainers.performance import Device


@dataclass(frozen=True, kw_only=True)
class PlanResult:
    """What a sweep would run and cost.

    Attributes:
        trials: How many.
        epsilons: Of the trials, each once.
        releases: How many releases the trials share.
        epsilon_total: Of a label that all releases touch.
        delta: At which the total holds.
        gpu_hours: Of all trials, from the sweep's own estimate for one.
        fits: Whether this machine can hold a trial and the data are there.
        problems: What stands in the way.
        configurations: Settings of each trial that differ between trials.
    """

    trials: int
    epsilons: list[float]
    releases: int
    epsilon_total: float
    delta: float
    gpu_hours: float
    fits: bool
    problems: list[str]
    configurations: list[dict[str, object]]


def load_sweep(path: str) -> Sweep:
    """Return the `SWEEP` of a sweep file.

    Raises:
        ValueError: No such file, it can't be run, or it has no `SWEEP`.
    """
    file = sweep_file(path)
    spec = importlib.util.spec_from_file_location(f"labeldp_sweep_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} can't be run: {type(error).__name__}: {error}") from error
    sweep = getattr(module, "SWEEP", None)
    if not isinstance(sweep, Sweep):
        raise ConfigurationError(f"{path} defines no SWEEP; see sweeps/quickstart.py for one")
    return sweep


def plan(
    path: str, *, overrides: Sequence[str] = (), smoke: bool = False, config: str | None = None
) -> PlanResult:
    """List a sweep's trials and their cost.

    Args:
        path: The sweep file.
        overrides: `key=value` arguments.
        smoke: Plan the small size.
        config: YAML file of settings that `overrides` come on top of.

    Raises:
        ConfigurationError: A key or value that can't be used.
    """
    changes = {**(read_yaml(Path(config)) if config else {}), **parse_overrides(list(overrides))}
    return plan_of(load_sweep(path), SweepOptions(smoke=smoke, results=Path(), overrides=changes))


def plan_of(sweep: Sweep, options: SweepOptions) -> PlanResult:
    """List a sweep's trials and their cost, as it would be run with these options.

    Raises:
        ConfigurationError: A key or value that can't be used.
    """
    sized, trials = prepare(sweep, options)
    facts = _look_at_data(trials)
    cost = cost_of(trials, num_classes=facts.num_classes, with_estimates=facts.with_estimates)
    problems = [*facts.problems]
    try:
        check_budget(cost, sized.budget)
    except ValueError as error:
        problems.append(str(error))
    problems += _lacking(sized, trials)
    return PlanResult(
        trials=len(trials),
        epsilons=sorted(set(cost.epsilons)),
        releases=cost.releases,
        epsilon_total=cost.epsilon_total,
        delta=cost.delta,
        gpu_hours=0.0 if options.smoke else len(trials) * sized.gpu_hours_per_trial,
        fits=not problems,
        problems=problems,
        configurations=[{"variant": trial.variant, **trial.point} for trial in trials],
    )


@dataclass(frozen=True, kw_only=True)
class _DataFacts:
    """What the price depends on, as far as it could be found out.

    Attributes:
        num_classes: K; the least there can be where the data can't be read.
        with_estimates: Whether labels are held out to estimate accuracy by.
        problems: Why the trials can't be run on these data.
    """

    num_classes: int = 2
    with_estimates: bool = False
    problems: tuple[str, ...] = ()


def _look_at_data(trials: Sequence[PlannedTrial]) -> _DataFacts:
    facts, first = _DataFacts(), trials[0].config
    try:
        # How many examples there are does not depend on features, which take minutes to compute.
        raw = replace(first.data, features=FeatureSet.AS_THEY_ARE)
        loaded = load_data(raw, evaluation=first.evaluation)
        facts = _DataFacts(
            num_classes=loaded.public.num_classes,
            with_estimates=loaded.held_out_labels is not None,
        )
        check_room(first.audit, num_labels=len(loaded.train_labels))
        check_priors(trials, loaded.public)
        for ensemble in ensembles_of(trials):
            ensemble.check_count(len(loaded.train_labels))
    except (ValueError, FileNotFoundError) as error:
        return replace(facts, problems=(str(error),))
    return facts


def _lacking(sized: Sweep, trials: Sequence[PlannedTrial]) -> list[str]:
    """What trials and teachers need and this machine has not."""
    problems = []
    cores = os.cpu_count() or 1
    if ensembles_of(trials) and sized.teacher.cpus > cores:
        problems.append(
            f"an actor that trains teachers takes {sized.teacher.cpus:g} cores, but this machine "
            f"has {cores}; name a cluster with --address"
        )
    if sized.resources.cpus > cores:
        problems.append(
            f"a trial takes {sized.resources.cpus:g} cores, but this machine has {cores}; name a "
            "cluster with --address"
        )
    asked = any(trial.config.performance.device is Device.CUDA for trial in trials)
    if asked and not torch.cuda.is_available():
        problems.append("performance.device is CUDA, but this machine has no GPU")
    return problems

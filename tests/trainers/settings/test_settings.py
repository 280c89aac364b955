"""settings: every key refuses other types, and values beyond its bounds, in one plain sentence."""

import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from labeldp.mechanisms.ledger import delta_of_total, epsilon_of_prices
from labeldp.platform.sweep.configuration import METHODS, AshaStop, OptunaSearch, TrialConfig
from labeldp.trainers.settings.base import KeyRefused, allowed, fields_of
from labeldp.trainers.settings.methods import PriorSettings, PriorSource
from labeldp.trainers.settings.pate import AggregatorKind, EnsembleConfig, PateConfig, TeacherKind
from labeldp.trainers.settings.training import FixMatchConfig, SelfSupervisedConfig, WeakBranch


def sections(value: Any) -> dict[type, Any]:
    found = {type(value): value}
    for entry in fields(value):
        if is_dataclass(below := getattr(value, entry.name)):
            found |= sections(below)
    return found


ALL: dict[type, Any] = {AshaStop: AshaStop(), OptunaSearch: OptunaSearch()}
ALL |= {SelfSupervisedConfig: SelfSupervisedConfig()}
for each in METHODS:
    ALL |= sections(TrialConfig(method=each, trainer=METHODS[each]()))


def test_settings_load_no_framework() -> None:
    slow = "{'mlflow', 'pandas', 'ray', 'sklearn', 'torch'}"
    code = "import sys, labeldp.platform.sweep.configuration, labeldp.platform.cli.config_keys"
    code += f"; assert not {slow} & set(sys.modules), sys.modules.keys() & {slow}"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("section", ALL.values(), ids=lambda each: type(each).__name__)
def test_other_types_and_values_beyond_bounds_are_refused(section: Any) -> None:
    """No text is read as a number, no `True` as 1; what a bound excludes is refused, by name."""
    for name, field in fields_of(type(section)).items():
        values = allowed(field)
        bad: list[Any] = [object(), {"x": 1}]
        if "number" in values.type:
            bad += [True, "0.5", float("nan")]
            bounds: dict[str, list[float]] = {"above 0": [0, -1], "at least 0": [-1]}
            bounds |= {"at least 1": [0], "at least 2": [1]}
            bounds |= {"strictly between 0 and 1": [0, 1], "at least 0 and below 1": [-0.1, 1]}
            bounds |= {"at least 0 and at most 1": [-0.1, 1.1], "above 0 and at most 1": [0, 1.1]}
            bad += [float("inf")] + bounds[values.bounds]
        if values.type.startswith("true"):
            bad += [1, "yes"]
        if "null" not in values.type:
            bad += [None]
        if name == "trainer":  # of any method
            bad = [None]
        for value in bad:
            with pytest.raises(ValueError, match=rf"{name} |TrialConfig|takes") as refused:
                replace(section, **{name: value})
            assert "\n" not in str(refused.value) and "ydantic" not in str(refused.value)


def test_a_whole_number_is_that_number_and_a_wrong_key_is_named() -> None:
    assert isinstance(FixMatchConfig(threshold=0).threshold, float)
    by_name: dict[str, Any] = {"weak_branch": "without_gradient"}
    assert FixMatchConfig(**by_name).weak_branch is WeakBranch.WITHOUT_GRADIENT
    for changes, message in {
        ("weak_branch", "both"): "weak_branch is 'both'; it must be joint or without_grad",
        ("threshhold", 0.5): "threshhold is not a setting of FixMatchConfig; did you mean thresh",
        ("threshold", 1.0): "threshold is 1.0; it must be a finite number, at least 0 and below 1",
        ("box", -1): "box is -1; it must be a whole number, at least 0, or null",
    }.items():
        wrong: dict[str, Any] = dict([changes])
        with pytest.raises(KeyRefused, match=message):
            FixMatchConfig(**wrong)


# PATE's settings: noise that costs the epsilon that is asked for, whatever else is given.

BASE = PateConfig(ensemble=EnsembleConfig(teachers=800, queries=1000), answers=300)


def paid(settings: PateConfig, *, num_classes: int = 10) -> float:
    chain = settings.planned_charge(num_classes=num_classes, seed=0).chain()
    return epsilon_of_prices(chain, delta=delta_of_total(chain, delta=settings.delta))


@pytest.mark.parametrize("aggregator", AggregatorKind)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_a_trial_costs_the_requested_epsilon(aggregator: AggregatorKind, epsilon: float) -> None:
    asked = replace(BASE, aggregator=aggregator, epsilon=epsilon)
    assert paid(asked) == pytest.approx(epsilon, rel=1e-6) and paid(asked) <= epsilon
    written = asked.calibrated()
    assert written.sigma2 is not None and written.calibrated() == written
    plans = (each.planned_charge(num_classes=10, seed=0) for each in (written, asked))
    assert next(plans) == next(plans)


@pytest.mark.parametrize("aggregator", AggregatorKind)
def test_labels_on_few_queries_need_less_noise(aggregator: AggregatorKind) -> None:
    asked = replace(BASE, aggregator=aggregator, epsilon=0.5)
    nearest = replace(BASE.ensemble, kind=TeacherKind.NEIGHBORS)
    every, few = (
        replace(asked, ensemble=replace(nearest, queries_per_label=most)) for most in (None, 10)
    )
    assert paid(every) == pytest.approx(0.5, rel=1e-6) and paid(few) <= 0.5
    assert paid(few) == pytest.approx(0.5, rel=1e-6)
    # The same as for the ensemble where a label votes on all, and sqrt(300 / 10) of it or less.
    noise, less = every.calibrated().sigma2, few.calibrated().sigma2
    assert noise == asked.calibrated().sigma2 and noise is not None and less is not None
    assert less < 0.4 * noise


@pytest.mark.parametrize("source", [PriorSource.CLUSTERS, PriorSource.MOMENTS])
@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_the_prior_is_paid_out_of_it(source: PriorSource, num_classes: int) -> None:
    asked = replace(BASE, epsilon=1.0, prior=PriorSettings(source=source))
    assert paid(asked, num_classes=num_classes) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    "given", [{"sigma1": 800.0}, {"sigma2": 100.0}, {"threshold": 200.0}, {"delta": 1e-7}]
)
def test_given_values_stay_and_the_rest_is_calibrated(given: dict[str, Any]) -> None:
    found = replace(BASE, epsilon=2.0, **given).calibrated()
    assert {name: getattr(found, name) for name in given} == given
    assert paid(found) == pytest.approx(2.0, rel=1e-6)


def test_noise_that_costs_another_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match=r"with sigma2=20 300 answers .* cost .* whatever sigma1"):
        replace(BASE, epsilon=1.0, sigma2=20.0).calibrated()
    both = replace(BASE, sigma1=400.0, sigma2=100.0)
    assert both.calibrated().epsilon is None and both.publishes
    with pytest.raises(ValueError, match=r"or sigma1, sigma2, and not both: trainer\.sigma1=null"):
        replace(both, epsilon=5.0).calibrated()
    with pytest.raises(ValueError, match="publish_cost is True and epsilon is 1"):
        replace(BASE, epsilon=1.0, publish_cost=True).calibrated()

"""settings: every key refuses other types, and values beyond its bounds, in one plain sentence."""

import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from labeldp.platform.sweep.configuration import METHODS, AshaStop, OptunaSearch, TrialConfig
from labeldp.trainers.settings.base import KeyRefused, allowed, fields_of
from labeldp.trainers.settings.training import FixMatchConfig, SelfSupervisedConfig, WeakBranch


def sections(value: Any) -> dict[type, Any]:
    """Return an example of every kind of settings within some."""
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
            bounds: dict[str, list[float]] = {
                "above 0": [0, -1],
                "at least 0": [-1],
                "at least 1": [0],
                "at least 2": [1],
            }
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

"""configuration: overrides, YAML, near misses, wrong types and values, hashes."""

import math
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.randomness import NoiseKind, SecureEntropy
from labeldp.platform.sweep.configuration import (
    METHODS,
    ConfigurationError,
    TrialConfig,
    config_hash,
    to_yaml,
    with_changes,
)
from labeldp.platform.sweep.overrides import parse_overrides, read_yaml
from labeldp.platform.sweep.sweep import Sweep, Variant, plan_trials


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer.learning_rte": 1}, "did you mean trainer.learning_rate"),
        ({"qqqqqqqq": 1}, "'qqqqqqqq'; known are method, seed"),
        ({"data": {"name": "mnist"}}, "data is a section, not a value; set one of its keys: data."),
        ({"trainer.epsilon": "many"}, "trainer.epsilon is 'many'"),
        ({"trainer.augment": "perhaps"}, "trainer.augment is 'perhaps'"),
        ({"audit.confidence": 95}, "confidence is 95"),
        ({"seed": -1}, "seed is -1"),
        ({"method": ["alibi"]}, "method is ['alibi']"),
    ],
)
def test_bad_changes_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        with_changes(TrialConfig(), changes)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_built_changed_and_written(method: str, tmp_path: Path) -> None:
    config = with_changes(TrialConfig(), {"method": method, "seed": 3})
    assert type(config.trainer) is METHODS[method]
    assert config.seed == 3 and config.trainer == METHODS[method]()
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert with_changes(TrialConfig(), read_yaml(file)) == config


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("trainer.epsilon=0.5", 0.5),
        ("trainer.epsilon=1e-3", 1e-3),
        ("trainer.epsilon=[0.5,1,2]", [0.5, 1, 2]),
        ("trainer.noise=gaussian", "gaussian"),
        ("trainer.augment=true", True),
        ("data.limit=null", None),
        ("data.path=/a/b=c.npz", "/a/b=c.npz"),
        ("data.path=${oc.env:HOME}", "${oc.env:HOME}"),  # a text: nothing is looked up
        ("data.label_column=2020-01-01", "2020-01-01"),
        ("trainer.epsilon=inf", "inf"),
        ("trainer.epsilon=.inf", math.inf),
    ],
)
def test_arguments_are_typed_as_in_yaml(argument: str, expected: object) -> None:
    (value,) = parse_overrides([argument]).values()
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text", ["a: [1", "- 1\n- 2\n", "seed: 1\nseed: 2\n", "\x00\x01"])
def test_yaml_that_cannot_be_used(text: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    with pytest.raises(ConfigurationError, match=f"{file} cannot be read: No such file"):
        read_yaml(file)
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=str(file)):
        read_yaml(file)


@pytest.mark.parametrize("text", ["007", "1_000", "0x10", "1:30", "+5", "-0", "10", "-3"])
def test_texts_are_kept_as_they_are_written(text: str) -> None:
    changed = with_changes(TrialConfig(), parse_overrides([f"data.label_column={text}"]))
    assert changed.data.label_column == text
    if text not in ("10", "-3"):
        with pytest.raises(ConfigurationError, match="a whole number"):
            with_changes(TrialConfig(), parse_overrides([f"trainer.epochs={text}"]))


def test_hash_sees_what_decides_the_numbers_and_nothing_else() -> None:
    base = TrialConfig()
    digest = config_hash(base, data_fingerprint="a")
    assert len(digest) == 16 and set(digest) <= set("0123456789abcdef")
    same = [
        with_changes(base, {"data.root": "/elsewhere"}),
        with_changes(base, {"trainer.epsilon": 1}),  # 1.0 it is already
        with_changes(base, {"models.keep": False}),
    ]
    assert {config_hash(config, data_fingerprint="a") for config in same} == {digest}
    changes: list[dict[str, Any]] = [
        {"seed": 1},
        {"trainer.epsilon": 1.5},
        {"trainer.noise": "gaussian"},
        {"noise.draw": 1},
        {"noise.seed": 0},
        {"audit.canary_seed": 1},
        {"data.limit": 10},
    ]
    others = {config_hash(with_changes(base, c), data_fingerprint="a") for c in changes}
    others.add(config_hash(base, data_fingerprint="b"))
    assert len(others | {digest}) == len(changes) + 2


def test_secure_noise_is_asked_for_by_a_key_and_never_with_a_seed() -> None:
    config = with_changes(TrialConfig(), parse_overrides(["noise.secure=true", "noise.draw=3"]))
    assert config.noise.source() == SecureEntropy(draw=3)
    with pytest.raises(ConfigurationError, match=r"noise\.secure is true and noise\.seed is 0"):
        with_changes(TrialConfig(), {"noise.secure": True, "noise.seed": 0})


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"data.name": "own"}, NoiseKind.SECURE),
        ({"data.name": "own", "noise.secure": False}, NoiseKind.PLAIN),
        ({"data.name": "own", "noise.seed": 3}, NoiseKind.SEEDED),
        ({}, NoiseKind.PLAIN),
    ],
)
def test_noise_on_labels_of_the_users_own_is_secure_unless_stated(
    changes: dict[str, Any], kind: NoiseKind
) -> None:
    variants = (Variant(name="one", changes=changes),)
    (trial,) = plan_trials(Sweep(name="own", base=TrialConfig(), variants=variants))
    assert trial.config.noise.kind is kind


def test_the_papers_lambda_sets_the_epsilon_of_laplace_noise() -> None:
    assert with_changes(TrialConfig(), {"trainer.lambda": 0.5}).trainer.epsilon == 4.0
    for changes, words in {
        ("trainer.noise", "gaussian"): "no key 'trainer.lambda'",
        ("trainer.epsilon", 4.0): "set one of them",
        ("trainer.lambda", 0): "must be a finite number above 0",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            with_changes(TrialConfig(), {"trainer.lambda": 0.5, changes[0]: changes[1]})

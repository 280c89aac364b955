"""configuration: overrides, near misses, wrong types and values, hashes, canaries, keys."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.mechanisms.ledger import total_of_prices
from labeldp.mechanisms.randomness import NoiseKind, SecureEntropy
from labeldp.platform.cli.config_keys import keys_of
from labeldp.platform.settings.configuration import (
    AshaStop,
    AuditSettings,
    ConfigurationError,
    OptunaSearch,
    TrialConfig,
    config_hash,
    flatten,
    with_changes,
)
from labeldp.platform.settings.methods import METHODS
from labeldp.platform.settings.sweep import Grid, Sweep, Variant, plan_trials, variants_of
from labeldp.platform.sweep.config_files import parse_overrides
from labeldp.trainers.base import KeyRefused, allowed, fields_of
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    PateConfig,
    TeacherKind,
)
from labeldp.trainers.methods.settings import Noise
from labeldp.trainers.settings.training import FixMatchConfig, SelfSupervisedConfig, WeakBranch


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
        with_changes(base, {"data.path": "/moved/mine.csv"}),
        with_changes(base, {"data.test_labels": "/moved/labels.npy"}),
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


def test_hash_sees_what_is_in_a_file_and_not_where_it_is(tmp_path: Path) -> None:
    def digest(name: str, content: bytes) -> str:
        file = tmp_path / name
        file.write_bytes(content)
        config = with_changes(TrialConfig(), {"trainer.encoder": str(file)})
        return config_hash(config, data_fingerprint="a")

    first = digest("encoder.pt", b"sixteen epochs")
    assert digest("moved.pt", b"sixteen epochs") == first
    assert digest("encoder.pt", b"forty epochs") != first


def test_secure_noise_is_set_by_a_key_and_excludes_a_seed() -> None:
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
def test_own_labels_have_secure_noise_by_default(changes: dict[str, Any], kind: NoiseKind) -> None:
    variants = (Variant(name="one", changes=changes),)
    (trial,) = plan_trials(Sweep(name="own", base=TrialConfig(), variants=variants))
    assert trial.config.noise.source().kind is kind


@pytest.mark.parametrize("name", ["trainer.epochs.x", "trainers.epochs", "trainer.epoch"])
def test_an_unknown_key_gets_the_nearest_one(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean trainer\.epochs"):
        with_changes(TrialConfig(), {name: 3})


def test_the_papers_lambda_sets_the_epsilon_of_laplace_noise() -> None:
    assert with_changes(TrialConfig(), {"trainer.lambda": 0.5}).trainer.epsilon == 4.0
    for changes, words in {
        ("trainer.noise", "gaussian"): "unknown key 'trainer.lambda'",
        ("trainer.epsilon", 4.0): "set one of them",
        ("trainer.lambda", 0): "must be a finite number above 0",
    }.items():
        with pytest.raises(ConfigurationError, match=words):
            with_changes(TrialConfig(), {"trainer.lambda": 0.5, changes[0]: changes[1]})


@pytest.mark.parametrize(("value", "epsilons"), [(0.5, [4.0]), ([1.0, 2.0], [2.0, 1.0])])
def test_a_lambda_on_the_command_line_replaces_the_epsilons_of_a_line(
    value: Any, epsilons: list[float]
) -> None:
    axis = {"trainer.epsilon": Grid(1.0, 8.0)}
    variants = [
        Variant(name="axis", space=axis),
        Variant(name="fixed", changes={"trainer.epsilon": 8.1, "seed": 1}),
        Variant(name="another", changes={"trainer.noise": Noise.GAUSSIAN}, space=axis),
    ]
    sweep = Sweep(name="one", base=TrialConfig(), variants=variants)
    trials = plan_trials(sweep, {"trainer.lambda": value})
    found = [(trial.variant, trial.config.trainer.epsilon) for trial in trials]
    expected = [(name, each) for name in ("axis", "fixed") for each in epsilons]
    assert found == [*expected, ("another", 1.0), ("another", 8.0)]


def test_an_epsilon_beside_lambdas_is_not_dropped() -> None:
    sweep = Sweep(name="one", base=TrialConfig())
    one_of_both = {"trainer.lambda": [0.5, 1.0], "trainer.epsilon": 0.1}
    for sized in (sweep, replace(sweep, variants=variants_of(sweep, one_of_both))):
        with pytest.raises(ConfigurationError, match="set one of them"):
            plan_trials(sized, one_of_both if sized is sweep else None)


def test_settings_that_prove_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^canaries is 4.* takes 5 .*to prove 3"):
        AuditSettings(canaries=4)
    with pytest.raises(ValueError, match=r"coin_canaries is 6.*takes 7.*or 0"):
        AuditSettings(coin_canaries=6)


@pytest.mark.parametrize(
    ("labels", "classes", "canaries", "coins"),
    [
        (999, 10, 0, 0),
        (1_000, 10, 10, 0),
        (1_400, 2, 0, 14),  # of two classes the attack can tell nothing
        (1_437, 10, 14, 0),
        (2_800, 10, 14, 14),
        (60_000, 10, 300, 300),
        (1_000_000, 10, 1_000, 1_000),
    ],
)
def test_canaries_are_a_share_by_default(
    labels: int, classes: int, canaries: int, coins: int
) -> None:
    found = AuditSettings().settled(num_labels=labels, num_classes=classes)
    assert (found.canaries, found.coin_canaries) == (canaries, coins)
    assert found.spoiled <= labels / 100
    assert found.settled(num_labels=5, num_classes=2) == found, "settled once and for all"


def test_stated_canaries_stay_and_the_share_sets_the_rest() -> None:
    for stated, settled in (
        ({"canaries": 1_000}, (1_000, 0)),
        ({"canaries": 60}, (60, 40)),
        ({"coin_canaries": 70}, (30, 70)),
        ({"canaries": 0}, (0, 0)),  # 0 switches audits off
        ({"canaries": 0, "coin_canaries": 50}, (0, 50)),
    ):
        found = AuditSettings(**stated).settled(num_labels=10_000, num_classes=10)
        assert (found.canaries, found.coin_canaries) == settled


@pytest.mark.parametrize("method", METHODS)
def test_every_key_is_listed_with_a_meaning_and_a_default_as_it_is_taken(method: str) -> None:
    found = keys_of(method)
    base = with_changes(TrialConfig(), {"method": method})
    assert [facts.key for facts in found] == list(flatten(base))
    assert all(facts.meaning.strip() and facts.type and facts.default for facts in found)
    typed = [f"{facts.key}={facts.default}" for facts in found[1:]]
    assert with_changes(base, parse_overrides(typed)) == base


# Every key refuses other types, and values beyond its bounds, in one plain sentence.


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
            bounds |= {"at least 0 and at most 4e+09": [-1, 2**32]}
            bounds |= {"strictly between 0 and 1": [0, 1], "at least 0 and below 1": [-0.1, 1]}
            bounds |= {"at least 0 and at most 1": [-0.1, 1.1], "above 0 and at most 1": [0, 1.1]}
            bad += [float("inf")] + bounds[values.bounds]
        if values.type.startswith("true"):
            bad += [1, "yes"]
        if "null" not in values.type:
            bad += [None]
        if name == "trainer":  # of any method
            bad = [None]
        says = "TrialConfig|takes" if name == "trainer" else f"{name} "
        for value in bad:
            with pytest.raises(ValueError, match=says) as refused:
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


def paid(settings: PateConfig) -> float:
    charge = settings.planned_charge(num_classes=10, seed=0)
    return total_of_prices([charge], delta=settings.delta)[0]


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


@pytest.mark.parametrize(
    "given",
    [
        {"sigma1": 800.0},
        {"sigma2": 100.0},
        {"threshold": 200.0},
        {"threshold": 1200.0},  # too large beside noise that is only tried
        {"delta": 1e-7},
    ],
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

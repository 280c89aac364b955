"""plan: what a sweep costs beforehand, what is refused, and that plan and start give one answer."""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.ledger import Budget, BudgetExceeded, stated
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.settings.configuration import (
    AshaStop,
    DataSettings,
    EvaluationSettings,
    OptunaSearch,
    TrialConfig,
    config_hash,
    with_changes,
)
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import (
    Axis,
    CannotFit,
    Choice,
    Grid,
    LogUniform,
    PlannedTrial,
    Preset,
    Resources,
    Sweep,
    SweepOptions,
    Variant,
    plan_trials,
)
from labeldp.platform.sweep.cost import SweepCost, cost_of
from labeldp.platform.sweep.driver import check, load_data
from labeldp.platform.sweep.open_sweep import _sizes
from labeldp.platform.sweep.plan import (
    Plan,
    as_on_disk,
    free_epsilon,
    plan_of,
    plan_sweep,
    prepare,
    size_of_data,
    with_count_price,
    with_shares,
)
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.data.splits import DataSize, League
from tests.platform.sweep.examples import a_cluster, a_record, a_sweep

HELD_OUT = {"evaluation.held_out_share": 0.2, "evaluation.estimate": "count"}
NOWHERE = SweepOptions(results=Path("nowhere"))
RATE = LogUniform(0.01, 0.1)
EPSILONS: dict[str, Axis] = {"trainer.epsilon": Grid(0.5, 1.0, 2.0)}


def a_size(held_out: int = 0, classes: int = 10) -> DataSize:
    return DataSize(num_classes=classes, num_labels=1000, held_out=held_out, has_test_split=True)


def small(**changes: Any) -> Sweep:
    """Without the baseline, whose epsilon is infinite: two ways at two epsilons."""
    sweep = a_sweep(**changes)
    return replace(sweep, variants=sweep.variants[:-1])


def options(folder: Path, **settings: Any) -> SweepOptions:
    return SweepOptions(results=folder / "results", **settings)


def started(sweep: Sweep, options: SweepOptions) -> Plan:
    return check(sweep, options)[0]


def price(sweep: Sweep, size: DataSize | None = None, **settings: Any) -> Plan:
    asked = replace(NOWHERE, **settings)
    return plan_sweep(asked, prepare(sweep, asked), size, fingerprint="f")


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {"choose_by": ChooseBy.ESTIMATED}),
        ({}, {"max_epsilon_total": 0.5}),
        ({"budget": Budget(epsilon=5.0, delta=1e-12)}, {}),
        ({}, {"choose_by": ChooseBy.ESTIMATED, "overrides": {**HELD_OUT, "seed": [*range(40)]}}),
        ({}, {"overrides": {"audit.canaries": 10**6}}),
        ({}, {"overrides": {"audit.canary_block": 10**4}}),
    ],
    ids=["none held out", "over budget", "over a sweep's own", "a lottery", "canaries", "a block"],
)
def test_the_plan_lists_each_refusal_of_a_start(
    tmp_path: Path, changes: dict[str, Any], asked: dict[str, Any]
) -> None:
    sweep, asked_for = small(**changes), options(tmp_path, **asked)
    with pytest.raises(ValueError) as refused:
        started(sweep, asked_for)
    assert not asked_for.results.exists()
    found = plan_of(sweep, asked_for)
    assert found.problems[0] == str(refused.value) and not found.fits
    assert found.over_budget == isinstance(refused.value, BudgetExceeded)


def test_a_resumed_folder_is_planned_at_its_own_prices(tmp_path: Path) -> None:
    """Of counts, and of canaries, which a start would take from there."""
    overrides = {**HELD_OUT, "audit.canaries": None, "audit.coin_canaries": None}
    asked = options(tmp_path, overrides=overrides)
    new = plan_of(small(), asked)
    folder = ResultsFolder(asked.results, sweep="small")
    folder.identify(count_epsilon=0.0123)
    folder.keep(a_record(changes={"audit.canaries": 20, "audit.coin_canaries": 9}))
    known, begun = plan_of(small(), asked), started(small(), asked)
    assert known.notes != new.notes and "pay epsilon 0.0123 for each" in known.notes[0]
    assert known.notes == list(begun.notes) and begun.count_epsilon == 0.0123
    assert known.spoiled_labels == begun.audit.spoiled == 29 != new.spoiled_labels
    assert known.epsilon_total == stated(begun.cost.epsilon_total)
    (asked.results / "sweep.json").write_text('{"count_epsilon": "much"}')
    with pytest.raises(ValueError, match="count_epsilon"):
        plan_of(small(), asked)


def own_file(folder: Path, *, classes: int) -> dict[str, Any]:
    """A file of 300 rows, 30 of which are held out, and the keys that name it."""
    path = folder / "mine.npz"
    features = np.random.default_rng(0).normal(size=(300, 4))
    np.savez(path, features=features, labels=np.arange(300) % classes)
    named = {"data.name": "own", "data.path": str(path), "data.classes": str(classes)}
    return {**named, "data.hold_out": "none"}


def test_a_users_own_file_is_priced_and_spoiled_by_its_size(tmp_path: Path) -> None:
    plan = started(small(), options(tmp_path, overrides=own_file(tmp_path, classes=3)))
    assert plan.audit.spoiled == 0 and plan.size.held_out == 30
    # Free is what the cheapest trial pays, and what makes the counts of use is more.
    assert plan.count_epsilon == 0.5
    assert {trial.config.evaluation.epsilon for trial in plan.trials} == {0.5}
    assert "epsilon 0.5 for each of 4 estimates" in plan.notes[-1]
    # With the key that the folder then keeps, another grid asks at the same price.
    ResultsFolder(tmp_path / "results", sweep="small").identify(count_epsilon=plan.count_epsilon)
    wider = {**own_file(tmp_path, classes=3), "trainer.epsilon": [0.2, 0.5]}
    assert started(small(), options(tmp_path, overrides=wider)).count_epsilon == 0.5


def test_wrong_labels_among_two_classes_are_refused_and_none_are_planted(tmp_path: Path) -> None:
    own = own_file(tmp_path, classes=2)
    assert started(small(), options(tmp_path, overrides=own)).audit.spoiled == 0
    with pytest.raises(ValueError, match=r"audit\.canaries is 30, and there are 2 classes"):
        started(small(), options(tmp_path, overrides={**own, "audit.canaries": 30}))
    coins = started(small(), options(tmp_path, overrides={**own, "audit.coin_canaries": 30}))
    assert (coins.audit.canaries, coins.audit.coin_canaries) == (0, 30)
    assert price(small(), a_size(classes=2)).audit.canaries == 0, "a sweep's own number"
    many = replace(a_size(classes=2), num_labels=10_000)
    warned = price(small(), many, overrides=own).notes
    assert "1% of the labels will be random" in warned[-1] and "rarer than about 5%" in warned[-1]
    stated = {**own, "audit.coin_canaries": 100}
    assert [*warned[:-1]] == price(small(), many, overrides=stated).notes


def priced(axes: dict[str, Axis]) -> tuple[Sequence[PlannedTrial], float | None]:
    sweep = Sweep(name="s", base=TrialConfig(), space=axes)
    by, size = ChooseBy.ESTIMATED, a_size(100, classes=3)
    trials, _, epsilon = with_count_price(sweep, plan_trials(sweep), size, by=by)
    return trials, epsilon


def test_no_trial_and_no_sweep_is_dearer_for_its_counts() -> None:
    assert priced({"trainer.epsilon": Grid(0.2, 2.0)})[1] == 0.2
    rates: dict[str, Axis] = {"trainer.learning_rate": Grid(*(0.01 * n for n in range(1, 9)))}
    trials, epsilon = priced(rates)  # eight trials on one release of epsilon 1
    assert epsilon == 0.12
    assert cost_of(trials, num_classes=3, with_estimates=True).epsilon_total == 1.0
    bare = plan_trials(Sweep(name="s", base=with_changes(TrialConfig(), {"trainer.noise": "none"})))
    assert free_epsilon(bare, num_classes=3) > 1e9


INTERACTIVE = {
    "method": "pate",
    "trainer.aggregator": "interactive",
    "trainer.publish_cost": False,
}


def searched(
    axes: dict[str, Axis],
    settings: dict[str, Any] | None = None,
    *,
    held_out: int = 0,
    stop: AshaStop | None = None,
) -> SweepCost:
    """The price of a search of 12 trials, compared by estimates where labels are held out."""
    base = with_changes(TrialConfig(), settings or {})
    by = ChooseBy.ESTIMATED if held_out else ChooseBy.TEST
    sweep = Sweep(name="s", base=base, space=axes, search=OptunaSearch(trials=12), stop=stop)
    return price(sweep, a_size(held_out), choose_by=by).cost


@pytest.mark.parametrize(
    ("key", "axis", "settings", "touched"),
    [
        ("trainer.epochs", Choice(5, 50), {}, False),
        ("trainer.student.network.learning_rate", RATE, {"method": "pate"}, False),
        ("trainer.learning_rate", RATE, {"method": "lp_mst", "trainer.stages": 1}, False),
        ("trainer.epsilon", LogUniform(0.5, 2.0), {}, True),
        ("trainer.noise", Choice("laplace", "gaussian"), {}, True),
        ("performance.device", Choice("cpu", "auto"), {}, True),
        ("trainer.ensemble.seed", Choice(0, 1), {"method": "pate"}, True),
        ("evaluation.epsilon", Choice(0.05, 0.5), {}, True),
        # A later stage's request follows from the model of the one before.
        ("trainer.learning_rate", RATE, {"method": "lp_mst", "trainer.stages": 2}, True),
        # A student's certainty is shown to the teachers.
        ("trainer.student.network.learning_rate", RATE, INTERACTIVE, True),
    ],
)
def test_an_axis_that_a_release_depends_on_is_not_searched(
    key: str, axis: Axis, settings: dict[str, Any], touched: bool
) -> None:
    with pytest.raises(ValueError, match="can't be searched") if touched else nullcontext():
        searched({key: axis}, settings, held_out=100_000)


def test_counts_are_charged_each() -> None:
    rates: dict[str, Axis] = {"trainer.learning_rate": RATE}
    found = searched(rates, {"trainer.epsilon": 1.5})  # one release is read by all trials
    assert (found.trials, found.releases, found.epsilon_total) == (12, 1, 1.5)
    half = {"evaluation.epsilon": 0.5}
    found = searched(rates, half, held_out=10_000)
    # Twelve counts of .5 and no more: 6, or less at the sweep's delta.
    assert found.releases == 13 and 5.99 < found.epsilon_total < 6.0
    # With epochs 1, 4 and 16 of 30 as rungs a trial asks four times.
    found = searched(rates, half, held_out=10_000, stop=AshaStop())
    assert (found.releases, found.epsilons) == (49, (2.0,)) and 14 < found.epsilon_total < 24
    # Trials of HyperBand's later brackets ask less often; the price is an upper bound.
    assert searched(rates, half, held_out=10_000, stop=AshaStop(brackets=3)) == found
    # One release of the held-out labels serves all trials and all rungs.
    shared = {"evaluation.estimate": "release"}
    found = searched(rates, shared, held_out=10_000, stop=AshaStop())
    assert (found.releases, found.epsilon_total) == (2, 1.0)


# Data of a sweep: keys that go together, sizes for plans, and their refusals.

OWN = DataSettings(name="own", hold_out=HoldOut.NONE, classes="3")


@pytest.mark.parametrize(
    ("settings", "share"),
    [
        (DataSettings(), None),
        (DataSettings(limit=100), 0.25),
        (OWN, None),  # a tenth is held out where nothing is public
        (OWN, 0.5),
        (replace(OWN, hold_out=HoldOut.PUBLIC), None),
    ],
    ids=str,
)
def test_counts_are_those_of_the_data_that_a_sweep_loads(
    settings: DataSettings, share: float | None, tmp_path: Path
) -> None:
    if settings.name == "own":
        features = np.arange(200, dtype=np.float32).reshape(100, 2)
        np.savez(tmp_path / "mine.npz", features=features, labels=np.arange(100) % 3)
        settings = replace(settings, path=str(tmp_path / "mine.npz"))
    config = TrialConfig(data=settings, evaluation=EvaluationSettings(held_out_share=share))
    size = size_of_data(config, as_on_disk(settings))
    data = load_data(config)
    held_out = 0 if data.held_out_labels is None else len(data.held_out_labels)
    assert (size.num_labels, size.held_out) == (len(data.train_labels), held_out)
    assert size.num_classes == data.public.num_classes
    assert size.has_test_split == data.public.has_test_split


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (DataSettings(name="mnist", root="nowhere"), "nowhere"),
        (DataSettings(classes="10"), "data.classes: only for your own data, but data.name is dig"),
        (DataSettings(name="own", path="nowhere.csv"), "nowhere.csv"),
        (DataSettings(name="own", path="X.csv", labels="y.npy"), "holds its labels itself"),
        (DataSettings(name="own", path="X.npy", embeddings="x.npy"), "embeddings of your own im"),
    ],
    ids=str,
)
def test_data_that_settings_do_not_fit_are_refused(settings: DataSettings, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_on_disk(settings)


def test_embeddings_stand_for_a_set_with_a_name_and_change_a_trial(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1797, 3)))
    config = with_changes(TrialConfig(), {"data.embeddings": str(tmp_path / "x.npy")})
    public = load_data(config).public
    assert public.train_features.shape == (1438, 3)
    assert public.provenance.league is League.NOT_STATED
    changed = config_hash(config, data_fingerprint="f")
    assert changed != config_hash(TrialConfig(), data_fingerprint="f")


# --- hours of a GPU, and data that a method can learn from ----------------------------------------


def test_hours_of_a_gpu_are_refused_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    presets = {"paper": Preset(needs_gpu=True), "home": Preset(samples=1)}
    sweep = small(needs_gpu=True, resources=Resources(gpu=1), presets=presets)
    asked = options(tmp_path)
    found = plan_of(sweep, asked)
    assert not found.fits
    assert "is for a GPU, and there is none here. Take --preset home, --smoke" in found.problems[0]
    with pytest.raises(CannotFit, match="state --on-processors"):
        started(sweep, asked)
    for smaller in ({"smoke": True}, {"preset": "home"}, {"on_processors": True}):
        assert plan_of(sweep, replace(asked, **smaller)).fits
        assert started(sweep, replace(asked, **smaller)).cost.trials
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert plan_of(sweep, asked).fits


def test_shares_of_a_gpu_are_what_ray_can_count(tmp_path: Path) -> None:
    shared = Resources(gpu=1, shared=True)
    plan = started(small(resources=shared, teacher=shared), options(tmp_path))
    asked: list[Any] = []

    def many(trials: Any, size: DataSize) -> int:
        asked.append((trials, size))
        return measured[0]

    def places(*nodes: tuple[float, float]) -> float:
        found, notes = with_shares(plan, nodes, measure=many)
        assert found.teacher == found.resources
        assert f"a GPU holds {1 / found.resources.gpu:.0f} trials or teachers at" in notes[0]
        return found.resources.gpu

    measured = [7]
    # Ray counts in ten thousandths of a GPU.
    assert places((8, 0), (16, 1)) == 0.1428
    assert asked == [(plan.trials, plan.size)]
    assert places((12, 4), (2, 1)) == 0.3333, "three cores for each GPU"
    assert places((0.5, 1)) == 1.0
    measured[0] = 30
    assert places((16, 1)) == 0.125, "more would only take longer"
    some: Any = [object()]  # of a search only whether there is one counts
    search = replace(plan, searches=some)
    stated = replace(
        plan, sweep=replace(plan.sweep, resources=Resources(gpu=1), teacher=Resources())
    )
    for other, node in ((search, (16, 1)), (stated, (16, 1)), (plan, (16, 0))):
        assert with_shares(other, [node], measure=many) == (other.sweep, [])
    assert len(asked) == 4


def test_a_cluster_without_a_gpu_is_refused_before_its_vault_opens(tmp_path: Path) -> None:
    sweep = small(needs_gpu=True, resources=Resources(gpu=1))
    plan = started(sweep, options(tmp_path, address="10.0.0.1:6379"))  # what it has is not known
    with pytest.raises(CannotFit, match="this sweep is for a GPU"):
        _sizes(plan, a_cluster((8, 0)))
    for cluster in (a_cluster((8, 0), (8, 1)), a_cluster((8, 0), grows=True)):
        assert _sizes(plan, cluster)[0].gpu == 1


@pytest.mark.parametrize(("stated", "found"), [({}, 8), ({"resources.cpu": 2}, 2)])
def test_a_trial_alone_takes_the_machine_or_what_is_stated(
    stated: dict[str, Any], found: int, tmp_path: Path
) -> None:
    sweep = small(presets={"whole": Preset()}, variants=[Variant(name="ALIBI")] * 2)
    plan = started(sweep, options(tmp_path, preset="whole", overrides=stated))
    assert _sizes(plan, a_cluster((8, 0)))[0].cpu == found


PATE = {"method": "pate", "trainer.ensemble.queries": 100, "trainer.answers": 50}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer.model": "small_cnn"}, "small_cnn needs images"),
        ({"trainer.model": "two_branch"}, "the features are numbers; two_branch"),
        ({"trainer.augment": True}, "own holds no images"),
        ({"data.name": "digits", **PATE}, "digits holds images, and a probe"),
        (
            {"data.name": "digits", "trainer.model": "fast_cnn", "data.features": "patches"},
            "fast_cnn needs images",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_cannot_be_built_does_not_fit_and_pays_nothing(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    keys = changes if "data.name" in changes else {**own_file(tmp_path, classes=3), **changes}
    sweep = small(variants=[Variant(name="a")])
    asked = options(tmp_path, overrides={"audit.canaries": 0, "audit.coin_canaries": 0, **keys})
    found = plan_of(sweep, asked)
    assert not found.fits and words in found.problems[0]
    with pytest.raises(ValueError, match=re.escape(words)):
        started(sweep, asked)
    assert not asked.results.exists()


def test_errors_of_amounts_that_noise_decides_are_named_before_they_are_paid(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 3)).astype(np.float32)
    np.savez(tmp_path / "spent.npz", features=rows, labels=50 + 9 * rows[:, 0])
    keys = {"data.name": "own", "data.path": str(tmp_path / "spent.npz"), "data.bounds": "0,100"}
    keys |= {"data.hold_out": "none", "trainer.task": "regression"}
    sweep = Sweep(name="amounts", base=TrialConfig(), space={"trainer.epsilon": Grid(0.5, 1.0)})
    asked = options(tmp_path, overrides=keys)
    found = plan_of(sweep, asked)
    assert found.fits and "`publish --trial best` refuses it" in found.notes[-1]
    assert found.notes == list(started(sweep, asked).notes)
    chosen = replace(asked, choose_by=ChooseBy.ESTIMATED)
    with pytest.raises(ValueError, match="too large to choose by estimated mean squared error"):
        started(sweep, chosen)
    assert not plan_of(sweep, chosen).fits
    many = replace(a_size(classes=64), num_labels=10_000, amounts=True)
    assert price(sweep, many, overrides=keys).audit.spoiled == 0
    assert price(sweep, many, overrides={**keys, "audit.canaries": 30}).audit.spoiled == 30
    dear = replace(asked, overrides={**keys, "evaluation.epsilon": 20.0})
    assert "refuses it" not in plan_of(sweep, dear).notes[-1]

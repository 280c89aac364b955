"""stand_ins: which axes touch a release, by what the plan says of them, and what that may cost."""

from dataclasses import replace
from typing import Any

import pytest

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.pate.decisions import Decisions, events_of
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import ConfigurationError, TrialConfig, with_changes
from labeldp.platform.sweep.cost import SweepCost, cost_of, releases_of
from labeldp.platform.sweep.search_settings import AshaStop, OptunaSearch
from labeldp.platform.sweep.space import Axis, Choice, Grid, LogUniform, Uniform
from labeldp.platform.sweep.stand_ins import DataFacts, priced, touching
from labeldp.platform.sweep.strands import Strand, strands_of
from labeldp.platform.sweep.sweep import PlannedTrial, Sweep
from labeldp.trainers.trainer import PlannedCharge

FACTS = DataFacts(num_classes=10, with_estimates=False)
HELD_OUT = DataFacts(num_classes=10, with_estimates=True)
RATE = LogUniform(0.01, 0.1)


def strand(axes: dict[str, Axis], **settings: Any) -> Strand:
    """A search of 12 trials, with settings `a__b` for `a.b`."""
    named = {key.replace("__", "."): value for key, value in settings.items()}
    base = with_changes(TrialConfig(), named)
    (found,) = strands_of(Sweep(name="s", base=base, space=axes, search=OptunaSearch(trials=12)))
    return found


@pytest.mark.parametrize(
    ("method", "key", "axis"),
    [
        ("alibi", "trainer.learning_rate", RATE),
        ("alibi", "trainer.epochs", Choice(5, 50)),
        ("alibi", "trainer.model", Choice("mlp", "small_cnn")),
        ("alibi", "trainer.post_processing", Choice("map_with_prior", "map")),
        ("alibi", "seed", Choice(0, 1)),
        ("bit_flip", "trainer.weight_decay", Uniform(0.0, 0.1)),
        ("consensus", "trainer.learning_rate", RATE),
        ("pate", "trainer.student.network.learning_rate", RATE),
    ],
)
def test_what_is_done_with_a_release_touches_none(method: str, key: str, axis: Axis) -> None:
    assert touching(strand({key: axis}, method=method), FACTS) == []


@pytest.mark.parametrize(
    ("key", "axis", "settings"),
    [
        ("trainer.epsilon", LogUniform(0.5, 2.0), {}),
        ("trainer.noise", Choice("laplace", "gaussian"), {}),
        ("noise.draw", Choice(0, 1), {}),
        ("noise.secure", Choice(False, True), {}),
        ("performance.device", Choice("cpu", "auto"), {}),
        (
            "trainer.sigma1",
            LogUniform(50, 100),
            {"method": "pate", "trainer.sigma2": 40.0, "trainer.threshold": 200.0},
        ),
        ("trainer.ensemble.seed", Choice(0, 1), {"method": "pate"}),
        # What a later stage asks follows from the model of the one before.
        ("trainer.learning_rate", RATE, {"method": "lp_mst", "trainer__stages": 2}),
        # A student's certainty is shown to the teachers.
        (
            "trainer.student.network.learning_rate",
            RATE,
            {
                "method": "pate",
                "trainer__aggregator": "interactive",
                "trainer__publish_cost": False,
            },
        ),
    ],
)
def test_what_decides_a_release_touches_it(key: str, axis: Axis, settings: dict[str, Any]) -> None:
    assert touching(strand({key: axis}, **settings), FACTS) == [key]


def test_only_the_guilty_axis_is_named() -> None:
    axes: dict[str, Axis] = {
        "trainer.learning_rate": RATE,
        "trainer.epsilon": Choice(1.0, 2.0),
        "trainer.momentum": Uniform(0.0, 0.9),
    }
    assert touching(strand(axes), FACTS) == ["trainer.epsilon"]


def test_a_stage_that_is_alone_asks_the_same_whatever_comes_after() -> None:
    alone = strand({"trainer.learning_rate": RATE}, method="lp_mst", trainer__stages=1)
    assert touching(alone, FACTS) == []


def test_the_price_of_counts_may_not_change_either() -> None:
    axis: dict[str, Axis] = {"evaluation.epsilon": Choice(0.05, 0.5)}
    assert touching(strand(axis), FACTS) == []
    assert touching(strand(axis), HELD_OUT) == ["evaluation.epsilon"]


def cost(
    axes: dict[str, Axis], facts: DataFacts = FACTS, stop: AshaStop | None = None, **settings: Any
) -> SweepCost:
    by = ChooseBy.ESTIMATED if facts.with_estimates else ChooseBy.TEST
    search = priced(
        [strand(axes, **settings)], facts, by=by, stop=stop, budgeted=True, fingerprint="f"
    )
    return cost_of(search.trials, num_classes=10, with_estimates=facts.with_estimates)


def test_one_release_is_read_by_all_trials() -> None:
    found = cost({"trainer.learning_rate": RATE}, trainer__epsilon=1.5)
    assert (found.trials, found.releases, found.epsilon_total) == (12, 1, 1.5)


def test_counts_are_charged_each() -> None:
    rates: dict[str, Axis] = {"trainer.learning_rate": RATE}
    found = cost(rates, HELD_OUT, evaluation__epsilon=0.5)
    assert (found.releases, found.epsilon_total) == (13, 6.0)
    # With epochs 1, 4 and 16 of 30 as rungs a trial asks four times.
    found = cost(rates, HELD_OUT, AshaStop(), evaluation__epsilon=0.5)
    assert (found.releases, found.epsilon_total, found.epsilons) == (49, 24.0, (2.0,))
    # One release of the held-out labels serves all trials and all rungs.
    found = cost(rates, HELD_OUT, AshaStop(), evaluation__estimate="release")
    assert (found.releases, found.epsilon_total) == (2, 1.0)


def test_the_dearest_way_is_what_a_touching_axis_costs() -> None:
    found = cost({"trainer.epsilon": LogUniform(0.5, 2.0)})
    assert (found.trials, found.releases, found.epsilon_total) == (12, 12, 24.0)
    # Prices of two kinds are not ordered: all trials may be of the one, and all of the other.
    both: dict[str, Axis] = {"trainer.noise": Choice("laplace", "gaussian")}
    found = cost(both, trainer__epsilon=1.0)
    assert (found.trials, found.releases) == (2, 4) and found.epsilon_total > 2.0


def test_searches_that_ask_alike_draw_for_themselves() -> None:
    space: dict[str, Axis] = {
        "trainer.epsilon": LogUniform(0.5, 2.0),
        "trainer.learning_rate": Grid(0.1, 0.2),
    }
    sweep = Sweep(name="s", base=TrialConfig(), space=space, search=OptunaSearch(trials=12))
    search = priced(
        strands_of(sweep), FACTS, by=ChooseBy.TEST, stop=None, budgeted=True, fingerprint="f"
    )
    found = cost_of(search.trials, num_classes=10)
    assert (found.trials, found.releases, found.epsilon_total) == (24, 24, 48.0)


def test_what_may_fail_is_no_cheaper_for_a_smaller_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = property(lambda noise: 1e-6 if noise.epsilon < 1 else 0.0)
    monkeypatch.setattr(LaplaceNoise, "failure_probability", failing)
    found = cost({"trainer.epsilon": Choice(0.5, 2.0)})
    # Both trials may be the one that fails.
    assert found.delta == pytest.approx(2 * 2 * 1e-6) and found.epsilon_total == 5.0


def test_decisions_that_are_dearer_once_may_be_cheaper_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Curves of PATE's decisions cross, so that one epsilon does not order their prices."""
    steep, flat = (
        events_of(
            [
                Decisions(noise_std=sigma1, count=checks, moved=1),
                Decisions(noise_std=sigma2, count=answers),
            ]
        )
        for sigma1, sigma2, checks, answers in ((240.0, 5.2, 417, 1), (72.0, 40.0, 400, 22))
    )
    dearest = epsilon_of(2 * flat, delta=1e-5)
    assert epsilon_of(steep, delta=1e-5) > epsilon_of(flat, delta=1e-5)
    assert epsilon_of(2 * steep, delta=1e-5) < dearest

    def decisions(trial: PlannedTrial, *, num_classes: int) -> dict[Any, PlannedCharge]:
        (event,) = steep if trial.config.trainer.epsilon == 1.0 else flat
        own = releases_of(trial, num_classes=num_classes)
        return {key: replace(part, event=event) for key, part in own.items()}

    monkeypatch.setattr("labeldp.platform.sweep.stand_ins.releases_of", decisions)
    monkeypatch.setattr("labeldp.platform.sweep.cost.releases_of", decisions)
    assert cost({"trainer.epsilon": Choice(1.0, 2.0)}).epsilon_total >= dearest


def test_a_touching_axis_without_a_budget_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"trainer\.epsilon of s can't be searched"):
        priced(
            [strand({"trainer.epsilon": Choice(1.0, 2.0)})],
            FACTS,
            by=ChooseBy.TEST,
            stop=None,
            budgeted=False,
            fingerprint="f",
        )


def test_what_is_left_stands_in_for_what_is_not_suggested_yet() -> None:
    axes: dict[str, Axis] = {"trainer.learning_rate": RATE}
    search = priced(
        [strand(axes)], HELD_OUT, by=ChooseBy.ESTIMATED, stop=None, budgeted=False, fingerprint="f"
    )
    (rest,) = search.rest(0, 9)
    assert (rest.stands_for, rest.estimates) == (3, 3)
    assert search.rest(0, 12) == []
    assert search.planned(0, (0.05,)).config.trainer.learning_rate == 0.05

"""sweep_totals: what a sweep's report says is what a remade one, the ledger and Python say."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp import load
from labeldp.mechanisms.accounting import GaussianEvent, PureEvent, gaussian_epsilon
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.mechanisms.vault import Charge
from labeldp.platform.cli.reports import totals_of
from labeldp.platform.records.results import ResultsFolder, SweepIdentity
from labeldp.platform.report.ledger import OF_ALL, OF_PRIVATE, read_folder, sweep_totals
from labeldp.platform.report.ledger_words import ledger_report
from tests.platform.report.folders import a_folder

ONE = LaplaceNoise(epsilon=1.0, num_classes=10)
PLAN = SweepIdentity(learned_epsilon=4.0, learned_counts=0.0, learned_delta=0.0)


def a_line(event: PureEvent | GaussianEvent) -> Charge:
    name = {"name": str(event)}
    return Charge(key="r", event=event, indices=None, mechanism=name, failure_probability=0.0)


def test_a_published_baseline_does_not_hide_what_the_others_paid() -> None:
    def private(*lines: Charge) -> tuple[float, float]:
        found = sweep_totals(lines, SweepIdentity(), delta=1e-5)
        return found["epsilon_private"], found["delta_private"]

    published = a_line(PureEvent(epsilon=math.inf))
    pure = [a_line(PureEvent(epsilon=1.0)), a_line(PureEvent(epsilon=2.0))]
    assert private(*pure, published) == (3.0, 0.0)
    epsilon, delta = private(a_line(GaussianEvent(noise_multiplier=2.0)), published)
    assert epsilon == pytest.approx(gaussian_epsilon(noise_multiplier=2.0, delta=1e-5))
    assert delta == 1e-5
    assert private(published) == (0.0, 0.0)


def test_the_plan_counts_where_it_is_more_and_the_difference_is_the_choice() -> None:
    lines = [a_line(PureEvent(epsilon=1.0))]
    found = sweep_totals(lines, PLAN, delta=1e-5)
    assert set(found) == {*OF_ALL, *OF_PRIVATE}
    assert (found["epsilon_releases"], found["epsilon_total"]) == (1.0, 4.0)
    assert (found["epsilon_selection"], found["epsilon_private"]) == (3.0, 4.0)
    cheap = sweep_totals(lines, replace(PLAN, learned_epsilon=0.5), delta=1e-5)
    assert (cheap["epsilon_total"], cheap["epsilon_selection"]) == (1.0, 0.0)
    # A smaller sum at a larger delta is no bound at the smaller one.
    approximate = replace(PLAN, learned_epsilon=0.5, learned_delta=1e-6)
    assert sweep_totals(lines, approximate, delta=1e-5)["delta"] == 1e-6
    published = [*lines, a_line(PureEvent(epsilon=math.inf))]
    bare = sweep_totals(published, PLAN, delta=1e-5)
    assert (bare["epsilon_total"], bare["epsilon_selection"]) == (math.inf, 0.0)
    assert bare["epsilon_private"] == 4.0


@pytest.mark.parametrize("releases", [[ONE], [ONE, NoNoise(num_classes=10)]])
def test_whoever_is_asked_says_the_same_of_a_sweep_that_learned(
    tmp_path: Path, releases: list[Any]
) -> None:
    a_folder(tmp_path, releases=releases)
    ResultsFolder(tmp_path, sweep="small").identify(**PLAN.to_json(), learned_releases=True)
    ledger = read_folder(tmp_path)
    charges = [line.charge for line in ledger.lines]
    sweep = sweep_totals(charges, ledger.results.identity, delta=ledger.delta)
    assert totals_of(ledger) == {**sweep, "num_labels": 60}
    told = ledger_report([str(tmp_path)])
    assert (
        (told["epsilon"], told["delta"]) == load(tmp_path).total() == (sweep["epsilon_total"], 0.0)
    )
    assert told["epsilon_private"] == sweep["epsilon_private"] == 4.0
    words = " ".join(told["words"])
    assert "no label has paid more than epsilon 4 for those" in words
    assert "no guarantee can be read off it" in words and "could have gone, epsilon 4" in words

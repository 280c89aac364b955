"""learned_sweeps: who sees a trial that others had a say in pays for those too."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.accuracy_estimate import CorrectCount
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.platform.records.results import ResultsFolder, SweepIdentity
from labeldp.platform.report.ledger import (
    FolderLedger,
    Total,
    plan_of,
    read_folder,
)
from labeldp.platform.report.selection import cost_of, cost_of_page, price_of
from tests.platform.report.folders import LAPLACE, a_folder, a_vault, keep
from tests.platform.sweep.examples import a_record

TRAINED, HELD_OUT = np.arange(40), np.arange(40, 60)
FREE = {"learned_epsilon": 4.0, "learned_counts": 0.75, "learned_delta": 0.0}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two searches of three trials at epsilon 2 and .5, each trial with a count of .25."""
    a_folder(tmp_path, releases=[], readers=0)
    vault, folder = a_vault(tmp_path), ResultsFolder(tmp_path, sweep="small")
    folder.identify(num_labels=len(TRAINED), held_out_labels=len(HELD_OUT), learned_releases=False)
    folder.identify(**FREE)
    number = 0
    for search, noise in (("a", LAPLACE), ("b", LaplaceNoise(epsilon=0.5, num_classes=10))):
        shared = vault.release(noise, indices=TRAINED).key
        for trial in range(3):
            guesses = np.full(len(HELD_OUT), number)
            count = vault.release(CorrectCount(epsilon=0.25), guesses, indices=HELD_OUT).key
            facts: dict[str, Any] = {"release_keys": (shared, count), "epsilon": noise.epsilon}
            folder.keep(a_record(f"{search}{trial}", **facts))
            number += 1
    return tmp_path


def price(results: Path, trial: str = "b0") -> float:
    folder = read_folder(results)
    return price_of(folder, folder.results.trial(trial)).epsilon


def test_a_trial_costs_what_its_search_has_looked_at(results: Path) -> None:
    folder = read_folder(results)
    own = folder.results.trial("b0")
    assert folder.learns and cost_of(folder, [own]).epsilon == 0.5
    # One release for training at .5, and three counts of .25 on other labels: the larger sum.
    assert price(results) == 0.75
    assert set(folder.keys_behind(own)) == {
        key for name in ("b0", "b1", "b2") for key in folder.results.trial(name).release_keys
    }
    assert price(results, "a0") == 2.0


def test_trials_that_failed_had_a_say_too(results: Path) -> None:
    vault = a_vault(results)
    counts = [
        vault.release(CorrectCount(epsilon=0.25), np.full(20, 7 + each), indices=HELD_OUT).key
        for each in range(3)
    ]
    failed = a_record("b9", finished=False, reason="it diverged", release_keys=(counts[0],))
    keep(results, failed)
    # The others were drawn for trials that left no record.
    assert price(results) == 1.5


def test_what_was_not_asked_but_planned_counts(results: Path) -> None:
    ResultsFolder(results, sweep="small").identify(learned_counts=3.0)
    assert price(results) == price(results, "a0") == 3.0
    folder = read_folder(results)
    assert cost_of_page(folder, [folder.results.trial("b0")]).epsilon == 4.0
    assert plan_of(folder.results.identity) == Total(epsilon=4.0, epsilon_private=4.0)
    assert folder.plan_behind == Total(epsilon=3.0, epsilon_private=3.0)
    assert plan_of(SweepIdentity(learned_delta=1e-5)) == Total(), "no plan, no delta"


def test_what_was_not_asked_but_planned_may_need_a_delta(results: Path) -> None:
    ResultsFolder(results, sweep="small").identify(
        learned_epsilon=1.0, learned_delta=1e-5, learned_releases=True
    )
    folder = read_folder(results)
    found = price_of(folder, folder.results.trial("b0"))
    # Another way of the search draws Gaussian noise: what this one paid is no pure promise.
    assert (found.epsilon, found.delta) == (2.5, 1e-5)


@pytest.mark.parametrize("told", [True, False])
def test_where_releases_were_searched_all_of_the_sweep_counts(results: Path, told: bool) -> None:
    """So does it for sweeps from before this was written down."""
    folder = ResultsFolder(results, sweep="small")
    facts = {**folder.identity().to_json(), "learned_releases": True}
    if not told:
        facts = {name: fact for name, fact in facts.items() if not name.startswith("learned_")}
        (results / "search.json").write_text("{}")
    (results / "sweep.json").unlink()
    folder.identify(**facts)
    a_vault(results).release(NoNoise(num_classes=10))  # a baseline's, which learned by itself
    assert price(results) == (4.0 if told else 2.5)


def test_a_trial_that_was_stopped_says_that_the_sweep_learned(results: Path) -> None:
    folder = ResultsFolder(results, sweep="small")
    facts = folder.identity().to_json()
    facts = {name: fact for name, fact in facts.items() if not name.startswith("learned_")}
    (results / "sweep.json").unlink()
    folder.identify(**facts)

    def now() -> FolderLedger:
        return read_folder(results)

    assert not now().learns and price(results) == 0.5
    assert now().keys_behind(now().results.trial("b0")) == tuple(
        now().results.trial("b0").release_keys
    )
    keep(results, now().results.trial("b1"), stopped_early=2)
    assert now().learns and price(results) == 2.5


@pytest.mark.parametrize("said", [None, 0])
def test_where_nobody_says_which_labels_are_held_out_all_of_it_is_charged(
    said: int | None, results: Path
) -> None:
    """Two searches at 2 and .5 together, and the plan of all of it, not of its counts alone."""
    path = results / "sweep.json"
    identity = json.loads(path.read_text())
    del identity["num_labels"]
    path.write_text(json.dumps(identity if said is None else {**identity, "num_labels": said}))
    assert price(results) == FREE["learned_epsilon"]
    folder = read_folder(results)
    keys = folder.keys_behind(folder.results.trial("b0"))
    assert set(keys) == {line.charge.key for line in folder.lines}

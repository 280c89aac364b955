"""search: what is tried next, and a search that is cut off and continued runs the same trials."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.settings.configuration import (
    AshaStop,
    ConfigurationError,
    OptunaSearch,
    TrialConfig,
    with_changes,
)
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import (
    Choice,
    Grid,
    LogUniform,
    Sweep,
    SweepOptions,
    Variant,
)
from labeldp.platform.sweep import search
from labeldp.platform.sweep.driver import run_sweep
from labeldp.platform.sweep.plan import Plan, plan_sweep, prepare
from labeldp.platform.sweep.recorder import SweepOutcome
from labeldp.platform.sweep.search import Suggestions, check_installed
from tests.faults.without_cluster import without_cluster


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_installed()
    monkeypatch.setattr(search, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install optuna"):
        check_installed()


BASE = with_changes(TrialConfig(), {"trainer.epochs": 3, "audit.canaries": 20, "data.limit": 300})
SWEEP = Sweep(
    name="searching",
    base=BASE,
    space={
        "trainer.epsilon": Grid(2.0, 8.0),
        "trainer.learning_rate": LogUniform(1e-3, 1.0),
        "trainer.width": Choice(8, 16),
    },
    search=OptunaSearch(trials=4, seed=3),
    choose_by=ChooseBy.TEST,
)


def run(folder: Path, sweep: Sweep = SWEEP, **options: Any) -> SweepOutcome:
    with without_cluster():
        return run_sweep(sweep, SweepOptions(results=folder, quiet=True, **options))


def records(folder: Path) -> dict[str, TrialRecord]:
    return ResultsFolder(folder, sweep=SWEEP.name).records()


def found(folder: Path) -> dict[str, tuple[Any, float]]:
    """What a folder holds of each trial, less its seconds."""
    return {
        digest: (record.point, record.metrics["accuracy"])
        for digest, record in records(folder).items()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "results"
    outcome = run(folder)
    assert (outcome.trials, outcome.finished, outcome.left) == (8, 8, 0)
    # Two epsilons are two releases; what was tried on each was chosen by what came before.
    assert (outcome.ledger["releases"], outcome.ledger["epsilon_total"]) == (2, 10.0)
    assert outcome.ledger["epsilon_selection"] == 0.0
    return folder


@pytest.mark.parametrize("lost", [1, 3])
def test_a_killed_search_ends_with_the_same_trials(whole: Path, tmp_path: Path, lost: int) -> None:
    """The driver died before the last records, or before the last suggestions as well."""
    folder = tmp_path / "results"
    shutil.copytree(whole, folder)
    kept = sorted((folder / "trials").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in kept[-lost:]:
        path.unlink()
    if lost == 3:
        suggested = json.loads((folder / "search.json").read_text())
        for rows in suggested.values():
            del rows[3:]
        (folder / "search.json").write_text(json.dumps(suggested))
    outcome = run(folder, moved=True)
    assert (outcome.trials, outcome.skipped, outcome.finished) == (8, 8 - lost, lost)
    assert found(folder) == found(whole)
    assert outcome.ledger["releases"] == 2


def test_more_trials_go_on_from_those_that_are_there(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    shutil.copytree(whole, folder)
    outcome = run(folder, moved=True, search=OptunaSearch(trials=5, seed=3))
    assert (outcome.trials, outcome.skipped, outcome.finished) == (10, 8, 2)


def test_stopped_trials_are_whole_records(tmp_path: Path) -> None:
    """Learning by charged counts: at the rung after one epoch, and at each trial's end."""
    base = with_changes(BASE, {"evaluation.held_out_share": 0.3, "evaluation.epsilon": 4.0})
    rates = Grid(0.1, 0.05, 1e-6, 1e-7, 1e-8)
    sweep = Sweep(
        name="searching",
        base=base,
        space={"trainer.epsilon": Grid(8.0), "trainer.learning_rate": rates},
        stop=AshaStop(grace_epochs=1, keep_one_in=2),
    )
    outcome = run(tmp_path, sweep)
    done = list(records(tmp_path).values())
    stopped = [record for record in done if record.stopped_early]
    assert outcome.finished == 5 and 1 <= len(stopped) <= 4
    for record in done:
        assert len(record.curves) == (record.stopped_early or 3)
        assert "epsilon_m_low" in record.metrics and "accuracy_estimated" in record.curves[0]
    # Nobody is stopped for a small rate alone: each rate is another trial on the same release.
    assert not any(record.stopped_early for record in done if record.point == {})
    # 5 trials ask at epochs 1 and 2 and at the end at the most: 15 counts of 4, apart from 8.
    assert outcome.ledger["epsilon_total"] == 60.0 > outcome.ledger["epsilon_releases"]


def a_plan(sweep: Sweep = SWEEP) -> Plan:
    options = SweepOptions(results=Path("nowhere"))
    return plan_sweep(options, prepare(sweep, options), None)


def some_suggestions(path: Path, plan: Plan) -> Suggestions:
    return Suggestions(path, plan.searches, size=plan.size, fingerprint="f", by=plan.choose_by)


def test_equal_values_and_lines_make_one_trial(tmp_path: Path) -> None:
    """A trial that is handed out twice has one record, and the sweep would never end."""
    lines = [Variant(name="a"), Variant(name="b")]
    space = {"trainer.learning_rate": Choice(0.1, 1, 0.1, 1.0, 0.2)}
    plan = a_plan(replace(SWEEP, variants=lines, space=space))
    suggested = some_suggestions(tmp_path / "search.json", plan)
    handed_out = [digest for digest in iter(lambda: suggested.next({}), None)]
    assert plan.cost.trials == len(handed_out) == len({*handed_out}) == 3


def test_an_axis_is_the_same_however_its_numbers_are_written(tmp_path: Path) -> None:
    names = {
        a_plan(replace(SWEEP, space={"trainer.learning_rate": axis})).searches[0].id
        for axis in (LogUniform(1, 2), LogUniform(1.0, 2.0), LogUniform(1e0, 2))
    }
    assert len(names) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path, plan = tmp_path / "search.json", a_plan()
    name = plan.searches[0].id
    for content in ('{"a": 3}', '{"a": [["x"]]}', json.dumps({name: [[1.0]]})):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"search\.json is damaged"):
            some_suggestions(path, plan)


def test_an_unplanned_trial_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a release to hang on a value between the probes, the suggestion would be refused."""
    plan = a_plan()
    unforeseen = [replace(each, foreseen=frozenset()) for each in plan.searches]
    plan = replace(plan, searches=unforeseen)
    with pytest.raises(ConfigurationError, match="another release of the labels than the plan"):
        some_suggestions(tmp_path / "search.json", plan).next({})
    assert not (tmp_path / "search.json").exists()

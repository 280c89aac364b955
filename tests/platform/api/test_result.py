"""result: sweeps that are planned and run, folders that are read, and the table of trials."""

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp
from labeldp import load
from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.api.result import best_of, sweep_of, trial_table
from labeldp.platform.records.results import ResultsFolder, TrialRecord, read_results
from labeldp.platform.report.ledger import read_folder
from labeldp.platform.report.selection import BEST, selected
from labeldp.platform.settings.configuration import TrialConfig
from labeldp.platform.settings.metrics import ChooseBy, figures_of
from labeldp.platform.settings.sweep import Resume, Sweep, SweepOptions
from labeldp.platform.sweep import driver
from labeldp.trainers.models.trained_model import ModelFileError
from tests.platform.cli.asked import answer
from tests.platform.report.folders import a_folder, keep_a_model
from tests.platform.sweep.examples import a_record, a_sweep
from tests.source_tree import ROOT

QUICKSTART = ROOT / "sweeps" / "quickstart.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a_folder(tmp_path / "results", readers=2)
    return tmp_path / "results"


def test_tables_and_the_ledger_are_read(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = load(folder)
    assert repr(result).startswith("Result(small: 2 trials finished, 0 failed, ")
    table = result.table()
    assert len(table) == 2 and table["accuracy"].dtype == np.float64
    best = result.best(at_epsilon=5)
    assert best["trial"] in set(table["trial"]) and best["accuracy"] == 0.9
    assert result.ledger()["epsilon"].tolist() == [2.0] and result.total() == (2.0, 0.0)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_missing_files_and_trials_are_named(folder: Path) -> None:
    result = load(folder)
    with pytest.raises(ValueError, match="begin with 'ffff'"):
        result.model("ffff")
    with pytest.raises(ModelFileError, match="is not there"):
        result.model(result.best())
    with pytest.raises(ValueError, match=r"no trial is within epsilon 0\.01; the cheapest costs 2"):
        result.best(at_epsilon=0.01)


def test_the_best_within_an_epsilon_can_be_published_at_it(tmp_path: Path) -> None:
    a_folder(tmp_path, epsilon=2.0)

    def finds(choice: Callable[[], object]) -> bool:
        try:
            return bool(choice())
        except ValueError:
            return False

    def agree(at_epsilon: float) -> bool:
        best = finds(lambda: load(tmp_path).best(at_epsilon=at_epsilon)["trial"])
        assert best == finds(lambda: selected(read_folder(tmp_path), BEST, at_epsilon=at_epsilon))
        return best

    # The budget's rule: it is met exactly, to the last digits.
    assert agree(2.0) and not agree(2.0 * (1 - 1e-11))
    # The settings may depend on everything that the search saw: more than the trial's own release.
    plan = {"learned_epsilon": 5.0, "learned_counts": 0.0, "learned_delta": 0.0}
    ResultsFolder(tmp_path, sweep="small").identify(**plan, learned_releases=True)
    assert agree(5.0) and not agree(4.0)


def test_the_best_is_chosen_by_what_the_sweep_compares_by(tmp_path: Path) -> None:
    kept = ResultsFolder(tmp_path, sweep="small")
    for epsilon, estimated in ((1.0, 0.5), (2.0, 0.9)):
        found = AccuracyEstimate(accuracy=estimated, sampling_error=0.01, count_scale=0.001)
        kept.keep(trial(f"{epsilon:016}", epsilon, 1.4 - estimated, figures=figures_of(found)))
    for by, best in ((None, 1.0), (ChooseBy.ESTIMATED, 2.0)):
        kept.identify(choose_by=by)
        assert load(tmp_path).best()["epsilon"] == best
    assert load(tmp_path).best(by="test")["epsilon"] == 1.0


def test_a_trials_model_is_found_by_its_row_and_by_its_hash(folder: Path) -> None:
    result = load(folder)
    best = result.best()
    keep_a_model(folder, read_results(folder).trial(best["trial"]))
    rows = np.zeros((3, 64))
    found = result.model(best).predict_proba(rows)
    assert (found == result.model(best["trial"]).predict_proba(rows)).all()
    assert found.shape == (3, 10)


def test_trials_sweeps_and_files_are_sweeps() -> None:
    assert sweep_of(a_sweep()).name == "small"
    assert sweep_of(TrialConfig()).name == "alibi_digits"
    asked = sweep_of({"method": "lp_mst", "trainer.epsilon": 3.0})
    assert asked.name == "lp_mst_digits" and asked.base.trainer.epsilon == 3.0
    assert sweep_of(QUICKSTART).name == sweep_of(str(QUICKSTART)).name == "quickstart"
    with pytest.raises(ValueError, match="int can't be run"):
        sweep_of(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not a sweep file"):
        sweep_of("nothing.py")


def test_a_plan_is_the_verbs() -> None:
    found = labeldp.plan(QUICKSTART, overrides={"trainer.epsilon": [1.0, 2.0]}, smoke=True)
    verbs = answer("plan", str(QUICKSTART), "--smoke", "trainer.epsilon=[1.0,2.0]")
    changed = [{"key": "trainer.epsilon", "value": [1.0, 2.0], "set_by": "command line"}]
    assert {**asdict(found), "changed": changed} == verbs and found.fits
    one = labeldp.plan(TrialConfig(), overrides={"trainer.epsilon": 3.0})
    assert (one.trials, one.epsilon_total, one.releases) == (1, 3.0, 1)
    assert labeldp.plan(a_sweep()).trials == 5
    assert labeldp.plan(a_sweep(), only="ALIBI", without="no", choose_by="test").trials == 2
    wrong = {"search": "optuna", "stop": "asha", "resume": "nevr", "choose_by": "estimate"}
    said = "give OptunaSearch|give AshaStop|did you mean never|did you mean estimated"
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=rf"{name} is '{value}'; ({said})"):
            labeldp.plan(a_sweep(), **{name: value})
    with pytest.raises(ValueError, match=r"search is 'optuna'; give OptunaSearch"):
        a_sweep(search="optuna")
    with pytest.raises(ValueError, match=r"trainer\.epsilon"):
        labeldp.plan(TrialConfig(), overrides={"trainer.epsilo": 3.0})


def test_options_reach_the_driver_and_quiet_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []

    def stand_in(sweep: Sweep, options: SweepOptions) -> None:
        seen.append((sweep.name, options))
        print("going", file=sys.stderr)
        a_folder(options.results)

    monkeypatch.setattr(driver, "run_sweep", stand_in)
    more: dict[str, Any] = {"results": tmp_path / "r", "max_epsilon_total": 3.0}
    more["overrides"] = {"seed": [0, 1]}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mine.db")
    more["resume"] = "never"
    for quiet in (True, False):
        result = labeldp.run(a_sweep(), quiet=quiet, **more)
        assert capsys.readouterr().err == ("" if quiet else "going\n")
        assert result.folder == tmp_path / "r" and len(result.table()) == 1
    name, options = seen[0]
    assert name == "small" and options.overrides == {"seed": [0, 1]}
    assert options.max_epsilon_total == 3.0 and not options.smoke
    assert options.tracking_uri == "sqlite:///mine.db" and options.resume is Resume.NEVER
    with pytest.raises(TypeError, match="max_epsilon"):
        labeldp.run(a_sweep(), results=tmp_path, max_epsilon=3.0)


def trial(
    digest: str, epsilon: float, accuracy: float, *, seed: int = 0, **facts: object
) -> TrialRecord:
    return a_record(
        digest,
        point={"trainer.epsilon": epsilon, "seed": seed},
        changes={"trainer.epsilon": epsilon, "seed": seed},
        epsilon=epsilon,
        accuracy=accuracy,
        **facts,  # type: ignore[arg-type]
    )


RECORDS = [
    trial("a1", 2.0, 0.9),
    trial("a2", 2.0, 0.8, seed=1),
    trial("b1", 1.0, 0.7, figures={"private/secret": 0.1, "ensemble_accuracy": 0.5}),
    trial("b2", 1.0, 0.75, seed=1),
    a_record(
        "c1", variant="AGIBI", changes={"trainer.noise": "gaussian"}, epsilon=1.0, accuracy=0.74
    ),
    a_record("d1", finished=False, reason="TrainingDiverged: the loss is not finite"),
]


def test_a_table_has_the_rows_and_columns_of_the_contract() -> None:
    table = trial_table(RECORDS)
    assert list(table["trial"]) == ["b2", "c1", "b1", "a1", "a2", "d1"]
    assert list(table.columns[:5]) == ["method", "variant", "epsilon", "delta", "accuracy"]
    assert {"epsilon_m_low", "epsilon_m_high", "seed", "trainer.epsilon"} <= set(table.columns)
    assert table["method"].tolist() == ["alibi", "agibi", *["alibi"] * 4]
    table = table.set_index("trial")
    assert table["reason"]["d1"].startswith("TrainingDiverged")
    spread = table["accuracy_spread"]
    assert spread["a1"] == spread["a2"] == pytest.approx(0.1 / 2**0.5)
    assert spread.isna().sum() == 2
    assert "accuracy_spread" not in trial_table(RECORDS[:1]).columns and trial_table([]).empty
    owners = set(trial_table(RECORDS, private=True).columns)
    assert owners - {"trial", *table.columns} == {
        *("private/secret", "ensemble_accuracy", "epsilon_m_ceiling")
    }


def test_the_best_is_the_best_mean_over_seeds_and_its_first_seed() -> None:
    assert best_of(RECORDS, by=None).hash == "a1"
    # .725 on average, and one seed of .75 that would win alone.
    assert best_of(RECORDS[2:], by=ChooseBy.TEST).hash == "c1"
    with pytest.raises(ValueError, match="no trial has finished"):
        best_of(RECORDS[-1:], by=None)
    found = AccuracyEstimate(accuracy=0.8, sampling_error=0.03, count_scale=0.2)
    records = [a_record(digest, figures=figures_of(found)) for digest in ("a", "b")]
    with pytest.raises(ValueError, match="noise is too large to choose by estimated accuracy"):
        best_of(records, by=ChooseBy.ESTIMATED)
    assert best_of(records, by=ChooseBy.TEST).hash == "a"

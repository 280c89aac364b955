"""A sweep from start to end: interrupted and finished; two starts of Ray.

Six trials share one release; two of them must diverge. The first start is interrupted when a trial
has finished, the second one does the rest.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from labeldp.platform.records.results import ResultsFolder, TrialRecord, kept_model
from labeldp.platform.settings.configuration import config_hash
from labeldp.platform.settings.metrics import tracked_figures
from tests.faults.processes import alive, wait_until
from tests.faults.sweep_runs import Driver
from tests.platform.sweep.examples import from_yaml

pytestmark = [pytest.mark.ray_cluster, pytest.mark.timeout(900)]

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
EPOCHS = 30
#: A busy machine takes long to start Ray; a quiet one needs 20 s.
LIMIT_SECONDS = 600
FIXED = ["--only", "ALIBI", f"trainer.epochs={EPOCHS}", "audit.canaries=50"]
SIX = [
    *FIXED,
    "trainer.epsilon=4",
    "trainer.learning_rate=[0.05,0.02,1e30]",
    "trainer.weight_decay=[0.0,0.001]",
]
METRICS = {"accuracy", "epsilon", "delta", "train_seconds", "val_accuracy", "loss"}
METRICS |= {"epsilon_m", "epsilon_m_low", "epsilon_m_high", "epsilon_m_ceiling"}
TAGS = {"config_hash", "trainer", "dataset", "git_commit", "seed", "mlflow.parentRunId"}
ARTIFACTS = {"config.yaml", "ledger.json", "environment.txt", "curves.json"}
KEYS = {"experiment", "tracking_uri", "parent_run_id", "results_dir", "pareto", "ledger"}
KEYS |= {"trials", "finished", "failed", "skipped"}


@dataclass(frozen=True)
class Start:
    """One start of the sweep, after its end."""

    json: dict[str, Any]
    err: str
    records: dict[str, TrialRecord]


def start(results: Path, *arguments: str, code: int = 0, interrupt: bool = False) -> Start:
    """Start the sweep and wait for its end; none of its processes is left behind."""
    with Driver(results, *arguments, sweep=SWEEPS / "quickstart.py") as driver:
        if interrupt:
            driver.wait_for_records(1)
            driver.interrupt()
        printed = driver.finish(code=code, seconds=LIMIT_SECONDS)
        wait_until(lambda: not any(map(alive, driver.seen)), what="all it started ends", seconds=30)
        records = ResultsFolder(results, sweep="quickstart").records()
        return Start(json=printed, err=driver.log, records=records)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep") / "results"


@pytest.fixture(scope="module")
def interrupted(results: Path) -> Start:
    return start(results, *SIX, code=130, interrupt=True)


@pytest.fixture(scope="module")
def completed(results: Path, interrupted: Start) -> Start:
    return start(results, "--resume", "must", *SIX, code=1)  # some trials fail


def runs(outcome: Start) -> tuple[Run, dict[str, Run], MlflowClient]:
    """Return the sweep's run, its trials' by hash, and the client that found them."""
    client = MlflowClient(tracking_uri=outcome.json["tracking_uri"])
    parent = client.get_run(outcome.json["parent_run_id"])
    query = f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    found = list(client.search_runs([parent.info.experiment_id], query))
    by_hash = {run.data.tags["config_hash"]: run for run in found}
    assert len(by_hash) == len(found) == len(outcome.records), "a trial has two runs, or none"
    return parent, by_hash, client


def test_an_interrupted_sweep_keeps_what_has_finished(interrupted: Start) -> None:
    assert "Traceback" not in interrupted.err
    assert "interrupted; finished trials are kept" in interrupted.err
    assert interrupted.json == {}
    assert 1 <= len(interrupted.records) < 6


def test_the_next_start_does_the_rest(interrupted: Start, completed: Start) -> None:
    done = {digest for digest, record in interrupted.records.items() if record.finished}
    found = [completed.json[name] for name in ("trials", "skipped", "finished", "failed")]
    assert found == [6, len(done), 4 - len(done), 2]
    for digest in done:
        assert completed.records[digest] == interrupted.records[digest]
    assert len(completed.records) == 6


def test_a_trial_that_diverges_says_so_and_the_others_finish(completed: Start) -> None:
    failed = [record for record in completed.records.values() if not record.finished]
    assert [record.config["trainer.learning_rate"] for record in failed] == [1e30, 1e30]
    for record in failed:
        assert "TrainingDiverged: the loss is not finite in epoch 1" in record.reason
    _, children, _ = runs(completed)
    for record in failed:
        run = children[record.hash]
        assert run.info.status == "FAILED"
        assert run.data.tags["failure_reason"] == record.reason
    assert "failed: TrainingDiverged" in completed.err
    assert sum(run.info.status == "FINISHED" for run in children.values()) == 4


def test_json_has_the_keys_of_the_contract(completed: Start, results: Path) -> None:
    found = completed.json
    assert set(found) >= KEYS
    assert found["experiment"] == "quickstart"
    assert Path(found["results_dir"]) == results
    state = json.loads((results / "state.json").read_text())  # for `labeldp watch`
    facts = ("trials", "ended", "running", "epsilon_spent", "epsilon_planned")
    assert [state[name] for name in facts] == [6, True, [], 4.0, 4.0]
    # One release for all learning rates.
    prices = {"epsilon_releases": 4.0, "epsilon_selection": 0.0, "epsilon_total": 4.0}
    assert found["ledger"] == {"releases": 1, "delta": 0.0, **prices}
    assert len({tuple(record.release_keys) for record in completed.records.values()}) == 1
    (point,) = found["pareto"]  # one epsilon: one point is best
    assert set(point) >= {"run_id", "accuracy", "epsilon", "epsilon_m_low", "epsilon_m_high"}
    finished = [record for record in completed.records.values() if record.finished]
    assert point["accuracy"] == max(record.metrics["accuracy"] for record in finished)
    assert point["accuracy"] > 0.8 and point["epsilon"] == 4.0
    assert point["run_id"] in {run.info.run_id for run in runs(completed)[1].values()}


def test_every_trial_is_tracked_with_everything(completed: Start, results: Path) -> None:
    parent, children, client = runs(completed)
    fingerprint = ResultsFolder(results, sweep="quickstart").identity().fingerprint or ""
    for digest, record in completed.records.items():
        run = children[digest]
        assert set(run.data.tags) >= TAGS
        assert run.data.tags["dataset"] == "digits" and run.data.tags["trainer"] == "alibi"
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.params == {key: str(value) for key, value in record.config.items()}
        names = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert names >= ARTIFACTS | ({"run_card.md"} if record.finished else set())
        file = client.download_artifacts(run.info.run_id, "config.yaml")
        config = from_yaml(Path(file).read_text())
        assert config_hash(config, data_fingerprint=fingerprint) == digest
        assert (kept_model(results / "models", digest) is not None) == record.finished
        if not record.finished:
            continue
        assert ("private" if math.isinf(record.metrics["epsilon"]) else "model") in names
        infinite = run.data.tags.get("infinite", "").split(", ")
        assert {*run.data.metrics, *infinite} >= METRICS
        figures = tracked_figures(record.metrics)
        numbers = {name: value for name, value in figures.items() if math.isfinite(value)}
        assert {name: run.data.metrics[name] for name in numbers} == pytest.approx(numbers)
        curve = client.get_metric_history(run.info.run_id, "val_accuracy")
        assert [point.step for point in curve] == list(range(1, EPOCHS + 1))
        assert curve[-1].value == pytest.approx(record.metrics["accuracy"])
    names = {file.path for file in client.list_artifacts(parent.info.run_id)}
    assert names >= {"report.html", "pareto.png", "pareto.csv"}
    assert parent.info.status == "FAILED", "two of its trials have failed"


# A search under Tune itself; tests/platform/sweep/test_search.py has more without Ray.


def test_every_trial_ends_as_a_whole_record_at_the_price_of_the_dearest_way(tmp_path: Path) -> None:
    settings = ("trainer.epochs=6", "evaluation.epsilon=8.0")
    command = ("--smoke", "--trials", "6", "--stop", "asha", "--quiet", *settings)
    with Driver(tmp_path / "results", *command, sweep=SWEEPS / "search_quickstart.py") as driver:
        outcome = driver.finish(seconds=500)
        assert "accuracy" not in driver.log, "--quiet says nothing of trials that finish"
    assert (outcome["trials"], outcome["finished"], outcome["left"]) == (6, 6, 0)
    results = ResultsFolder(tmp_path / "results", sweep="search_quickstart")
    found = list(results.records().values())
    assert len(found) == 6
    for record in found:
        assert len(record.curves) == (record.stopped_early or 6)
        assert "epsilon_m_low" in record.metrics and "accuracy_estimated" in record.metrics
        assert "accuracy_estimated" in record.curves[0], "its rung after the first epoch"
    # Some trial was behind: rates from 1e-4 to 1 are a wide range, and counts of 8 are exact.
    assert any(record.stopped_early for record in found)
    # Six trials could have asked at the epochs 1 and 4, and at their ends: 18 counts of 8.
    ledger = outcome["ledger"]
    assert ledger["epsilon_total"] == 144.0
    assert ledger["epsilon_releases"] + ledger["epsilon_selection"] == 144.0
    assert ledger["epsilon_selection"] > 0

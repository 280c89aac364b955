"""A user's own file without test labels: trained, chosen and reported by estimated accuracy.

Through the command line, without Ray; no public label anywhere.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.overrides import load_sweep
from tests.faults.without_cluster import without_cluster

pytestmark = pytest.mark.timeout(900)

QUICKSTART = Path(__file__).resolve().parents[2] / "sweeps" / "quickstart.py"
EXAMPLES, CLASSES = 3000, 3
#: Learning rates: one is far too small to learn anything in so few epochs.
RATES = (0.05, 0.000001)


def own_file(folder: Path) -> Path:
    random = np.random.default_rng(0)
    centers = random.normal(scale=2.0, size=(CLASSES, 6))
    labels = random.integers(CLASSES, size=EXAMPLES)
    features = centers[labels] + random.normal(size=(EXAMPLES, 6))
    path = folder / "mine.npz"
    np.savez(path, features=features, labels=labels, class_names=["low", "middle", "high"])
    return path


def test_a_sweep_without_any_public_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = [
        "data.name=own",
        f"data.path={own_file(tmp_path)}",
        "data.hold_out=none",
        "evaluation.epsilon=0.5",
        "trainer.noise=laplace",
        "trainer.epsilon=2",
        f"trainer.learning_rate=[{RATES[0]},{RATES[1]}]",
        "trainer.epochs=4",
        "audit.canaries=50",
    ]
    results = tmp_path / "results"
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    arguments = ["--results", str(results), "--json", "--choose-by", "estimated"]
    with without_cluster():
        code = sweep_command.run(
            load_sweep(str(QUICKSTART)), [*arguments, "--max-epsilon-total", "2", *settings]
        )
    captured = capsys.readouterr()
    assert code == 0, captured.err
    outcome = json.loads(captured.out.splitlines()[-1])
    assert (outcome["finished"], outcome["failed"]) == (2, 0)
    # Chosen by the estimate: the model that has learned something, and by far.
    (best,) = outcome["pareto"]
    assert "accuracy" not in best
    assert best["accuracy_estimated"] > 0.75 and 0 < best["accuracy_estimated_error"] < 0.05
    # One release and two counts of other labels, which cost no more than the release does.
    assert outcome["ledger"]["releases"] == 3
    assert outcome["ledger"]["epsilon_total"] == 2.0
    records = ResultsFolder(results, sweep="quickstart").records()
    for record in records.values():
        assert "accuracy" not in record.metrics and record.metrics["epsilon"] == 2.0
        assert all("val_accuracy" not in epoch and "loss" in epoch for epoch in record.curves)
    by_rate = {r.point["trainer.learning_rate"]: r.metrics for r in records.values()}
    assert by_rate[RATES[0]]["accuracy_estimated"] == best["accuracy_estimated"]
    assert by_rate[RATES[1]]["accuracy_estimated"] < best["accuracy_estimated"] - 0.1
    with open(results / "pareto.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["accuracy"] for row in rows] == ["", ""]
    assert sum(int(row["pareto"]) for row in rows) == 1
    page = (results / "report.html").read_text()
    assert ">estimated, %<" in page and ">accuracy, %<" not in page
    assert "The best of 2 looks better than it is" in page
    # The same report from tracking alone.
    again = tmp_path / "again"
    uri = outcome["tracking_uri"]
    asked = ["report", "quickstart", "--tracking-uri", uri, "--out", str(again), "--json"]
    assert main(asked) == 0
    capsys.readouterr()
    assert (again / "pareto.csv").read_text() == (results / "pareto.csv").read_text()

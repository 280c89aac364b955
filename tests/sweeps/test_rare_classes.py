"""A sweep on a rare class: measured, estimated, charged, chosen and reported by more than accuracy.

Without Ray, through the Python interface.
"""

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import labeldp
from labeldp.platform.records.results import read_results
from labeldp.platform.report.publish import publish
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.trial import test_figures as figures_on_test_labels
from tests.faults.without_cluster import without_cluster

pytestmark = pytest.mark.timeout(600)


def rare_file(path: Path) -> Path:
    random = np.random.default_rng(0)
    features = random.normal(size=(12_000, 4))
    chance = 1 / (1 + np.exp(4.6 - features @ [1.2, -0.8, 0.6, 0.0]))
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["a", "b", "c", "d", "label"])
        for row, sick in zip(features, random.random(12_000) < chance, strict=True):
            rows.writerow([*(f"{each:.4f}" for each in row), "yes" if sick else "no"])
    return path


@pytest.mark.parametrize("hold_out", ["public", "none"])
def test_a_rare_class_is_reported_by_auc_and_average_precision(
    hold_out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    results = tmp_path / "results"
    settings = {
        "method": "alibi",
        "data.name": "own",
        "data.path": str(rare_file(tmp_path / "own.csv")),
        "data.label_column": "label",
        "data.classes": "no,yes",
        "data.hold_out": hold_out,
        "trainer.epochs": 4,
        "trainer.epsilon": 2.0,
        "evaluation.held_out_share": 0.4,
        "evaluation.estimate": "histogram",
    }
    rates = {"trainer.learning_rate": [0.01, 0.000001]}
    with without_cluster():
        result = labeldp.run(settings, results=results, overrides=rates, quiet=True)
    # Two histograms of held-out labels cost as much as the one release of the others.
    table = result.ledger()
    assert sum("histogram of labels by" in each for each in table["what"]) == 2
    assert result.total() == (2.0, 0.0)
    best = result.best(by="roc_auc_estimated")
    assert best["trainer.learning_rate"] == 0.01
    records = read_results(results).records.values()
    for record in records:
        figures = record.metrics
        assert figures["minority_share_estimated"] < 0.05 and record.reliability
        if hold_out == "none":
            assert "roc_auc" not in figures
            continue
        for name in ("roc_auc", "log_loss"):
            low, high = (figures[f"{name}_estimated_{end}"] for end in ("low", "high"))
            assert low - 0.1 <= figures[name] <= high + 0.1
    page = (results / "report.html").read_text()
    auc = "ROC AUC" if hold_out == "public" else "estimated ROC AUC"
    later = ">accuracy, %<" if hold_out == "public" else ">estimated, %<"
    table = page[page.index('id="table"') :]
    assert table.index(f">{auc}<") < table.index(later)
    assert "has ROC AUC" in page and 'id="reliability"' in page
    to = tmp_path / "public"
    publish(results, trial="best", to=to, choose_by=ChooseBy.AVERAGE_PRECISION_ESTIMATED)
    assert "ROC AUC" in (to / "run_card.md").read_text()


def test_test_figures_are_those_of_scikit_learn_whatever_classes_are_there() -> None:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(3), size=500).astype(np.float32)
    labels = random.integers(3, size=500)
    found, reliability = figures_on_test_labels(scores, labels)
    truth = np.eye(3)[labels]
    assert found["roc_auc"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)
    assert found["log_loss"] == pytest.approx(
        log_loss(labels, scores / scores.sum(1, keepdims=True)), abs=1e-5
    )
    assert sum(row[2] for row in reliability) == 3 * 500
    two, _ = figures_on_test_labels(scores, labels % 2)
    assert 0 < two["roc_auc"] < 1 and two["minority_share"] == 0.0
    one, _ = figures_on_test_labels(scores[:, :2], np.zeros(500, dtype=np.int64))
    assert "roc_auc" not in one and one["log_loss"] > 0

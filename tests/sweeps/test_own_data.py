"""A user's own file: without test labels, with a rare class, and of secret amounts.

Through the command line and the Python interface, without Ray.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score

import labeldp
from labeldp.platform.records.results import ResultsFolder, read_results
from labeldp.platform.report.publish import publish
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.sweep.trial import test_figures as figures_on_test_labels
from tests.faults.without_cluster import without_cluster
from tests.platform.cli.asked import answer, swept, words
from tests.sweeps.conftest import QUICKSTART

pytestmark = pytest.mark.timeout(900)

EXAMPLES, CLASSES = 3000, 3
#: Learning rates: one is far too small to learn anything in so few epochs.
RATES = (0.05, 0.000001)


def own_file(folder: Path) -> Path:
    random = np.random.default_rng(0)
    centers = random.normal(scale=2.0, size=(CLASSES, 6))
    labels = random.integers(CLASSES, size=EXAMPLES)
    features = centers[labels] + random.normal(size=(EXAMPLES, 6))
    path = folder / "mine.npz"
    np.savez(path, features=features, labels=labels, num_classes=CLASSES)
    return path


def test_a_sweep_without_public_labels(tmp_path: Path) -> None:
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
    options = ("--results", str(results), "--json", "--choose-by", "estimated", "--only", "ALIBI")
    with without_cluster():
        code, out, err = swept(QUICKSTART, *options, "--max-epsilon-total", "2", *settings)
    assert code == 0, err
    outcome = json.loads(out.splitlines()[-1])
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
    again, uri = tmp_path / "again", outcome["tracking_uri"]
    answer("report", "quickstart", "--tracking-uri", uri, "--out", str(again))
    assert (again / "pareto.csv").read_text() == (results / "pareto.csv").read_text()


# A sweep on a rare class: measured, estimated, charged, chosen and reported by more than accuracy.


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
def test_a_rare_class_is_reported_by_auc(hold_out: str, tmp_path: Path) -> None:
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
        assert figures["minority_share_estimated"] < 0.05
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
    assert "has ROC AUC" in page
    to = tmp_path / "public"
    publish(results, trial="best", to=to, choose_by=ChooseBy.AVERAGE_PRECISION_ESTIMATED)
    assert "ROC AUC" in (to / "run_card.md").read_text()


def test_test_figures_are_those_of_scikit_learn_whatever_classes_are_there() -> None:
    random = np.random.default_rng(0)
    scores = random.dirichlet(np.ones(3), size=500).astype(np.float32)
    labels = random.integers(3, size=500)
    found = figures_on_test_labels(scores, labels)
    truth = np.eye(3)[labels]
    assert found["roc_auc"] == pytest.approx(roc_auc_score(truth, scores), abs=1e-9)
    assert found["log_loss"] == pytest.approx(
        log_loss(labels, scores / scores.sum(1, keepdims=True)), abs=1e-5
    )
    two = figures_on_test_labels(scores, labels % 2)
    assert 0 < two["roc_auc"] < 1 and two["minority_share"] == 0.0
    # Equal scores are alike, whatever the order of the rows.
    ties = figures_on_test_labels(np.full((500, 2), 0.5), np.sort(labels) % 2)
    assert ties["lift"] == pytest.approx(1.0)
    one = figures_on_test_labels(scores[:, :2], np.zeros(500, dtype=np.int64))
    assert "roc_auc" not in one and one["log_loss"] > 0


# A sweep on secret amounts: trained, measured, estimated, charged, chosen, published, predicted.

LARGEST = 0.5


def amounts_file(path: Path, *, count: int = 3000) -> pd.DataFrame:
    """Amounts of which a few lie beyond 0 and 100, and text among the features."""
    random = np.random.default_rng(0)
    rows = pd.DataFrame(random.normal(size=(count, 3)).round(4), columns=["a", "b", "c"])
    rows["town"] = np.where(rows.b > 0.5, "Bern", "Rome")
    spent = 50 + 14 * rows.a + 15 * (rows.town == "Bern") + 5 * random.normal(size=count)
    rows["spent"] = spent.round(2)
    rows.to_csv(path, index=False)
    return rows


def settings(path: Path, **more: object) -> dict[str, object]:
    return {
        "trainer.task": "regression",
        "data.name": "own",
        "data.path": str(path),
        "data.label_column": "spent",
        "data.bounds": "0,100",
        "data.hold_out": "none",
        "trainer.epsilon": 2.0,
        "evaluation.largest_error": LARGEST,
        **more,
    }


@pytest.mark.parametrize("hold_out", ["public", "none"])
def test_amounts_of_a_file_cost_what_was_planned(hold_out: str, tmp_path: Path) -> None:
    results, file = tmp_path / "results", tmp_path / "own.csv"
    rows = amounts_file(file)
    given = settings(file, **{"data.hold_out": hold_out, "evaluation.held_out_share": 0.4})
    releases = {"trainer.release": ["sums", "randomized_response", "unbiased", "least_error"]}
    with without_cluster():
        result = labeldp.run(given, results=results, overrides=releases, quiet=True)
    records = {r.point["trainer.release"]: r for r in read_results(results).records.values()}
    ledger = result.ledger()
    # Three channels under one histogram, sums, and three sums of errors for each trial.
    kinds = [ledger["what"].str.contains(each).sum() for each in ("in clusters", "sums of errors")]
    assert len(ledger) == 5 + 4 and kinds == [1, 4]
    for release, record in records.items():
        figures = record.metrics
        assert record.finished and figures["epsilon"] == pytest.approx(2.0, rel=1e-9)
        assert (figures["delta"] == 0) == (release != "sums") and "accuracy" not in figures
        assert ("share_at_bounds_estimated" in figures) == (release != "sums")
        spread = float(rows.spent.clip(0, 100).var())
        names = ("mean_squared_error", "mean_absolute_error")
        low, high = (
            np.array([figures[f"{n}_estimated_{e}"] for n in names]) for e in ("low", "high")
        )
        assert (low < high).all() and 0 <= low[0] < spread
        if hold_out == "public":
            assert figures["mean_squared_error"] < 0.6 * spread
            assert figures["relative_error"] == pytest.approx(
                figures["mean_absolute_error"] / 54.6, rel=0.03
            )
            assert 0 < figures["share_beyond_bounds"] < 0.02
            # The chance that one of 16 intervals of 95% misses by its own width is far below 1e-6.
            for name, least, most in zip(names, low, high, strict=True):
                assert least - (most - least) < figures[name] < most + (most - least)
    best = result.best(by="mean_absolute_error_estimated")
    assert best["mean_absolute_error_estimated"] == min(
        each.metrics["mean_absolute_error_estimated"] for each in records.values()
    )
    page = (results / "report.html").read_text()
    assert ("mean squared error" if hold_out == "public" else "estimated mean squared") in page
    publish(results, trial=best["trial"], to=tmp_path / "public")
    card = (tmp_path / "public" / "run_card.md").read_text()
    assert "mean squared error, estimated on held-out labels" in card
    model = next((tmp_path / "public").rglob("model.json")).parent
    for place in (model, results / "models" / best["trial"]):
        out = tmp_path / "found.csv"
        answer("predict", str(place), str(file), "-o", str(out))
        found = pd.read_csv(out)
        assert list(found) == ["prediction"] and found.prediction.between(0, 100).all()
        assert np.corrcoef(found.prediction, rows.spent)[0, 1] > 0.75


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data.bounds": "0"}, r"data\.bounds is '0'; state two numbers"),
        ({"data.bounds": "9,3"}, r"data\.bounds is '9,3'"),
        ({"data.classes": "2"}, r"data\.bounds is for amounts and data\.classes for classes"),
        ({"method": "alibi", "trainer.task": None}, "method 'alibi' learns classes, but these"),
        ({"data.bounds": None, "data.classes": "2", "data.label_column": "bit"}, "are classes"),
        ({"evaluation.estimate": "histogram"}, "which is of classes; errors of amounts"),
        ({"trainer.release": "sums", "trainer.delta": 0.0}, "sums have Gaussian noise"),
        ({"data.label_column": "town"}, r"column 'town' row 0 is not a number"),
    ],
)
def test_contradictions_are_refused(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.csv"
    rows = amounts_file(file, count=60)
    rows.assign(bit=np.arange(60) % 2).to_csv(file, index=False)
    given = {k: v for k, v in settings(file, **changes).items() if v is not None}
    with pytest.raises(ValueError, match=message), without_cluster():
        labeldp.run(given, results=tmp_path / "results", quiet=True)
    assert not (tmp_path / "results" / "vault.db").exists()


def test_a_file_of_amounts_is_described_and_its_secrets_are_not(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    rows = amounts_file(file, count=60)
    asked = ["data", "check", str(file), "--label-column", "spent", "--hold-out", "none"]
    asked += ["--bounds", "0,100"]
    said = words(*asked)
    assert "bounds   0 to 100" in said and "labeldp sweep amounts" in said
    assert "data.bounds=0.0,100.0" in said
    assert not any(f"{each:.2f}" in said for each in rows.spent)
    rows.spent = rows.spent.astype(str).replace({rows.spent[7].astype(str): "secret"})
    rows.to_csv(file, index=False)
    said = words(*asked, code=1)
    assert "row 7 is not a number" in said and "secret" not in said.replace("labels; secret", "")

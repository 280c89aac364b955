"""A sweep on secret amounts: trained, measured, estimated, charged, chosen, published, predicted.

Without Ray, through the Python interface and the command line.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import labeldp
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.results import read_results
from labeldp.platform.report.publish import publish
from tests.faults.without_cluster import without_cluster

pytestmark = pytest.mark.timeout(600)
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
def test_amounts_are_learned_from_a_file_at_the_planned_price(
    hold_out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
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
        assert main(["predict", str(place), str(file), "-o", str(out)]) == 0
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
def test_settings_that_contradict_each_other_are_refused(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "own.csv"
    rows = amounts_file(file, count=60)
    rows.assign(bit=np.arange(60) % 2).to_csv(file, index=False)
    given = {k: v for k, v in settings(file, **changes).items() if v is not None}
    with pytest.raises(ValueError, match=message), without_cluster():
        labeldp.run(given, results=tmp_path / "results", quiet=True)
    assert not (tmp_path / "results" / "vault.db").exists()


def test_a_file_of_amounts_is_described_and_its_secrets_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.csv"
    rows = amounts_file(file, count=60)
    asked = ["data", "check", str(file), "--label-column", "spent", "--hold-out", "none"]
    assert main([*asked, "--bounds", "0,100"]) == 0
    said = capsys.readouterr().out
    assert "bounds   0 to 100" in said and "sweeps/amounts.py" in said
    assert "data.bounds=0.0,100.0" in said
    assert not any(f"{each:.2f}" in said for each in rows.spent)
    rows.spent = rows.spent.astype(str).replace({rows.spent[7].astype(str): "secret"})
    rows.to_csv(file, index=False)
    main([*asked, "--bounds", "0,100"])
    said = capsys.readouterr().out
    assert "row 7 is not a number" in said and "secret" not in said.replace("labels; secret", "")

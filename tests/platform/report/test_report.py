"""report: a page, a table, a figure, and audits in `private/`; the same from tracking."""

import csv
import math
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate
from labeldp.platform.cli.reports import report_experiment
from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import TrackingUnusable, default_uri
from labeldp.platform.report.card import audits_of
from labeldp.platform.report.report import Report, write_report
from labeldp.platform.sweep.accuracy_figures import figures_of
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store, of_newer_schema

LEDGER = {"releases": 2, "epsilon_total": 3.0, "delta": 0.0}
AUDITS: dict[str, Any] = {
    **{"epsilon_m_paper_low": 0.5, "epsilon_m_paper_high": 1.25, "label_inference_bound": 0.1425},
    **{"epsilon_one_run_ceiling": 3.49, "epsilon_f_dp_ceiling": 3.57},
    **{"epsilon_tight_ceiling": 9.91, "epsilon_release_ceiling": 8.91},
    **{"private/epsilon_tight": 0.9173, "private/epsilon_release": 0.9589},
    **{"private/release_guesses": 60.0, "private/release_correct": 48.0},
    **{"private/epsilon_one_run": 0.7654, "private/epsilon_f_dp": 0.8768},
    **{"private/one_run_guesses": 50.0, "private/one_run_correct": 37.0},
    **{"private/label_inference_accuracy": 0.234, "private/label_inference_advantage": 0.1229},
}
AUDITED = {"epsilon_m_paper_low": 0.1, "epsilon_m_paper_high": 1.0}


def some_records() -> list[TrialRecord]:
    bare: dict[str, Any] = {"epsilon": math.inf, "epsilon_m_high": math.inf}
    return [
        a_record(
            "a", point={"trainer.epsilon": 1.0}, accuracy=0.8, figures={"private/epsilon_x": 0.123}
        ),
        a_record("b", point={"trainer.epsilon": 2.0}, accuracy=0.9, epsilon=2.0),
        a_record("c", point={"trainer.epsilon": 4.0}, accuracy=0.85, epsilon=4.0),
        a_record("d", variant="no <privacy>", accuracy=0.97, **bare),
        a_record("e", variant="AGIBI", finished=False, reason="loss <is> not finite"),
    ]


def audited(digest: str, **changes: float) -> TrialRecord:
    return a_record(digest, **{**AUDITS, **changes})


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def written(folder: Path, records: list[TrialRecord], **facts: Any) -> tuple[Report, Page]:
    folder.mkdir(exist_ok=True)
    done = write_report(records, folder=folder, **{"title": "small", **facts})
    return done, Page(done.html.read_text())


def test_a_page_that_stands_alone_a_table_and_a_figure(tmp_path: Path) -> None:
    done, _ = written(tmp_path, some_records(), title="small & fine", ledger=LEDGER)
    rows = rows_of(done.pareto_csv)
    assert [(row["variant"], row["trainer.epsilon"], row["pareto"]) for row in rows] == [
        *(("ALIBI", "1", "1"), ("ALIBI", "2", "1"), ("ALIBI", "4", "0")),
        ("no <privacy>", "", "1"),
    ]
    assert done.rows == 4 and [float(row["epsilon"]) for row in rows] == [1, 2, 4, math.inf]
    assert [float(row["accuracy"]) for row in rows] == [0.8, 0.9, 0.85, 0.97]
    page = done.html.read_text()
    assert "<h1>small &amp; fine</h1>" in page and "4 trials finished, 1 failed" in page
    fetched = r"""(src|href|action|data)=['"](?!data:|#)|url\(|@import|https?://|fetch\("""
    assert not re.search(fetched, page), "something is fetched from elsewhere"
    assert "no &lt;privacy&gt;" in page and "<privacy>" not in page
    assert "loss &lt;is&gt; not finite" in page
    assert "2 releases" in page and "epsilon 3 at delta 0" in page
    assert page.count('<tr class="front">') == 3
    assert done.pareto_png.read_bytes().startswith(b"\x89PNG")
    for path in (done.html, done.pareto_csv):
        assert "private/" not in path.read_text() and "0.123" not in path.read_text()


def test_reports_are_their_owners_alone_whatever_was_there(tmp_path: Path) -> None:
    names = ("report.html", "pareto.png", "pareto.csv", "private/audits.html")
    (tmp_path / "private").mkdir(mode=0o755)
    for name in names:
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o644)
    written(tmp_path, [a_record("a", figures=AUDITED)])
    for name in names:
        assert (tmp_path / name).read_bytes() != b"old"
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name",
    [
        *("report.html", "pareto.png", "pareto.csv"),
        *("private", "private/audits.html"),
    ],
)
def test_reports_are_not_written_through_links(name: str, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir(mode=0o755)
    link = tmp_path / "report" / name
    link.parent.mkdir(parents=True)
    for target in (tmp_path / "victim", tmp_path / "nothing"):
        link.symlink_to(target)
        with pytest.raises(ValueError, match=f"{link.name} is a link to {target}"):
            written(tmp_path / "report", [a_record("a", figures=AUDITED)])
        link.unlink()
    assert not list((tmp_path / "victim").iterdir()) and not (tmp_path / "nothing").exists()
    assert stat.S_IMODE((tmp_path / "victim").stat().st_mode) == 0o755


@pytest.fixture
def tracked(tmp_path: Path) -> str:
    """A store with a finished sweep in it."""
    uri = new_store(tmp_path / "store")
    tracker = Tracker(uri=uri, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    for record in some_records():
        tags = {"variant": record.variant, "point": '{"trainer.epsilon": 1.0}'}
        if record.point:
            tags["point"] = str(dict(record.point)).replace("'", '"')
        run_id = tracker.open_child(record.hash, name="trial", tags=tags)
        tracker.close_child(record, run_id=run_id, texts={})
    tracker.close_parent(metrics=LEDGER, files=(), texts={}, finished=True)
    return uri


def test_the_store_gives_the_same_report_of_the_latest_sweep(tracked: str, tmp_path: Path) -> None:
    direct, _ = written(tmp_path, some_records(), ledger=LEDGER)
    found = report_experiment(
        "small", tracking_uri=tracked, out=str(tmp_path / "out" / "deep")
    ).facts
    rebuilt = rows_of(Path(found["html"]).with_name("pareto.csv"))
    expected = rows_of(direct.pareto_csv)
    assert found["rows"] == direct.rows
    for name in ("epsilon", "pareto"):
        assert [row[name] for row in rebuilt] == [row[name] for row in expected]
    page = Path(found["html"]).read_text()
    assert "4 trials finished, 1 failed" in page and "2 releases" in page
    assert Path(found["pareto_png"]).read_bytes().startswith(b"\x89PNG")
    tracker = Tracker(uri=tracked, experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    run_id = tracker.open_child("f", name="trial", tags={"variant": "newer", "point": "{}"})
    tracker.close_child(a_record("f"), run_id=run_id, texts={})
    MlflowClient(tracking_uri=tracked).set_terminated(tracker.parent_run_id)
    again = report_experiment("small", tracking_uri=tracked, out=str(tmp_path / "out"))
    assert again.facts["rows"] == 1


def test_unusable_stores_and_folders_are_refused(
    tracked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    newer, out = of_newer_schema(tmp_path / "newer"), str(tmp_path / "out")
    for experiment, uri, words in (
        ("smal", tracked, "has no experiment 'smal'; it has small"),
        ("small", None, r"results/small/mlflow\.db does not exist"),
        ("small", default_uri(tmp_path / "nowhere"), r"file .*nowhere\S* does not exist"),
        ("small", default_uri(newer.parent), "can't be read"),
    ):
        with pytest.raises(TrackingUnusable, match=words):
            report_experiment(experiment, tracking_uri=uri, out=out)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"can't be written .*--out DIR"):
        report_experiment("small", tracking_uri=tracked, out=str(tmp_path / "file" / "out"))
    assert not (tmp_path / "nowhere").exists() and not Path(out).exists()


def test_a_table_without_a_test_split_has_estimates(tmp_path: Path) -> None:
    records = []
    for digest, accuracy in (("a", 0.7), ("b", 0.8)):
        found = figures_of(AccuracyEstimate(accuracy=accuracy, sampling_error=0.01))
        record = a_record(digest, point={"x": digest}, figures=found)
        metrics = {key: value for key, value in record.metrics.items() if key != "accuracy"}
        records.append(replace(record, metrics=metrics))
    done, page = written(tmp_path, records)
    rows = {row["x"]: row for row in rows_of(done.pareto_csv)}
    assert rows["b"]["accuracy"] == "" and rows["b"]["accuracy_estimated"] == "0.8"
    assert (rows["a"]["pareto"], rows["b"]["pareto"]) == ("0", "1")
    assert page.column("estimated, %") == ["80.00 error 1.00", "70.00 error 1.00"]
    assert "accuracy, %" not in page.tables[0][0]
    # 2.24 standard errors on both sides, for the better one of two.
    assert "between 77.76 and 82.24 with 95% confidence" in page.text
    assert "nan" not in page.text.lower().split()


def test_the_owners_page_has_every_audit_and_the_report_none(tmp_path: Path) -> None:
    bare = {**AUDITS, "epsilon_m_paper_high": math.inf}
    records = [
        audited("a"),
        a_record("b", variant="no <privacy>", epsilon=math.inf, **bare),
        a_record("c", finished=False, reason="x"),
    ]
    done, shown = written(tmp_path, records)
    (page,) = done.private
    text = page.read_text()
    assert "not for release" in text and "no &lt;privacy&gt;" in text
    heads, first, second = Page(text).tables[0]
    assert len(heads) == len(first) == len(second) and heads[:3] == [
        "model",
        "epsilon",
        "epsilon_m",
    ]
    for cell in audits_of(records[0]).values():
        assert cell in first
    assert "0.500 to infinite" in second
    assert "audits.html in the folder for private things" in shown.text
    assert not re.search(r"0\.7654|0\.77|0\.8768|0\.88|0\.9173|0\.92|0\.9589", shown.text)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_bound_at_delta_0_is_marked_where_epsilon_holds_at_a_larger_one(
    delta: float, tmp_path: Path
) -> None:
    done, _ = written(tmp_path, [audited("a", delta=delta)])
    report, page = done.html.read_text(), done.private[0].read_text()
    assert ("0.25 to 1.5†</td>" in report) == (delta > 0)
    assert ("The lower end is proven for delta 0 only" in report) == (delta > 0)
    assert ("0.250 to 1.5† (lower end" in page) == (delta > 0)
    assert "proven for delta 0 only" in page

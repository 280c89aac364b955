"""audit_report: the owner's page has every audit of every model; the report has none of them."""

import math
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.records.results import TrialRecord, VoteConsensus, consensus_path
from labeldp.platform.records.run_card import run_card
from labeldp.platform.report.report import write_report
from labeldp.platform.vault.audits import AttackEvidence, evidence_path
from tests.platform.report.reading import Page
from tests.platform.sweep.examples import a_charge, a_record

AUDITS: dict[str, Any] = {
    "epsilon_m_paper_low": 0.5,
    "epsilon_m_paper_high": 1.25,
    "label_inference_bound": 0.1425,
    "epsilon_one_run_ceiling": 3.49,
    "epsilon_f_dp_ceiling": 3.57,
    "epsilon_tight_ceiling": 9.91,
    "epsilon_release_ceiling": 8.91,
    "private/epsilon_tight": 0.9173,
    "private/epsilon_release": 0.9589,
    "private/release_guesses": 60.0,
    "private/release_correct": 48.0,
    "private/epsilon_one_run": 0.7654,
    "private/epsilon_f_dp": 0.8768,
    "private/one_run_guesses": 50.0,
    "private/one_run_correct": 37.0,
    "private/label_inference_accuracy": 0.234,
    "private/label_inference_advantage": 0.1229,
}


def audited(digest: str, **changes: float) -> TrialRecord:
    return a_record(digest, **{**AUDITS, **changes})


def keep_evidence(results: Path, digest: str) -> None:
    generator = np.random.default_rng(0)
    AttackEvidence(
        own=generator.random(20), others=generator.random((20, 8)), coin_margins=np.ones(5)
    ).write(evidence_path(results, digest))


def test_the_owners_page(tmp_path: Path) -> None:
    keep_evidence(tmp_path, "a")
    records = [
        audited("a"),
        a_record(
            "b",
            variant="no <privacy>",
            epsilon=math.inf,
            **{**AUDITS, "epsilon_m_paper_high": math.inf},
        ),
        a_record("c", finished=False, reason="x"),
    ]
    written = write_report(records, folder=tmp_path, title="small", results=tmp_path)
    page, *figures = written.private
    assert [path.name for path in written.private] == [
        "audits.html",
        "audits.png",
        "confidence.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in figures)
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    text = page.read_text()
    assert text.count("<svg data-labeldp=") == 2
    assert "not for release" in text and "no &lt;privacy&gt;" in text
    for cell in (
        "0.77",
        "0.88",
        "3.49",
        "3.57",
        "0.92",
        "0.96",
        "8.91",
        "37 of 50",
        "0.23",
        "0.12",
        "0.14",
        "0.50 to 1.25",
    ):
        assert f">{cell}</td>" in text
    assert "0.50 to ∞" in text
    assert len(Page(text).tables[0]) == 3
    report = Page(written.html.read_text())
    assert "audits.html in the folder for private things" in report.text
    assert not re.search(r"0\.7654|0\.77|0\.8768|0\.88|0\.9173|0\.92|0\.9589", report.text)


def test_without_audits_there_is_no_page(tmp_path: Path) -> None:
    written = write_report([a_record()], folder=tmp_path, title="small", results=tmp_path)
    assert written.private == () and not (tmp_path / "private").exists()


def test_teachers_agreement_is_on_the_owners_page_alone(tmp_path: Path) -> None:
    shares, answered = np.array([0.9, 0.4, 0.9]), np.array([True, False, True])
    VoteConsensus.of(shares, answered=answered).write(consensus_path(tmp_path, "a"))
    for record in (a_record("a"), audited("a")):
        written = write_report([record], folder=tmp_path, title="small", results=tmp_path)
        page = written.private[0].read_text()
        assert "answered: 2" in page and "refused: 1" in page
        assert "How far the teachers agreed" in page
        assert "refused" not in written.html.read_text()


def test_without_evidence_there_are_no_violins(tmp_path: Path) -> None:
    written = write_report([audited("a")], folder=tmp_path, title="small")
    assert [path.name for path in written.private] == ["audits.html", "audits.png"]


def test_many_models_are_thinned_in_the_figure_and_not_in_the_table(tmp_path: Path) -> None:
    records = [
        a_record(str(n), point={"trainer.epsilon": n}, epsilon=n, **AUDITS) for n in range(1, 31)
    ]
    written = write_report(records, folder=tmp_path, title="small")
    assert len(Page(written.private[0].read_text()).tables[0]) == 31


@pytest.mark.parametrize("missing", ["private/epsilon_f_dp", "private/epsilon_one_run"])
def test_audits_that_do_not_apply_are_left_out(missing: str, tmp_path: Path) -> None:
    metrics = {name: value for name, value in AUDITS.items() if name != missing}
    record = a_record(**metrics)
    written = write_report([record], folder=tmp_path, title="small")
    assert "" in Page(written.private[0].read_text()).tables[0][1]
    card = run_card(record, [a_charge()])
    assert ("if the mechanism has the curve" in card) == (missing != "private/epsilon_f_dp")


def test_the_run_card_has_every_audit() -> None:
    card = run_card(audited("a"), [a_charge()])
    for words in (
        "## Audits, for the owner of the labels and not for release",
        "| epsilon_m as published, an estimate | 0.500 to 1.25 |",
        "| one-run audit: epsilon is at least | 0.765 (37 of 50 coins right; ceiling 3.490) |",
        "curve that it claims | 0.877 (ceiling 3.570) |",
        "got noise of the family that it claims | 0.917 (ceiling 9.910) |",
        "at least | 0.959 (48 of 60 coins right; ceiling 8.910) |",
        "advantage over guessing | 0.123 (label DP allows 0.142) |",
    ):
        assert words in card
    assert "## Audits" not in run_card(a_record(), [a_charge()])


def test_a_bound_at_delta_0_is_marked_where_epsilon_holds_at_a_larger_one(tmp_path: Path) -> None:
    for name, delta in (("pure", 0.0), ("approximate", 1e-5)):
        (tmp_path / name).mkdir()
        written = write_report([audited("a", delta=delta)], folder=tmp_path / name, title="small")
        report, page = written.html.read_text(), written.private[0].read_text()
        card = run_card(audited("a", delta=delta), [a_charge()])
        assert ("0.25 to 1.5†</td>" in report) == (delta > 0)
        assert ("The lower end is proven for delta 0 only" in report) == (delta > 0)
        assert ("0.25 to 1.50†</td>" in page) == (delta > 0)
        assert "proven for delta 0 only" in page
        assert ("0.250 to 1.5, lower end at delta 0 only |" in card) == (delta > 0)

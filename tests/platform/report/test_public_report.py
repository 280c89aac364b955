"""public_report: the page of private trials, and nothing in its bytes that is the owner's."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.mechanisms.randomized_response import NoNoise
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.report.ledger import read_folder
from labeldp.platform.report.publish import PAGE, public_report
from labeldp.platform.report.selection import NotPublishable
from tests.platform.report.folders import LAPLACE, a_folder, a_vault, keep
from tests.platform.report.test_public_values import PLACE, PRIVATE, SECRET, a_secretive_record
from tests.platform.sweep.examples import a_record


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A secretive private trial, an ordinary one, a baseline and one that failed."""
    path = tmp_path / "adas-results"
    (key,) = a_folder(path, readers=0)
    bare = a_vault(path).release(NoNoise(num_classes=10)).key
    small = a_vault(path).release(replace(LAPLACE, epsilon=0.5)).key
    ResultsFolder(path, sweep="small").identify(
        tracking_uri=f"https://ada:{SECRET}@tracking.example/mlflow"
    )
    secretive = a_secretive_record(variant="ALIBI", release_keys=[key], hash="c0ffee0123456789")
    keep(path, secretive, metrics={**secretive.metrics, "epsilon": 2.0})
    keep(path, a_record("1a" * 8, release_keys=(small,), epsilon=0.5))
    baseline = a_record("2a" * 8, variant="unprotected", release_keys=(bare,), epsilon=math.inf)
    keep(path, baseline, metrics={**baseline.metrics, "accuracy": 0.98765432})
    failed = a_record("3a" * 8, variant="broken", finished=False, reason=f"row 3 of {SECRET}")
    keep(path, failed, release_keys=[])
    return path


def test_private_trials_are_shown_with_what_they_cost_together(
    results: Path, tmp_path: Path
) -> None:
    done = public_report(results, to=tmp_path / "out")
    assert (done.trials, done.left_out, done.rows) == (2, 2, 2)
    assert (done.epsilon, done.delta) == (2.5, 0.0)
    text = Path(done.html).read_text()
    assert "public edition" in text and "One release of Laplace noise, epsilon 2" in text
    assert [path.name for path in (tmp_path / "out").iterdir()] == [PAGE]


def test_an_attacker_finds_nothing_in_the_page(results: Path, tmp_path: Path) -> None:
    page = Path(public_report(results, to=tmp_path / "out").html).read_bytes()
    hashes = ("c0ffee0123456789", "1a" * 8, "2a" * 8, "3a" * 8)
    figures = (*PRIVATE.values(), 0.4321987, 2.3219876)
    rounded = [f"{value:.4g}" for value in figures] + [f"{value:.3f}" for value in figures]
    for secret in (
        *(SECRET, PLACE, "hiv_status", "987654", str(results), "adas-results"),
        *("unprotected", "broken", "98.77", "98.8", "0.98765", *hashes),
        *(*map(str, figures), *rounded),
    ):
        assert secret.encode() not in page, secret


def test_public_names_are_told_apart(tmp_path: Path) -> None:
    """Two trials that differ in what is not public are two trials on the page."""
    (key,) = a_folder(tmp_path / "results", readers=0)
    for number, root in enumerate(("/data/one", "/data/two")):
        record = a_record(
            f"{number:016x}", changes={"data.root": root}, release_keys=(key,), epsilon=2.0
        )
        keep(tmp_path / "results", record)
    assert public_report(tmp_path / "results", to=tmp_path / "out").trials == 2


def test_a_name_that_holds_a_secret_is_found(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDY_TOKEN", "t0ken-of-the-study")
    keep(results, read_folder(results).results.trial("1a"), variant="t0ken-of-the-study")
    with pytest.raises(NotPublishable, match=r"STUDY_TOKEN") as refused:
        public_report(results, to=tmp_path / "out")
    assert "t0ken" not in str(refused.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("changed", ["less", "nothing read"])
def test_a_record_that_the_ledger_contradicts_is_not_shown(
    changed: str, results: Path, tmp_path: Path
) -> None:
    record = read_folder(results).results.trial("1a")
    metrics = {**record.metrics, "epsilon": 0.01}
    keys = record.release_keys if changed == "less" else []
    keep(results, record, metrics=metrics, release_keys=keys)
    with pytest.raises(NotPublishable, match=r"says epsilon 0\.01|names no release"):
        public_report(results, to=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_page_of_a_sweep_that_learned_tells_what_its_plan_costs(
    results: Path, tmp_path: Path
) -> None:
    ResultsFolder(results, sweep="small").identify(
        learned_epsilon=7.0, learned_counts=3.25, learned_delta=0.0, learned_releases=False
    )
    done = public_report(results, to=tmp_path / "out")
    assert done.epsilon == 7.0
    # Every trial's own releases cost less than the counts that others of its search asked for.
    assert Path(done.html).read_text().count("<dt>epsilon, provable</dt><dd>3.25</dd>") == 2


def test_what_can_not_be_shown_is_refused(results: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="lies in the results folder"):
        public_report(results, to=results / "public")
    a_folder(tmp_path / "bare", releases=[NoNoise(num_classes=10)], epsilon=math.inf)
    with pytest.raises(ValueError, match="nothing to show in public"):
        public_report(tmp_path / "bare", to=tmp_path / "out")
    (results / "vault.db").unlink()
    with pytest.raises(NotPublishable, match="is not whole"):
        public_report(results, to=tmp_path / "out")

"""result: what a results folder holds, read and left as it lies there; without Ray and torch."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from labeldp import load
from labeldp.platform.records.results import ResultsFolder, ResultsFolderError, read_results
from labeldp.platform.report.ledger import read_folder
from labeldp.platform.report.selection import BEST, selected
from labeldp.trainers.models.trained_model import ModelFileError
from tests.platform.report.folders import a_folder, keep_a_model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    a_folder(tmp_path / "results", readers=2)
    return tmp_path / "results"


def test_tables_and_the_ledger_are_read(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = load(folder)
    assert repr(result).startswith("Result(small: 2 trials finished, 0 failed, ")
    assert len(result.table()) == 2
    best = result.best(at_epsilon=5)
    assert best["trial"] in set(result.table()["trial"]) and best["accuracy"] == 0.9
    assert result.ledger()["epsilon"].tolist() == [2.0] and result.total() == (2.0, 0.0)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_what_is_not_there_is_said(folder: Path, tmp_path: Path) -> None:
    result = load(folder)
    with pytest.raises(ResultsFolderError, match=r"report\.html is not there yet"):
        result.report()
    with pytest.raises(ResultsFolderError, match="begins with 'ffff'"):
        result.model("ffff")
    with pytest.raises(ModelFileError, match="is not there"):
        result.model(result.best())
    with pytest.raises(ResultsFolderError, match="there is no folder"):
        load(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"no trial is within epsilon 0\.01; the cheapest costs 2"):
        result.best(at_epsilon=0.01)


def test_the_best_within_an_epsilon_is_one_that_can_be_published_at_it(tmp_path: Path) -> None:
    a_folder(tmp_path, epsilon=2.0)

    def agree(at_epsilon: float) -> bool:
        found = []
        for ask in (
            lambda: load(tmp_path).best(at_epsilon=at_epsilon)["trial"],
            lambda: selected(read_folder(tmp_path), BEST, at_epsilon=at_epsilon).record.hash,
        ):
            try:
                found.append(bool(ask()))
            except ValueError:
                found.append(False)
        assert found[0] == found[1], at_epsilon
        return found[0]

    # The budget's rule for what is to be met exactly, and not so many digits.
    assert agree(2.0) and not agree(2.0 * (1 - 1e-11))
    # Its settings may come of all that the search looked at, which is more than its own release.
    plan = {"learned_epsilon": 5.0, "learned_counts": 0.0, "learned_delta": 0.0}
    ResultsFolder(tmp_path, sweep="small").identify(**plan, learned_releases=True)
    assert agree(5.0) and not agree(4.0)


def test_a_trials_model_is_found_by_its_row_and_by_its_hash(folder: Path) -> None:
    result = load(folder)
    best = result.best()
    keep_a_model(folder, read_results(folder).trial(best["trial"]))
    rows = np.zeros((3, 64))
    found = result.model(best).predict_proba(rows)
    assert (found == result.model(best["trial"]).predict_proba(rows)).all()
    assert found.shape == (3, 10)


def test_a_report_shows_itself_and_escapes_what_is_in_it(folder: Path) -> None:
    (folder / "report.html").write_text('<title>"quoted"</title>')
    page = load(folder).report()
    assert "&lt;title&gt;&quot;quoted&quot;" in page._repr_html_()
    # Not in the notebook's name: its scripts could run anything in the kernel.
    assert 'sandbox="allow-scripts allow-popups"' in page._repr_html_()


def test_reading_needs_neither_ray_nor_torch(folder: Path) -> None:
    code = (
        f"import sys, labeldp\nr = labeldp.load({str(folder)!r})\n"
        "r.table(); r.best(at_epsilon=5); r.ledger()\n"
        "print(sorted({'ray', 'torch', 'mlflow', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_numbers_of_a_table_are_numbers(folder: Path) -> None:
    assert load(folder).table()["accuracy"].dtype == np.float64

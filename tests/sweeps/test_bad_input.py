"""Bad input at a sweep's front door: refused before Ray starts, in one line, nothing touched."""

import shutil

import numpy as np
import pytest

from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.vault.vault_store import SqliteStore
from tests.platform.sweep.examples import a_charge, a_record
from tests.sweeps.conftest import Door


@pytest.mark.parametrize("door", ["new", "used"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trainer.epsilom=1"], ["trainer.epsilom", "did you mean trainer.epsilon"]),
        (["trainer=1"], ["trainer is a section", "trainer.epsilon"]),
        (["trainer.epsilon"], ["'trainer.epsilon'", "key=value"]),
        (["trainer.noise=lapalce"], ["trainer.noise is 'lapalce'", "one of laplace"]),
        (["trainer.epsilon=-1"], ["epsilon is -1", "above 0"]),
        (["trainer.epsilon=[]"], ["trainer.epsilon is an empty list", "at least one"]),
        (["data.classes=[no,yes]"], ["data.classes is the list", "write", "data.classes=no,yes"]),
        (["audit.canaries=100000"], ["100000", "1438 training examples", "at most 1438"]),
        (["data.name=mnist"], ["mnist", "labeldp data fetch mnist", "LABELDP_DATA"]),
        (["data.name=own"], ["path", "data.path"]),
        (["--resume", "sometimes"], ["sometimes", "auto", "must", "never"]),
        (["--max-minutes", "0"], ["max_minutes is 0", "above 0"]),
        (["--max-epsilon-total", "0"], ["epsilon is 0", "above 0"]),
    ],
)
def test_settings_are_refused(door: Door, arguments: list[str], words: list[str]) -> None:
    line = door.refuse(*arguments)
    for word in words:
        assert word in line


# Results folders that a sweep cannot use: refused before Ray, in one line, nothing touched.


def test_a_results_folder_whose_copy_went_on_is_refused(door: Door) -> None:
    original = ResultsFolder(door.here / "original", sweep="quickstart")
    store = SqliteStore(original.store)
    shutil.copytree(original.path, door.results, dirs_exist_ok=True)
    store.record(a_charge("r1"), np.arange(3), lines=0)
    line = door.refuse()
    assert "has lost 1 lines of its ledger" in line and "--moved" in line
    with pytest.raises(AssertionError, match="Ray is about to start"):
        door.refuse("--moved")


def test_results_below_a_file_are_refused(door: Door) -> None:
    (door.here / "file").write_text("mine")
    line = door.refuse("--results", "file/results")
    assert "file/results can't be written" in line and "--results DIR" in line


@pytest.mark.parametrize("door", ["used"], indirect=True)
def test_results_of_others_are_refused(door: Door) -> None:
    line = door.refuse()
    assert "holds this sweep on other data" in line and "--results" in line


def test_resume_must_and_never_are_kept(door: Door) -> None:
    line = door.refuse("--resume", "must")
    assert "holds no sweep to resume" in line and "--resume auto" in line
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    line = door.refuse("--resume", "never")
    assert "holds 1 trials" in line and "--results DIR" in line


def test_finished_trials_without_the_figure_of_the_comparison_are_refused(door: Door) -> None:
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    held_out = ("evaluation.held_out_share=.2", "evaluation.estimate=histogram")
    line = door.refuse(*held_out, "--choose-by", "roc_auc_estimated")
    assert "1 finished trials" in line and "ROC AUC" in line and "--results DIR" in line

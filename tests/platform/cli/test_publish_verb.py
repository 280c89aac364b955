"""publish_verb: the promised keys, the second word, and refusals that come at once."""

import time
from pathlib import Path

import pytest

from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer, refusal
from tests.platform.report.folders import a_folder


def test_the_promised_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0)
    asked = ("publish", str(tmp_path / "results"), "--trial", "best", "--to", "out")
    found = answer(capsys, *asked)
    assert {"folder", "files", "epsilon", "delta", "left_out"} <= set(found)
    assert (found["epsilon"], found["delta"]) == (2.0, 0.0)
    assert sorted(found["files"]) == ["config.json", "ledger.json", "run_card.md"]
    assert Path(found["folder"], "run_card.md").exists()
    assert "is not empty" in refusal(capsys, *asked)


def test_words_for_a_person(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0, readers=3)
    results = str(tmp_path / "results")
    assert main(["publish", results, "--trial", "best", "--at-epsilon", "2", "--to", "out"]) == 0
    said = capsys.readouterr().out
    for words in ("may leave the house: config.json", "epsilon 2 at delta 0", "among 3 trials"):
        assert words in said
    assert "left out: " in said and "figure epsilon_m_low" in said


def test_a_second_word(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    a_folder(tmp_path / "results", epsilon=2.0, changes={"noise.seed": 5})
    asked = ("publish", str(tmp_path / "results"), "--trial", "00", "--to", "out")
    assert "--accept seeded" in refusal(capsys, *asked)
    assert answer(capsys, *asked, "--accept", "seeded")["epsilon"] == 2.0
    assert "invalid choice" in refusal(capsys, *asked, "--accept", "everything")


def test_a_folder_that_is_not_there_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.process_time()
    line = refusal(capsys, "publish", "nowhere", "--trial", "best", "--to", "out")
    assert "there is no folder nowhere" in line and time.process_time() - started < 0.5

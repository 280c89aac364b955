"""progress: trials that end or are in training, and steps before the first trial."""

import io
import time

import pytest

from labeldp.platform.records import progress
from labeldp.platform.records.progress import Steps, SweepProgress
from labeldp.trainers.models.schedules import counted
from tests.platform.sweep.examples import a_record


def test_trials_in_training_are_mentioned_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, record = io.StringIO(), a_record("a")
    shown = SweepProgress(total=5, skipped=0, stream=stream)
    shown.in_training("a", "ALIBI", epochs=15, of=30)
    assert stream.getvalue() == ""
    monkeypatch.setattr(progress, "TELL_SECONDS", -1.0)
    for digest in ("b", "c", "d"):
        shown.in_training(digest, "AGIBI", epochs=0, of=30)
    line = stream.getvalue().splitlines()[-1]
    assert line.startswith("in training: ALIBI: epoch 15/30, AGIBI: epoch 0/30, 2 more (about ")
    shown.ended(record)
    last = SweepProgress(total=1, skipped=0, stream=stream)
    last.ended(record)
    assert "left" not in stream.getvalue().splitlines()[-1]


def test_a_quick_step_is_printed_once_and_a_long_one_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    stream = io.StringIO()
    with Steps(stream=stream).during("starting Ray", hint="; be patient"):
        assert stream.getvalue() == "starting Ray ...\n"
    time.sleep(0.2)
    assert stream.getvalue() == "starting Ray ...\n"
    with pytest.raises(ValueError, match="no"), Steps(stream=stream).during("x", hint="; wait"):
        while "still" not in stream.getvalue():
            time.sleep(0.01)
        raise ValueError("no")
    assert stream.getvalue().splitlines()[2] == "still x, 0 s by now; wait ..."
    with Steps(stream=stream).during("planning"):
        for part in counted([0, 1, 2, 3], "describing images"):
            while f"describing images, {25 * part}%" not in stream.getvalue():
                time.sleep(0.01)
    with Steps(quiet=True).during("x"):
        pass
    assert capsys.readouterr() == ("", "")

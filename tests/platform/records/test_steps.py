"""What is said before the first trial: at once, again while it takes long, never after its end."""

import io
import time

import pytest

from labeldp.platform.records import steps
from labeldp.platform.records.steps import Steps
from labeldp.trainers.models.telling import counted, tell


def test_a_step_is_said_once_if_it_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0.1)
    stream = io.StringIO()
    with Steps(stream=stream).during("starting Ray", hint="; be patient"):
        assert stream.getvalue() == "starting Ray ...\n"
    time.sleep(0.3)
    assert stream.getvalue() == "starting Ray ...\n"


def test_a_long_step_is_spoken_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0.05)
    stream = io.StringIO()
    with pytest.raises(ValueError, match="no"), Steps(stream=stream).during("x", hint="; wait"):
        while "still" not in stream.getvalue():
            time.sleep(0.01)
        raise ValueError("no")
    assert stream.getvalue().splitlines()[1] == "still x, 0 s by now; wait ..."


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Steps(quiet=True).during("x"):
        pass
    assert capsys.readouterr() == ("", "")
    Steps().say("y")
    assert capsys.readouterr() == ("", "y ...\n")


def test_what_is_computed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "PATIENCE_SECONDS", 0.05)
    stream = io.StringIO()
    with Steps(stream=stream).during("planning"):
        for part in counted([0, 1, 2, 3], "describing images"):
            while f"describing images, {25 * part}%" not in stream.getvalue():
                time.sleep(0.01)


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    with Steps(stream=stream).during("planning"):
        tell("learning patches")
        time.sleep(0.3)
    assert "learning patches" in stream.getvalue() and "\u2501" in stream.getvalue()

"""progress: plain lines off a terminal, a bar on one."""

import io
import re
from dataclasses import replace

import pytest

from labeldp.platform.records.progress import SweepProgress, outcome
from tests.platform.sweep.examples import a_record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_one_plain_line_per_event_off_a_terminal() -> None:
    stream = io.StringIO()
    progress = SweepProgress(total=12, skipped=1, stream=stream)
    progress.say("quickstart: 12 trials")
    progress.ended(a_record(point={"trainer.epsilon": 0.5, "trainer.learning_rate": 1 / 3}))
    progress.ended(a_record(finished=False, reason="out of memory"))
    progress.close()
    first, second, third = stream.getvalue().splitlines()
    assert first == "quickstart: 12 trials"
    assert second.startswith(
        "[ 2/12] ALIBI epsilon=0.5 learning_rate=0.3333: accuracy 90.0%, epsilon 1, "
        "epsilon_m [0.25, 1.50], 2.5 s"
    )
    assert re.search(r"\(about [\d.]+ s left\)$", second)
    assert third.startswith("[ 3/12] ALIBI: failed: out of memory")
    assert "\x1b" not in stream.getvalue()


def test_the_last_trial_leaves_nothing() -> None:
    stream = io.StringIO()
    progress = SweepProgress(total=1, skipped=0, stream=stream)
    progress.ended(a_record())
    assert "left" not in stream.getvalue()


def test_what_looks_like_markup_is_printed_as_it_is() -> None:
    stream = io.StringIO()
    progress = SweepProgress(total=1, skipped=0, stream=stream)
    progress.ended(a_record(finished=False, reason="[red]shape [2, 3] is not [/] [3]"))
    assert "[red]shape [2, 3] is not [/] [3]" in stream.getvalue()


def test_long_lines_are_not_broken() -> None:
    stream = io.StringIO()
    SweepProgress(total=1, skipped=0, stream=stream).say("word " * 100)
    assert stream.getvalue().count("\n") == 1


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    progress = SweepProgress(total=4, skipped=1, stream=stream)
    try:
        progress.ended(a_record())
    finally:
        progress.close()
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    assert "2/4" in text
    assert "accuracy 90.0%" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (99, "99.0 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_durations_read_well(seconds: float, text: str) -> None:
    from dataclasses import replace

    assert outcome(replace(a_record(), seconds=seconds)).endswith(text)


def test_quiet_says_how_trials_failed_and_nothing_else() -> None:
    stream = io.StringIO()
    progress = SweepProgress(total=3, skipped=0, stream=stream, quiet=True)
    progress.say("quickstart: 3 trials")
    progress.ended(a_record())
    progress.ended(a_record(finished=False, reason="out of memory"))
    progress.close()
    assert stream.getvalue().startswith("[2/3] ALIBI: failed: out of memory")
    assert stream.getvalue().count("\n") == 1


def test_an_early_stop_is_said() -> None:
    assert outcome(replace(a_record(), stopped_early=1)).startswith("stopped early after 1 epoch, ")
    assert "after 4 epochs" in outcome(replace(a_record(), stopped_early=4))


def test_a_bar_counts_epochs_of_trials_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    progress = SweepProgress(total=4, skipped=1, stream=stream)
    try:
        progress.in_training("a", "[ALIBI]", epochs=15, of=30)
        assert progress._bar is not None and progress._bar.tasks[0].completed == 1.5
    finally:
        progress.close()
    assert "trials ([ALIBI]: epoch 15/30)" in re.sub(
        r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue()
    )


def test_off_a_terminal_trials_in_training_are_told_of_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    progress = SweepProgress(total=5, skipped=0, stream=stream)
    progress.in_training("a", "ALIBI", epochs=15, of=30)
    assert stream.getvalue() == ""
    monkeypatch.setattr("labeldp.platform.records.progress.TELL_SECONDS", -1.0)
    for digest in ("b", "c", "d"):
        progress.in_training(digest, "AGIBI", epochs=0, of=30)
    line = stream.getvalue().splitlines()[-1]
    assert line.startswith("in training: ALIBI: epoch 15/30, AGIBI: epoch 0/30, 2 more (about ")


def test_a_trial_that_ended_is_in_training_no_more() -> None:
    progress = SweepProgress(total=2, skipped=0, stream=io.StringIO())
    record = a_record()
    progress.in_training(record.hash, "ALIBI", epochs=3, of=3)
    progress.ended(record)
    assert progress._begun() == 0

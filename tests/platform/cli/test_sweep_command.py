"""sweep_command: a sweep ends with the codes of `labeldp`, and says how to go on."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.cli import sweep_command
from labeldp.platform.sweep.accuracy_figures import ChooseBy
from labeldp.platform.sweep.configuration import AshaStop, OptunaSearch
from labeldp.platform.sweep.space import Choice, LogUniform, Uniform
from labeldp.platform.sweep.sweep import CannotFit, Preset, Sweep, SweepOptions
from labeldp.platform.sweep.sweep_report import SweepOutcome
from tests.platform.sweep.examples import a_sweep, an_outcome


@pytest.fixture(autouse=True)
def _terminate_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def outcome(*, finished: int = 5, failed: int = 0, left: int = 0, over: int = 0) -> SweepOutcome:
    return an_outcome(finished=finished, failed=failed, left=left, over_budget=over)


class Runner:
    """Stands in for the driver: ends as it is told to, and remembers what it was asked."""

    def __init__(self, end: SweepOutcome | BaseException) -> None:
        self.end = end
        self.asked: SweepOptions | None = None

    def __call__(self, sweep: Sweep, options: SweepOptions) -> SweepOutcome:
        self.asked = options
        if isinstance(self.end, BaseException):
            raise self.end
        return self.end


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (outcome(), 0, "5 trials finished, 0 failed, 0 skipped\n4 releases, epsilon 5 in all"),
        (outcome(finished=3, failed=2), 1, "3 trials finished, 2 failed"),
        (outcome(finished=3, left=2), 1, "2 trials are left; run the same command again"),
        (outcome(finished=3, failed=2, over=1), 4, "1 of them would have gone over the privacy"),
    ],
)
def test_outcomes(
    capsys: pytest.CaptureFixture[str], ended: SweepOutcome, code: int, said: str
) -> None:
    assert sweep_command.run(a_sweep(), [], runner=Runner(ended)) == code
    assert said in capsys.readouterr().out
    assert sweep_command.run(a_sweep(), ["--json"], runner=Runner(ended)) == code
    found = json.loads(capsys.readouterr().out)
    assert (found["trials"], found["finished"], found["over_budget"]) == (
        5,
        ended.finished,
        ended.over_budget,
    )


AGAIN = "; free the disk or make the folder writable, and run the same command again"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("no such key"), 2, "error: no such key\n"),
        (OSError("the disk is full"), 2, f"error: the disk is full{AGAIN}\n"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU\n"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str) -> None:
    assert sweep_command.run(a_sweep(), ["--json"], runner=Runner(error)) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def test_an_interruption_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["sweeps/small.py"])
    runner = Runner(KeyboardInterrupt())
    assert sweep_command.run(a_sweep(), ["--results", "here", "a=[1, 2]"], runner=runner) == 130
    assert capsys.readouterr().err == (
        "interrupted; finished trials are kept in here, run the same command again to finish the "
        "rest: python sweeps/small.py --results here 'a=[1, 2]'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ([], "results/small"),
        (["--smoke"], "results/small-smoke"),
        (["--preset", "home"], "results/small-home"),
        (["--preset", "home", "--smoke"], "results/small-home-smoke"),
        (["--preset", "../elsewhere"], "results/small"),
        (["--results", "here", "--smoke"], "here"),
    ],
)
def test_where_results_go(arguments: list[str], folder: str, tmp_path: Path) -> None:
    runner = Runner(outcome())
    sweep = replace(a_sweep(), presets={"home": Preset()})
    sweep_command.run(sweep, arguments, runner=runner)
    assert runner.asked is not None
    assert tmp_path / runner.asked.results == tmp_path / folder


def test_settings_and_options_may_stand_in_any_order() -> None:
    runner = Runner(outcome())
    sweep_command.run(a_sweep(), ["trainer.epochs=3", "--max-trials", "9", "seed=1"], runner=runner)
    assert runner.asked is not None
    assert (runner.asked.max_trials, dict(runner.asked.overrides)) == (
        9,
        {"trainer.epochs": 3, "seed": 1},
    )


def asked(*arguments: str, sweep: Sweep | None = None) -> SweepOptions:
    sweep = sweep or a_sweep()
    given = sweep_command.command_of(sweep).make_context("small", list(arguments)).params
    return sweep_command.plan_options(sweep, given, results=Path("r"))


def test_lines_limits_and_axes() -> None:
    found = asked(
        *("--only", "ALIBI", "--only", "AGIBI", "--without", "AGIBI", "--choose-by", "test"),
        *("a=loguniform(0.1, 1)", "--smoke", "b=uniform(0,1)", "c=choice(x, 2)", "d=[1,2]"),
    )
    assert (found.only, found.without) == (("ALIBI", "AGIBI"), ("AGIBI",))
    assert found.smoke and found.choose_by is ChooseBy.TEST
    drawn = {"a": LogUniform(0.1, 1), "b": Uniform(0, 1), "c": Choice("x", 2)}
    assert found.overrides == {**drawn, "d": [1, 2]}


def test_a_search_is_asked_for_or_changed() -> None:
    assert asked("--search", "optuna").search == OptunaSearch()
    found = asked("--search", "optuna", "--trials", "5", "--search-seed", "2")
    assert found.search == OptunaSearch(trials=5, seed=2)
    own = replace(a_sweep(), search=OptunaSearch(trials=9, seed=4), stop=AshaStop(keep_one_in=2))
    assert asked(sweep=own).search is None
    assert asked("--trials", "5", sweep=own).search == OptunaSearch(trials=5, seed=4)
    assert asked("--stop", "asha", sweep=own).stop == AshaStop(keep_one_in=2)
    assert asked("--stop", "asha").stop == AshaStop()
    with pytest.raises(ValueError, match="request one with --search optuna"):
        asked("--trials", "5")


@pytest.mark.parametrize("text", ["loguniform(0,1)", "uniform(1)", "choice()", "uniform(a,b)"])
def test_what_is_no_axis_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an axis"):
        asked(f"a={text}")

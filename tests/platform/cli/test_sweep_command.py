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
from labeldp.platform.sweep.sweep import Preset, Sweep, SweepOptions
from labeldp.platform.sweep.sweep_report import SweepOutcome
from tests.platform.sweep.examples import a_sweep, an_outcome


@pytest.fixture(autouse=True)
def _terminate_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def run(end: SweepOutcome | BaseException, *arguments: str) -> int:
    """Run a sweep whose driver ends as it is told to."""

    def runner(sweep: Sweep, options: SweepOptions) -> SweepOutcome:
        if isinstance(end, BaseException):
            raise end
        return end

    return sweep_command.run(a_sweep(), list(arguments), runner=runner)


@pytest.mark.parametrize(
    ("counts", "code", "said"),
    [
        ((5, 0, 0, 0), 0, "5 trials finished, 0 failed, 0 skipped\n4 releases, epsilon 5 in all"),
        ((3, 2, 0, 0), 1, "3 trials finished, 2 failed"),
        ((3, 0, 2, 0), 1, "2 trials are left; run the same command again"),
        ((3, 2, 0, 1), 4, "1 of them would have gone over the privacy"),
    ],
)
def test_outcomes(
    capsys: pytest.CaptureFixture[str], counts: tuple[int, int, int, int], code: int, said: str
) -> None:
    finished, failed, left, over = counts
    ended = an_outcome(finished=finished, failed=failed, left=left, over_budget=over)
    assert run(ended) == code
    assert said in capsys.readouterr().out
    assert run(ended, "--json") == code
    found = json.loads(capsys.readouterr().out)
    assert (found["trials"], found["finished"], found["over_budget"]) == (5, finished, over)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            OSError("the disk is full"),
            2,
            "error: the disk is full; free the disk or make the folder writable, and run the same "
            "command again\n",
        ),
        (
            KeyboardInterrupt(),
            130,
            "interrupted; finished trials are kept in here, run the same command again to finish "
            "the rest: python sweeps/small.py --results here 'a=[1, 2]'\n",
        ),
    ],
)
def test_errors(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr("sys.argv", ["sweeps/small.py"])
    assert run(error, "--results", "here", "a=[1, 2]") == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", said)


def asked(*arguments: str, sweep: Sweep | None = None) -> SweepOptions:
    sweep = sweep or a_sweep()
    given = sweep_command.command_of(sweep).make_context("small", list(arguments)).params
    return sweep_command.plan_options(sweep, given)


@pytest.mark.parametrize(
    ("arguments", "folder"),
    [
        ([], "results/small"),
        (["--preset", "home", "--smoke"], "results/small-home-smoke"),
        (["--preset", "../elsewhere"], "results/small"),
        (["--results", "here", "--smoke"], "here"),
    ],
)
def test_where_results_go(arguments: list[str], folder: str, tmp_path: Path) -> None:
    sweep = replace(a_sweep(), presets={"home": Preset()})
    assert tmp_path / asked(*arguments, sweep=sweep).results == tmp_path / folder


def test_lines_limits_axes_and_searches() -> None:
    found = asked(
        *("--only", "ALIBI", "--only", "AGIBI", "--without", "AGIBI", "--choose-by", "test"),
        *("a=loguniform(0.1, 1)", "--smoke", "b=uniform(0,1)", "c=choice(x, 2)", "d=[1,2]"),
    )
    assert (found.only, found.without) == (("ALIBI", "AGIBI"), ("AGIBI",))
    assert found.smoke and found.choose_by is ChooseBy.TEST
    drawn = {"a": LogUniform(0.1, 1), "b": Uniform(0, 1), "c": Choice("x", 2)}
    assert found.overrides == {**drawn, "d": [1, 2]}
    assert asked("--search", "optuna").search == OptunaSearch()
    own = replace(a_sweep(), search=OptunaSearch(trials=9, seed=4), stop=AshaStop(keep_one_in=2))
    assert asked(sweep=own).search is None
    assert asked("--trials", "5", sweep=own).search == OptunaSearch(trials=5, seed=4)
    assert asked("--search-seed", "2", sweep=own).search == OptunaSearch(trials=9, seed=2)
    assert asked("--stop", "asha", sweep=own).stop == AshaStop(keep_one_in=2)
    assert asked("--stop", "asha").stop == AshaStop()
    with pytest.raises(ValueError, match="request one with --search optuna"):
        asked("--trials", "5")


@pytest.mark.parametrize("text", ["loguniform(0,1)", "uniform(1)", "choice()", "uniform(a,b)"])
def test_a_wrong_axis_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an axis"):
        asked(f"a={text}")

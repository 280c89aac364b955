"""sweep_command: a sweep ends with the codes of `labeldp`, and says how to go on."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labeldp.platform.cli import sweep_command
from labeldp.platform.sweep.sweep import CannotFit, Preset, Sweep, SweepOptions
from labeldp.platform.sweep.sweep_report import SweepOutcome
from labeldp.platform.vault.home_proxy import VaultLost
from labeldp.platform.vault.teacher_pool import EnsembleIncomplete
from labeldp.trainers.data.files import DatasetMissing
from tests.platform.cli.asked import OVER_BUDGET
from tests.platform.sweep.examples import a_sweep


@pytest.fixture(autouse=True)
def _terminate_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def outcome(*, finished: int = 5, failed: int = 0, left: int = 0, over: int = 0) -> SweepOutcome:
    return SweepOutcome(
        experiment="small",
        tracking_uri="sqlite:///mlflow.db",
        parent_run_id="0" * 32,
        trials=5,
        finished=finished,
        failed=failed,
        skipped=0,
        over_budget=over,
        left=left,
        results_dir="results/small",
        pareto=[],
        ledger={"releases": 4, "epsilon_total": 5.0, "delta": 1e-5},
        report="report.html",
        tracked=True,
    )


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
        (FileNotFoundError("none.npz"), 2, "error: none.npz\n"),
        (DatasetMissing("mnist is not here"), 2, "error: mnist is not here\n"),
        (OSError("the disk is full"), 2, f"error: the disk is full{AGAIN}\n"),
        (MemoryError("16 GiB"), 2, "error: this machine has too little memory for that (16 GiB)\n"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU\n"),
        (OVER_BUDGET, 4, f"error: {OVER_BUDGET}\n"),
        (EnsembleIncomplete("teacher 3"), 1, "error: teacher 3\n"),
        (VaultLost("its node died"), 1, "error: its node died\n"),
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
        "interrupted; what has finished is kept in here, run the same command again to finish the "
        "rest: python sweeps/small.py --results here 'a=[1, 2]'\n"
    )


def test_defects_are_not_put_into_words() -> None:
    with pytest.raises(ZeroDivisionError):
        sweep_command.run(a_sweep(), [], runner=Runner(ZeroDivisionError()))


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

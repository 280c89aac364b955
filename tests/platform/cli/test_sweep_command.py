"""sweep_command: a sweep ends with the codes of `labeldp`, and says how to go on."""

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import labeldp
from labeldp import SharedVault
from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.command import ExitCode, plain_text
from labeldp.platform.settings.configuration import AshaStop, OptunaSearch
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import Choice, LogUniform, Preset, Sweep, SweepOptions, Uniform
from labeldp.platform.sweep import driver
from labeldp.platform.sweep.recorder import SweepOutcome
from labeldp.trainers.settings.training import OwnModel, own_module
from tests.faults.without_cluster import without_cluster
from tests.platform.cli.asked import answer, refusal, run, swept, words
from tests.platform.sweep.examples import a_sweep, an_outcome
from tests.source_tree import ROOT


@pytest.fixture(autouse=True)
def _terminate_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(end: SweepOutcome | BaseException, *arguments: str) -> tuple[int, str, str]:
    def runner(sweep: Sweep, options: SweepOptions) -> SweepOutcome:
        if isinstance(end, BaseException):
            raise end
        return end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_command, "_run", runner)
        return swept(a_sweep(), *arguments)


@pytest.mark.parametrize(
    ("counts", "code", "said"),
    [
        ((5, 0, 0, 0), 0, "5 trials finished, 0 failed, 0 skipped\n4 releases, epsilon 5 in all"),
        ((3, 2, 0, 0), 1, "3 trials finished, 2 failed"),
        ((3, 0, 2, 0), 1, "2 trials are left; run the same command again"),
        ((3, 2, 0, 1), 4, "1 of them would have gone over the privacy"),
    ],
)
def test_outcomes(counts: tuple[int, int, int, int], code: int, said: str) -> None:
    finished, failed, left, over = counts
    outcome = an_outcome(finished=finished, failed=failed, left=left, over_budget=over)
    found_code, text, _ = ended(outcome)
    assert found_code == code and said in text
    found_code, text, _ = ended(outcome, "--json")
    found = json.loads(text)
    assert found_code == code
    assert (found["trials"], found["finished"], found["over_budget"]) == (5, finished, over)


@pytest.mark.parametrize(
    ("uri", "command"),
    [
        ("sqlite:////a b/mlflow.db", "labeldp ui '/a b'"),
        ("sqlite:////a/runs.db", "mlflow server --backend-store-uri sqlite:////a/runs.db"),
        ("postgresql://me:***@db/x", ""),
    ],
)
def test_the_command_that_opens_the_pages_is_of_their_store(uri: str, command: str) -> None:
    _, text, _ = ended(an_outcome(tracking_uri=uri, links={"table": "http://127.0.0.1:5000"}))
    told = f"to open these pages, run {command}"
    assert f"{told}\n" in text if command else told not in text


def test_an_interrupted_sweep_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sweeps/small.py"])
    said = (
        "interrupted; finished trials are kept in here, run the same command again to finish "
        "the rest: python sweeps/small.py --results here 'a=[1, 2]'\n"
    )
    assert ended(KeyboardInterrupt(), "--results", "here", "a=[1, 2]") == (130, "", said)


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


def test_no_results_and_no_vault_are_deleted_with_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its working folder is a copy, of another name after any edit: all would be paid again."""
    copy = tmp_path / "working_dir_files" / "_ray_pkg_ab"
    copy.mkdir(parents=True)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setattr(driver, "run_sweep", lambda sweep, options: None)
    head = tmp_path / "me/labeldp/results/small"
    assert asked().results == labeldp.run(a_sweep()).folder == head
    for named in ("results/mine", "s3://bucket/mine", Path("s3://bucket/mine")):
        for attempt in (lambda at: labeldp.run(a_sweep(), results=at), SharedVault):
            with pytest.raises(ValueError, match=r"deletes with .*absolute folder|is an address"):
                attempt(named)
        assert sweep_command.run(a_sweep(), ["--results", str(named)]) == 2
        assert "with --results" in capsys.readouterr().err
    for kept in (tmp_path / "r", Path("../../r")):
        assert asked("--results", str(kept)).results == kept
    assert not list(copy.iterdir())


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
    assert asked(sweep=own).search is asked("--search", "optuna", sweep=own).search is None
    assert asked("--trials", "5", sweep=own).search == OptunaSearch(trials=5, seed=4)
    assert asked("--stop", "asha", sweep=own).stop == AshaStop(keep_one_in=2)
    assert asked("--stop", "asha").stop == AshaStop()
    assert asked("--stop", "hyperband", sweep=own).stop == AshaStop(keep_one_in=2, brackets=3)
    own = replace(own, stop=AshaStop(brackets=5))
    assert asked("--stop", "hyperband", sweep=own).stop == own.stop
    assert asked("--stop", "asha", sweep=own).stop == AshaStop()
    with pytest.raises(ValueError, match="add --search optuna"):
        asked("--trials", "5")
    for text in ("loguniform(0,1)", "uniform(1)", "choice()", "uniform(a,b)"):
        with pytest.raises(ValueError, match="is not an axis"):
            asked(f"a={text}")


# `labeldp plan`: what it says of sweeps that can be run, that can't, and that are none.

SWEEPS = ROOT / "sweeps"
QUICKSTART = str(SWEEPS / "quickstart.py")


def test_keys_of_a_plan() -> None:
    found = answer("plan", QUICKSTART, "--only", "ALIBI", "trainer.epsilon=3")
    assert set(found) >= {"trials", "epsilons", "releases", "gpu_hours", "fits", "problems"}
    assert (found["epsilons"], found["releases"], found["gpu_hours"]) == ([3.0], 1, 0.0)
    assert (found["fits"], found["problems"]) == (True, [])


def test_a_price_of_hours_that_are_not_known_is_not_stated() -> None:
    found = answer("plan", "quickstart", "--smoke", "--price-per-hour", "3")
    assert found["price"] is None and "no price" in found["notes"][-1]
    for wrong in ("-1", "nan"):
        said = refusal("plan", "quickstart", "--smoke", "--price-per-hour", wrong)
        assert "price_per_hour is" in said


def test_a_plan_names_each_line_that_a_key_does_not_fit() -> None:
    sweep = str(SWEEPS / "compare_fashion_mnist.py")
    lines = ("--preset", "once", "--only", "ALIBI", "--only", "PATE with probes")
    found = answer("plan", sweep, *lines, "trainer.noise=gaussian", code=ExitCode.CANNOT_FIT)
    (note,) = (note for note in found["notes"] if note.startswith("trainer.noise"))
    assert "'PATE with probes" in note and note.endswith("which runs without it")


#: All but studies without trials.
PLANNED = sorted(path.name for path in SWEEPS.glob("*.py") if "SWEEP = " in path.read_text())


def planned(*arguments: str) -> dict[str, Any]:
    """A plan, whether or not its data are there: the exit code says which."""
    code, out, _ = run("plan", *arguments, "--json")
    found: dict[str, Any] = json.loads(out)
    assert code == (ExitCode.DONE if found["fits"] else ExitCode.CANNOT_FIT)
    return found


@pytest.mark.parametrize("sweep", PLANNED)
def test_every_sweep_can_be_planned_at_every_size(sweep: str) -> None:
    full, smoke = (planned(str(SWEEPS / sweep), *size) for size in ([], ["--smoke"]))
    assert 1 <= smoke["trials"] <= full["trials"]
    if '"home": ' in (SWEEPS / sweep).read_text():
        home = planned(str(SWEEPS / sweep), "--preset", "home")
        assert 1 <= home["trials"] <= full["trials"]
        assert home["gpu_hours"] == 0
        # Of data that can't be read nothing is known.
        assert (full["gpu_hours"] > 0) == (full["labels"] > 0)


def test_files_that_hold_no_sweep_are_named(tmp_path: Path) -> None:
    for content, message in {
        "1 / 0": "can't be run: ZeroDivisionError: division by zero",
        "SWEEP = 3": "defines no SWEEP",
        "import sys; sys.exit(5)": "can't be run: SystemExit",
    }.items():
        (tmp_path / "broken.py").write_text(content)
        assert message in refusal("plan", "broken.py")
    (tmp_path / "broken.py").write_text("SWEEP = 3")
    assert "runs no sweep and defines no SWEEP" in refusal("sweep", "broken.py")
    for study in ("vote_leakage", str(SWEEPS / "vote_leakage.py")):
        said = f"a study, not a sweep: it has no trials to plan; `labeldp sweep {study} --smoke`"
        assert said in refusal("plan", study)


def test_a_budget_that_all_but_the_baseline_fits() -> None:
    limits = ("plan", QUICKSTART, "--max-epsilon-total", "60")
    found = answer(*limits, code=ExitCode.OVER_BUDGET)
    assert not found["fits"]
    (problem,) = found["problems"]
    assert "the budget is epsilon 60" in problem and "the line 'no privacy'" in problem
    assert problem.endswith('leave it out with --without "no privacy"')
    found = answer(*limits, "--without", "no privacy")
    assert (found["trials"], found["fits"]) == (15, True)
    assert sorted({round(each, 9) for each in found["epsilons"]}) == [1.0, 2.0, 8.0]


SEARCH = ("plan", QUICKSTART, "--only", "ALIBI", "--search", "optuna", "--trials", "12")
RATES = "trainer.learning_rate=loguniform(0.01,0.3)"


def test_a_search_by_counts_that_noise_swamps_is_refused_before_they_are_paid() -> None:
    asked = ("evaluation.held_out_share=0.1", "trainer.epsilon=1", RATES)
    found = answer(*SEARCH, *asked, code=ExitCode.CANNOT_FIT)
    (problem,) = found["problems"]
    # What is free is 1/12 each; of 144 held-out labels that is a count with 12 points of noise.
    for part in ("11.8 points", "luckiest of 12", "more than 10.0 points"):
        assert part in problem
    (note,) = found["notes"]
    assert "pay epsilon 0.083 for each of 12 estimates" in note and found["epsilon_total"] == 1.0
    assert answer(*SEARCH, *asked, "evaluation.epsilon=0.17")["fits"]


def test_a_search_needs_something_to_search_and_to_choose_by() -> None:
    found = answer(*SEARCH, "trainer.epsilon=1", RATES, code=ExitCode.CANNOT_FIT)
    assert "--choose-by test" in " ".join(found["problems"])  # it would tune on test labels
    assert "nothing to search" in refusal(*SEARCH, "--choose-by", "test")


def test_people_get_tables() -> None:
    asked = ("--max-epsilon-total", "60", "trainer.epsilon=[0.5,8]")
    lines = words("plan", QUICKSTART, *asked, code=ExitCode.OVER_BUDGET).splitlines()
    assert lines[0] == "trials" and lines[1].split()[:3] == ["#", "variant", "trainer.epsilon"]
    assert lines[2].split()[:5] == ["1", "ALIBI", "0.5", "1", "0.5"]
    assert "fits                     NO" in lines
    assert lines[-1].startswith("problem: ")


def test_sweeps_that_come_with_labeldp_are_listed_planned_and_run_by_their_names() -> None:
    listed = answer("sweep")["sweeps"]
    assert sorted(listed) == sorted(path.stem for path in SWEEPS.glob("*.py"))
    assert all(listed.values())
    by_name, by_path = (planned(name, "--smoke") for name in ("quickstart", QUICKSTART))
    assert by_name == by_path
    assert "trainer.epochs" in refusal("sweep", "quickstart", "--smoke", "trainer.epochs=none")
    assert "did you mean quickstart" in refusal("sweep", "quikstart")


def test_a_sweep_is_called_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr(sweep_command, "_run", ends)
    for given, said in (
        (["quickstart", "--smoke"], "again to finish the rest: labeldp sweep quickstart --smoke\n"),
        (["quickstart", "--help"], "Usage: labeldp sweep quickstart [OPTIONS]"),
    ):
        assert said in "".join(run("sweep", *given)[1:])
    Path("x.yaml").write_text("trainer.epochs: 1\n")
    ends.configure_mock(side_effect=None, return_value=an_outcome())
    for given in (
        ["--json", "quickstart"],
        ["--json", "--config", "x.yaml"],
        ["--config=x.yaml", "--json"],
    ):
        assert json.loads(run("sweep", *given)[1])["trials"]


@pytest.mark.parametrize("kind", ["py", "yaml"])
def test_modules_are_found_beside_a_sweep_s_file(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "other" / f"own.{kind}"
    file.parent.mkdir()
    (file.parent / f"net_of_{kind}.py").write_text(
        "import math\n"
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, *, input_shape, num_classes):\n"
        "        size = math.prod(input_shape)\n"
        "        super().__init__(nn.Flatten(), nn.Linear(size, num_classes))\n"
    )
    file.write_text(
        f"name: own\nbase: {{trainer: {{model: 'net_of_{kind}:Net'}}}}\n"
        if kind == "yaml"
        else "import net_of_py\n"
        "from labeldp.platform.settings.configuration import TrialConfig, with_changes\n"
        "from labeldp.platform.settings.sweep import Sweep\n"
        "own = with_changes(TrialConfig(), {'trainer.model': 'net_of_py:Net'})\n"
        "SWEEP = Sweep(name='own', base=own)\n"
    )
    before = [*sys.path]
    assert planned(str(file), "--allow-code", f"net_of_{kind}")["fits"]
    typed = ("sweep", str(file), "--allow-code", f"net_of_{kind}", "trainer.epoch=7")
    assert "unknown key 'trainer.epoch'" in run(*typed)[2]
    assert OwnModel(f"net_of_{kind}:Net").source and sys.path == before
    (tmp_path / "link").symlink_to("other")
    assert planned(f"link/{file.name}", "--allow-code", f"net_of_{kind}")["fits"]
    again = tmp_path / "third" / file.name
    shutil.copytree(file.parent, again.parent)
    own_module(f"net_of_{kind}")
    assert "is loaded under that name; rename one" in refusal("plan", str(again))
    (tmp_path / "lone.py").write_text("import net_of_nobody\n")
    said = refusal("sweep", "lone.py")
    assert "module 'net_of_nobody' is not found; put it beside the sweep's file" in said


def test_a_results_folder_is_no_sweep(tmp_path: Path) -> None:
    (tmp_path / "my results").mkdir()
    (tmp_path / "my results" / "sweep.json").write_text("{}")
    for verb in ("sweep", "plan"):
        said = refusal(verb, "my results")
        assert "run the command that wrote it again" in said and "--results 'my results'" in said


def test_no_table_shows_less_epsilon_than_is_paid() -> None:
    lines = words("plan", "quickstart", "--only", "ALIBI", "trainer.epsilon=[1.00049, 2]")
    assert lines.splitlines()[2].split()[1:5] == ["ALIBI", "1.001", "1", "1.001"]
    assert plain_text({"epsilon": 1.0000049, "epsilon_low": 1.0000049, "score": 1.0000049}) == (
        "epsilon: 1.00001\nepsilon_low: 1\nscore: 1"
    )


def test_a_file_that_runs_its_sweep_by_itself_runs_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "own.py"
    file.write_text(
        "import labeldp\n"
        "from labeldp.platform.settings.configuration import TrialConfig\n"
        "from labeldp.platform.settings.sweep import Sweep\n"
        "SWEEP = Sweep(name='own', base=TrialConfig())\n"
        "labeldp.run(SWEEP, results='mine', overrides={'trainer.epochs': 1})\n"
    )
    with without_cluster():
        assert run("sweep", str(file))[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "own.py"]

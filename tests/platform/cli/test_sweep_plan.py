"""`labeldp plan`: what it says of sweeps that can be run, that can't, and that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import main
from tests.platform.cli.asked import answer, refusal, words

SWEEPS = Path(__file__).resolve().parents[3] / "sweeps"
QUICKSTART = str(SWEEPS / "quickstart.py")


def test_a_plan_names_what_stands_in_the_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("data.name=mnist", "performance.device=cuda")
    found = answer(capsys, "plan", QUICKSTART, *asked, code=ExitCode.CANNOT_FIT)
    assert not found["fits"] and "labeldp data fetch mnist" in " ".join(found["problems"])
    found = answer(capsys, "plan", QUICKSTART, "audit.canaries=100000", code=ExitCode.CANNOT_FIT)
    assert not found["fits"] and "100000" in " ".join(found["problems"])
    found = answer(capsys, "plan", QUICKSTART, "trainer.epsilon=3", "trainer.noise=laplace")
    assert set(found) >= {"trials", "epsilons", "releases", "gpu_hours", "fits", "problems"}
    assert (found["epsilons"], found["releases"], found["gpu_hours"]) == ([3.0], 1, 0.0)
    assert (found["fits"], found["problems"]) == (True, [])


def test_a_plan_names_each_line_that_a_key_does_not_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sweep = str(SWEEPS / "compare_fashion_mnist.py")
    lines = ("--preset", "once", "--only", "ALIBI", "--only", "PATE with probes")
    found = answer(
        capsys, "plan", sweep, *lines, "trainer.noise=gaussian", code=ExitCode.CANNOT_FIT
    )
    (note,) = (note for note in found["notes"] if "trainer.noise" in note)
    assert "'PATE with probes" in note and note.endswith("which runs without it")


#: All but studies without trials.
PLANNED = sorted(path.name for path in SWEEPS.glob("*.py") if "SWEEP = " in path.read_text())


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """A plan, whether or not its data are there: the exit code says which."""
    code = main(["plan", *arguments, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (ExitCode.DONE if found["fits"] else ExitCode.CANNOT_FIT)
    return found


@pytest.mark.parametrize("sweep", PLANNED)
def test_every_sweep_can_be_planned_at_every_size(
    capsys: pytest.CaptureFixture[str], sweep: str
) -> None:
    full, smoke = (planned(capsys, str(SWEEPS / sweep), *size) for size in ([], ["--smoke"]))
    assert 1 <= smoke["trials"] <= full["trials"]
    if '"home": ' in (SWEEPS / sweep).read_text():
        home = planned(capsys, str(SWEEPS / sweep), "--preset", "home")
        assert 1 <= home["trials"] <= full["trials"]
        assert home["gpu_hours"] == 0 < full["gpu_hours"]


def test_a_broken_sweep_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content, message in {
        "1 / 0": "can't be run: ZeroDivisionError: division by zero",
        "SWEEP = 3": "defines no SWEEP",
        "import sys; sys.exit(5)": "can't be run: SystemExit",
    }.items():
        (tmp_path / "broken.py").write_text(content)
        assert message in refusal(capsys, "plan", "broken.py")


def test_studies_and_unknown_presets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    study = str(SWEEPS / "vote_leakage.py")
    line = refusal(capsys, "plan", study)
    assert f"a study, not a sweep: it has no trials to plan; `python {study} --smoke`" in line
    line = refusal(capsys, "plan", str(SWEEPS / "lp_mst_cifar10.py"), "--preset", "hoem")
    assert "no preset 'hoem'; did you mean home?" in line


def test_a_budget_that_all_but_the_baseline_fits(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ("plan", QUICKSTART, "--max-epsilon-total", "60")
    found = answer(capsys, *limits, code=ExitCode.OVER_BUDGET)
    assert not found["fits"]
    (problem,) = found["problems"]
    assert "the budget is epsilon 60" in problem and "the line 'no privacy'" in problem
    assert problem.endswith('leave it out with --without "no privacy"')
    found = answer(capsys, *limits, "--without", "no privacy")
    assert (found["trials"], found["fits"]) == (15, True)
    assert found["epsilons"] == [0.5, 1.0, 2.0, 4.0, 8.0]


SEARCH = ("plan", QUICKSTART, "--only", "ALIBI", "--search", "optuna", "--trials", "12")
RATES = "trainer.learning_rate=loguniform(0.01,0.3)"


def test_a_search_by_counts_that_noise_swamps_is_refused_before_they_are_paid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ("evaluation.held_out_share=0.1", "trainer.epsilon=1", RATES)
    found = answer(capsys, *SEARCH, *asked, code=ExitCode.CANNOT_FIT)
    (problem,) = found["problems"]
    # What is free is 1/12 each; of 144 held-out labels that is a count with 12 points of noise.
    for part in ("11.8 points", "luckiest of 12", "more than 10.0 points"):
        assert part in problem
    (note,) = found["notes"]
    assert "pay epsilon 0.083 for each of 12 counts" in note and found["epsilon_total"] == 1.0
    assert answer(capsys, *SEARCH, *asked, "evaluation.epsilon=0.17")["fits"]


def test_an_axis_that_touches_a_release_needs_a_budget_for_the_dearest_way(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = (*SEARCH, "--choose-by", "test", "trainer.epsilon=loguniform(0.5,2)")
    assert "trainer.epsilon of ALIBI can't be searched" in refusal(capsys, *asked)
    found = answer(capsys, *asked, "--max-epsilon-total", "24")
    assert (found["epsilon_total"], found["releases"], found["fits"]) == (24.0, 12, True)
    found = answer(capsys, *asked, "--max-epsilon-total", "23", code=ExitCode.OVER_BUDGET)
    assert not found["fits"]


def test_a_search_needs_something_to_search_and_to_choose_by(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = answer(capsys, *SEARCH, "trainer.epsilon=1", RATES, code=ExitCode.CANNOT_FIT)
    assert "--choose-by test" in " ".join(found["problems"])  # it would tune on test labels
    assert "nothing to search" in refusal(capsys, *SEARCH, "--choose-by", "test")


def test_people_get_tables(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--max-epsilon-total", "60", "trainer.epsilon=[0.5,8]")
    lines = words(capsys, "plan", QUICKSTART, *asked, code=ExitCode.OVER_BUDGET).splitlines()
    assert lines[0] == "trials" and lines[1].split()[:3] == ["#", "variant", "trainer.epsilon"]
    assert lines[2].split()[:5] == ["1", "ALIBI", "0.5", "1", "0.5"]
    assert "fits                     NO" in lines
    assert lines[-1].startswith("problem: ")


def test_sweeps_that_come_with_labeldp_are_listed_planned_and_run_by_their_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = answer(capsys, "sweep")["sweeps"]
    assert sorted(listed) == sorted(path.stem for path in SWEEPS.glob("*.py"))
    assert all(listed.values())
    by_name, by_path = (planned(capsys, name, "--smoke") for name in ("quickstart", QUICKSTART))
    assert by_name == by_path
    with pytest.raises(SystemExit) as ended:
        main(["sweep", "quickstart", "--smoke", "trainer.epochs=none"])
    assert ended.value.code == ExitCode.BAD_INPUT
    assert "trainer.epochs" in capsys.readouterr().err
    assert "did you mean quickstart" in refusal(capsys, "sweep", "quikstart")

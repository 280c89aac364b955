"""sweep_plan: what it says of sweeps that can be run, that can't, and that are none."""

from pathlib import Path

import pytest

from tests.platform.cli.asked import answer, refusal

SWEEPS = Path(__file__).resolve().parents[3] / "sweeps"
QUICKSTART = str(SWEEPS / "quickstart.py")


def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "plan", QUICKSTART, "trainer.noise=laplace", "trainer.epsilon=[1,2]")
    assert set(found) >= {"trials", "epsilons", "releases", "gpu_hours", "fits", "problems"}
    assert (found["trials"], found["epsilons"], found["releases"]) == (2, [1.0, 2.0], 2)
    assert (found["gpu_hours"], found["fits"], found["problems"]) == (0.0, True, [])


def test_plan_says_what_stands_in_the_way(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = answer(capsys, "plan", QUICKSTART, "data.name=mnist", "performance.device=cuda")
    assert not found["fits"]
    problems = " ".join(found["problems"])
    assert "labeldp data fetch mnist" in problems
    found = answer(capsys, "plan", QUICKSTART, "audit.canaries=100000")
    assert not found["fits"] and "100000" in " ".join(found["problems"])
    (tmp_path / "settings.yaml").write_text("trainer:\n  epsilon: 3\n  noise: laplace\n")
    found = answer(capsys, "plan", QUICKSTART, "--config", "settings.yaml")
    assert found["epsilons"] == [3.0]


#: All but studies without trials.
PLANNED = sorted(path.name for path in SWEEPS.glob("*.py") if "SWEEP = " in path.read_text())


@pytest.mark.parametrize("sweep", PLANNED)
def test_every_sweep_can_be_planned_at_both_sizes(
    capsys: pytest.CaptureFixture[str], sweep: str
) -> None:
    full = answer(capsys, "plan", str(SWEEPS / sweep))
    smoke = answer(capsys, "plan", str(SWEEPS / sweep), "--smoke")
    assert 1 <= smoke["trials"] <= full["trials"]


def test_a_broken_sweep_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content, words in {
        "1 / 0": "can't be run: ZeroDivisionError: division by zero",
        "SWEEP = 3": "defines no SWEEP",
        "def": "can't be run: SyntaxError",
        "import sys; sys.exit(5)": "can't be run: SystemExit",
    }.items():
        (tmp_path / "broken.py").write_text(content)
        assert words in refusal(capsys, "plan", "broken.py")

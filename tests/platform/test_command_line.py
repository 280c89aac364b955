"""command_line: every verb's JSON keys, numbers against closed forms, and refusals in one line."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from labeldp.mechanisms.accounting import gaussian_epsilon
from labeldp.platform import privacy_verbs
from labeldp.platform.cluster import CannotFit
from labeldp.platform.command_line import main
from tests.platform.stores import new_store
from tests.shared_material import shared_path

SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
QUICKSTART = str(SWEEPS / "quickstart.py")


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Run a verb and return the JSON object that it printed, and nothing else."""
    assert main([*arguments, "--json"]) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a verb that must end with code 2 and one line on standard error."""
    try:
        code = main([*arguments, "--json"])
    except SystemExit as end:  # how argparse refuses
        assert isinstance(end.code, int)
        code = end.code
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    assert "Traceback" not in captured.err
    (line,) = [line for line in captured.err.splitlines() if "error: " in line]
    return line


def test_epsilon_laplace(capsys: pytest.CaptureFixture[str]) -> None:
    # The L1 distance of two one-hot labels is 2.
    found = answer(capsys, "epsilon", "laplace", "--scale", "0.5")
    assert (found["epsilon"], found["delta"]) == (4.0, 0.0)
    found = answer(capsys, "epsilon", "laplace", "--noise-std", str(math.sqrt(2)))
    assert found["epsilon"] == pytest.approx(2.0, rel=1e-12)


def test_epsilon_gaussian(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("epsilon", "gaussian", "--noise-std", "2.8197", "--delta", "1e-5")
    found = answer(capsys, *arguments)
    # Balle and Wang 2018, theorem 8, with an L2 sensitivity of sqrt 2.
    shift, epsilon = math.sqrt(2) / 2.8197, found["epsilon"]
    delta = norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(
        -shift / 2 - epsilon / shift
    )
    assert delta == pytest.approx(1e-5, rel=1e-6)
    assert found["delta"] == 1e-5
    assert epsilon == pytest.approx(2.0, abs=1e-4)


def test_epsilon_rr(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "epsilon", "rr", "--keep-probability", "0.75", "--classes", "10")
    assert found["epsilon"] == pytest.approx(math.log(27), rel=1e-12)


@pytest.mark.parametrize(("distribution", "factor"), [("geometric", 3), ("logarithmic", 3)])
def test_epsilon_select(
    capsys: pytest.CaptureFixture[str], distribution: str, factor: float
) -> None:
    arguments = ("--epsilon", "0.5", "--mean-trials", "10", "--distribution", distribution)
    found = answer(capsys, "epsilon", "select", *arguments)
    assert set(found) >= {"epsilon", "delta"}
    # Papernot and Steinke 2022: at most (2 + eta) epsilon; 3 epsilon for the geometric one.
    assert 0.5 < found["epsilon"] <= factor * 0.5 + 1e-12
    assert found["delta"] == 0


def test_epsilon_select_poisson_needs_a_delta(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("epsilon", "select", "--epsilon", "0.1", "--mean-trials", "10")
    with_delta = (*arguments, "--distribution", "poisson", "--delta", "1e-6")
    assert 0.1 < answer(capsys, *with_delta)["epsilon"] < 1.0


@pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
def test_calibrate_is_the_way_back(capsys: pytest.CaptureFixture[str], epsilon: str) -> None:
    target = float(epsilon)
    laplace = answer(capsys, "calibrate", "laplace", "--epsilon", epsilon)
    assert laplace["scale"] == pytest.approx(2 / target, rel=1e-12)
    again = answer(capsys, "epsilon", "laplace", "--scale", repr(laplace["scale"]))
    assert again["epsilon"] == laplace["epsilon"] == pytest.approx(target, rel=1e-12)
    gaussian = answer(capsys, "calibrate", "gaussian", "--epsilon", epsilon, "--delta", "1e-6")
    multiplier = gaussian["noise_std"] / math.sqrt(2)
    exact = gaussian_epsilon(noise_multiplier=multiplier, delta=1e-6)
    assert exact == gaussian["epsilon"] == pytest.approx(target, rel=1e-9)
    rr = answer(capsys, "calibrate", "rr", "--epsilon", epsilon, "--classes", "10")
    keep = math.exp(target) / (math.exp(target) + 9)
    assert rr["keep_probability"] == pytest.approx(keep, rel=1e-12)
    for found in (laplace, gaussian, rr):
        assert found["epsilon"] <= target


@pytest.fixture
def votes(tmp_path: Path) -> str:
    """250 teachers: 40 clear queries and 10 contested ones."""
    counts = np.array([[240, 6, 4]] * 40 + [[90, 85, 75]] * 10)
    np.savez(tmp_path / "votes.npz", counts=counts)
    return str(tmp_path / "votes.npz")


PATE = ["--sigma1", "100", "--sigma2", "40", "--threshold", "150", "--delta", "1e-5"]


def test_epsilon_pate(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ["epsilon", "pate", "--votes", f"{votes}:counts", "--aggregator", "confident"]
    found = answer(capsys, *arguments, *PATE, "--seed", "1")
    for name in ("expected", "realised"):
        assert set(found[name]) >= {"epsilon", "order", "answered"}
    assert set(found["data_independent"]) >= {"epsilon", "order"}
    assert found["expected"]["epsilon"] < found["data_independent"]["epsilon"]
    assert 0 < found["realised"]["answered"] <= 50
    if found["sanitized"] is None:
        assert found["sanitized_reason"]
    else:
        assert set(found["sanitized"]) >= {"epsilon", "delta", "beta", "noise_std"}
    older = answer(capsys, *arguments, *PATE, "--seed", "1", "--conversion", "mironov")
    assert older["expected"]["epsilon"] > found["expected"]["epsilon"]
    fewer = answer(capsys, *arguments, *PATE, "--seed", "1", "--answer", "5")
    assert fewer["realised"]["answered"] == 5


@pytest.mark.parametrize("aggregator", ["gnmax", "lnmax"])
def test_epsilon_pate_without_a_check(
    capsys: pytest.CaptureFixture[str], votes: str, aggregator: str
) -> None:
    arguments = ["--votes", votes, "--aggregator", aggregator, "--sigma2", "40", "--delta", "1e-5"]
    found = answer(capsys, "epsilon", "pate", *arguments)
    assert found["realised"]["answered"] == found["expected"]["answered"] == 50
    assert found["realised"]["epsilon"] <= found["data_independent"]["epsilon"]


def test_calibrate_pate(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ("--votes", votes, "--epsilon", "5", "--delta", "1e-5", "--answer", "20")
    found = answer(capsys, "calibrate", "pate", *arguments)
    assert set(found) >= {"sigma1", "sigma2", "threshold", "epsilon"}
    assert 0 < found["epsilon"] <= 5


def test_audit_memorization_on_published_confidences(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = shared_path("oracle", "antipodes")
    case = json.loads((folder / "eps_m.json").read_text())["cases"][0]
    with np.load(folder / "canaries.npz") as arrays:
        key = f"{case['set']}__{case['dataset']}"
        np.savez(tmp_path / "c.npz", label=arrays[f"{key}__label"], true=arrays[f"{key}__true"])
    labels = ("--canary-labels", "c.npz:label", "--true-labels", "c.npz:true")
    arguments = ("--confidences", str(folder / case["file"]), *labels)
    paper = answer(capsys, "audit", "memorization", *arguments)["paper"]
    assert paper["epsilon_low"] == pytest.approx(case["eps_m_low"], abs=5e-5)
    assert paper["epsilon_high"] == pytest.approx(case["eps_m_high"], abs=5e-5)
    assert paper["threshold"] == case["best_threshold"]


def test_audit_memorization(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    confidences = np.full((100, 4), 0.001)
    labels, true_labels = np.arange(100) % 4, (np.arange(100) + 1) % 4
    confidences[np.arange(100), labels] = 0.997
    for name, array in {"c": confidences, "l": labels, "t": true_labels}.items():
        np.save(tmp_path / f"{name}.npy", array)
    arguments = ("--confidences", "c.npy", "--canary-labels", "l.npy", "--true-labels", "t.npy")
    found = answer(capsys, "audit", "memorization", *arguments)
    assert set(found) == {"paper", "corrected", "ceiling", "canaries"}
    for name in ("paper", "corrected"):
        assert set(found[name]) == {"epsilon_low", "epsilon_high", "threshold", "guesses"}
        assert found[name]["guesses"] == 200
    assert found["canaries"] == 100
    # Everything was remembered: the most that so many canaries can show.
    assert found["corrected"]["epsilon_low"] == pytest.approx(found["ceiling"], rel=0.2)
    assert found["corrected"]["epsilon_high"] == math.inf
    confidences[41] = [0.5, 0.5, 0.5, 0.5]
    np.save(tmp_path / "c.npy", confidences)
    line = refusal(capsys, "audit", "memorization", *arguments)
    assert "row 41" in line and "sum 2" in line


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


def test_data(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = answer(capsys, "data", "list", "--root", str(tmp_path))
    present = {entry["name"]: entry["present"] for entry in found["sets"]}
    assert present["digits"] and not present["mnist"]
    assert answer(capsys, "data", "check", "digits")["training_examples"] == 1438
    missing = answer(capsys, "data", "check", "mnist", "--root", str(tmp_path), code=1)
    assert not missing["ok"] and "labeldp data fetch mnist" in missing["problems"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["epsilon", "laplace", "--scale", "0"], ["scale is 0.0", "above 0"]),
        (["epsilon", "laplace", "--scale", "-1"], ["scale is -1.0", "above 0"]),
        (["epsilon", "laplace", "--scale", "nan"], ["scale is NaN"]),
        (["epsilon", "laplace", "--scale", "inf"], ["scale is inf", "finite"]),
        (["epsilon", "laplace", "--scale", "one"], ["--scale", "'one'"]),
        (["epsilon", "laplace"], ["--scale", "--noise-std"]),
        (["epsilon", "laplace", "--scale", "1", "--noise-std", "1"], ["not allowed with"]),
        (["epsilon", "gaussian", "--noise-std", "1", "--delta", "0"], ["delta is 0.0", "between"]),
        (["epsilon", "gaussian", "--noise-std", "1", "--delta", "1"], ["delta is 1.0", "between"]),
        (["epsilon", "gaussian", "--noise-std", "1"], ["--delta"]),
        (
            ["epsilon", "rr", "--keep-probability", "1", "--classes", "2"],
            ["keep_probability is 1.0"],
        ),
        (["epsilon", "rr", "--keep-probability", ".9", "--classes", "1"], ["num_classes is 1"]),
        (
            [
                "epsilon",
                "select",
                "--epsilon",
                "1",
                "--mean-trials",
                ".5",
                "--distribution",
                "geometric",
            ],
            ["mean_trials is 0.5", "at least 1"],
        ),
        (
            [
                "epsilon",
                "select",
                "--epsilon",
                "1",
                "--mean-trials",
                "5",
                "--distribution",
                "uniform",
            ],
            ["uniform", "geometric"],
        ),
        (["calibrate", "laplace", "--epsilon", "0"], ["epsilon is 0.0", "above 0"]),
        (["calibrate", "laplace", "--epsilon", "inf"], ["epsilon is inf", "finite"]),
        (["calibrate", "gaussian", "--epsilon", "1", "--delta", "2"], ["delta is 2.0", "between"]),
        (["calibrate", "rr", "--epsilon", "1", "--classes", "0"], ["num_classes is 0"]),
        (
            [
                "epsilon",
                "pate",
                "--votes",
                "none.npy",
                "--aggregator",
                "gnmax",
                "--sigma2",
                "1",
                "--delta",
                "1e-5",
            ],
            ["--votes", "none.npy", "No such file"],
        ),
        (["plan", "nothing.py"], ["nothing.py is no sweep file", "sweeps/"]),
        (["plan", QUICKSTART, "trainer.epsilom=1"], ["did you mean trainer.epsilon"]),
        (["plan", QUICKSTART, "--config", "none.yaml"], ["none.yaml", "No such file"]),
        (["report", "quickstart"], ["no results/quickstart/mlflow.db here", "--tracking-uri"]),
        (["data", "check", "mnits"], ["'mnits'", "did you mean mnist"]),
        (["epsilom"], ["epsilom", "epsilon"]),
        (["epsilon", "laplac"], ["laplac", "laplace"]),
        (["doctor", "--jso"], ["--jso"]),
        (["epsilon", "laplace", "--sca", "1"], ["--sca"]),
    ],
)
def test_refusals(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    line = refusal(capsys, *arguments)
    for word in words:
        assert word in line


def test_a_broken_sweep_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for content, words in {
        "1 / 0": "can't be run: ZeroDivisionError: division by zero",
        "SWEEP = 3": "defines no SWEEP",
        "def": "can't be run: SyntaxError",
        "import sys; sys.exit(5)": "can't be run: SystemExit",
    }.items():
        (tmp_path / "broken.py").write_text(content)
        assert words in refusal(capsys, "plan", "broken.py")


def test_an_experiment_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uri = new_store(tmp_path)
    line = refusal(capsys, "report", "quickstart", "--tracking-uri", uri)
    assert "has no experiment 'quickstart'" in line


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CannotFit("a trial needs 64 CPU"), 3),
        (ValueError("bad"), 2),
        (FileNotFoundError(2, "No such file", "x"), 2),
        (PermissionError(13, "Permission denied", "x"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
) -> None:
    def fail(options: object) -> None:
        raise error

    monkeypatch.setattr(privacy_verbs, "epsilon_laplace", fail)
    assert main(["epsilon", "laplace", "--scale", "1"]) == code
    assert capsys.readouterr().out == ""


def test_a_defect_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(options: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(privacy_verbs, "epsilon_laplace", fail)
    with pytest.raises(RuntimeError, match="a defect"):
        main(["epsilon", "laplace", "--scale", "1"])


def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["epsilon", "laplace", "--scale", "1"]) == 0
    assert "epsilon: 2\n" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["epsilon"]) == 2
    assert "usage: labeldp" in capsys.readouterr().out


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "labeldp.platform.command_line", "data", "list"]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")

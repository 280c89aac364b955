"""audits: JSON keys and numbers from the command line, and what it refuses."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities, error_rate
from tests.platform.cli.asked import answer, refusal
from tests.shared_material import shared_path

COUNTS = ["--canaries", "1000", "--guesses", "400", "--correct", "300"]


def audit(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    return answer(capsys, "audit", *arguments)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    return refusal(capsys, "audit", *arguments)


def saved(folder: Path, name: str, values: Any) -> str:
    np.save(folder / f"{name}.npy", np.asarray(values))
    return str(folder / f"{name}.npy")


def test_one_run_from_counts(capsys: pytest.CaptureFixture[str]) -> None:
    found = audit(capsys, "one-run", *COUNTS)
    assert found["epsilon_low"] == pytest.approx(0.9, abs=0.005)
    # all right: q^1000 = .05
    assert found["ceiling"] == pytest.approx(-math.log(0.05 ** (-1 / 1000) - 1), rel=1e-9)
    assert {key: found[key] for key in ("guesses", "correct", "canaries")} == {
        "guesses": 400,
        "correct": 300,
        "canaries": 1000,
    }
    weaker = audit(capsys, "one-run", *COUNTS, "--delta", "1e-4")
    assert 0 < weaker["epsilon_low"] < found["epsilon_low"]


def test_one_run_from_scores(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    truth = generator.integers(2, size=500)
    scores = np.where(truth == 0, 1.0, -1.0) * (1 + generator.random(500))
    files = ["--scores", saved(tmp_path, "s", scores), "--truth", saved(tmp_path, "t", truth)]
    found = audit(capsys, "one-run", *files)
    assert found["canaries"] == found["guesses"] == found["correct"] == 500
    assert 0 < found["epsilon_low"] < found["ceiling"]  # it paid for trying several numbers


def test_one_run_within_a_family(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The published row of Gaussian noise, whose epsilon is 4.377 at this delta."""
    counts = ["--canaries", "1000", "--guesses", "1000", "--correct", "691", "--delta", "1e-5"]
    counts += ["--guesses-fixed"]
    plain = audit(capsys, "one-run", *counts)
    gaussian = audit(capsys, "one-run", *counts, "--family", "gaussian")
    assert "epsilon_tight" not in plain
    assert gaussian == {**plain, "epsilon_tight": pytest.approx(3.670, abs=5e-4)}
    laplace, two, ten = (
        audit(capsys, "one-run", *COUNTS, "--guesses-fixed", "--family", *family)["epsilon_tight"]
        for family in (["laplace"], ["rr"], ["rr", "--classes", "10"])
    )
    assert plain["epsilon_low"] < two < ten and plain["epsilon_low"] < laplace
    generator = np.random.default_rng(0)
    truth = generator.integers(2, size=500)
    files = ["--truth", saved(tmp_path, "t", truth)]
    files += ["--scores", saved(tmp_path, "s", np.where(truth == 0, 1.0, -1.0))]
    all_right = ["--canaries", "500", "--guesses", "500", "--correct", "500"]
    found, unpaid = (
        audit(capsys, "one-run", *given, "--guesses-fixed", "--family", "laplace")["epsilon_tight"]
        for given in (files, all_right)
    )
    assert 0 < found < unpaid  # four numbers of guesses were tried
    assert "delta" in refused(capsys, "one-run", *COUNTS, "--family", "gaussian")


def test_guesses_may_follow_the_release_unless_stated(capsys: pytest.CaptureFixture[str]) -> None:
    """506 of 1,000 canaries were decided; the law of a fixed number would say 4.581."""
    counts = ["--canaries", "1000", "--guesses", "506", "--correct", "504"]
    family = ["--family", "rr", "--classes", "100"]
    found, fixed = (
        audit(capsys, "one-run", *counts, *family, *stated)["epsilon_tight"]
        for stated in ([], ["--guesses-fixed"])
    )
    assert (round(found, 3), round(fixed, 3)) == (4.378, 4.581)
    gaussian = [*counts, "--delta", "1e-5", "--family", "gaussian"]
    assert "506 of 1000 canaries" in refused(capsys, "one-run", *gaussian)


def test_moments(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["moments", "--epsilon", "4", "--canaries", "500", "--seed", "2"]
    found = audit(capsys, *asked)
    assert found["epsilon"] == pytest.approx(4.0, abs=1e-6)
    assert found["epsilon_low"] < found["epsilon_tight"] < 4.0 < found["ceiling"]
    assert 2.5 < found["epsilon_tight"]
    assert found == audit(capsys, *asked)
    assert "delta" in refused(capsys, "moments", "--delta", "0")


def test_observational(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=300)
    proxy, memory = np.full((300, 3), 1 / 3), np.where(np.eye(3)[labels] == 1, 0.8, 0.1)
    files = ["--labels", saved(tmp_path, "y", labels), "--proxy", saved(tmp_path, "q", proxy)]
    asked = ["observational", *files, "--confidences", saved(tmp_path, "c", memory), "--seed", "0"]
    found = audit(capsys, *asked, "--proxy-log-error", ".25")
    exact = audit(capsys, *asked, "--proxy-log-error", "0")
    assert found["slack"] == 0.5 and 150 < found["examples"] < 250
    assert found["epsilon_low"] == pytest.approx(exact["epsilon_low"] - 0.5)
    proxy[7, labels[7]], proxy[7, (labels[7] + 1) % 3] = 0.0, 2 / 3
    np.save(tmp_path / "q.npy", proxy)
    assert "example 7 no chance" in refused(capsys, *asked, "--proxy-log-error", "0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["nothing to audit", "--canaries, --guesses and --correct, or --scores and --truth"]),
        (["--canaries", "100", "--guesses", "50"], ["without --correct"]),
        (["--correct", "5"], ["without --canaries and --guesses"]),
        (["--scores", "s.npy"], ["--scores can't be used", "without --truth"]),
        ([*COUNTS, "--truth", "t.npy"], ["--truth can't be used together", "give --canaries"]),
        ([*COUNTS, "--scores", "s.npy", "--truth", "t.npy"], ["can't be used together"]),
        (["--scores", "nowhere.npy", "--truth", "t.npy"], ["--scores", "nowhere.npy", "No such"]),
        (["--canaries", "3", "--guesses", "3", "--correct", "3"], ["canaries is 3", "takes 5"]),
        (["--canaries", "9", "--guesses", "10", "--correct", "3"], ["guesses 10", "canaries 9"]),
        ([*COUNTS, "--delta", "1"], ["delta is 1.0"]),
        ([*COUNTS, "--confidence", "95"], ["confidence is 95"]),
    ],
)
def test_one_run_says_what_is_missing_or_wrong(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, "one-run", *arguments)
    for word in words:
        assert word in message


def test_memorization(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    true = np.arange(60) % 5
    planted = (true + 1) % 5
    confidences = np.full((60, 5), 0.02)
    confidences[np.arange(60), planted] = 0.92
    files = [
        *("--confidences", saved(tmp_path, "c", confidences)),
        *("--canary-labels", saved(tmp_path, "p", planted)),
        *("--true-labels", saved(tmp_path, "t", true)),
    ]
    found = audit(capsys, "memorization", *files)
    assert found["canaries"] == 60
    for kind in ("paper", "corrected"):
        assert set(found[kind]) == {"epsilon_low", "epsilon_high", "threshold", "guesses"}
        assert found[kind]["guesses"] == 180
    # all right: the published rule of three on 60 canaries
    assert found["paper"]["epsilon_low"] == pytest.approx(math.log(0.95 / 0.05), rel=1e-9)
    assert 1.5 < found["corrected"]["epsilon_low"] < found["ceiling"]
    assert found["corrected"]["epsilon_high"] == math.inf
    files[1] = saved(tmp_path, "bad", confidences * 2)
    assert "row 0" in refused(capsys, "memorization", *files)
    files[1] = saved(tmp_path, "c", confidences)
    files[3] = saved(tmp_path, "p", true)
    assert "the true label" in refused(capsys, "memorization", *files)


def test_vote_leakage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    votes = np.array([[120.0, 80, 50], [200, 30, 20]])
    chances = np.exp([answer_log_probabilities(row, 60.0) for row in votes])
    counts = np.round(1e5 * chances).astype(int)
    settings = ["--noise-std", "60", "--teachers", "250"]
    found = audit(capsys, "vote-leakage", "--counts", saved(tmp_path, "n", counts), *settings)
    assert error_rate(found["histograms"], votes).max() < 0.005
    assert found["seconds"] > 0 and found["notes"] == []
    (tmp_path / "one.csv").write_text("0,50,0\n")
    one = audit(capsys, "vote-leakage", "--counts", str(tmp_path / "one.csv"), *settings)
    assert np.argmax(one["histograms"][0]) == 1
    assert "row 0: all answers are class 1" in one["notes"][0]
    bad = ["vote-leakage", "--counts", saved(tmp_path, "bad", [[60, 40, 20], [5, -1, 0]])]
    assert "counts[1, 1] is -1" in refused(capsys, *bad, *settings)
    assert "--teachers" in refused(capsys, *bad, *settings[:2]), "T is unknown"


def test_memorization_on_published_confidences(
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

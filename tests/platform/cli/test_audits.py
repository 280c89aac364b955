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
ALL_RIGHT = ["--canaries", "500", "--guesses", "500", "--correct", "500"]


def audit(*arguments: str) -> dict[str, Any]:
    return answer("audit", *arguments)


def refused(*arguments: str) -> str:
    return refusal("audit", *arguments)


def saved(folder: Path, name: str, values: Any) -> str:
    np.save(folder / f"{name}.npy", np.asarray(values))
    return str(folder / f"{name}.npy")


def test_one_run_from_counts_and_from_scores(tmp_path: Path) -> None:
    found = audit("one-run", *COUNTS)
    # all right: q^1000 = .05
    ceiling = -math.log(0.05 ** (-1 / 1000) - 1)
    assert found == {
        "epsilon_low": pytest.approx(0.9, abs=0.005),
        "ceiling": pytest.approx(ceiling, rel=1e-9),
        **{"canaries": 1000, "guesses": 400, "correct": 300},
    }
    weaker = audit("one-run", *COUNTS, "--delta", "1e-4")
    assert 0 < weaker["epsilon_low"] < found["epsilon_low"]
    truth = np.random.default_rng(0).integers(2, size=500)
    files = ["--truth", saved(tmp_path, "t", truth)]
    files += ["--scores", saved(tmp_path, "s", np.where(truth == 0, 1.0, -1.0))]
    family = ["--guesses-fixed", "--family", "laplace"]
    found, alone = (audit("one-run", *given, *family) for given in (files, ALL_RIGHT))
    assert found["canaries"] == found["guesses"] == found["correct"] == 500
    assert 0 < found["epsilon_low"] < found["ceiling"]
    # It pays for four numbers of guesses.
    assert 0 < found["epsilon_tight"] < alone["epsilon_tight"]


def test_one_run_within_a_family() -> None:
    # 506 of 1,000 canaries were decided; the law of a fixed number would say 4.581.
    counts = ["--canaries", "1000", "--guesses", "506", "--correct", "504"]
    found, fixed = (
        audit("one-run", *counts, "--family", "rr", "--classes", "100", *stated)
        for stated in ([], ["--guesses-fixed"])
    )
    assert (round(found["epsilon_tight"], 3), round(fixed["epsilon_tight"], 3)) == (4.378, 4.581)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["nothing to audit", "--canaries, --guesses and --correct, or --scores and --truth"]),
        (["--canaries", "100", "--guesses", "50"], ["--canaries and --guesses is given"]),
        ([*COUNTS, "--truth", "t.npy"], ["--correct and --truth is given"]),
        (["--scores", "nowhere.npy", "--truth", "t.npy"], ["--scores", "nowhere.npy", "No such"]),
        ([*COUNTS, "--delta", "1"], ["delta is 1.0"]),
    ],
)
def test_one_run_refuses_what_is_missing_or_wrong(arguments: list[str], words: list[str]) -> None:
    message = refused("one-run", *arguments)
    for word in words:
        assert word in message


def test_moments() -> None:
    asked = ["moments", "--epsilon", "4", "--canaries", "500", "--seed", "2"]
    found = audit(*asked)
    assert found["epsilon"] == pytest.approx(4.0, abs=1e-6)
    assert found["epsilon_low"] < found["epsilon_tight"] < 4.0 < found["ceiling"]
    assert 2.5 < found["epsilon_tight"]
    assert "delta" in refused("moments", "--delta", "0")


def test_observational(tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(3, size=300)
    proxy, memory = np.full((300, 3), 1 / 3), np.where(np.eye(3)[labels] == 1, 0.8, 0.1)
    files = ["--labels", saved(tmp_path, "y", labels), "--proxy", saved(tmp_path, "q", proxy)]
    asked = ["observational", *files, "--confidences", saved(tmp_path, "c", memory), "--seed", "0"]
    found = audit(*asked, "--proxy-log-error", ".25")
    exact = audit(*asked, "--proxy-log-error", "0")
    assert found["slack"] == 0.5 and 150 < found["examples"] < 250
    assert found["epsilon_low"] == pytest.approx(exact["epsilon_low"] - 0.5)


def test_memorization_on_published_confidences(tmp_path: Path) -> None:
    folder = shared_path("oracle", "antipodes")
    case = json.loads((folder / "eps_m.json").read_text())["cases"][0]
    with np.load(folder / "canaries.npz") as arrays:
        planted, true = (
            arrays[f"{case['set']}__{case['dataset']}__{n}"] for n in ("label", "true")
        )
    np.savez(tmp_path / "c.npz", label=planted, true=true)
    arguments = ["memorization", "--true-labels", "c.npz:true", "--confidences"]
    labels = ["--canary-labels", "c.npz:label"]
    found = audit(*arguments, str(folder / case["file"]), *labels)
    assert set(found) == {"paper", "corrected", "ceiling", "canaries"}
    assert set(found["paper"]) == {"epsilon_low", "epsilon_high", "threshold", "guesses"}
    paper, corrected = found["paper"], found["corrected"]
    assert paper["epsilon_low"] == pytest.approx(case["eps_m_low"], abs=5e-5)
    assert paper["epsilon_high"] == pytest.approx(case["eps_m_high"], abs=5e-5)
    assert paper["threshold"] == case["best_threshold"]
    assert corrected["epsilon_low"] < found["ceiling"] and found["canaries"] == len(planted)
    twice = saved(tmp_path, "bad", np.load(folder / case["file"]) * 2)
    assert "row 0" in refused(*arguments, twice, *labels)
    same = ["--canary-labels", "c.npz:true"]
    assert "the true label" in refused(*arguments, str(folder / case["file"]), *same)


def test_vote_leakage(tmp_path: Path) -> None:
    votes = np.array([[120.0, 80, 50], [200, 30, 20]])
    chances = np.exp([answer_log_probabilities(row, 60.0) for row in votes])
    settings = ["--noise-std", "60", "--teachers", "250"]
    counts = saved(tmp_path, "n", np.round(1e5 * chances).astype(int))
    found = audit("vote-leakage", "--counts", counts, *settings)
    assert error_rate(found["histograms"], votes).max() < 0.005
    assert found["seconds"] > 0 and found["notes"] == []
    one = audit("vote-leakage", "--counts", saved(tmp_path, "one", [0, 50, 0]), *settings)
    assert np.argmax(one["histograms"][0]) == 1 and "row 0" in one["notes"][0]
    bad = ["vote-leakage", "--counts", saved(tmp_path, "bad", [[60, 40, 20], [5, -1, 0]])]
    assert "counts row 1 is" in refused(*bad, *settings)

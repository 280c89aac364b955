"""`--accounting` of `labeldp epsilon pate` and `calibrate pate`: both prices, side by side."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.command_line import main

PATE = ["--sigma1", "100", "--sigma2", "40", "--threshold", "150", "--delta", "1e-5", "--seed", "1"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def votes(tmp_path: Path) -> str:
    np.save(tmp_path / "votes.npy", [[240, 6, 4]] * 40 + [[90, 85, 75]] * 10)
    return str(tmp_path / "votes.npy")


def test_both_prices_of_the_same_answers(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ["epsilon", "pate", "--votes", votes, "--aggregator", "confident", *PATE]
    found = answer(capsys, *arguments)
    assert answer(capsys, *arguments, "--accounting", "decision") == found
    counts = answer(capsys, *arguments, "--accounting", "counts")
    assert (found["accounting"], counts["accounting"]) == ("decision", "counts")
    for name in ("expected", "realised", "data_independent"):
        assert found[name] == counts["by_decision"][name]
        assert counts[name] == found["by_counts"][name]
        assert found[name]["epsilon"] < 0.95 * counts[name]["epsilon"]
    assert counts["sanitized"] == found["sanitized"]
    assert "accounting_note" not in found and "accounting_note" not in counts


@pytest.mark.parametrize(("aggregator", "sigma2"), [("gnmax", "0.1"), ("lnmax", "40")])
def test_a_word_where_decisions_are_priced_as_their_counts(
    capsys: pytest.CaptureFixture[str], votes: str, aggregator: str, sigma2: str
) -> None:
    arguments = ["--votes", votes, "--aggregator", aggregator, "--sigma2", sigma2]
    found = answer(capsys, "epsilon", "pate", *arguments, "--delta", "1e-5")
    assert "priced as their counts" in found["accounting_note"]
    both = found["data_independent"]["epsilon"], found["by_counts"]["data_independent"]["epsilon"]
    assert both[0] == pytest.approx(both[1])


def test_decisions_are_calibrated_to_less_noise(
    capsys: pytest.CaptureFixture[str], votes: str
) -> None:
    arguments = ("--votes", votes, "--epsilon", "1", "--delta", "1e-5", "--answer", "20")
    found = answer(capsys, "calibrate", "pate", *arguments)
    counts = answer(capsys, "calibrate", "pate", *arguments, "--accounting", "counts")
    assert (found["accounting"], counts["accounting"]) == ("decision", "counts")
    assert 0.999 < found["epsilon"] <= 1 and 0.999 < counts["epsilon"] <= 1
    assert found["sigma1"] * found["sigma2"] < 0.8 * counts["sigma1"] * counts["sigma2"]


def test_another_accounting_is_refused(capsys: pytest.CaptureFixture[str], votes: str) -> None:
    arguments = ["epsilon", "pate", "--votes", votes, "--aggregator", "confident", *PATE]
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--accounting", "votes"])
    assert stopped.value.code == 2 and "accounting" in capsys.readouterr().err

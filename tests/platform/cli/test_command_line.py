"""command_line: all verbs are found, and refuse in one line."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.platform.cli.command_line import all_verbs, main, parser
from labeldp.platform.cli.verb import Verb
from tests.platform.cli.asked import answer, refusal

QUICKSTART = str(Path(__file__).resolve().parents[3] / "sweeps" / "quickstart.py")


def test_verbs_of_all_files_are_found() -> None:
    words = [" ".join(verb.words) for verb in all_verbs()]
    assert words == sorted(set(words))
    promised = ["doctor", "plan", "report", "epsilon pate", "calibrate rr", "audit one-run"]
    assert set(words) >= {*promised, "data list", "data fetch", "data check"}


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: " ".join(verb.words))
def test_every_verb_says_what_it_is_for(verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([*verb.words, "--help"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    assert verb.summary in " ".join(said.split()) and "--json" in said


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


def test_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["epsilon", "laplace", "--scale", "1"]) == 0
    assert "epsilon: 2\n" in capsys.readouterr().out
    assert main([]) == 2
    assert main(["epsilon"]) == 2
    assert "usage: labeldp" in capsys.readouterr().out


def test_a_reader_who_has_seen_enough_is_no_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "labeldp.platform.cli.command_line", "data", "list"]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("verb", all_verbs(), ids=lambda verb: " ".join(verb.words))
def test_every_verb_has_an_example_that_it_takes(verb: Verb) -> None:
    """The reference of the site shows it."""
    program, *arguments = shlex.split(verb.example)
    assert program == "labeldp"
    options = parser().parse_known_args(arguments)[0]
    assert options.verb.words == verb.words

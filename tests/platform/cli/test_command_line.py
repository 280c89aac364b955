"""command_line: the contract of all commands, and their refusals in one line."""

import inspect
import os
import shlex
import subprocess
import sys
from typing import Any

import click
import pytest

from labeldp.platform.cli.command_line import VERBS, Verb, main
from tests.platform.cli.asked import refusal, words

PROMISED = (
    "audit memorization, audit moments, audit observational, audit one-run, audit vote-leakage, "
    "calibrate gaussian, calibrate laplace, calibrate pate, calibrate rr, calibrate subset, "
    "config, data check, data fetch, data list, data make, doctor, embed, epsilon gaussian, "
    "epsilon laplace, epsilon pate, epsilon rr, epsilon select, fit, ledger, plan, predict, "
    "publish, release, report, request, self-supervise, sweep, ui, verify"
)


def test_all_promised_commands_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(verb.words for verb in VERBS) == PROMISED.split(", ")
    listed = words(capsys, "--help")
    assert all(f"\n  {verb.words.split()[0]}  " in listed for verb in VERBS)
    assert words(capsys, code=2) == listed
    assert "one-run" in words(capsys, "audit", code=2)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_contract_of_every_command(
    verb: Verb, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Help, function, example; the ends of missing files, wrong options and values, and Ctrl-C."""
    text = " ".join(words(capsys, *verb.words.split(), "--help").split())
    assert verb.summary in text and "--json" in text and verb.example in text

    program, *arguments = shlex.split(verb.example)
    assert program == "labeldp" and verb.example.startswith(f"labeldp {verb.words}")
    if any(isinstance(each.type, click.Path) and each.type.exists for each in verb.params):
        assert "does not exist" in refusal(capsys, *arguments)
    given: dict[str, Any] = {}

    def run(**values: Any) -> None:
        given.update(values)
        raise KeyboardInterrupt

    function = verb.function
    monkeypatch.setattr(Verb, "function", property(lambda self: run))
    # Files that the example names are another test's; here only their names count.
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    assert main(arguments) == 130
    assert capsys.readouterr().err == "interrupted\n"
    inspect.signature(function).bind(**given)

    assert "--sidewais" in refusal(capsys, *arguments, "--sidewais")
    typed = [each for each in verb.params if isinstance(each, click.Option)]
    for option in typed:
        if option.type in (click.INT, click.FLOAT) or isinstance(option.type, click.Choice):
            line = refusal(capsys, *arguments, f"{option.opts[-1]}", "none-such")
            assert option.opts[-1] in line and "none-such" in line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("epsilon laplace --scale 0", ["scale is 0.0", "above 0"]),
        ("epsilon laplace", ["scale", "noise_std"]),
        ("epsilon gaussian --noise-std 1 --delta 0", ["delta is 0.0", "between"]),
        (
            "epsilon pate --votes none.npy --aggregator gnmax --sigma2 1 --delta 1e-5",
            ["--votes", "none.npy", "No such file"],
        ),
        ("report quickstart", ["mlflow.db does not exist here", "--tracking-uri"]),
        ("data check mnits", ["'mnits'", "did you mean mnist"]),
        ("epsilom", ["epsilom", "epsilon"]),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], line: str, expected: list[str]) -> None:
    refused = refusal(capsys, *shlex.split(line))
    for word in expected:
        assert word in refused


def test_a_reader_that_stops_early_is_not_an_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    listing = [sys.executable, "-m", "labeldp.platform.cli.command_line", "data", "list"]
    done = subprocess.run(listing, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")

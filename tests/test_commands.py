"""Commands that README and docs show: run where that takes seconds, planned or parsed where not.

Commands that are not run have a reason here; a reason without a command fails.
"""

import importlib.util
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import click
import pytest

from labeldp.platform.cli.command import ExitCode
from labeldp.platform.cli.command_line import VERBS, main
from labeldp.platform.cli.sweep_command import command_of, plan_options
from labeldp.platform.studies import leakage_study
from labeldp.platform.sweep.overrides import load_sweep
from labeldp.platform.sweep.plan import prepare
from tests.document_commands import Command, commands, examples, inline_commands, workshop
from tests.source_tree import ROOT, run

COMMANDS = [*commands(), *examples()]
OURS = [each for each in COMMANDS if each.line.startswith("labeldp ")]
SWEEPS = [each for each in COMMANDS if re.search(r"\bpython sweeps/", each.line)]
MODULES = [each for each in COMMANDS if each.line.startswith("python -m ")]
MAKE = [each for each in COMMANDS if each.line.startswith("make ")]
#: Of `labeldp`: only parsed, by how the line begins, and why.
PARSED_ONLY = {
    "labeldp ui": "serves pages until it is stopped; tests/platform/cli/test_tracking_server.py",
    "labeldp data fetch": "loads a data set from the network",
    **dict.fromkeys(
        (
            "labeldp embed",
            "labeldp report results/moments_on_embeddings",
            "labeldp predict results/moments_on_embeddings",
            "labeldp publish results/moments_on_embeddings",
        ),
        "is of an encoder and a sweep on it; tests/test_encoders_page.py runs them together",
    ),
    **dict.fromkeys(
        ("labeldp request features.", "labeldp release labels.", "labeldp fit features."),
        "is run by the page on two parties, with files that it makes",
    ),
    "labeldp verify": "needs a signature; tests/platform/vault/test_signing.py signs and verifies",
    "labeldp self-supervise": "trains; tests/platform/cli/test_encoders.py has it",
    "labeldp sweep": "starts Ray; tests/sweeps runs sweeps",
    "labeldp doctor": "starts Ray; tests/platform/cli/test_command_line.py has it",
}
#: Other commands that are not run, by how the line begins, and why.
NOT_RUN = {
    ". .venv/bin/activate": "changes the shell",
    "export ": "changes the shell",
    "pip install ": "installs a wheel; tests/test_slim.py does",
    "cd infra/mlflow ": "makes a server's secrets; tests/infra/test_kubernetes.py starts one",
    "python docs/": "draws a figure of a page; tests/mechanisms has its numbers",
    "docker ": "needs Docker; tests/infra/test_images.py reads what it builds",
    "kubectl ": "needs a cluster; tests/infra/test_kubernetes.py reads the manifests",
    "ray ": "needs a cluster; tests/infra/test_kubernetes.py reads the launcher's files",
    "MLFLOW_TRACKING_": "is of a tracking server; tests/infra/test_kubernetes.py uses it",
}
#: Exit codes other than 0, and text of the output.
OTHER_ENDS = {
    "labeldp plan sweeps/alibi_cifar100.py": (ExitCode.CANNOT_FIT, "labeldp data fetch cifar100"),
    "labeldp plan sweeps/alibi_fashion_mnist.py": (
        ExitCode.CANNOT_FIT,
        "labeldp data fetch fashion_mnist",
    ),
    "labeldp data check mine.csv": (ExitCode.NOT_OK, "data.classes"),
    "labeldp data check patients.csv --label-column outcome": (
        ExitCode.NOT_OK,
        "data.classes=NAME,NAME",
    ),
}


def begins(line: str, beginnings: dict[str, str]) -> bool:
    return any(line.startswith(each) for each in beginnings)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workshop")
    workshop(folder)
    return folder


@pytest.mark.parametrize("command", OURS, ids=lambda each: each.id)
def test_commands_of_the_pages_do_what_they_are_shown_for(
    command: Command,
    bench: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = command.words[1:]
    if begins(command.line, PARSED_ONLY):
        # Files that a page makes step by step are not there.
        monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
        (verb,) = (
            each for each in VERBS if f"{command.line} ".startswith(f"labeldp {each.words} ")
        )
        assert verb.make_context("labeldp", words[len(verb.words.split()) :])
        return
    monkeypatch.chdir(bench)
    monkeypatch.setenv("LABELDP_DATA", str(bench / "empty"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for option in ("--to", "--out"):  # a folder that is made anew; others' models stay
        if option in words and words[words.index(option) + 1] in ("outbox", "public"):
            shutil.rmtree(bench / words[words.index(option) + 1], ignore_errors=True)
    if "mine-public" in words:
        words[words.index("mine-public")] = "mine-public-again"
    code, said = OTHER_ENDS.get(shlex.join(command.words), (ExitCode.DONE, ""))
    assert main(words) == code
    printed = capsys.readouterr().out
    assert said in printed
    for line in command.shown:
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert any(re.fullmatch(pattern, each.strip()) for each in printed.splitlines()), line


@pytest.mark.parametrize("command", SWEEPS, ids=lambda each: each.id)
def test_sweeps_of_the_pages_can_be_planned(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command.words
    words = words[words.index("python") + 1 :]
    path = ROOT / words[0]
    if path.name == "vote_leakage.py":  # a study, with a command line of its own

        def parsed(*anything: object, **named: object) -> None:
            raise ValueError("it was asked for")

        monkeypatch.setattr(leakage_study, "run_study", parsed)
        ended = leakage_study.main(None, None, name="s", arguments=words[1:])  # type: ignore[arg-type]
        assert ended == ExitCode.BAD_INPUT
        return
    sweep = load_sweep(str(path))
    given = command_of(sweep).make_context("sweep", words[1:]).params
    asked = plan_options(sweep, given)
    # Without a key that could be wrong the small size says as much, in a tenth of the time.
    assert prepare(sweep, replace(asked, smoke=asked.smoke or not asked.overrides))[1]


@pytest.mark.parametrize("command", MODULES, ids=lambda each: each.id)
def test_modules_that_pages_run_are_there_with_their_options(command: Command) -> None:
    module, *words = command.words[2:]
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    if module == "pytest":
        assert all((ROOT / word).exists() for word in words if word.startswith("tests/"))
        return
    file = Path(spec.origin)
    text = (file.with_name("__main__.py") if file.name == "__init__.py" else file).read_text()
    assert '__name__ == "__main__"' in text
    assert all(f'"{word}"' in text for word in words if word.startswith("--"))


@pytest.mark.parametrize("line", sorted({*inline_commands(), *(each.line for each in MAKE)}))
def test_commands_within_sentences_and_targets_are_there(line: str) -> None:
    """`labeldp epsilon pate|rr` names two verbs; options that are named are those verbs'."""
    tool, *words = line.split()
    if tool == "make":
        run("make", "-n", words[0])
        return
    if tool == "python":
        there = ROOT / words[0] if words[0] != "-m" else importlib.util.find_spec(words[1])
        assert there is not None and (not isinstance(there, Path) or there.exists())
        return
    if words[0] in ("VERB", "--help"):
        return
    verbs = {verb.words: verb for verb in VERBS}
    group = any(verb.startswith(f"{words[0]} ") for verb in verbs)
    if group and not words[1:]:
        return
    for each in words[1].split("|") if group else [""]:
        verb = verbs[f"{words[0]} {each}".strip()]
        help_text = verb.get_help(click.Context(verb))
        assert all(word in help_text for word in words if word.startswith("--"))


def test_each_missing_row_has_a_reason_and_a_command() -> None:
    checked = {each.line for each in [*OURS, *SWEEPS, *MODULES, *MAKE]}
    rest = [each.line for each in COMMANDS if each.line not in checked]
    assert [line for line in rest if not begins(line, NOT_RUN)] == []
    lines = [each.line for each in COMMANDS]
    for beginning in [*NOT_RUN, *PARSED_ONLY]:
        assert any(line.startswith(beginning) for line in lines), f"no page has {beginning!r}"
    filled = {shlex.join(each.words) for each in OURS}
    assert set(OTHER_ENDS) <= filled


def test_files_that_commands_name_are_there() -> None:
    named = {
        word
        for each in COMMANDS
        for word in re.findall(r"\b(?:infra|tests|sweeps)/[\w./-]+\w", each.line)
    }
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []

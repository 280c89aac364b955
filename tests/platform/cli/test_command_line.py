"""command_line: the contract of all commands, and their refusals in one line."""

import inspect
import io
import json
import os
import pickle
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.platform.cli import command, doctor
from labeldp.platform.cli.bounds import read_array
from labeldp.platform.cli.command import Answer, ExitCode, perform, shown, table
from labeldp.platform.cli.command_line import VERBS, Verb
from labeldp.platform.cli.doctor import Check
from labeldp.platform.cluster import ClusterUnusable
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.records.tracking_address import default_uri
from labeldp.platform.settings.sweep import CannotFit, Unfinished
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.settings.training import TrainingDiverged
from tests.platform.cli.asked import OVER_BUDGET, answer, printed, refusal, run, words
from tests.platform.sweep.stores import new_store, of_newer_schema

PROMISED = (
    "advise, audit memorization, audit moments, audit observational, audit one-run, "
    "audit vote-leakage, buckets, calibrate gaussian, calibrate laplace, calibrate pate, "
    "calibrate rr, calibrate subset, compare, config, data check, data fetch, data list, "
    "data make, doctor, embed, epsilon gaussian, epsilon laplace, epsilon pate, epsilon rr, "
    "epsilon select, fit, ledger, plan, predict, publish, release, report, request, "
    "self-supervise, sweep, ui, verify, watch"
)


def test_all_promised_commands_are_there() -> None:
    assert sorted(verb.words for verb in VERBS) == PROMISED.split(", ")
    listed = words("--help")
    assert all(f"\n  {verb.words.split()[0]}  " in listed for verb in VERBS)
    assert words(code=2) == listed
    assert "one-run" in words("audit", code=2)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.words)
def test_contract_of_every_command(verb: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Help, function, example; the ends of missing files, wrong options and values, and SIGTERM."""
    text = " ".join(words(*verb.words.split(), "--help").split())
    assert verb.summary in text and "--json" in text and verb.example in text

    program, *arguments = shlex.split(verb.example)
    assert program == "labeldp" and verb.example.startswith(f"labeldp {verb.words}")
    if any(isinstance(each.type, click.Path) and each.type.exists for each in verb.params):
        assert "does not exist" in refusal(*arguments)
    given: dict[str, Any] = {}

    def interrupted(**values: Any) -> None:
        given.update(values)
        signal.raise_signal(signal.SIGTERM)

    function = verb.function
    monkeypatch.setattr(Verb, "function", property(lambda self: interrupted))
    # Files that the example names are another test's; here only their names count.
    monkeypatch.setattr(click.Path, "convert", lambda self, value, param, ctx: value)
    assert run(*arguments) == (130, "", "interrupted\n")
    inspect.signature(function).bind(**given)

    assert "--sidewais" in refusal(*arguments, "--sidewais")
    ranges = (click.Choice, click.IntRange, click.FloatRange)
    typed = [each for each in verb.params if isinstance(each, click.Option)]
    for option in typed:
        if option.type in (click.INT, click.FLOAT) or isinstance(option.type, ranges):
            line = refusal(*arguments, f"{option.opts[-1]}", "none-such")
            assert option.opts[-1] in line and "none-such" in line


def test_a_reader_that_stops_early_is_not_an_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    listing = [sys.executable, "-m", "labeldp.platform.cli.command_line", "data", "list"]
    done = subprocess.run(listing, stdout=writes, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


# command: a result is printed as text, tables or JSON; an error in words; each has its code.


@dataclass(frozen=True)
class Found:
    ok: bool
    epsilon: float


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("kind", [Found, dict])
def test_results(ok: bool, code: int, kind: type) -> None:
    result = kind(ok=ok, epsilon=0.1234567891)
    text = f"ok: {ok}\nepsilon: 0.123457\n"
    assert printed(lambda: perform(lambda: result, json=False)) == (code, text, "")
    found, text, _ = printed(lambda: perform(lambda: result, json=True))
    assert (found, json.loads(text)) == (code, {"ok": ok, "epsilon": 0.1234567891})
    own = Answer(
        facts=result, words=["it is", *table(("n",), (("2",),))], code=ExitCode.OVER_BUDGET
    )
    assert printed(lambda: perform(lambda: own, json=False)) == (4, "it is\nn\n2\n", "")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ValueError("scale is 0"), 2, "error: scale is 0"),
        (FileNotFoundError("none.npz"), 2, "error: none.npz"),
        (MemoryError(), 2, "error: this machine has too little memory for that"),
        (ClusterUnusable("does not answer"), 2, "error: does not answer"),
        (DatasetMissing("mnist"), 2, "error: mnist"),
        (CannotFit("a trial needs 64 CPU"), 3, "error: a trial needs 64 CPU"),
        (OVER_BUDGET, 4, f"error: {OVER_BUDGET}"),
        (Unfinished("its node died"), 1, "error: its node died"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("a defect"), None, ""),
        (TrainingDiverged("of a trial"), None, ""),
    ],
)
def test_errors(error: BaseException, code: int | None, message: str) -> None:
    def fail() -> Any:
        raise error

    if code is None:  # a defect of ours is not reported as bad input
        with pytest.raises(type(error)):
            perform(fail, json=False)
        return
    found, out, err = printed(lambda: perform(fail, json=True))
    assert (found, out) == (code, "") and err.startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("report nope", "the folder nope does not exist, and results/nope/mlflow.db does not"),
        ("report pub", "the folder pub contains no results, and results/pub/mlflow.db"),
        ("predict model x.csv -o no/x.csv", "--out is no/x.csv, but the folder no does not exist"),
        ("release no.parquet --id-column id --label-column b --request r --epsilon 1 -o x",
         "no.parquet does not exist; check the path"),
        ("publish pub --trial '' --to x", "--trial is empty; name best, or the beginning"),
        ("data make conversions --rows 0 -o x", "'--rows': 0 is not in the range x>=1"),
        ("data make conversions --weeks 0 -o x", "'--weeks': 0 is not in the range x>=1"),
        ("data make conversions --window -1 -o x", "'--window': -1.0 is not in the range x>0"),
        ("data make conversions --seed -1 -o x", "'--seed': -1 is not in the range x>=0"),
        ("audit moments --seed -1", "'--seed': -1 is not in the range x>=0"),
        ("publish pub --trial best --to x --at-epsilon 0", "epsilon': 0.0 is not in the range x>0"),
        ("advise --classes 2 --persons 0", "'--persons': 0 is not in the range x>=1"),
        ("fit f.csv --release pub -o pub", "pub exists already; name a new folder"),
        ("fit f.csv --release pub --delta .1 -o x", "--delta is 0.1, but a release states its own"),
        ("fit f.csv g.csv --histograms c.csv -o x", "--histograms are of one table of features"),
        ("fit f.csv --histograms c.csv --request pub -o x", "and answer no --request"),
        ("data check digits --label-column y", "digits is a data set, which has no other columns"),
        ("report pub --table csv --to no/t.csv", "--to is no/t.csv, but the folder no does not"),
        ("report pub --study no/s.db", "--study is no/s.db, but the folder no does not exist"),
        ("report pub --study s.db --to x.db", "--study names its own file; leave out --to x.db"),
        ("sweep mine.csv", "mine.csv is not a sweep file (its name does not end in .py or .yaml)"),
        ("sweep no.py", "no.py is not a sweep file (No such file or directory)"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(arguments: str, message: str, tmp_path: Path) -> None:
    Path("pub").mkdir()
    assert message in refusal(*shlex.split(arguments))
    assert [path.name for path in tmp_path.iterdir()] == ["pub"]


def test_an_interrupt_that_python_ignores_ends_the_command() -> None:
    class Resource:
        def __del__(self) -> None:
            raise KeyboardInterrupt

    def run() -> Any:
        Resource()
        time.sleep(10)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert perform(run, json=False) == ExitCode.INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_while_modules_are_loaded_ends_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("labeldp.platform.cli.command_line.resolve_name", interrupted)
    code, out, err = run("doctor")
    assert (code, out, err.strip()) == (ExitCode.INTERRUPTED, "", "interrupted")


def sets() -> list[Any]:
    rows = (("digits", "yes", "[red]not markup[/]"), ("mnist", "no", "images " * 30))
    return table(("name", "there", "what"), rows, title="sets", styles={1: "bold red"})


def test_plain_columns_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(["above", *sets(), "below"]).splitlines()
    assert lines[:4] == [
        *("above", "sets", "name    there  what", "digits  yes    [red]not markup[/]")
    ]
    # One line per row, however long: other programs read it.
    assert lines[4].startswith("mnist   no     images images") and lines[4].endswith("images")
    assert lines[5:] == ["below"]
    monkeypatch.setattr(command, "MOST_ROWS", 1)
    assert "... and 1 more; --json has them all" in shown(sets())


def test_keys_of_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {each["key"]: each for each in answer("config", "alibi")["keys"]}
    assert keys["trainer.epsilon"] == {
        "key": "trainer.epsilon",
        "type": "number",
        "default": "1.0",
        "bounds": "above 0",
        "meaning": "Privacy loss per label; noise `none` ignores it. With `laplace` it is 2 / "
        "lambda, where lambda is the paper's noise scale; `trainer.lambda=X` sets lambda.",
        "methods": ["alibi"],
    }
    assert "data.limit" in keys and "trainer.sigma1" not in keys
    monkeypatch.setenv("COLUMNS", "60")
    text = words("config", "alibi")
    assert "trainer.momentum" in text and "number, at least 0 and below 1." in text
    text = words("config", "--match", "sigma1")
    assert max(map(len, text.splitlines())) <= 60 and "[pate]" in text
    assert "did you mean alibi" in refusal("config", "aliby")
    assert "no key and no meaning" in refusal("config", "--match", "zzzz")
    assert "a method takes no settings here" in refusal("config", "alibi", "--smoke")
    assert "# amounts, line" in words("config", "amounts", "--smoke")  # a sweep's name, too


# array_files: refusals of files that can't be read by name.


def saved(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", None, "a.npy can't be read: No such file"),
        ("a.npy", b"", "a.npy (0 bytes) can't be read"),
        ("a.npy", pickle.dumps([1, 2]), "no Python objects"),
        ("a.npy", saved(np.array([{}, None], dtype=object)), "no Python objects"),
        ("a.npy", saved(np.array(["a", "b"])), "numbers are needed"),
        ("a.npy", saved(np.zeros((0, 3))), "is empty; it must hold at least one number"),
    ],
)
def test_unreadable_files(name: str, content: bytes | None, words: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_array(str(tmp_path / name), what="--votes")
    message = str(caught.value)
    assert message.startswith("--votes") and words in message and "\n" not in message


# doctor: what it looks at, and that what is missing comes with the command that fixes it.


@pytest.mark.parametrize("fix", ["", "check RAY_ADDRESS"])
def test_doctor_names_each_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fix: str) -> None:
    monkeypatch.setattr(doctor, "_ray", lambda: Check("ray", "not started in this test", fix))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    found = answer("doctor", code=1 if fix else 0)
    checks = {check["name"]: check for check in found["checks"]}
    names = {"python", "torch", "mlflow", "devices", "disk", "ray", "tracking", "data digits"}
    assert set(checks) >= names
    assert found["ok"] != bool(fix)
    assert [name for name, check in checks.items() if not check["ok"]] == ["ray"] * bool(fix)
    assert checks["ray"]["fix"] == fix
    assert "labeldp data fetch mnist" in checks["data mnist"]["detail"]
    said = words("doctor", code=1 if fix else 0)
    assert f"ray   {fix}" in said if fix else "all is well" in said


def test_doctor_names_a_broken_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_newer_schema(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(tmp_path))
    check = doctor._tracking()
    assert "another version" in check.detail and "MLFLOW" in check.fix


def test_doctor_shows_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://ada:planted@db/mlflow")
    monkeypatch.setattr(Tracker, "probe", lambda uri: None)
    assert doctor._tracking().detail == "postgresql://ada:***@db/mlflow"

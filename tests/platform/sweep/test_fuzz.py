"""Malformed inputs: exit code 2 and a message, no traceback, no file out of place.

Hypothesis makes the same ones every time. Sweeps are stopped where Ray would start: all that
reads a user's input comes before.
"""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labeldp.platform.cli import command_line, sweep_command
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.settings.configuration import TrialConfig, flatten
from labeldp.platform.settings.sweep import Preset, Sweep
from labeldp.platform.sweep import driver, open_sweep
from tests.platform.sweep.examples import a_record

SWEEP = Sweep(name="fuzz", base=TrialConfig(), smoke=Preset())
KEYS = sorted(flatten(TrialConfig()))


settings.register_profile(
    "fuzz", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
FUZZ = settings.get_profile("fuzz")
VERBS = {
    "votes": "epsilon pate --votes {} --aggregator gnmax --sigma2 4 --delta 1e-5 --answer -1",
    "memorization": "audit memorization --confidences {} --canary-labels {} --true-labels {}",
    "one-run": "audit one-run --scores {} --truth {}",
    "leakage": "audit vote-leakage --counts {} --noise-std 2 --teachers -1",
}


class Sandbox:
    """A folder for inputs and one for results; whatever is written elsewhere is noticed."""

    def __init__(self, folder: Path) -> None:
        self.inputs, self.results = folder / "inputs", folder / "results"
        self.inputs.mkdir()
        self.results.mkdir()
        self.watching, self.strays = False, list[str]()

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note files that are opened to be written: audit hooks see every one."""
        if not self.watching or event not in ("open", "os.mkdir", "os.rename", "sqlite3.connect"):
            return
        path = str(arguments[0])
        if event == "open" and not _writes(*arguments[1:3]):
            return
        harmless = path.startswith(("/dev/", str(self.results))) or path.isdigit()
        if not harmless and "__pycache__" not in path:
            self.strays.append(f"{event} {path}")

    def command(self, *arguments: str) -> tuple[int, str]:
        return self._run(lambda: command_line.main(list(arguments)))

    def sweep(self, *arguments: str) -> tuple[int, str]:
        """Run a sweep up to where Ray starts."""
        command = ["--results", str(self.results / "sweep"), *arguments]
        return self._run(lambda: sweep_command.run(SWEEP, command))

    def _run(self, call: Callable[[], int]) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            self.watching = True
            try:
                code = call()
            finally:
                self.watching = False
        return code, said.getvalue()


def _writes(mode: str | None, flags: int) -> bool:
    return any(letter in mode for letter in "wax+") if mode else bool(flags & 3)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    box = Sandbox(tmp_path_factory.mktemp("sandbox"))
    sys.addaudithook(box.hook)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(box.inputs)
        patch.setattr(open_sweep, "_tracking", _stop)
        load = driver.load_data
        digits = load(SWEEP.base)
        patch.setattr(
            driver,
            "load_data",
            lambda config, **how: digits if config.data == SWEEP.base.data else load(config, **how),
        )
        yield box
    assert box.strays == []


def _stop(*given: Any, **settings: Any) -> None:
    raise ValueError("as far as this test goes")


def check_ended(code: int, said: str, *, bad: bool = False) -> None:
    """Without a traceback, and of surely bad content before the place where Ray would start."""
    assert code == 2, said
    assert "error: " in said and "Traceback" not in said
    assert not (bad and "as far as this test goes" in said), said


text = st.text(max_size=30)
WILD = """
null|nan|inf|-inf|1e999|-1|0|1.5|true|[]|{}|[[1],[2]]|{a: 1}|${oc.env:HOME}|${data.name}|a: b|[1,|"
!!python/object:os.system {}|../../x|/etc/passwd|\0|0x10|1_000|2020-01-01|💥|*a|&a
"""
wild = st.sampled_from(["", "9" * 400, *WILD.strip().replace("\n", "|").split("|")])
OPTIONS = ["--max-epsilon-total=", "--max-minutes=", "--resume="]


@settings(FUZZ, max_examples=900)
@given(
    argument=text
    | st.builds("{}={}".format, st.sampled_from(KEYS), wild | text)
    | st.builds(str.__add__, st.sampled_from([*KEYS, *OPTIONS]), wild | text)
)
def test_arguments(sandbox: Sandbox, argument: str) -> None:
    check_ended(*sandbox.sweep(argument))


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, len(content) - 1)
    return (
        st.builds(lambda end: content[:end], places)
        | st.builds(
            lambda at, byte: content[:at] + bytes([byte]) + content[at + 1 :],
            places,
            st.integers(0, 255),
        )
        | st.binary(max_size=200)
        | st.builds(lambda at, more: content[:at] + more + content[at:], places, st.binary())
    )


def _saved(save: Callable[[Any], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


VOTES = np.random.default_rng(0).multinomial(50, np.full(4, 0.25), size=6)
ARRAYS: dict[str, bytes] = {
    "npy": _saved(lambda file: np.save(file, VOTES)),
    "npz": _saved(lambda file: np.savez(file, votes=VOTES)),
    "csv": _saved(lambda file: np.savetxt(file, VOTES, delimiter=",", fmt="%d")),
}


@settings(FUZZ, max_examples=450)
@given(
    verb=st.sampled_from(sorted(VERBS)),
    file=st.one_of(*(st.tuples(st.just(k), damaged(content)) for k, content in ARRAYS.items())),
    key=st.sampled_from(["", ":votes", ":x"]),
)
def test_arrays(sandbox: Sandbox, verb: str, file: tuple[str, bytes], key: str) -> None:
    kind, content = file
    path = sandbox.inputs / f"array.{kind}"
    path.write_bytes(content)
    address = str(path) + (key if kind == "npz" else "")
    check_ended(*sandbox.command(*(word.format(address) for word in VERBS[verb].split())))


OWN_DATA = {
    "npz": _saved(
        lambda file: np.savez(
            file,
            train_features=np.eye(8, dtype=np.float32),
            train_labels=np.arange(8) % 2,
            test_features=np.eye(8, dtype=np.float32),
            test_labels=np.arange(8) % 2,
            num_classes=2,
        )
    ),
    "parquet": _saved(pd.DataFrame({"a": range(8), "label": [0, 1] * 4}).to_parquet),
    "csv": b"a,b,label\n" + b"".join(b"%d,x%d,%d\n" % (i, i % 3, i % 2) for i in range(8)),
}


@settings(FUZZ, max_examples=200)
@given(
    file=st.one_of(*(st.tuples(st.just(k), damaged(content)) for k, content in OWN_DATA.items())),
    column=st.sampled_from(["label", "nothing", "a"]),
)
def test_own_data(sandbox: Sandbox, file: tuple[str, bytes], column: str) -> None:
    kind, content = file
    path = sandbox.inputs / f"own.{kind}"
    path.write_bytes(content)
    arguments = ["data.name=own", f"data.path={path}", "audit.canaries=0"]
    if kind != "npz":
        named = f"data.label_column={column}"
        arguments += [named, "data.classes=2", "data.hold_out=public"]
    cut_off = content != (whole := OWN_DATA[kind]) and whole.startswith(content)
    check_ended(*sandbox.sweep(*arguments), bad=cut_off and kind != "csv")


@settings(FUZZ, max_examples=150)
@given(data=st.data(), name=st.sampled_from(["sweep.json", "trials/0123456789abcdef.json"]))
def test_results_folders(sandbox: Sandbox, data: st.DataObject, name: str) -> None:
    results = ResultsFolder(sandbox.results / "sweep", sweep=SWEEP.name)
    results.identify(fingerprint="f")
    results.keep(a_record())
    path = results.path / name
    good = path.read_bytes()
    path.write_bytes(content := data.draw(damaged(good)))
    try:
        json.loads(content)
        bad = False
    except ValueError:
        bad = True
    check_ended(*sandbox.sweep(), bad=bad)
    with contextlib.suppress(ValueError):
        results.records()
    path.write_bytes(good)

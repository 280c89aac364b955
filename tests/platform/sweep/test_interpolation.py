"""Secrets of the environment stay there: `${...}` is refused wherever a setting can come from."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from labeldp.platform.cli import command_line, sweep_command
from labeldp.platform.sweep.configuration import (
    ConfigurationError,
    DataSettings,
    TrialConfig,
    with_changes,
)
from labeldp.platform.sweep.overrides import parse_overrides, read_yaml
from labeldp.platform.sweep.space import Grid
from labeldp.platform.sweep.sweep import Sweep, Variant, plan_trials
from labeldp.trainers.settings.alibi import AlibiConfig

SECRET = "hunter2-planted"
QUICKSTART = str(Path(__file__).parents[3] / "sweeps" / "quickstart.py")
SWEEP = Sweep(
    name="planted",
    base=TrialConfig(data=DataSettings(limit=200), trainer=AlibiConfig(epochs=1)),
)
#: Ways to write it; the resolver, a relative key, an escaped one, one inside other text.
WAYS = [
    "${oc.env:PLANTED}",
    "${oc.env:PLANTED,none}",
    "${oc.decode:${oc.env:PLANTED}}",
    "${data.name}",
    "\\${oc.env:PLANTED}",
    "before ${oc.env:PLANTED} after",
    '"\\x24{oc.env:PLANTED}"',
]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", SECRET)


def _said(call: Any) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = call()
    return code, said.getvalue()


def _refused(call: Any, *, key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        call()
    message = str(caught.value)
    assert f"{key} holds ${{...}}" in message and "write the value itself" in message
    assert SECRET not in message


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_keeps_no_secret(way: str, tmp_path: Path) -> None:
    """`data.root` is free text and not needed here, so that nothing else would stop the sweep."""
    results = tmp_path / "results"
    command = ["--results", str(results), f"data.root={way}"]
    code, said = _said(lambda: sweep_command.run(SWEEP, command))
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert code == 2 and said.startswith("error: data.root holds ${...}"), said
    assert SECRET not in said and not results.exists()


@pytest.mark.parametrize("way", WAYS)
def test_plan_and_yaml(way: str, tmp_path: Path) -> None:
    code, said = _said(lambda: command_line.main(["plan", QUICKSTART, f"data.root={way}"]))
    assert code == 2 and "data.root holds ${...}" in said and SECRET not in said
    file = tmp_path / "settings.yaml"
    file.write_text(f"data:\n  root: {way}\n")
    code, said = _said(lambda: command_line.main(["plan", QUICKSTART, "--config", str(file)]))
    assert code == 2 and "data.root holds ${...}" in said and SECRET not in said


@pytest.mark.parametrize("value", ["[a, '${oc.env:PLANTED}']", "[[a, '${x}']]", "{a: '${x}'}"])
def test_inside_lists_and_sections(value: str, tmp_path: Path) -> None:
    _refused(lambda: parse_overrides([f"data.root={value}"]), key="data.root")
    (tmp_path / "settings.yaml").write_text(f"data: {{root: {value}}}\n")
    with pytest.raises(ConfigurationError, match=r"data\.root[.a]* holds \$\{\.\.\.\}"):
        read_yaml(tmp_path / "settings.yaml")


def test_in_keys(tmp_path: Path) -> None:
    _refused(lambda: parse_overrides(["${oc.env:PLANTED}=1"]), key="a key")
    (tmp_path / "settings.yaml").write_text("'${oc.env:PLANTED}': 1\n")
    _refused(lambda: read_yaml(tmp_path / "settings.yaml"), key="a key")


def test_in_what_a_sweep_file_holds() -> None:
    way = "${oc.env:PLANTED}"
    _refused(lambda: TrialConfig(data=DataSettings(root=way)), key="data.root")
    _refused(lambda: with_changes(TrialConfig(), {"data.root": way}), key="data.root")
    axis = Sweep(name="x", base=TrialConfig(), space={"trainer.noise": Grid("laplace", way)})
    _refused(lambda: plan_trials(axis), key="trainer.noise")
    variant = Variant(name="v", changes={"data.root": way})
    _refused(
        lambda: plan_trials(Sweep(name="x", base=TrialConfig(), variants=(variant,))),
        key="data.root",
    )
    _refused(lambda: plan_trials(SWEEP, {"trainer.noise": [way]}), key="trainer.noise")


def test_a_dollar_is_a_dollar() -> None:
    changes = parse_overrides(["data.root=/a/$b/{c}"])
    assert with_changes(TrialConfig(), changes).data.root == "/a/$b/{c}"

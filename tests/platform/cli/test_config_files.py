"""Commands with --config: plans, sweeps, a trial's own file, and the configuration of a sweep."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from labeldp.platform.records.results import records_in
from labeldp.platform.sweep.config_files import load_sweep
from tests.faults.without_cluster import without_cluster
from tests.platform.cli.asked import answer, refusal, run, swept, words
from tests.source_tree import ROOT

LAPTOP = str(ROOT / "examples" / "laptop.yaml")
SMALL = ("--smoke", "--only", "ALIBI", "trainer.epsilon=2", "trainer.epochs=1", "--json")


def test_a_plan_has_a_files_values_and_names_it() -> None:
    Path("x.yaml").write_text("trainer:\n  epochs: 7\n  epsilon: 3.0\n")
    Path("y.yaml").write_text("trainer: {epsilon: [3, 4]}\nseed: 0\n")
    plan = ("plan", "quickstart", "--only", "ALIBI", "--config", "x.yaml")
    found = answer(*plan)
    assert found["epsilons"] == [3.0]
    assert found["changed"] == [
        {"key": "trainer.epochs", "value": 7, "set_by": "x.yaml, line 2"},
        {"key": "trainer.epsilon", "value": 3.0, "set_by": "x.yaml, line 3"},
    ]
    assert answer(*plan, "--config", "y.yaml")["epsilons"] == [3.0, 4.0]
    assert answer(*plan, "--config", "y.yaml", "trainer.epsilon=5")["epsilons"] == [5.0]
    assert words(*plan).splitlines()[1].split() == ["trainer.epochs", "7", "x.yaml,", "line", "2"]
    # Without a sweep it is one of the settings alone.
    alone = answer("plan", "--config", "x.yaml", "seed=4")
    assert (alone["trials"], alone["epsilons"]) == (1, [3.0])
    assert answer("plan", "seed=4", "--config", "x.yaml") == alone


@pytest.mark.parametrize("command", [("plan", "quickstart"), ("config", "quickstart")])
def test_bad_files_are_refused_by_line(command: tuple[str, str]) -> None:
    cases = {
        "trainer:\n  epoch: 3": "x.yaml, line 2: line 'ALIBI': unknown key 'trainer.epoch'; did",
        "trainer:\n  epochs: -3": "x.yaml, line 2: line 'ALIBI': trainer.epochs is -3; it must be",
        "method: alibi\nseed: -1": "error: x.yaml, line 2: line 'ALIBI': seed is -1; it must be",
        "a: ${b}\nb: ${a}": "error: x.yaml, line 1: a: its references go in a circle",
        "a: {b: '${a.b}'}": "error: x.yaml, line 1: a.b: its references go in a circle",
        "[1]": "x.yaml holds no mapping",
    }
    for text, said in cases.items():
        Path("x.yaml").write_text(text)
        assert said in refusal(*command, "--config", "x.yaml")
    assert "no.yaml can't be read" in refusal(*command, "--config", "no.yaml")
    Path("x.yaml").write_text("seed: 1\ntrainer.epochs: 2\n")
    told = refusal(*command, "--config", "x.yaml", "trainer.epoch=3")  # not in the file
    assert told.startswith("error: line 'ALIBI': unknown key")


def test_a_file_runs_no_module_that_is_not_allowed_by_name() -> None:
    Path("evil_net.py").write_text("open('ran', 'w').close()\n")
    settings = {
        "x.yaml": "trainer:\n  model: evil_net:Net\n",
        "y.yaml": "trainer: {model: {choice: [mlp, 'evil_net:Net']}}\n",
        "z.yaml": "data: {label_column: 'evil_net:Net'}\ntrainer.model: ${data.label_column}\n",
    }
    for name, text in settings.items():
        Path(name).write_text(text)
        for command in (("plan",), ("plan", "quickstart"), ("config", "quickstart")):
            assert "--allow-code evil_net" in refusal(*command, "--config", name)
            assert "evil_net" in refusal(*command, "--config", name, "--allow-code", "evil")
    Path("sweep.yaml").write_text(
        "name: mine\npresets: {data: {changes: {'trainer.model': 'evil_net:Net'}}}\n"
    )
    Path("line.yaml").write_text(
        "name: mine\nlines: [{name: a, changes: {'trainer.model': 'evil_net:Net'}}]\n"
    )
    for name in ("sweep.yaml", "line.yaml"):
        assert "--allow-code evil_net" in refusal("plan", name)
        assert "--allow-code evil_net" in refusal("sweep", name)
    assert not Path("ran").exists()
    # Now it is imported, and found to have no network.
    Path("seed.yaml").write_text("seed: 1\n")
    for asked in (
        ("plan", "--config", "x.yaml", "--allow-code", "evil_net"),
        ("plan", "line.yaml", "--allow-code", "evil_net"),
        ("sweep", "line.yaml", "--allow-code=evil_net"),
        ("plan", "--config", "seed.yaml", "trainer.model=evil_net:Net"),
    ):
        assert "has no subclass" in "".join(run(*asked)[1:])
    assert Path("ran").exists()


def test_a_sweep_without_a_name_needs_settings() -> None:
    assert "no sweep is named" in refusal("plan")
    assert "no sweep is named" in refusal("plan", "trainer.epochs=3")
    assert "names no sweep" in refusal("plan", LAPTOP)


def run_sweep(*arguments: str) -> None:
    """Run `labeldp sweep` in this process."""
    with without_cluster():
        assert run("sweep", *arguments)[0] == 0


def accuracy(results: Path) -> float:
    (record,) = records_in(results).values()
    return float(record.metrics["accuracy"])


def test_a_trial_runs_again_from_its_own_file_to_the_last_digit(tmp_path: Path) -> None:
    quickstart, first, other = load_sweep("quickstart"), tmp_path / "first", tmp_path / "other"
    with without_cluster():
        code, _, err = swept(
            quickstart, *SMALL, "--config", LAPTOP, "noise.seed=7", "--results", str(first)
        )
        assert code == 0, err
    (own,) = first.rglob("config.yaml")
    assert answer("plan", "--config", str(own))["epsilons"] == [2.0]
    run_sweep("--config", str(own), "--results", str(other))
    assert accuracy(first) == accuracy(other)
    # Without a seed of the noise the release is in the folder: nothing is paid again.
    secret = tmp_path / "secret"
    with without_cluster():
        assert swept(quickstart, *SMALL, "--results", str(secret))[0] == 0
    (own,), before = secret.rglob("config.yaml"), accuracy(secret)
    (record,) = (secret / "trials").glob("*.json")
    record.unlink()
    run_sweep("--config", str(own))
    (read,) = records_in(secret).values()
    assert (read.metrics["accuracy"], read.hash) == (before, record.stem)
    assert len(set(read.release_keys)) == 1
    run_sweep("--config", str(own))  # it has finished: nothing is left to do
    assert records_in(secret) == {read.hash: read}


def test_a_sweep_in_yaml_is_planned_and_run() -> None:
    file = str(ROOT / "examples" / "quickstart.yaml")
    assert answer("plan", file) == answer("plan", "quickstart")
    run_sweep(file, *SMALL, "--config", LAPTOP, "data.limit=200", "audit.canaries=0")
    assert [record.variant for record in records_in(Path("results/quickstart-smoke")).values()] == [
        "ALIBI"
    ]


def test_a_secret_of_the_environment_is_in_no_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    folder = tmp_path / "hunter2"
    folder.mkdir()
    rows = "".join(
        f"{a:.3f},{b:.3f},{'no' if a < b else 'yes'}\n" for a, b in random.random((300, 2))
    )
    (folder / "mine.csv").write_text(f"a,b,secretcolumn\n{rows}")
    monkeypatch.setenv("FOLDER", str(folder))
    monkeypatch.setenv("COLUMN", "secretcolumn")
    Path("own.yaml").write_text(
        "data: {name: own, path: '${oc.env:FOLDER}/mine.csv', label_column: '${oc.env:COLUMN}',\n"
        "  root: '${oc.env:FOLDER}', classes: 'no,yes', hold_out: none}\n"
    )
    own, results = ("--config", "own.yaml", "trainer.width=8"), tmp_path / "results"
    with without_cluster():
        code, out, err = swept(load_sweep("quickstart"), *SMALL, *own, "--results", str(results))
    assert code == 0, err
    texts = [out.encode(), err.encode(), json.dumps(answer("plan", "quickstart", *own)).encode()]
    texts += [file.read_bytes() for file in results.rglob("*") if file.is_file()]
    assert any(b"${oc.env:COLUMN}" in text for text in texts)
    assert not [text for text in texts if b"hunter2" in text or b"secretcolumn" in text]
    # Its own file refers to the environment, and to the same trial.
    (file,) = results.rglob("config.yaml")
    shutil.copy(file, "again.yaml")
    assert "path: ${oc.env:FOLDER}/mine.csv" in Path("again.yaml").read_text()
    (record,) = records_in(results).values()
    run_sweep("--config", str(file))
    assert records_in(results) == {record.hash: record}


def test_the_configuration_of_a_sweep_is_yaml_with_meanings_and_an_input() -> None:
    text = words("config", "quickstart", "--line", "rand", "--smoke", "seed=3")
    assert text.startswith("# quickstart, line 'randomized response'\n")
    assert "  # Privacy loss per label; noise `none` ignores it." in text
    found = yaml.safe_load(text)
    assert found["trainer"]["noise"] == "randomized_response" and found["seed"] == 3
    assert found["trainer"]["epochs"] == 3 and found["trainer"]["epsilon"] == [1, 2, 8]
    assert answer("config", "quickstart", "--line", "rand", "--smoke", "seed=3") == found
    assert (
        "--line NAME shows 'PATE', 'LP-MST', 'default', 'randomized response', 'no privacy'"
        in words("config", "quickstart")
    )
    Path("again.yaml").write_text(text)
    plan = answer("plan", "quickstart", "--smoke", "--only", "rand", "seed=3")
    again = answer("plan", "quickstart", "--only", "rand", "--config", "again.yaml")
    assert again["configurations"] == plan["configurations"]
    drawn = yaml.safe_load(words("config", "search_quickstart"))["trainer"]
    assert drawn["width"] == {"choice": [32, 64, 128, 256]}
    assert drawn["learning_rate"] == {"loguniform": [0.0001, 1.0]}
    assert "did you mean quickstart" in refusal("config", "quikstart")
    assert "did you mean alibi" in refusal("config", "alibbi")
    assert answer("config", LAPTOP.replace("laptop", "quickstart")) == answer(
        "config", "quickstart"
    )

"""The recorder: each trial's record first, with what ran it, and then its run in tracking."""

import io
import json
import math
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from mlflow.tracking import MlflowClient

import labeldp
from labeldp.mechanisms.accounting import GaussianEvent, gaussian_epsilon
from labeldp.mechanisms.vault import Charge
from labeldp.platform.records import progress
from labeldp.platform.records.progress import SweepProgress
from labeldp.platform.records.results import (
    ARRAYS,
    DESCRIPTION,
    ResultsFolder,
    TrialRecord,
    kept_model,
    write_model,
)
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.settings.metrics import ChooseBy
from labeldp.platform.settings.sweep import plan_trials
from labeldp.platform.sweep import open_sweep
from labeldp.platform.sweep import recorder as recorder_module
from labeldp.platform.sweep import trial as trial_module
from labeldp.platform.sweep.recorder import Recorder
from labeldp.platform.sweep.trial import Checkpoints, Keeper
from tests.faults.without_cluster import Here
from tests.platform.sweep.examples import METRICS, a_charge, a_sweep
from tests.platform.sweep.stores import new_store
from tests.trainers.encoders.test_libraries import MADE


class Home:
    """A home that found one thing of every trial."""

    def begin(self, authority: bytes, trial: str) -> None:
        """Nothing was found of it before."""

    def figures(self, authority: bytes, trial: str, keys: Sequence[str]) -> dict[str, float]:
        return {"epsilon_one_run_ceiling": 3.5}

    def ledger(self) -> list[Charge]:
        return []

    def charges(self, keys: Sequence[str]) -> list[Charge]:
        return [a_charge(key) for key in keys]


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """A recorder of code `now` on machine `here`."""
    tracker = Tracker(uri=new_store(tmp_path), experiment="small")
    tracker.open_parent("small", tags={}, run_id=None)
    sweep: Any = SimpleNamespace(
        folder=ResultsFolder(tmp_path, sweep="small"),
        tracker=tracker,
        plans={trial.hash("f"): trial for trial in plan_trials(a_sweep())},
        made_by={"git_commit": "now", "environment": {"gpu": "here"}},
        progress=SweepProgress(total=5, skipped=0, stream=io.StringIO()),
        home=Home(),
        authority=b"",
        plan=SimpleNamespace(size=SimpleNamespace(num_labels=None)),
        data=SimpleNamespace(public=SimpleNamespace(provenance=MADE, fingerprint="f")),
    )
    made = Recorder(sweep)
    # What `labeldp watch` shows needs a plan with prices: tests/sweeps/test_quickstart.py has one.
    monkeypatch.setattr(made, "write_state", lambda **_: None)
    return made


def test_a_state_that_takes_long_is_written_rarely(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 0.0

    def slow(*_: Any, **__: Any) -> dict[str, float]:
        nonlocal clock
        clock += 5.0
        return {"epsilon_private": 1.0, "epsilon_total": 1.0, "delta": 0.0}

    plan = {"delta": 1e-5, "budget": None, "private": None, "choose_by": ChooseBy.TEST}
    sweep: Any = recorder.sweep
    sweep.plan = SimpleNamespace(**plan, cost=SimpleNamespace(trials=5))
    sweep.skipped = {"of an earlier start": None}
    fake = SimpleNamespace(monotonic=lambda: clock, time=lambda: clock)
    for name, value in (("time", fake), ("sweep_totals", slow), ("in_use", lambda: "")):
        monkeypatch.setattr(recorder_module, name, value)
    file = sweep.folder.path / "state.json"
    recorder._tell_again = 0.0
    for after, written in ((0.0, True), (30.0, False), (80.0, True)):
        file.unlink(missing_ok=True)
        clock += after
        Recorder.write_state(recorder)
        assert file.exists() == written
    assert json.loads(file.read_text())["trials_ended"] == 1


def told(recorder: Recorder, digest: str) -> tuple[str, str]:
    """Commit and environment that tracking has for a trial."""
    client = MlflowClient(tracking_uri=recorder.sweep.tracker.uri)
    run_id = recorder.sweep.tracker.run_id(digest)
    file = Path(client.download_artifacts(run_id, "environment.txt"))
    return client.get_run(run_id).data.tags["git_commit"], file.read_text()


def end(recorder: Recorder, place: int = 0, **changes: Any) -> TrialRecord:
    """Have the trial at a place of the plan start and end, as Tune tells it."""
    digest = list(recorder.sweep.plans)[place]
    trial = SimpleNamespace(config={"hash": digest})
    recorder.on_trial_start(0, [], trial)
    ended = {"finished": True, "reason": "", "metrics": METRICS, "seconds": 1.0}
    ended |= {"release_keys": ["r1"], **changes}
    recorder.on_trial_result(0, [], trial, {"epochs": [{"epoch": 1, "loss": 1.0}], "end": ended})
    return recorder.records[digest]


def test_a_trial_that_runs_now_keeps_code_and_machine(recorder: Recorder) -> None:
    record = end(recorder)
    assert (record.git_commit, dict(record.environment)) == ("now", {"gpu": "here"})
    assert recorder.sweep.folder.records()[record.hash] == record
    assert record.metrics["epsilon_one_run_ceiling"] == 3.5  # the trial itself was not told
    assert told(recorder, record.hash) == ("now", "gpu: here\n")
    # One on another node has told of that.
    other = end(recorder, 1, environment={"gpu": "there"})
    assert told(recorder, other.hash) == ("now", "gpu: there\n")


def test_a_store_that_fails_in_its_own_way_ends_no_sweep_and_a_vault_is_named(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ModuleNotFoundError("no boto3 for http://ada:planted@host/")

    def fail(*_: Any, **__: Any) -> Any:
        raise lost

    monkeypatch.setattr(recorder.sweep.tracker, "write", fail)
    record = end(recorder)
    assert recorder.sweep.folder.records()[record.hash] == record and recorder.broken is None
    stream: Any = recorder.sweep.progress._stream
    assert "does not answer (no boto3 for http://ada:***@host/)" in stream.getvalue()
    monkeypatch.setattr(Home, "ledger", fail)
    with pytest.raises(ModuleNotFoundError):
        Recorder.write_state(recorder, now=True)
    assert recorder.broken is lost  # Tune passes on its text alone


@pytest.mark.parametrize(
    ("error", "more"),
    [
        (None, []),
        ("RayActorError: The node died", []),
        ("MemoryError: out of memory (CUDA)", [{"cpu": 2.0, "gpu": 0.5}]),
    ],
)
def test_a_trial_whose_node_is_lost_is_not_in_training_until_it_starts_again(
    error: str | None,
    more: list[dict[str, float]],
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was out of memory gets more of the GPU."""
    monkeypatch.setattr(progress, "TELL_SECONDS", -1.0)
    has = SimpleNamespace(required_resources={"CPU": 2.0, "GPU": 0.25})
    given: list[dict[str, float]] = []
    lost, other = (
        SimpleNamespace(
            config={"hash": digest},
            placement_group_factory=has,
            get_error=lambda: error,
            update_resources=given.append,
        )
        for digest in list(recorder.sweep.plans)[:2]
    )
    for trial in (lost, other):
        recorder.on_trial_start(0, [], trial)
        recorder.on_trial_result(0, [], trial, {"epochs": [{"epoch": 1, "loss": 1.0}]})
    written: list[list[str]] = []
    monkeypatch.setattr(recorder, "write_state", lambda: written.append([*recorder._curves]))
    recorder.on_trial_recover(0, [], lost)
    assert written == [[other.config["hash"]]] and given == more
    recorder.on_trial_result(0, [], other, {"epochs": [{"epoch": 2, "loss": 1.0}]})
    stream: Any = recorder.sweep.progress._stream
    last = stream.getvalue().splitlines()[-1]
    assert last.startswith("in training: ") and last.count("epoch") == 1
    assert end(recorder).finished


def test_gaussian_noise_alone_has_a_mu(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "gaussian_mu" not in end(recorder).metrics  # Laplace noise
    charge = replace(a_charge(), event=GaussianEvent(noise_multiplier=4.0))
    monkeypatch.setattr(Home, "charges", lambda home, keys: [charge])
    epsilon = gaussian_epsilon(noise_multiplier=4.0, delta=1e-5)
    record = end(recorder, 1, metrics={**METRICS, "epsilon": epsilon, "delta": 1e-5})
    assert record.metrics["gaussian_mu"] == pytest.approx(0.25, rel=1e-9)


def test_a_trial_that_was_not_audited_has_failed(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def unaudited(home: Home, authority: bytes, trial: str, keys: Sequence[str]) -> None:
        raise ValueError(f"trial {trial} was not audited")

    monkeypatch.setattr(Home, "begin", lambda home, authority, trial: begun.append(trial))
    monkeypatch.setattr(Home, "figures", unaudited)
    record = end(recorder)
    assert not record.finished and "was not audited" in record.reason and record.metrics == {}
    # Of one that failed by itself no figures are requested.
    failed = {"finished": False, "reason": "TrainingDiverged: loss", "metrics": {}}
    assert end(recorder, 1, **failed).reason == "TrainingDiverged: loss"
    assert begun == list(recorder.sweep.plans)[:2]


def test_nan_fails_the_trial_and_not_the_sweep(recorder: Recorder) -> None:
    record = end(recorder, metrics={**METRICS, "accuracy": math.nan})
    assert not record.finished and record.reason == "metric accuracy is not a number"
    assert recorder.sweep.folder.records()[record.hash] == record


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_that_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "labeldp" / "__init__.py"
    inner = tmp_path / ".venv" / "site-packages" / "labeldp" / "__init__.py"
    for path in (package, inner):
        path.parent.mkdir(parents=True)
    package.touch()
    monkeypatch.setattr(labeldp, "__file__", str(package))
    monkeypatch.delenv(open_sweep.COMMIT_VARIABLE, raising=False)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        git(tmp_path, *words)
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert open_sweep.git_commit() == commit
    package.write_text("changed = True\n")
    assert open_sweep.git_commit() == f"{commit}-dirty"
    monkeypatch.setattr(labeldp, "__file__", str(inner))
    assert open_sweep.git_commit() == "unknown"
    monkeypatch.setenv(open_sweep.COMMIT_VARIABLE, "0123abcd")
    assert open_sweep.git_commit() == "0123abcd"
    # The variable is the image's; a job has brought its own code.
    brought = tmp_path / "working_dir_files" / "_ray_pkg_ab" / "labeldp" / "__init__.py"
    monkeypatch.setattr(labeldp, "__file__", str(brought))
    assert open_sweep.git_commit() == "unknown"


# Kept models: written whole, for the owner alone, and a write that fails says what to do.

FILES = {DESCRIPTION: b"{}", ARRAYS: b"arrays"}


def test_a_half_written_model_is_ignored(tmp_path: Path) -> None:
    """Also where an earlier start of the trial had written a whole one."""
    write_model(tmp_path, "ab", FILES)
    unwritable: Any = {**FILES, DESCRIPTION: None}
    with pytest.raises(TypeError):
        write_model(tmp_path, "ab", unwritable)
    assert kept_model(tmp_path, "ab") is None and kept_model(tmp_path, "cd") is None
    write_model(tmp_path, "ab", FILES)
    assert kept_model(tmp_path, "ab") is not None
    assert sorted(path.name for path in (tmp_path / "ab").iterdir()) == [DESCRIPTION, ARRAYS]


def test_a_full_disk_states_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda reference, timeout: reference)
    keeper = Here(Keeper(str(tmp_path), str(tmp_path / "models")))
    trial = Checkpoints(keeper=keeper, digest="ab")
    model: Any = SimpleNamespace(files=lambda: FILES)
    trial.keep_model(model)
    assert kept_model(tmp_path / "models", "ab") is not None

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trial_module, "write_model", full)
    with pytest.raises(ValueError, match=r"No space left.*models\.keep=false.*--resume auto"):
        trial.keep_model(model)

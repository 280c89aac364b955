"""Bad input at a sweep's front door: refused before Ray starts, in one line, nothing touched."""

import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform import driver, sweep_command
from labeldp.platform.configuration import DataSettings, TrialConfig
from labeldp.platform.plan import check_priors
from labeldp.platform.plan_verb import load_sweep
from labeldp.platform.results import ResultsFolder, write_json
from labeldp.platform.sweep import Sweep, plan_trials
from labeldp.platform.tracking import Tracker
from labeldp.platform.vault_store import SqliteStore
from labeldp.trainers.alibi_prior import PriorLabelsConfig
from labeldp.trainers.data import load
from labeldp.trainers.priors import PriorSettings, PriorSource
from tests.platform.examples import METRICS, a_record
from tests.platform.stores import new_store, of_newer_schema

QUICKSTART = str(Path(__file__).resolve().parents[2] / "sweeps" / "quickstart.py")


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below `folder`, but for the lock that says who was here last."""
    return {
        path: path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "driver.lock"
    }


@dataclass
class Door:
    """A place to run the quickstart's command line from."""

    here: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def results(self) -> Path:
        return self.here / "results" / "quickstart"

    def refuse(self, *arguments: str) -> tuple[int, str]:
        """Run, check that one line was said and nothing was changed, and return code and line."""
        before = contents(self.here)
        try:
            code = sweep_command.run(load_sweep(QUICKSTART), list(arguments))
        except SystemExit as end:  # how argparse refuses
            assert isinstance(end.code, int)
            code = end.code
        captured = self.capsys.readouterr()
        assert captured.out == ""
        assert "Traceback" not in captured.err
        lines = [line for line in captured.err.splitlines() if "error: " in line]
        assert len(lines) == 1, captured.err
        assert contents(self.here) == before
        return code, lines[0]


@pytest.fixture(params=["new", "used"])
def door(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Door]:
    """A folder to start in: empty, or with the results of an earlier start."""

    def not_reached(address: str | None) -> AbstractContextManager[object]:
        raise AssertionError("Ray is about to start")

    monkeypatch.setattr(driver, "connected", not_reached)
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)
    door = Door(here=tmp_path, capsys=capsys)
    if request.param == "used":
        folder = ResultsFolder(door.results, sweep="quickstart")
        folder.identify(fingerprint="f" * 64, parent_run_id="0" * 32)
        folder.keep(a_record())
        new_store(door.results)
        (door.results / "vault.db").write_bytes(b"not looked at")
    terminate = signal.getsignal(signal.SIGTERM)
    yield door
    signal.signal(signal.SIGTERM, terminate)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        # keys
        (["trainer.epsilom=1"], ["trainer.epsilom", "did you mean trainer.epsilon"]),
        (["epsilon=1"], ["'epsilon'", "did you mean trainer.epsilon"]),
        (["trainer.zzz=1"], ["trainer.zzz", "trainer."]),
        (["trainer=1"], ["trainer is a section", "trainer.epsilon"]),
        (["trainer.epsilon"], ["'trainer.epsilon'", "key=value"]),
        # types
        (["trainer.epochs=many"], ["trainer.epochs is 'many'"]),
        (["trainer.epochs=1.5"], ["trainer.epochs is 1.5"]),
        (["trainer.epsilon=[1,two]"], ["trainer.epsilon is 'two'"]),
        (["trainer.noise=lapalce"], ["trainer.noise is 'lapalce'", "one of laplace"]),
        (["method=alibbi"], ["method is 'alibbi'", "did you mean alibi"]),
        # numbers
        (["trainer.epsilon=0"], ["epsilon is 0", "above 0"]),
        (["trainer.epsilon=-1"], ["epsilon is -1", "above 0"]),
        (["trainer.epsilon=.nan"], ["epsilon is NaN", "must be a number"]),
        (["trainer.epsilon=.inf"], ["epsilon is inf", "finite number above 0"]),
        (["trainer.epsilon=[1,2,-4]"], ["epsilon is -4", "above 0"]),
        (["trainer.epsilon=[]"], ["trainer.epsilon is an empty list", "at least one"]),
        (["trainer.delta=0"], ["delta is 0", "strictly between 0 and 1"]),
        (["trainer.learning_rate=.nan"], ["learning_rate is NaN"]),
        (["trainer.epochs=0"], ["epochs is 0", "at least 1"]),
        (["audit.confidence=1"], ["confidence is 1", "strictly between 0 and 1"]),
        (["noise.seed=-1"], ["seed is -1", "at least 0"]),
        # labels that make no sweep
        (["audit.canaries=[50,60]"], ["audit.canaries", "run a sweep for each value"]),
        (["audit.canaries=100000"], ["100000", "1438 training examples", "at most 1438"]),
        # data
        (["data.name=digit"], ["'digit'", "did you mean digits"]),
        (["data.name=mnist"], ["mnist", "labeldp data fetch mnist", "LABELDP_DATA"]),
        (["data.name=own"], ["path", "data.path"]),
        (["data.hold_out=none"], ["hold_out", "data set own", "digits"]),
        (["data.hold_out=some"], ["data.hold_out is 'some'", "public", "none"]),
        (["data.name=own", "data.path=none.npz"], ["none.npz is not there", "data.path"]),
        # the command line itself
        (["--smok"], ["--smok"]),
        (["--resume", "sometimes"], ["sometimes", "auto", "must", "never"]),
        (["--max-trials", "3"], ["16 trials", "3", "--max-trials"]),
        (["--max-trials", "many"], ["many"]),
        (["--max-trials", "0"], ["max_trials is 0", "at least 1"]),
        (["--max-minutes", "0"], ["max_minutes is 0", "above 0"]),
        (["--max-minutes", "nan"], ["max_minutes is NaN"]),
        (["--max-epsilon-total", "0"], ["epsilon is 0", "above 0"]),
        (["--max-epsilon-total", "nan"], ["epsilon is NaN"]),
    ],
)
def test_settings_are_refused(door: Door, arguments: list[str], words: list[str]) -> None:
    code, line = door.refuse(*arguments)
    assert code == 2
    for word in words:
        assert word in line


FEATURES = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
LABELS = np.arange(300) % 3
NAN_IN_ROW_7 = FEATURES.copy()
NAN_IN_ROW_7[7, 2] = np.nan


def four(
    labels: NDArray[np.generic], features: NDArray[np.generic] = FEATURES
) -> dict[str, object]:
    """A file with a training and a test split; only the training labels are odd."""
    return {
        "train_features": features,
        "train_labels": labels,
        "test_features": FEATURES,
        "test_labels": LABELS,
        "num_classes": 3,
    }


def one_part(labels: NDArray[np.generic]) -> dict[str, object]:
    """A file without a test split."""
    return {"features": FEATURES, "labels": labels, "num_classes": 3}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        (four(np.where(LABELS == 2, 7, LABELS)), ["train_labels[2] is 7", "0..2"]),
        (four(np.where(LABELS == 1, -1, LABELS)), ["train_labels[1] is -1", "0..2"]),
        (four(LABELS.astype(float)), ["float64", "whole numbers", "astype(int)"]),
        (four(LABELS.astype(str)), ["whole numbers"]),
        (four(LABELS[:299]), ["(299,)", "one for each"]),
        (four(LABELS, NAN_IN_ROW_7), ["row 7, column 2 is nan", "finite", "drop such rows"]),
        (four(np.zeros(300, int)), ["all 300 training labels are the same"]),
        (four(LABELS[:0], FEATURES[:0]), ["no rows"]),
        ({"features": FEATURES[:0], "labels": LABELS[:0]}, ["no rows"]),
        ({"features": FEATURES, "labels": LABELS}, ["how many classes", "data.classes=K"]),
        (one_part(LABELS), ["data.hold_out=public", "data.hold_out=none", "test split"]),
        (one_part(-LABELS), ["labels[1] is -1"]),
        (one_part(LABELS / 2), ["float64", "whole numbers"]),
        ({"x": FEATURES, "y": LABELS}, ["holds x, y", "features and labels"]),
        ({"features": np.array([{}] * 300), "labels": LABELS}, ["no Python objects"]),
    ],
)
@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_data_of_the_users_own_are_refused(
    door: Door, arrays: dict[str, NDArray[np.generic]], words: list[str]
) -> None:
    np.savez(door.here / "own.npz", allow_pickle=True, **arrays)
    code, line = door.refuse("data.name=own", "data.path=own.npz")
    assert code == 2
    for word in words:
        assert word in line


def cut_off(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def one_bit_flipped(whole: bytes) -> bytes:
    middle = len(whole) // 2
    return whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]


def nothing(whole: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [cut_off, one_bit_flipped, nothing])
@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_damaged_files_are_refused(door: Door, damage: Callable[[bytes], bytes]) -> None:
    path = door.here / "own.npz"
    np.savez(path, features=FEATURES, labels=LABELS)
    path.write_bytes(damage(path.read_bytes()))
    code, line = door.refuse("data.name=own", "data.path=own.npz")
    assert code == 2
    assert "own.npz" in line and "can't be read" in line and "numpy.savez" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_published_files_that_were_cut_off_are_refused(door: Door) -> None:
    folder = door.here / "data" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (folder / f"{part}-{kind}-ubyte").write_bytes(b"\x00\x00\x08\x03\x00\x00")
    code, line = door.refuse("data.name=mnist")
    assert code == 2
    assert "ubyte" in line


def test_over_budget_is_refused(door: Door) -> None:
    code, line = door.refuse(
        "trainer.noise=laplace", "--max-epsilon-total", "2", "trainer.epsilon=3"
    )
    assert code == 4
    for word in ("budget is epsilon 2", "would make it 3", "raise the budget"):
        assert word in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_what_earlier_starts_have_spent_counts(door: Door) -> None:
    loaded = load("digits")
    folder = ResultsFolder(door.results, sweep="quickstart")
    folder.identify(fingerprint=loaded.public.fingerprint)
    store = SqliteStore(door.results / "vault.db")
    vault = LabelVault(labels=loaded.train_labels, num_classes=10, store=store)
    vault.release(LaplaceNoise(epsilon=1.0, num_classes=10))
    limit = ("--max-epsilon-total", "1.2", "trainer.noise=laplace")
    code, line = door.refuse(*limit, "trainer.epsilon=0.5")
    assert code == 4
    for word in ("budget is epsilon 1.2", "1 is spent", "would make it 1.5"):
        assert word in line
    with pytest.raises(AssertionError, match="Ray is about to start"):
        door.refuse(*limit, "trainer.epsilon=1")


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_a_deleted_vault_does_not_grant_the_budget_again(door: Door) -> None:
    loaded = load("digits")
    folder = ResultsFolder(door.results, sweep="quickstart")
    store = SqliteStore(folder.store)
    folder.identify(fingerprint=loaded.public.fingerprint, vault=store.id)
    vault = LabelVault(labels=loaded.train_labels, num_classes=10, store=store)
    vault.release(LaplaceNoise(epsilon=2.0, num_classes=10))
    limit = ("--max-epsilon-total", "2", "trainer.noise=laplace", "trainer.epsilon=1.9")
    assert door.refuse(*limit)[0] == 4
    for path in (folder.store, folder.store.with_suffix(".lines")):
        path.unlink()
    for moved in ((), ("--moved",)):
        code, line = door.refuse(*limit, *moved)
        assert code == 2
        for word in ("vault.db is gone", "sweep.json knows of it", "--results", "count what"):
            assert word in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_a_copied_results_folder_is_refused(door: Door) -> None:
    original = ResultsFolder(door.here / "original", sweep="quickstart")
    SqliteStore(original.store)
    shutil.copytree(original.path, door.results, dirs_exist_ok=True)
    code, line = door.refuse()
    assert code == 2
    assert f"is a copy of the vault that was made at {original.store}" in line
    assert "--moved" in line
    with pytest.raises(AssertionError, match="Ray is about to start"):
        door.refuse("--moved")


@pytest.mark.parametrize("door", ["new"], indirect=True)
@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": {**METRICS, "accuracy": None}},
        {"metrics": {}},
        {"metrics": {"accuracy": "high"}},
        {"variant": "\ud800"},
    ],
)
def test_a_record_that_no_report_could_show_is_refused(door: Door, changes: dict[str, Any]) -> None:
    folder = ResultsFolder(door.results, sweep="quickstart")
    file = folder.path / "trials" / f"{a_record().hash}.json"
    write_json(file, {**asdict(a_record()), **changes})
    code, line = door.refuse()
    assert code == 2 and f"{file.name} is no trial record" in line and "move it away" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_trials_whose_sweep_is_not_known_are_not_written_twice(door: Door) -> None:
    """Without sweep.json, and with a store that has the trial already."""
    folder = ResultsFolder(door.results, sweep="quickstart")
    folder.keep(a_record(release_keys=()))
    SqliteStore(folder.store)
    uri = new_store(door.results)
    tracker = Tracker(uri=uri, experiment="quickstart", artifacts=folder.path / "artifacts")
    tracker.open_parent("quickstart", tags={}, run_id=None)
    tracker.open_child(a_record().hash, name="a trial", tags={})
    code, line = door.refuse()
    assert code == 2 and "sweep.json" in line and "written twice" in line


def test_results_below_a_file_are_refused(door: Door) -> None:
    (door.here / "file").write_text("mine")
    code, line = door.refuse("--results", "file/results")
    assert code == 2
    assert "file/results can't be written" in line and "--results DIR" in line


@pytest.mark.parametrize("door", ["used"], indirect=True)
def test_results_of_others_are_refused(door: Door) -> None:
    code, line = door.refuse()
    assert code == 2 and "holds this sweep on other data" in line and "--results" in line
    other = ResultsFolder(door.here / "other", sweep="another sweep")
    other.identify()
    code, line = door.refuse("--results", "other")
    assert code == 2 and "holds sweep 'another sweep', not 'quickstart'" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_resume_must_and_never_are_kept(door: Door) -> None:
    code, line = door.refuse("--resume", "must")
    assert code == 2 and "holds no sweep to resume" in line and "--resume auto" in line
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    code, line = door.refuse("--resume", "never")
    assert code == 2 and "holds 1 trials" in line and "--results DIR" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
def test_damaged_results_are_refused(door: Door) -> None:
    ResultsFolder(door.results, sweep="quickstart").keep(a_record())
    (door.results / "trials" / "bad.json").write_text('{"hash": ')
    code, line = door.refuse()
    assert code == 2 and "bad.json can't be read" in line and "move" in line


@pytest.mark.parametrize("door", ["new"], indirect=True)
@pytest.mark.parametrize("named", [False, True])
def test_a_store_of_a_newer_schema_is_refused(
    door: Door, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (door.results / "trials").mkdir(parents=True)
    path = of_newer_schema(door.here / "elsewhere" if named else door.results)
    if named:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    code, line = door.refuse()
    assert code == 2
    for word in (str(path), "another version of MLflow", "MLFLOW_TRACKING_URI"):
        assert word in line


def test_a_prior_that_the_data_cannot_make_is_refused_before_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def not_reached(address: str | None) -> AbstractContextManager[object]:
        raise AssertionError("Ray is about to start")

    monkeypatch.setattr(driver, "connected", not_reached)
    monkeypatch.chdir(tmp_path)
    prior = PriorSettings(source=PriorSource.CLUSTERS, clusters=2000)
    base = TrialConfig(
        method="prior_labels",
        data=DataSettings(name="digits"),
        trainer=PriorLabelsConfig(prior=prior),
    )
    terminate = signal.getsignal(signal.SIGTERM)
    sweep = Sweep(name="priors", base=base)
    with pytest.raises(ValueError, match="clusters is 2000"):
        check_priors(plan_trials(sweep), load("digits").public)
    code = sweep_command.run(sweep, [])
    signal.signal(signal.SIGTERM, terminate)
    assert code == 2
    assert "clusters is 2000, but there are 1438 examples" in capsys.readouterr().err

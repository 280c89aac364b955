"""The campaign for an accelerator, at a toy's size: stopped and resumed, and on a bare machine.

Images are of the testing machine's own making, in CIFAR's official format.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.platform.sweep import Sweep, plan_trials
from labeldp.platform.trusted.vault_identity import StoreUnusable
from labeldp.platform.trusted.vault_store import SqliteStore
from labeldp.trainers import features
from labeldp.trainers.random_patches import RandomPatchFeatures
from labeldp.trainers.settings.alibi import AlibiConfig
from labeldp.trainers.settings.pate import PateConfig
from labeldp.trainers.settings.staged_moments import StagedMomentsConfig
from sweeps import alibi_cifar10, alibi_cifar100, lp_mst_cifar10, pate_fm_cifar10, pate_fm_cifar100
from tests.benchmarks.gpu_campaign import paper_rows
from tests.benchmarks.gpu_campaign.__main__ import main as command
from tests.benchmarks.gpu_campaign.clock import Clock
from tests.benchmarks.gpu_campaign.labels import NoiseChoice
from tests.benchmarks.gpu_campaign.place import CampaignBusy, Place
from tests.benchmarks.gpu_campaign.run import run
from tests.benchmarks.gpu_campaign.small import small_campaign
from tests.benchmarks.gpu_campaign.speed_step import SpeedStep
from tests.benchmarks.gpu_campaign.step import Step
from tests.benchmarks.gpu_campaign.steps import campaign, fast_steps, features_step
from tests.benchmarks.gpu_campaign.table import table
from tests.benchmarks.gpu_campaign.trial_step import TrialStep
from tests.trainers.data_samples import images, write_cifar_binary

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 100
BARE = """
import runpy, sys
for absent in (
    "ray", "mlflow", "sklearn", "pandas", "matplotlib", "randomgen", "safetensors", "omegaconf",
    "rich", "pyarrow",
):
    sys.modules[absent] = None
sys.argv = ["gpu_campaign", *sys.argv[1:]]
runpy.run_module("tests.benchmarks.gpu_campaign", run_name="__main__")
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small CIFAR-10."""
    root = tmp_path_factory.mktemp("data")
    for place, part in enumerate(("test_batch", *(f"data_batch_{n}" for n in range(1, 6)))):
        pixels = images(30, 3, 32, 32, seed=place)
        file = root / "cifar-10-batches-bin" / f"{part}.bin"
        write_cifar_binary(file, pixels, np.arange(30) % 10)
    return root


class OneEpochEach(Clock):
    """A time that is over after the first epoch of a call."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self._allowed = 1

    def left(self) -> float:
        return 0.0

    def allows(self, seconds: float) -> bool:
        del seconds
        self._allowed -= 1
        return self._allowed >= 0


def a_place(folder: Path, data: Path, **changes: Any) -> Place:
    place = Place(folder=folder, data=data, limit=LIMIT, noise=NoiseChoice(seed=0), commit="abc")
    return replace(place, **changes)


def steps() -> list[Step]:
    """All but the speeds, which are measured once, in the bare process."""
    return [step for step in small_campaign() if not isinstance(step, SpeedStep)]


def silent(line: str) -> None:
    del line


def what_counts(place: Place) -> dict[str, dict[str, Any]]:
    """Results, less what differs from run to run."""
    found = {step.name: place.result(step.name) for step in steps()}
    assert all(found.values())
    passing = ("seconds", "date")
    return {
        name: {key: value for key, value in (each or {}).items() if not key.endswith(passing)}
        for name, each in found.items()
    }


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, data: Path) -> tuple[Place, Place, int]:
    """The campaign in one piece, the same stopped after each epoch, and how many calls it took."""
    whole, parts = (
        a_place(tmp_path_factory.mktemp("campaign") / name, data) for name in ("whole", "parts")
    )
    with whole.held():
        ended = run(whole, steps(), Clock(600.0), told=silent)
    assert (ended.failed, ended.left) == (0, 0)
    calls = 0
    with parts.held():
        while ended.left or not calls:
            calls += 1
            ended = run(parts, steps(), OneEpochEach(), told=silent)
            assert ended.failed == 0 and calls < 60
    return whole, parts, calls


def test_stopped_after_every_epoch_it_finds_the_same(stopped: tuple[Place, Place, int]) -> None:
    whole, parts, calls = stopped
    assert what_counts(whole) == what_counts(parts)
    assert calls > 15
    assert not list((parts.folder / "states").glob("cifar10-alibi*"))


def test_every_result_says_what_it_is_of(stopped: tuple[Place, Place, int]) -> None:
    for found in what_counts(stopped[0]).values():
        assert found["league"] == "no outside data" and found["commit"] == "abc"
        assert {"accelerator", "processor", "torch", "seed", "epsilon", "delta"} <= set(found)
    alibi = what_counts(stopped[0])["cifar10-alibi"]
    assert (alibi["epsilon"], alibi["delta"]) == (pytest.approx(2.0), 0.0)
    assert alibi["noise"].startswith("seed 0: an experiment")
    moments = what_counts(stopped[0])["cifar10-self-supervised-fast-cnn-moment-labels-e1"]
    assert moments["epsilon"] == pytest.approx(1.0, abs=1e-6) and moments["delta"] == 1e-5
    # Two stages of other labels cost what one of them costs.
    assert what_counts(stopped[0])["cifar10-lp-2st"]["epsilon"] == pytest.approx(2.0)
    unpaid = what_counts(stopped[0])["cifar10-self-supervised-fast-cnn-no-noise"]
    assert unpaid["epsilon"] == "infinite"


def test_a_release_is_drawn_and_charged_once(stopped: tuple[Place, Place, int]) -> None:
    lines = []
    for place in stopped[:2]:
        store = SqliteStore(place.folder / "private" / "cifar10.db")
        lines.append([charge.mechanism for charge in store.charges()])
    assert lines[0] == lines[1]
    names = sorted(line["name"] for line in lines[1])
    assert names == sorted(
        ["LaplaceNoise", "RRWithPrior", "RRWithPrior", "LabelMoments", "NoNoise", "PateAnswers"]
    )


def test_the_table_says_what_was_not_run(
    stopped: tuple[Place, Place, int], tmp_path: Path, data: Path
) -> None:
    text = table(stopped[0], small_campaign())
    assert "| cifar10 | ALIBI | fast network, width 2 | 2 | 0 |" in text
    assert "no outside data" in text and "abc" in text
    assert text.count("not run") == 1  # the speeds
    nothing = table(a_place(tmp_path / "none", data), small_campaign())
    assert nothing.count("not run") == len(small_campaign())


def test_priors_wait_for_features_which_are_kept(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = RandomPatchFeatures(patch=3, filters=8, dimensions=10, sampled_patches=500)
    monkeypatch.setattr(features, "image_features", lambda which: tiny)
    place = a_place(tmp_path / "folder", data)
    trial = next(step for step in fast_steps("cifar10", (2,), priors=True, epochs=1))
    assert isinstance(trial.config, StagedMomentsConfig)
    prior = replace(trial.config.prior, landmarks=20)
    config = replace(trial.config, epochs=2, earlier_epochs=1, batch_size=50, prior=prior)
    trial = replace(trial, needs_seconds=0.0, config=config)
    with place.held():
        ended = run(place, [trial, features_step("cifar10")], Clock(600.0), told=silent)
        assert (ended.done, ended.left) == (1, 1)
        assert list((place.folder / "features").glob("features-*.npy"))
        assert run(place, [trial], Clock(600.0), told=silent).done == 1
    found = place.result(trial.name) or {}
    assert found["method"] == "moment labels in stages"
    assert found["epsilon"] == pytest.approx(0.1, abs=1e-6)  # of both stages together


def test_a_step_that_fails_is_written_down_and_costs_no_other(tmp_path: Path, data: Path) -> None:
    place = a_place(tmp_path / "folder", data)
    good, *_ = steps()
    assert isinstance(good, TrialStep) and isinstance(good.config, AlibiConfig)
    bad = replace(good, name="bad", config=replace(good.config, learning_rate=1e30))
    with place.held():
        ended = run(place, [bad, good], Clock(600.0), told=silent)
    assert (ended.done, ended.failed, ended.left) == (1, 1, 0)
    assert "not finite" in table(place, [bad, good])


def test_a_copy_of_the_folder_draws_nothing(tmp_path: Path, data: Path) -> None:
    place = a_place(tmp_path / "folder", data)
    good, *_ = steps()
    with place.held():
        run(place, [good], Clock(600.0), told=silent)
    copy = a_place(tmp_path / "copy", data)
    with copy.held():
        for file in (place.folder / "private").iterdir():
            (copy.folder / "private" / file.name).write_bytes(file.read_bytes())
        with pytest.raises(StoreUnusable, match="--moved"):
            run(copy, [good], Clock(600.0), told=silent)
        run(replace(copy, moved=True), [good], Clock(600.0), told=silent)
    store = SqliteStore(copy.folder / "private" / "cifar10.db")
    assert len(store.charges()) == 1, "what was carried along is read, and not drawn again"


def test_two_calls_at_once_are_refused(tmp_path: Path, data: Path) -> None:
    place = a_place(tmp_path / "folder", data)
    with place.held(), pytest.raises(CampaignBusy, match="another call"), place.held():
        pass


def test_steps_are_listed_without_a_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_campaign", "--small", "--list"])
    assert command() == 0
    assert capsys.readouterr().out.split() == [step.name for step in small_campaign()]
    monkeypatch.setattr(sys, "argv", ["gpu_campaign", "--small", "--table"])
    with pytest.raises(SystemExit, match="2"):
        command()
    assert "required: --folder" in capsys.readouterr().err


def test_names_are_of_one_step_each() -> None:
    every = campaign()
    names = [step.name for step in every]
    assert len(set(names)) == len(names)
    assert all(step.after is None or step.after in names for step in every)


@pytest.mark.parametrize(
    ("sweep", "rows"),
    [
        (alibi_cifar10.SWEEP, paper_rows.alibi_steps("cifar10", 4)),
        (alibi_cifar100.SWEEP, paper_rows.alibi_steps("cifar100", 8)),
        (lp_mst_cifar10.SWEEP, paper_rows.lp_2st_steps()),
        (pate_fm_cifar10.SWEEP, paper_rows.pate_steps("cifar10")),
        (pate_fm_cifar100.SWEEP, paper_rows.pate_steps("cifar100")),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_the_papers_rows_are_those_of_the_sweeps(sweep: Sweep, rows: Iterable[TrialStep]) -> None:
    trained = [trial.config.trainer for trial in plan_trials(sweep)]
    for step in rows:
        config = step.config
        if isinstance(config, PateConfig):  # a cost that is published is drawn at the vault's home
            config = replace(config, publish_cost=True)
        assert config in trained, step.name


def test_it_runs_where_there_is_nothing_but_torch_and_numpy(tmp_path: Path, data: Path) -> None:
    folder = str(tmp_path / "campaign")
    arguments = ["--folder", folder, "--small", "--noise-seed", "0", "--minutes", "5"]
    done = subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        cwd=ROOT,
        env={"LABELDP_DATA": str(data), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(small_campaign())} done, 0 failed, 0 left"
    speeds = json.loads((tmp_path / "campaign" / "results" / "speeds.json").read_text())
    assert all("failed" not in speed for speed in speeds["speeds"])

"""A sweep begun by the code before the move: it resumes, and run anew it gives the same bits."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from labeldp.platform.cli import sweep_command
from labeldp.platform.cli.sweep_plan import load_sweep
from labeldp.trainers.data import load
from labeldp.trainers.trained_model import load_model
from tests.faults.sweep_runs import Ending, check_tracking, identity, records
from tests.faults.without_cluster import without_cluster
from tests.platform.stores import new_store
from tests.source_tree import ROOT
from tests.sweeps.folder_as_text import unpack

BEFORE = Path(__file__).with_name("before_the_move")
#: As in `folder_as_text`, which says how the folder was made.
SETTINGS = (
    *("noise.seed=7", "data.limit=80", "trainer.epochs=2", "trainer.epsilon=2"),
    *("trainer.noise=[laplace,gaussian,randomized_response]",),
    *("audit.canaries=20", "audit.coin_canaries=20"),
)
TRIALS = 3
LEDGER = {
    "releases": 3,
    "epsilon_releases": 6.0,
    "epsilon_selection": 0.0,
    "epsilon_total": 6.0,
    "delta": 1e-5,
}
#: The bound beside the advantage was up to three times too high until it was corrected.
CORRECTED_SINCE = "label_inference_bound"
#: Audits that there were none of.
ADDED_SINCE = {
    "private/epsilon_tight",
    "epsilon_tight_ceiling",
    "private/epsilon_release",
    "private/epsilon_release_one_run",
    "private/release_guesses",
    "private/release_correct",
    "epsilon_release_ceiling",
}


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    threads = torch.get_num_threads()
    with without_cluster():
        yield
    torch.set_num_threads(threads)


def run(results: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """Run the quickstart at these settings; returns what `--json` printed."""
    new_store(results)
    command = ["--results", str(results), "--json", *SETTINGS, *more]
    code = sweep_command.run(load_sweep(str(ROOT / "sweeps" / "quickstart.py")), command)
    captured = capsys.readouterr()
    assert code == 0, captured.err
    printed: dict[str, Any] = json.loads(captured.out.splitlines()[-1])
    return printed


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The old folder."""
    unpack(BEFORE, tmp_path / "before")
    return tmp_path / "before"


def counts(outcome: dict[str, Any]) -> tuple[int, ...]:
    return tuple(outcome[name] for name in ("trials", "skipped", "finished", "failed", "left"))


def test_it_resumes_with_every_trial_skipped(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    then = Ending.of(before)
    texts = {path.name: path.read_text() for path in (before / "trials").iterdir()}
    outcome = run(before, capsys, "--resume", "must")
    assert counts(outcome) == (TRIALS, TRIALS, 0, 0, 0)
    assert outcome["ledger"] == LEDGER
    assert Ending.of(before) == then
    assert texts == {path.name: path.read_text() for path in (before / "trials").iterdir()}
    assert (
        identity(before)["sweep_id"] == json.loads((BEFORE / "sweep.json").read_text())["sweep_id"]
    )
    check_tracking(before)


def test_every_trial_keeps_the_model_that_it_measured_and_a_resumed_sweep_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "anew"
    run(results, capsys)
    public = load("digits", limit=80).public
    models = {path.name: path for path in (results / "models").iterdir()}
    assert set(models) == {record["hash"] for record in records(results)}
    for record in records(results):
        model = load_model(models[record["hash"]])
        right = model.predict(public.test_features.numpy()) == public.test_labels
        assert right.mean() == record["metrics"]["accuracy"]
        facts, metrics = model.facts, record["metrics"]
        assert (facts["trial"], facts["method"]) == (record["hash"], record["config"]["method"])
        assert (facts["epsilon"], facts["delta"]) == (metrics["epsilon"], metrics["delta"])
        assert math.isfinite(metrics["epsilon"]) and facts["private"] is False, "noise is seeded"
        assert facts["data"] == {"name": "digits", "fingerprint": public.fingerprint}
        assert (facts["seed"], facts["noise"]) == (record["config"]["seed"], "seeded")
    when = {path: path.stat().st_mtime_ns for path in (results / "models").rglob("*")}
    more = run(results, capsys, "--resume", "must", "models.keep=false", "seed=[0,1]")
    assert counts(more) == (2 * TRIALS, TRIALS, TRIALS, 0, 0), "the switch makes no other trials"
    assert {path: path.stat().st_mtime_ns for path in (results / "models").rglob("*")} == when


def test_new_trials_of_it_read_the_releases_that_are_there(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run(before, capsys, "seed=[0,1]")
    assert counts(outcome) == (2 * TRIALS, TRIALS, TRIALS, 0, 0)
    assert outcome["ledger"] == LEDGER, "what was released before is free"
    read = {tuple(record["release_keys"]) for record in records(before)}
    assert len(read) == TRIALS, "two seeds of training share a release"


def test_run_anew_it_gives_the_same_hashes_releases_and_numbers(
    before: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = run(tmp_path / "anew", capsys)
    assert counts(outcome) == (TRIALS, 0, TRIALS, 0, 0)
    assert outcome["ledger"] == LEDGER
    then, now = Ending.of(before), Ending.of(tmp_path / "anew")
    # Mechanism and bits. How the ledger names an event has changed since (randomized response is
    # told from other pure events); what events cost together is asserted above.
    assert [(made, bits) for made, _, bits in now.releases] == [
        (made, bits) for made, _, bits in then.releases
    ]
    assert set(now.trials) == set(then.trials) and len(now.trials) == TRIALS
    for digest, (finished, reason, metrics, curves) in then.trials.items():
        again = now.trials[digest]
        assert (again[0], again[1]) == (finished, reason) == (True, "")
        assert set(again[2]) - ADDED_SINCE == set(metrics)
        same = {name: value for name, value in metrics.items() if name != CORRECTED_SINCE}
        # To the last bit on the machine that made the folder; another's sums round otherwise.
        assert {name: again[2][name] for name in same} == pytest.approx(same, rel=1e-6)
        assert again[2][CORRECTED_SINCE] < metrics[CORRECTED_SINCE]
        for epoch, epoch_again in zip(curves, again[3], strict=True):
            assert epoch_again == pytest.approx(epoch, rel=1e-6)

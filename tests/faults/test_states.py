"""Trials that are cut off go on from their last state, to the same numbers, or start anew."""

import io
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch

from labeldp.platform.cluster import connected
from labeldp.platform.settings.sweep import plan_trials
from labeldp.platform.sweep.driver import load_data
from labeldp.platform.sweep.trial import Checkpoints, TrialOutcome, run_trial, start_keeper
from labeldp.platform.vault import home_proxy
from labeldp.platform.vault.label_home import SecretLabels, TrialLabels
from tests.faults.small_sweep import EPOCHS, SWEEP
from tests.faults.sweep_runs import Ending

pytestmark = pytest.mark.ray_cluster

CUT_OFF_AFTER = 12
DRIVER = b"the driver's token"


class CutOff(BaseException):
    """Stands for a worker that is lost: nothing in a trial catches it."""


class Bench:
    """One trial of the small sweep, beside a vault and a keeper of states."""

    def __init__(self, folder: Path) -> None:
        first = plan_trials(SWEEP)[0]
        loaded = load_data(first.config.data)
        self._data = loaded.public
        audit = first.config.audit.settled(
            num_classes=self._data.num_classes, num_labels=len(loaded.train_labels)
        )
        self.planned = replace(first, config=replace(first.config, audit=audit))
        self.digest = self.planned.hash(self._data.fingerprint)
        self.states = folder / "states"
        self.keeper = start_keeper(self.states, self.states / "models")
        self._vault: dict[str, Any] = {
            "labels": SecretLabels(
                training=loaded.train_labels, num_classes=self._data.num_classes
            ),
            "audit": self.planned.config.audit,
            "coin_seed": self.planned.config.noise.seed,
            "fingerprint": self._data.fingerprint,
            "budget": None,
            "authority": DRIVER,
        }
        self._folder = folder
        self.home = self.move("vault")

    def move(self, name: str) -> Any:
        self.home = home_proxy.start(
            store=self._folder / f"{name}.db",
            votes=self._folder / "votes",
            **self._vault,
        )
        return self.home

    def run(self, *, cut_off_after: int | None = None) -> tuple[TrialOutcome, int]:
        """Run the trial; returns what came out, and how many of its epochs were trained now."""
        seen: list[float] = []

        def on_epoch(metrics: Any, rung: bool) -> None:
            seen.append(metrics["epoch"])
            if len(seen) == cut_off_after:
                raise CutOff

        self.home.begin(DRIVER, self.digest)
        client = TrialLabels(
            home=self.home, noise=self.planned.config.noise.source(), trial=self.digest
        )
        states = _Counting(keeper=self.keeper, digest=self.digest, every_seconds=0.0)
        outcome = run_trial(
            self.planned.config,
            data=self._data,
            vault=client,
            on_epoch=on_epoch,
            checkpoints=states,
        )
        assert len(seen) == EPOCHS
        return outcome, states.kept


class _Counting(Checkpoints):
    """Keeps a state after each epoch, and counts them."""

    kept = 0

    def keep(self, state: Any) -> None:
        super().keep(state)
        self.kept += 1


@pytest.fixture
def bench(cluster: Any, tmp_path: Path) -> Iterator[Bench]:
    with connected(cluster.address), _threads(1):
        yield Bench(tmp_path)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


def test_a_trial_goes_on_to_the_same_numbers(bench: Bench, undisturbed: Ending) -> None:
    with pytest.raises(CutOff):
        bench.run(cut_off_after=CUT_OFF_AFTER)
    outcome, trained_now = bench.run()
    # The last state in flight may be lost with the worker: at most two epochs are trained again.
    assert EPOCHS - CUT_OFF_AFTER <= trained_now <= EPOCHS - CUT_OFF_AFTER + 2
    _, _, metrics, _ = undisturbed.trials[bench.digest]
    found = bench.home.figures(DRIVER, bench.digest, outcome.release_keys)
    every = {**outcome.metrics, **found}
    assert {k: v for k, v in every.items() if "seconds" not in k} == metrics


class Bomb:
    """What a state must not be able to do: run code when it is read."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_a_state_that_is_damaged_or_hostile_or_of_another_ledger_is_not_used(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CutOff):
        bench.run(cut_off_after=CUT_OFF_AFTER)
    ray.get(
        bench.keeper.find.remote(bench.digest)
    )  # the state in flight has landed: it overwrites nothing below
    path = bench.states / f"{bench.digest}.state"
    good = path.read_bytes()
    hostile = io.BytesIO()
    torch.save({"trainer": Bomb(), "epochs": [], "seconds": 0.0}, hostile)
    for content in (good[: len(good) // 2], b"", pickle.dumps(Bomb()), hostile.getvalue()):
        path.write_bytes(content)
        assert Checkpoints(keeper=bench.keeper, digest=bench.digest).find() is None
        assert not (tmp_path / "exploded").exists()
    # Another store has another secret, and so other releases.
    path.write_bytes(good)
    bench.move("another")
    _, trained_now = bench.run()
    assert trained_now == EPOCHS

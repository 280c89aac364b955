"""trial: one that goes on from a state counts all its releases; what a new trainer has to say."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from ray import tune

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.platform.records.checkpoints import Checkpoints
from labeldp.platform.sweep import trial as trial_module
from labeldp.platform.sweep.configuration import DataSettings, TrialConfig, with_changes
from labeldp.platform.sweep.sweep import PlannedTrial
from labeldp.platform.sweep.trial import Rungs, TrialOutcome, run_trial, tune_trial
from labeldp.platform.vault.label_home import TrialLabels
from labeldp.trainers.models.learner import Learner
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.models.trained_model import TrainedModel, load_model
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.methods import LpMstConfig
from tests.trainers.tiny_data import digits

TWO_STAGES = TrialConfig(
    method="lp_mst",
    data=DataSettings(name="digits"),
    trainer=LpMstConfig(epochs=4, width=8, epsilon=2.0),
    performance=Performance(device=Device.CPU),
)


class NearVault(TrialLabels):
    """A client whose vault is in this process."""

    def __init__(self, vault: LabelVault) -> None:
        super().__init__(home=cast(Any, None), noise=SeededNoise(seed=0))
        self._vault = vault

    def release(
        self,
        mechanism: Mechanism,
        *public: NDArray[Any],
        indices: NDArray[np.integer[Any]] | None = None,
    ) -> Release:
        release = self._vault.release(mechanism, *public, indices=indices, noise=self.noise)
        self.keys.extend([release.key] if release.key not in self.keys else [])
        return release

    def epsilon(self, *, delta: float) -> tuple[float, float]:
        return self._vault.epsilon(delta=0.0, keys=self.keys), 0.0

    def canary_positions(self) -> NDArray[np.intp]:
        return np.arange(3)

    def audit(self, confidences: NDArray[Any], *, confidence: float, delta: float) -> None:
        pass


class States(Checkpoints):
    """Keeps every state and model in memory."""

    def __init__(self) -> None:
        self.digest = "ab"
        self.kept: list[Mapping[str, Any]] = []
        self.models: list[Mapping[str, bytes]] = []

    def find(self) -> Mapping[str, Any] | None:
        return self.kept[-1] if self.kept else None

    def due(self) -> bool:
        return True

    def keep(self, state: Mapping[str, Any]) -> None:
        self.kept.append(state)

    def keep_model(self, model: TrainedModel) -> None:
        self.models.append(model.files())


class Killed(Exception):
    """What a lost worker looks like from inside."""


@pytest.mark.parametrize("due", [True, False])
def test_a_trial_that_goes_on_in_a_later_stage_counts_and_pays_the_releases_of_all_stages_once(
    due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker may die before a state is due, and the next one add up in another order."""
    data, _ = digits(train=200)
    vault = LabelVault(labels=np.arange(200) % 10, num_classes=10)
    states, epochs = States(), list[Any]()
    monkeypatch.setattr(States, "due", lambda states: due)

    def dies_in_the_second_stage(metrics: Any) -> None:
        epochs.append(metrics)
        if len(epochs) == 4:
            raise Killed

    def run(on_epoch: Callable[[Any], None]) -> TrialOutcome:
        return run_trial(
            TWO_STAGES, data=data, vault=NearVault(vault), on_epoch=on_epoch, checkpoints=states
        )

    with pytest.raises(Killed):
        run(dies_in_the_second_stage)
    assert len(vault.charges()) == 2
    if not due:
        monkeypatch.setattr(Learner, "_rate", lambda learner, epoch, step: 0.01)
    outcome = run(lambda metrics: None)
    assert len(vault.charges()) == 2
    assert sorted(outcome.release_keys) == sorted(charge.key for charge in vault.charges())
    assert due or len(states.kept) == 1, "the epoch that asked is kept"


def test_a_state_that_grew_from_releases_of_another_ledger_is_not_gone_on_from() -> None:
    data, _ = digits(train=200)
    states = States()
    for shift in range(2):
        vault = LabelVault(labels=(np.arange(200) + shift) % 10, num_classes=10)
        outcome = run_trial(
            TWO_STAGES,
            data=data,
            vault=NearVault(vault),
            on_epoch=lambda metrics: None,
            checkpoints=states,
        )
        assert outcome.release_keys == [charge.key for charge in vault.charges()]
    assert len(states.kept) == 2 * TWO_STAGES.trainer.epochs


def test_a_trial_stops_where_it_is_told_to_and_stays_stopped_when_it_starts_again() -> None:
    """Its worker died after the word and before the end: it trains no further epoch."""
    data, _ = digits(train=200)
    vault = LabelVault(labels=np.arange(200) % 10, num_classes=10)
    config = with_changes(TrialConfig(), {"trainer.epochs": 5, "trainer.width": 8})
    told: list[float] = []

    def rungs(*, stopped: bool) -> Rungs:
        def judged(figures: Mapping[str, float]) -> bool:
            told.append(figures["epoch"])
            return figures["epoch"] == 3

        return Rungs(epochs=(1, 3), estimated=False, judged=judged, stopped=lambda: stopped)

    states, seen = States(), list[int]()

    def run(*, stopped: bool) -> TrialOutcome:
        return run_trial(
            config,
            data=data,
            vault=NearVault(vault),
            on_epoch=lambda metrics: seen.append(metrics.epoch),
            checkpoints=states,
            rungs=rungs(stopped=stopped),
        )

    first = run(stopped=False)
    assert (first.stopped_early, told, seen) == (3, [1, 3], [2])
    again = run(stopped=True)
    assert (again.stopped_early, told, seen) == (3, [1, 3], [2, 1, 2, 3])
    assert again.metrics["accuracy"] == first.metrics["accuracy"]


@pytest.mark.parametrize("keep", [True, False])
def test_the_model_that_was_measured_is_kept_unless_nobody_wants_it(
    keep: bool, tmp_path: Path
) -> None:
    data, source = digits(train=200)
    states, vault = States(), LabelVault(labels=source.labels, num_classes=10)
    outcome = run_trial(
        with_changes(TWO_STAGES, {"models.keep": keep}),
        data=data,
        vault=NearVault(vault),
        on_epoch=lambda metrics: None,
        checkpoints=states,
    )
    assert len(states.models) == keep
    if keep:
        for name, content in states.models[0].items():
            (tmp_path / name).write_bytes(content)
        model = load_model(tmp_path)
        right = model.predict(data.test_features.numpy()) == data.test_labels
        assert right.mean() == outcome.metrics["accuracy"]
        assert (model.facts["epsilon"], model.facts["method"]) == (2.0, "lp_mst")


OVER = BudgetExceeded(budget=Budget(epsilon=1.0), spent=1.0, requested=2.0, request="r")


@pytest.mark.parametrize(
    ("error", "over", "reason"),
    [
        (OVER, True, "BudgetExceeded: "),
        (TrainingDiverged("the loss is\nnot finite"), False, "TrainingDiverged: the loss is not f"),
        (ValueError("BudgetExceeded: no"), False, "ValueError: BudgetExceeded: no"),
        (MemoryError("too large"), False, "out of memory (too large); lower trainer.batch_size"),
        (SystemExit(3), False, "SystemExit: 3"),
    ],
)
def test_what_ended_a_trial_travels_in_its_end(
    error: BaseException, over: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[dict[str, Any]] = []

    def fail(*arguments: Any, **settings: Any) -> None:
        raise error

    monkeypatch.setattr(trial_module, "run_trial", fail)
    monkeypatch.setattr(tune, "report", reported.append)
    nothing: Any = SimpleNamespace()
    tune_trial(
        {"hash": "ab"},
        plans={"ab": PlannedTrial(variant="ALIBI", config=TrialConfig(), point={})},
        searches=(),
        data=nothing,
        home=nothing,
        keeper=nothing,
        cpus=torch.get_num_threads(),
    )
    (end,) = (each["end"] for each in reported)
    assert (end["finished"], end["over_budget"]) == (False, over)
    assert end["reason"].startswith(reason) and "\n" not in end["reason"]

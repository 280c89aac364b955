"""trial: a trial that goes on from a state counts every release that the state was made of."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, Mechanism, Release
from labeldp.platform.configuration import DataSettings, TrialConfig
from labeldp.platform.home_handle import HomeHandle
from labeldp.platform.records.checkpoints import Checkpoints
from labeldp.platform.trial import run_trial
from labeldp.platform.vault_client import VaultClient
from labeldp.trainers.lp_mst import LpMstConfig
from labeldp.trainers.performance import Device, Performance
from tests.trainers.tiny_data import digits

TWO_STAGES = TrialConfig(
    method="lp_mst",
    data=DataSettings(name="digits"),
    trainer=LpMstConfig(epochs=4, width=8, epsilon=2.0),
    performance=Performance(device=Device.CPU),
)


class NearVault(VaultClient):
    """A client whose vault is in this process."""

    def __init__(self, vault: LabelVault) -> None:
        super().__init__(home=HomeHandle(None), noise=SeededNoise(seed=0))
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
    """Keeps every state in memory."""

    def __init__(self) -> None:
        self.kept: list[Mapping[str, Any]] = []

    def find(self) -> Mapping[str, Any] | None:
        return self.kept[-1] if self.kept else None

    def due(self) -> bool:
        return True

    def keep(self, state: Mapping[str, Any]) -> None:
        self.kept.append(state)


class Killed(Exception):
    """What a lost worker looks like from inside."""


def test_a_trial_that_goes_on_in_a_later_stage_counts_the_releases_of_all_stages() -> None:
    data, _ = digits(train=200)
    labels = np.random.default_rng(0).integers(10, size=200)
    vault = LabelVault(labels=labels, num_classes=10)
    states, epochs = States(), []

    def dies_in_the_second_stage(metrics: Any) -> None:
        epochs.append(metrics)
        if len(epochs) == 4:
            raise Killed

    def client() -> NearVault:
        return NearVault(vault)

    with pytest.raises(Killed):
        run_trial(
            TWO_STAGES,
            data=data,
            vault=client(),
            on_epoch=dies_in_the_second_stage,
            checkpoints=states,
        )
    outcome = run_trial(
        TWO_STAGES, data=data, vault=client(), on_epoch=lambda metrics: None, checkpoints=states
    )
    assert len(vault.charges()) == 2
    assert sorted(outcome.release_keys) == sorted(charge.key for charge in vault.charges())

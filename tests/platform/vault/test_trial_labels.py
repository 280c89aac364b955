"""trial_labels: a trial of a home in one process pays for what it reads."""

from pathlib import Path

import numpy as np
import pytest

from labeldp.mechanisms.correct_count import CorrectCount
from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.platform.records.results import SweepIdentity
from labeldp.platform.report.ledger import sweep_totals
from labeldp.platform.sweep.configuration import AuditSettings
from labeldp.platform.vault.label_home import HomePlaces, LabelHome, SecretLabels
from labeldp.platform.vault.trial_labels import TrialLabels

LABELS = np.arange(400) % 10


def a_home(folder: Path, *, held_out: int = 0, budget: Budget | None = None) -> LabelHome:
    size = len(LABELS) - held_out
    return LabelHome(
        SecretLabels(
            training=LABELS[:size], held_out=LABELS[size:] if held_out else None, num_classes=10
        ),
        audit=AuditSettings(canaries=20, coin_canaries=20),
        coin_seed=None,
        places=HomePlaces(store=folder / "vault.db", votes=folder / "votes"),
        fingerprint="",
        budget=budget,
    )


@pytest.fixture
def client(tmp_path: Path) -> TrialLabels:
    return TrialLabels(home=a_home(tmp_path), noise=OsEntropy())


def rr(epsilon: float) -> RandomizedResponse:
    return RandomizedResponse(epsilon=epsilon, num_classes=10)


def test_a_trial_pays_for_every_release_that_it_read(client: TrialLabels) -> None:
    assert client.epsilon(delta=1e-5) == (0.0, 0.0)
    first = client.release(rr(1.0))
    assert client.epsilon(delta=1e-5) == (1.0, 0.0)
    second = client.release(rr(0.5))
    assert client.keys == [first.key, second.key]
    assert client.epsilon(delta=1e-5) == (1.5, 0.0)


def test_what_is_read_again_is_paid_once(client: TrialLabels) -> None:
    first, again = client.release(rr(1.0)), client.release(rr(1.0))
    assert first.key == again.key and client.keys == [first.key]
    assert client.epsilon(delta=1e-5) == (1.0, 0.0)


def test_another_trial_pays_for_what_it_reads_and_no_more(client: TrialLabels) -> None:
    client.release(rr(1.0))
    other = TrialLabels(home=client.home, noise=OsEntropy())
    other.release(rr(0.25), indices=np.arange(10))
    assert other.epsilon(delta=1e-5) == (0.25, 0.0)
    assert [line.event for line in client.home.ledger()] == [
        rr(1.0).event,
        rr(0.25).event,
    ]


def test_another_trials_noise_is_another_release(tmp_path: Path) -> None:
    home = a_home(tmp_path, held_out=50)
    count = CorrectCount(epsilon=0.5)
    for draw in range(3):
        other = TrialLabels(home=home, noise=OsEntropy(draw=draw))
        other.release(rr(1.0))
        other.release_held_out(count, np.zeros(50, dtype=np.int64))
        assert other.epsilon(delta=1e-5) == (1.0, 0.0)
    totals = sweep_totals(home.ledger(), SweepIdentity(), delta=1e-5)
    assert (totals["releases"], totals["epsilon_total"], totals["delta"]) == (6, 3.0, 0.0)


def test_what_may_fail_is_part_of_every_delta(
    client: TrialLabels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RandomizedResponse, "failure_probability", 4e-6)
    client.release(rr(1.0))
    assert client.epsilon(delta=1e-5) == (1.0, 8e-6)
    other = TrialLabels(home=client.home, noise=OsEntropy(draw=1))
    other.release(rr(1.0), indices=np.arange(9))
    totals = sweep_totals(client.home.ledger(), SweepIdentity(), delta=1e-5)
    assert (totals["epsilon_total"], totals["delta"]) == (2.0, 1.6e-5)


def test_the_home_keeps_the_budget(tmp_path: Path) -> None:
    poor = TrialLabels(home=a_home(tmp_path, budget=Budget(epsilon=1.5)), noise=OsEntropy())
    poor.release(rr(1.0))
    with pytest.raises(BudgetExceeded, match="1 is spent and this would make it 2"):
        poor.release(rr(1.0), indices=np.arange(9))


def test_a_key_that_the_vault_does_not_know_is_refused(client: TrialLabels) -> None:
    client.keys.append("f" * 32)
    with pytest.raises(ValueError, match="no release has the key"):
        client.epsilon(delta=1e-5)


def test_lines_of_the_ledger_are_those_that_were_read(client: TrialLabels) -> None:
    client.release(rr(1.0))
    other = TrialLabels(home=client.home, noise=OsEntropy())
    second = other.release(rr(0.25), indices=np.arange(10))
    (line,) = other.charges()
    assert (line.key, line.event) == (second.key, rr(0.25).event)
    assert client.home.charges([]) == []

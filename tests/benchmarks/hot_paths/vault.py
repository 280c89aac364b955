"""The vault: a release of a million labels, and a ledger of a hundred thousand lines on disk."""

import io
import json
import sqlite3
from itertools import count
from pathlib import Path

import numpy as np

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.ledger import ledger_of
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.vault.vault_store import SqliteStore
from tests.benchmarks.benchmark import Work, benchmark

_LABELS, _CLASSES = 1_000_000, 10
_LINES, _CHARGED, _STAGES = 100_000, 1000, 10


@benchmark(
    "vault-release",
    "randomized response on 10^6 labels in a vault",
    "four lines of NumPy, not secret and not charged",
    mark=0.13,
)
def _release(scratch: Path) -> Work:
    labels = np.random.default_rng(0).integers(0, _CLASSES, size=_LABELS)
    vault = LabelVault(labels=labels, num_classes=_CLASSES)
    mechanism, draws = RandomizedResponse(epsilon=1.0, num_classes=_CLASSES), count()
    kept = np.e / (np.e + _CLASSES - 1)

    def ours() -> np.ndarray:
        return vault.release(mechanism, noise=OsEntropy(draw=next(draws))).values

    def plain() -> np.ndarray:
        """No address, no ledger, no store, and noise that is not secret."""
        generator = np.random.default_rng()
        other = (labels + generator.integers(1, _CLASSES, size=_LABELS)) % _CLASSES
        return np.where(generator.random(_LABELS) < kept, labels, other)

    def check() -> None:
        for released in (ours(), plain()):
            assert abs((released == labels).mean() - kept) < 0.005

    return Work(ours=ours, reference=plain, check=check)


@benchmark(
    "ledger",
    "10^5 lines of a vault composed for 1,000 labels",
    "a loop over the lines, adding to each label",
    mark=0.24,
)
def _ledger(scratch: Path) -> Work:
    path = scratch / "vault.db"
    SqliteStore(path)
    stage = _CHARGED // _STAGES
    stages = [np.arange(first, first + stage) for first in range(0, _CHARGED, stage)]
    kept = []
    for indices in stages:
        buffer = io.BytesIO()
        np.save(buffer, indices)
        kept.append(buffer.getvalue())
    event = write_event(PureEvent(epsilon=0.5))
    mechanism = json.dumps({"name": "LaplaceNoise", "epsilon": 0.5, "num_classes": _CLASSES})
    connection = sqlite3.connect(path)
    with connection:
        connection.executemany(
            "INSERT INTO charges (key, event, indices, mechanism, failure_probability, made) "
            "VALUES (?, ?, ?, ?, 0, '2026-11-21T23:40:15Z')",
            ((f"r{n}", event, kept[n % _STAGES], mechanism) for n in range(_LINES)),
        )
    connection.close()

    def ours() -> float:
        charges = SqliteStore(path).charges()
        return ledger_of(charges, num_labels=_CHARGED).epsilon(delta=0.0)

    def plain() -> float:
        """Read each line and add its epsilon to each label that it names."""
        reader = sqlite3.connect(path)
        totals = np.zeros(_CHARGED)
        query = "SELECT key, event, indices, mechanism FROM charges ORDER BY position"
        for _, event, indices, mechanism in reader.execute(query):
            json.loads(mechanism)
            totals[np.load(io.BytesIO(indices))] += json.loads(event)["epsilon"]
        reader.close()
        return float(totals.max())

    def check() -> None:
        assert ours() == plain() == 0.5 * _LINES / _STAGES

    return Work(ours=ours, reference=plain, check=check)

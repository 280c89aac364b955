"""Results folders for tests: a vault that has released, a sweep that knows it, trials that read it.

No Ray and no training: what a folder holds is written as a driver would.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.randomness import NoiseSource
from labeldp.mechanisms.vault import LabelVault, Mechanism
from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.report.ledger import ledger_report
from labeldp.platform.vault.vault_store import SqliteStore
from labeldp.trainers.data.preprocessing import AsTheyAre, Preprocessing
from labeldp.trainers.models.predictors import LinearPredictor
from labeldp.trainers.models.trained_model import Origin, TrainedModel
from tests.platform.sweep.examples import a_record

FINGERPRINT = "f" * 64
LABELS = np.arange(60) % 10
LAPLACE = LaplaceNoise(epsilon=2.0, num_classes=10)


def a_vault(
    folder: Path, *, labels: NDArray[Any] = LABELS, salt: bytes | None = None
) -> LabelVault:
    ResultsFolder(folder, sweep="small")
    store = SqliteStore(folder / "vault.db", salt=salt)
    return LabelVault(labels=labels, num_classes=10, store=store)


def a_folder(
    path: Path,
    *,
    releases: Sequence[Mechanism] = (LAPLACE,),
    noise: NoiseSource | None = None,
    readers: int = 1,
    fingerprint: str = FINGERPRINT,
    **facts: Any,
) -> list[str]:
    """Make a results folder whose `readers` trials read all releases; returns their keys."""
    vault = a_vault(path)
    keys = [vault.release(mechanism, noise=noise).key for mechanism in releases]
    folder = ResultsFolder(path, sweep="small")
    folder.identify(
        fingerprint=fingerprint,
        vault=SqliteStore(folder.store).id,
        path=str(path),
        num_labels=len(LABELS),
        held_out_labels=0,
    )
    for number in range(readers):
        folder.keep(a_record(f"{number:016x}", release_keys=tuple(keys), **facts))
    return keys


def account(*paths: Path) -> dict[str, Any]:
    return ledger_report([str(path) for path in paths])


def keep(path: Path, record: TrialRecord, **changes: Any) -> TrialRecord:
    changed = replace(record, **changes)
    ResultsFolder(path, sweep="small").keep(changed)
    return changed


def keep_a_model(results: Path, record: TrialRecord, **changes: Any) -> Path:
    """Put a model of ten classes into a results folder, as a trial keeps it; return its folder."""
    origin = Origin(
        method=str(record.config["method"]),
        epsilon=record.metrics["epsilon"],
        delta=record.metrics["delta"],
        num_classes=10,
        classes=tuple(f"class {number}" for number in range(10)),
        data_name=str(record.config["data.name"]),
        fingerprint=FINGERPRINT,
        trial=record.hash,
        seed=int(record.config["seed"]),
        noise=record.noise,
    )
    weights = np.random.default_rng(0).normal(size=(64 + 1, 10))
    model = TrainedModel(
        predictor=LinearPredictor(weights=weights, pixels=None),
        preprocessing=Preprocessing(steps=(AsTheyAre(columns=64),)),
        origin=replace(origin, **changes),
    )
    folder = results / "models" / record.hash
    model.save(folder)
    return folder

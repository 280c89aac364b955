"""The one Tune trainable: runs any trial, reports epochs and the end, and never raises.

What goes wrong in a trial is part of its result: the reason travels to the driver, which marks the
trial failed while the others go on. Only what ends the process (a lost node, a killed worker) is
left to Tune, which starts the trial again.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from ray import tune

from labeldp.mechanisms.ledger import BudgetExceeded
from labeldp.platform.home_handle import HomeHandle
from labeldp.platform.records.checkpoints import Checkpoints, KeeperHandle
from labeldp.platform.records.kept_models import ModelShelf
from labeldp.platform.sweep import PlannedTrial
from labeldp.platform.trial import run_trial
from labeldp.platform.vault_client import VaultClient
from labeldp.trainers.data import PublicData
from labeldp.trainers.schedules import EpochMetrics, TrainingDiverged

#: Epochs are reported together, at most this often: a report costs the driver some milliseconds.
REPORT_SECONDS = 1.0


def tune_trial(
    config: Mapping[str, str],
    *,
    plans: Mapping[str, PlannedTrial],
    data: PublicData,
    home: HomeHandle,
    keeper: KeeperHandle,
    cpus: float,
) -> None:
    """Run the trial that `config["hash"]` names.

    Args:
        config: What Tune chose: a key of `plans`.
        plans: Every trial of the sweep, by hash.
        data: Public features and test split.
        home: The vault's home.
        keeper: Keeps the states of trials in training, and trained models.
        cpus: Cores that this trial may use.
    """
    planned = plans[config["hash"]]
    torch.set_num_threads(max(1, int(cpus)))
    epochs: list[dict[str, float]] = []
    reported = time.monotonic()

    def on_epoch(metrics: EpochMetrics) -> None:
        nonlocal epochs, reported
        figures = asdict(metrics).items()
        epochs.append({name: value for name, value in figures if not math.isnan(value)})
        if time.monotonic() - reported >= REPORT_SECONDS:
            tune.report({"epochs": epochs})
            epochs, reported = [], time.monotonic()

    vault = VaultClient(home=home, noise=planned.config.noise.source(), trial=config["hash"])
    started = time.perf_counter()
    end: dict[str, Any] = {"finished": False, "reason": "", "metrics": {}}
    try:
        outcome = run_trial(
            planned.config,
            data=data,
            vault=vault,
            on_epoch=on_epoch,
            checkpoints=Checkpoints(keeper=keeper, digest=config["hash"]),
            models=ModelShelf(keeper=keeper, digest=config["hash"]),
        )
        end |= {"finished": True, "metrics": dict(outcome.metrics)}
    except (Exception, SystemExit) as error:
        end["reason"] = _reason(error)
    end |= {"release_keys": vault.keys, "seconds": time.perf_counter() - started}
    tune.report({"epochs": epochs, "end": end})


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, BudgetExceeded | TrainingDiverged):
        return f"{type(error).__name__}: {text}"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "out of memory" in text:
        return (
            f"out of memory ({text[:300]}); lower trainer.batch_size or trainer.width, or give the "
            "trial a larger device"
        )
    return f"{type(error).__name__}: {text[:1000]}"

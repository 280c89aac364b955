"""Records, vaults, tracking and plans of sweeps."""

import contextlib
import io
import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
from mlflow.tracking import MlflowClient

from labeldp.mechanisms.accounting import PureEvent
from labeldp.mechanisms.ledger import ledger_of
from labeldp.mechanisms.randomized_response import RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_store import write_event
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.cli.command_line import main
from labeldp.platform.records.results import ResultsFolder, TrialRecord
from labeldp.platform.records.tracking import Tracker
from labeldp.platform.settings.configuration import TrialConfig, config_hash, with_changes
from labeldp.platform.settings.sweep import Grid, PlannedTrial, Resume, Sweep, SweepOptions
from labeldp.platform.sweep.cost import cost_of
from labeldp.platform.sweep.open_sweep import finished_before
from labeldp.platform.sweep.plan import plan_of
from labeldp.platform.vault.vault_store import SqliteStore
from tests.benchmarks.benchmark import Work, benchmark, children_seconds
from tests.benchmarks.large_table import auc, commands, write
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store
from tests.source_tree import ROOT

_READ = 5000


@benchmark(
    "resume",
    "5,000 records checked by a resumed sweep",
    "the same files read and not checked",
    mark=0.055,
    most_seconds=10.0,
)
def _resume(scratch: Path) -> Work:
    folder = ResultsFolder(scratch, sweep="small")
    for number in range(_READ):
        record = a_record(f"{number:016x}")
        text = json.dumps(asdict(record), indent=1)
        (scratch / "trials" / f"{record.hash}.json").write_text(text)

    def ours() -> set[str]:
        return set(finished_before(folder, Resume.AUTO, ""))

    def plain() -> set[str]:
        """Read each file, check nothing."""
        found = (json.loads(path.read_text()) for path in (scratch / "trials").glob("*.json"))
        return {record["hash"] for record in found if record["finished"]}

    def check() -> None:
        assert ours() == plain() and len(plain()) == _READ

    return Work(ours=ours, reference=plain, check=check)


# The vault: a release of a million labels, and a ledger of a hundred thousand lines on disk.

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


# Runs of trials in a tracking store, against MLflow's fluent interface as its manual has it.

_TRIALS, _EPOCHS = 10, 20
_TEXTS = {"config.yaml": "seed: 0\n", "run_card.md": "# A trial\n", "ledger.json": "[]\n"}


@benchmark(
    "tracking-write",
    "10 trials of 20 epochs tracked in SQLite",
    "MLflow's fluent interface, an epoch at a time",
    mark=1.5,
    clock=time.perf_counter,
)
def _tracked(scratch: Path) -> Work:
    stores = {side: new_store(scratch / side) for side in ("ours", "plain")}
    tracker = Tracker(uri=stores["ours"], experiment="small")
    tracker.open_parent("small", tags={"sweep": "small"}, run_id=None)
    names = count()
    epoch = {"loss": 1.0, "val_accuracy": 0.5, "seconds": 0.1}

    def a_trial() -> TrialRecord:
        record = a_record(f"{next(names):016x}")
        record.curves[:] = [{"epoch": n, **epoch} for n in range(1, _EPOCHS + 1)]
        return record

    def ours() -> str:
        for _ in range(_TRIALS):
            tags = {"seed": "0"}
            run_id = tracker.write(a_trial(), name="a trial", tags=tags, texts=_TEXTS)
        return run_id

    def plain() -> str:
        """A run inside of a run for each trial, an epoch at a time, as it is trained."""
        mlflow.set_tracking_uri(stores["plain"])
        mlflow.set_experiment("small")
        with mlflow.start_run(run_name="small"):
            for _ in range(_TRIALS):
                record = a_trial()
                with mlflow.start_run(run_name="a trial", nested=True) as run:
                    mlflow.set_tags({"config_hash": record.hash, "seed": "0"})
                    mlflow.log_params(dict(record.config))
                    for epoch in record.curves:
                        figures = {key: value for key, value in epoch.items() if key != "epoch"}
                        mlflow.log_metrics(figures, step=int(epoch["epoch"]))
                    found = {**record.metrics, "epsilon_m": record.metrics["epsilon_m_low"]}
                    mlflow.log_metrics(found, step=0)
                    for name, text in _TEXTS.items():
                        mlflow.log_text(text, name)
        return str(run.info.run_id)

    def check() -> None:
        found = [_kept(stores["ours"], ours()), _kept(stores["plain"], plain())]
        assert found[0] == found[1], found

    return Work(ours=ours, reference=plain, check=check)


def _kept(uri: str, run_id: str) -> dict[str, Any]:
    client = MlflowClient(tracking_uri=uri)
    data = client.get_run(run_id).data
    points = client.get_metric_history(run_id, "loss")
    return {
        "metrics": data.metrics,
        "params": data.params,
        "curve": [(point.step, point.value) for point in points],
        "files": sorted(file.path for file in client.list_artifacts(run_id)),
    }


# Planning: twenty thousand trials resolved, checked and priced.

_SWEEPS_TRIALS, _ONE_BY_ONE, _EPSILONS = 20_000, 500, (0.5, 1.0, 2.0, 4.0)


@benchmark(
    "plan",
    "plan of 20,000 trials",
    "each trial's configuration, hash and price by itself, nothing else",
    mark=0.28,
    most_seconds=60.0,
)
def _plan(scratch: Path) -> Work:
    seeds = _SWEEPS_TRIALS // len(_EPSILONS)
    base = with_changes(TrialConfig(), {"audit.canaries": 20})

    def of(seeds: int) -> Sweep:
        axes = {"trainer.epsilon": Grid(*_EPSILONS), "seed": Grid(*range(seeds))}
        return Sweep(name="planned", base=base, space=axes)

    options = SweepOptions(results=scratch)
    sweep, small = of(seeds), of(_ONE_BY_ONE // len(_EPSILONS))

    def plain() -> tuple[int, list[float]]:
        """Every trial by itself: its configuration, its hash, its price."""
        found = {}
        for epsilon in _EPSILONS:
            for seed in range(_ONE_BY_ONE // len(_EPSILONS)):
                point = {"trainer.epsilon": epsilon, "seed": seed}
                config = with_changes(base, point)
                trial = PlannedTrial(variant="planned", config=config, point=point)
                price = cost_of([trial], num_classes=10).epsilon_total
                found[config_hash(config, data_fingerprint="")] = price
        return len(found), sorted(set(found.values()))

    def check() -> None:
        planned = plan_of(small, options)
        assert (planned.trials, planned.epsilons) == plain()
        assert not planned.problems

    return Work(
        ours=lambda: plan_of(sweep, options),
        reference=plain,
        part=_ONE_BY_ONE / _SWEEPS_TRIALS,
        check=check,
    )


# The start of a sweep in a process of its own, against importing all that it will ever need.

#: A sweep read, planned, its data loaded and checked, and the driver there to run it.
_READY = """
import json, runpy, sys
from pathlib import Path
from typing import Any
from labeldp.platform.sweep.driver import check, run_sweep
from labeldp.platform.settings.sweep import SweepOptions
sweep = runpy.run_path("sweeps/quickstart.py")["SWEEP"]
plan, _ = check(sweep, SweepOptions(results=Path(sys.argv[1])))
print(json.dumps({"trials": len(plan.trials), "heavy": HEAVY}))
"""
_IMPORTS = "import json, sys, matplotlib.figure, mlflow, ray.tune, sklearn.datasets, torch\n"
_PLAIN = _IMPORTS + 'print(json.dumps({"trials": 16, "heavy": HEAVY}))\n'
_HEAVY = "sorted({'matplotlib', 'mlflow', 'ray', 'sklearn', 'torch'} & set(sys.modules))"


def _run(code: str, scratch: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", code.replace("HEAVY", _HEAVY), str(scratch / "results")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@benchmark(
    "sweep-start",
    "the demo's driver until its data are checked",
    "a process that imports torch, Ray, MLflow, scikit-learn and matplotlib",
    mark=1.1,
    clock=children_seconds,
)
def _start(scratch: Path) -> Work:
    def check() -> None:
        """The demo has 16 trials; what runs them is loaded later, beside Ray's start."""
        ours, plain = _run(_READY, scratch), _run(_PLAIN, scratch)
        assert ours["trials"] == 16
        assert plain["heavy"] == ["matplotlib", "mlflow", "ray", "sklearn", "torch"]
        assert set(plain["heavy"]) - set(ours["heavy"]) >= {"matplotlib", "mlflow", "ray"}, ours

    return Work(
        ours=partial(_run, _READY, scratch), reference=partial(_run, _PLAIN, scratch), check=check
    )


# A Parquet file of 40 columns, requested, released and learned in parts.

_ROWS = 16_000
_AT_ONCE = 4_000


@benchmark(
    "large-table",
    "request, release and fit of 16,000 rows x 40 columns of Parquet in 4 parts",
    "the same in one part; tests.benchmarks.large_table --rows 10000000 is the full size",
    mark=0.45,
    most_megabytes=250,
    rounds=3,
)
def _large(scratch: Path) -> Work:
    write(scratch, rows=_ROWS)
    runs = count()

    def run(rows_at_once: int | None) -> str:
        to = f"{next(runs)}-"
        for arguments in commands(scratch, rows_at_once=rows_at_once, to=to).values():
            with contextlib.redirect_stdout(io.StringIO()):
                assert main(arguments) == 0
        return f"{to}boosting"

    def check() -> None:
        for rows_at_once in (None, _AT_ONCE):
            assert 0.6 < auc(scratch, model=run(rows_at_once)) < 0.823

    return Work(ours=lambda: run(_AT_ONCE), reference=lambda: run(None), check=check)

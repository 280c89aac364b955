"""Runs of trials in a tracking store, against MLflow's fluent interface as its manual has it."""

from itertools import count
from pathlib import Path
from typing import Any

import mlflow
from mlflow.tracking import MlflowClient

from labeldp.platform.records.results import TrialRecord
from labeldp.platform.records.tracking import Tracker
from tests.benchmarks.benchmark import Clock, Work, benchmark
from tests.platform.sweep.examples import a_record
from tests.platform.sweep.stores import new_store

_TRIALS, _EPOCHS = 10, 20
_TEXTS = {"config.yaml": "seed: 0\n", "run_card.md": "# A trial\n", "ledger.json": "[]\n"}


@benchmark(
    "tracking-write",
    "10 trials of 20 epochs tracked in SQLite",
    "MLflow's fluent interface, an epoch at a time",
    mark=1.5,
    clock=Clock.WALL,
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
            record = a_trial()
            run_id = tracker.open_child(record.hash, name="a trial", tags={"seed": "0"})
            tracker.log_curves(run_id, record.curves)
            tracker.close_child(record, run_id=run_id, texts=_TEXTS)
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
                    mlflow.log_metrics(dict(record.metrics), step=0)
                    for name, text in _TEXTS.items():
                        mlflow.log_text(text, name)
        return str(run.info.run_id)

    def check() -> None:
        found = [_kept(stores["ours"], ours()), _kept(stores["plain"], plain())]
        assert found[0] == found[1], found

    return Work(ours=ours, reference=plain, check=check)


def _kept(uri: str, run_id: str) -> dict[str, Any]:
    """What a store has of a run."""
    client = MlflowClient(tracking_uri=uri)
    data = client.get_run(run_id).data
    points = client.get_metric_history(run_id, "loss")
    return {
        "metrics": data.metrics,
        "params": data.params,
        "curve": [(point.step, point.value) for point in points],
        "files": sorted(file.path for file in client.list_artifacts(run_id)),
    }

"""The smoke run of PATE on digits: teachers once for all settings, and for all later sweeps."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from labeldp.platform.records import tracking
from labeldp.platform.records.results import ResultsFolder
from labeldp.platform.sweep.config_files import load_sweep
from tests.platform.cli.asked import swept
from tests.platform.sweep.stores import copy_store

TEACHERS = 250


@pytest.mark.ray_cluster
@pytest.mark.timeout(900)
def test_teachers_are_trained_once_for_all_settings_of_the_noise(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    monkeypatch.setattr(tracking, "_create_whole", copy_store)

    def run(name: str, *overrides: str) -> tuple[dict[str, Any], str, dict[str, float]]:
        """Return the JSON, the standard error, and the metrics of the sweep's own run."""
        where = ("--results", str(tmp_path / name), "--address", cluster.address)
        code, out, err = swept(load_sweep("pate_mnist"), "--smoke", "--json", *where, *overrides)
        assert code == 0, err
        outcome = json.loads(out.splitlines()[-1])
        client = MlflowClient(tracking_uri=outcome["tracking_uri"])
        return outcome, err, client.get_run(outcome["parent_run_id"]).data.metrics

    # Two settings of one ensemble; the whole grid is the same path more often.
    # The noise is seeded: two students of 100 noisy answers each are now and then all below .7.
    fixed = (
        *("trainer.threshold=100", "trainer.sigma1=75", "trainer.sigma2=[25,50]"),
        *("noise.seed=0", "--only", "T=250"),
    )
    outcome, said, metrics = run("first", *fixed)
    assert outcome["trials"] == outcome["finished"] == 2
    assert (metrics["teachers_trained"], metrics["teachers_reused"]) == (TEACHERS, 0)
    assert "ensemble of 250 smooth teachers: 250 trained" in said
    assert outcome["ledger"]["releases"] == 4  # answers, and what they cost, of two settings
    point = outcome["pareto"][-1]
    assert point["accuracy"] > 0.7 and point["epsilon_m_low"] <= point["epsilon"]
    # Another sweep beside it asks for other noise: no teacher is trained.
    outcome, said, metrics = run(
        "second",
        *(*fixed[:2], *fixed[3:], "trainer.sigma2=40", "trainer.publish_cost=false"),
    )
    assert outcome["finished"] == 1
    assert (metrics["teachers_trained"], metrics["teachers_reused"]) == (0, TEACHERS)
    assert re.search(r"ensemble of 250 smooth teachers: 0 trained in [\d.]+ s, 250 reused", said)
    assert outcome["ledger"]["releases"] == 1
    prices = {"epsilon_realised", "epsilon_sanitized", "private/epsilon_data_dependent"}
    records = ResultsFolder(tmp_path / "first", sweep="pate_mnist").records().values()
    assert all(prices <= set(record.metrics) for record in records)

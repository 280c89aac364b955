"""tracking_page: names by what differs, a description that fits, links."""

import math
from pathlib import Path
from typing import Any

from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT
from mlflow.tracking import MlflowClient

from labeldp.platform.records.tracking import NOTE, Tracker
from labeldp.platform.records.tracking_page import (
    description,
    links,
    run_names,
)
from labeldp.platform.sweep.configuration import TrialConfig
from labeldp.platform.sweep.sweep import PlannedTrial
from tests.platform.sweep.stores import new_store


def names(*trials: tuple[str, dict[str, Any]]) -> list[str]:
    plans = {
        str(number): PlannedTrial(variant=variant, config=TrialConfig(), point=point)
        for number, (variant, point) in enumerate(trials)
    }
    return list(run_names(plans).values())


def test_a_run_is_named_by_what_differs() -> None:
    found = names(
        ("ALIBI", {"trainer.epsilon": 1.0, "seed": 0, "trainer.epochs": 5}),
        ("ALIBI", {"trainer.epsilon": 2.0, "seed": 1, "trainer.epochs": 5}),
        ("no privacy", {}),
    )
    assert found == ["ALIBI epsilon=1 seed=0", "ALIBI epsilon=2 seed=1", "no privacy"]


def test_long_numbers_are_cut_and_keys_that_end_alike_told_apart() -> None:
    found = names(
        ("a", {"trainer.teacher.epochs": 1, "trainer.student.epochs": 2, "x.rate": 0.123456789}),
        ("a", {"trainer.teacher.epochs": 2, "trainer.student.epochs": 1, "x.rate": 0.2}),
    )
    assert found[0] == "a teacher.epochs=1 student.epochs=2 rate=0.1235"


ROW = {
    "variant": "A|B",
    "accuracy": 0.9,
    "epsilon": 1.0,
    "epsilon_m_low": 0.0,
    "epsilon_m_high": math.inf,
}


def test_a_description_has_finding_figure_and_table() -> None:
    said = description("It leaks.", rows=[ROW], run_id="r1")
    assert said.startswith("It leaks.\n")
    assert "](get-artifact?path=pareto.png&run_uuid=r1)" in said
    assert r"| A\|B | 90.0 | 1 | 0 to inf |" in said


def test_a_description_of_many_rows_fits() -> None:
    said = description("It leaks.", rows=[ROW] * 1000, run_id="r1")
    assert 4000 < len(said) <= 4500 and said.endswith("has every row.")


def test_links_open_the_table_and_compare_runs() -> None:
    found = links("http://here:1/", experiment="7", runs=[str(number) for number in range(99)])
    assert found["table"].startswith(
        "http://here:1/#/experiments/7/runs?workflowType=machine_learning"
    )
    assert found["chart"] == found["table"] + "&compareRunsMode=CHART"
    assert len(found["compare"]) < 2000


def test_tags_are_written_once_however_often_a_sweep_starts_and_ends(tmp_path: Path) -> None:
    uri = new_store(tmp_path)
    for _ in range(2):
        tracker = Tracker(uri=uri, experiment="small", results=tmp_path)
        tracker.open_parent("small", tags={"sweep_id": "s"}, run_id=None)
        tracker.close_parent(metrics={}, files=(), texts={}, finished=True, note="It leaks.")
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment(tracker.experiment_id)
    assert experiment.tags == {
        "mlflow.experimentKind": "custom_model_development",
        NOTE: "It leaks.",
    }
    (run,) = client.search_runs([tracker.experiment_id])
    assert run.data.tags[NOTE] == "It leaks."


def test_a_server_prints_no_links_of_its_own() -> None:
    """Two lines for every trial that ends; MLflow looks at the environment when it prints."""
    assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get() is True  # type: ignore[no-untyped-call]

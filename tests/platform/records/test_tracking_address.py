"""Addresses of tracking stores and texts of MLflow's pages, without MLflow."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.platform.records.tracking_address import (
    TrackingUnusable,
    check_file,
    default_uri,
    description,
    links,
    shown,
)


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    assert shown("https://me:secret@host/x") == "https://me:***@host/x"
    assert shown("postgresql+psycopg://me:pass@host:5432/x") == (
        "postgresql+psycopg://me:***@host:5432/x"
    )
    assert shown("https://:token@host") == "https://:***@host"
    assert shown(default_uri(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    check_file("https://host")
    check_file(default_uri(tmp_path))  # not there yet
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(TrackingUnusable, match=r"mlflow\.db"):
        check_file(default_uri(tmp_path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a%20b", r"a%20b/mlflow\.db has %20 in its path, .* an escaped ' '"),
        ("%2f", "%2f in its path"),
        ("what?", "what\\? has a question mark in its path"),
    ],
)
def test_a_folder_that_no_address_leads_to(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TrackingUnusable, match=f"{words}.*--results DIR.*MLFLOW_TRACKING_URI"):
        default_uri(tmp_path / name)


def test_addresses_of_users_own_are_checked_too(tmp_path: Path) -> None:
    with pytest.raises(TrackingUnusable, match="has %20 in its path"):
        check_file(f"sqlite:///{tmp_path}/a%20b/store.db")
    check_file(f"sqlite:///{tmp_path}/store.db?timeout=%20")
    check_file("postgresql://me:a%20b@host/db")
    for name in ("50%", "c%d", "100%_sure", "a b"):  # no escapes: they lead there
        check_file(default_uri(tmp_path / name))


ROW = {"variant": "A|B", "accuracy": 0.9, "epsilon": 1.0}
ROW |= {"epsilon_m_low": 0.0, "epsilon_m_high": math.inf}


def test_a_description_has_finding_figure_and_as_many_rows_as_fit() -> None:
    found = description("It leaks.", rows=[ROW], run_id="r1")
    assert found.startswith("It leaks.\n")
    assert "](get-artifact?path=pareto.png&run_uuid=r1)" in found
    assert r"| A\|B | 90.0 | 1 | 0 to inf |" in found
    found = description("It leaks.", rows=[ROW] * 1000, run_id="r1")
    assert 4000 < len(found) <= 4500 and found.endswith("has every row.")


def test_links_open_the_table_and_compare_runs() -> None:
    found = links("http://here:1/", experiment="7", runs=[str(number) for number in range(99)])
    assert found["table"].startswith(
        "http://here:1/#/experiments/7/runs?workflowType=machine_learning"
    )
    assert found["chart"] == found["table"] + "&compareRunsMode=CHART"
    assert len(found["compare"]) < 2000


def test_it_needs_no_mlflow() -> None:
    code = (
        "import sys, labeldp.platform.records.tracking_address as a;"
        "assert not {'mlflow', 'torch', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=120)

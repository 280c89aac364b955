"""Addresses of tracking stores and texts of MLflow's pages, without MLflow."""

from pathlib import Path

import pytest

from labeldp.platform.records.tracking_address import (
    TrackingUnusable,
    check_file,
    default_uri,
)


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    check_file("https://host")
    check_file(default_uri(tmp_path))  # not there yet
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(TrackingUnusable, match=r"mlflow\.db"):
        check_file(default_uri(tmp_path))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a%20b", "a%20b has %20 in its path"),
        ("%2f", "%2f in its path"),
        ("what?", r"what\? has \? in its path"),
    ],
)
def test_a_folder_that_no_address_leads_to(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TrackingUnusable, match=f"{words}.*--results DIR.*MLFLOW_TRACKING_URI"):
        default_uri(tmp_path / name)

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

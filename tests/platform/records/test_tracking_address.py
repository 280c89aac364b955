"""Addresses of tracking stores, without MLflow."""

import subprocess
import sys
from pathlib import Path

import pytest

from labeldp.platform.records.tracking_address import (
    TrackingUnusable,
    check_file,
    default_uri,
    shown,
)


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    assert shown("https://me:secret@host/x") == "https://me:***@host/x"
    assert shown(default_uri(tmp_path)) == f"sqlite:///{tmp_path}/mlflow.db"


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    check_file("https://host")
    check_file(default_uri(tmp_path))  # not there yet
    (tmp_path / "mlflow.db").mkdir()
    with pytest.raises(TrackingUnusable, match=r"mlflow\.db"):
        check_file(default_uri(tmp_path))


def test_it_needs_no_mlflow() -> None:
    code = (
        "import sys, labeldp.platform.records.tracking_address as a;"
        "assert not {'mlflow', 'torch', 'numpy', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=120)

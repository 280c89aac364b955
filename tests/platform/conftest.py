"""Tests run in an empty folder, and nothing is said by the environment."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)

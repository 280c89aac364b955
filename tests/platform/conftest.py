"""Nothing is said by the environment."""

import pytest


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "LABELDP_DATA"):
        monkeypatch.delenv(name, raising=False)

"""doctor: what it looks at, and that what is missing comes with the command that fixes it."""

from pathlib import Path

import pytest

from labeldp.platform.cli import doctor
from labeldp.platform.cli.doctor import Check
from labeldp.platform.records.tracking_address import default_uri
from tests.platform.cli.asked import answer, words
from tests.platform.sweep.stores import new_store, of_newer_schema


@pytest.mark.parametrize("fix", ["", "check RAY_ADDRESS"])
def test_doctor_looks_at_everything_and_names_each_fix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fix: str
) -> None:
    monkeypatch.setattr(doctor, "_ray", lambda: Check("ray", "not started in this test", fix))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    found = answer(capsys, "doctor", code=1 if fix else 0)
    checks = {check["name"]: check for check in found["checks"]}
    names = {"python", "torch", "mlflow", "devices", "disk", "ray", "tracking", "data digits"}
    assert set(checks) >= names
    assert found["ok"] != bool(fix)
    assert [name for name, check in checks.items() if not check["ok"]] == ["ray"] * bool(fix)
    assert checks["ray"]["fix"] == fix
    assert "labeldp data fetch mnist" in checks["data mnist"]["detail"]
    said = words(capsys, "doctor", code=1 if fix else 0)
    assert f"ray   {fix}" in said if fix else "all is well" in said


def test_doctor_names_a_tracking_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_newer_schema(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(tmp_path))
    check = doctor._tracking()
    assert not check.ok and "another version" in check.detail and "MLFLOW" in check.fix

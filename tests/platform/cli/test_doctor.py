"""doctor: what it looks at, and that what is missing comes with the command that fixes it."""

from dataclasses import asdict
from pathlib import Path

import pytest

from labeldp.platform.cli import doctor
from labeldp.platform.cli.doctor import Check, Examination
from labeldp.platform.records.tracking_address import default_uri
from tests.platform.cli.asked import answer, words
from tests.platform.sweep.stores import of_newer_schema


def test_doctor_names_each_problem_and_its_fix(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = Check(name="python", ok=True, detail="3.11")
    disk = Check(name="disk", ok=False, detail="0.1 GiB free", fix="free some disk")
    examined = Examination(ok=False, checks=[python, disk])
    monkeypatch.setattr(doctor, "examine", lambda: examined)
    assert answer(capsys, "doctor", code=1) == {
        "ok": False,
        "checks": [asdict(python), asdict(disk)],
    }
    assert words(capsys, "doctor", code=1).splitlines() == [
        *("what    ok   found", "python  yes  3.11", "disk    NO   0.1 GiB free"),
        *("what to do", "what  fix", "disk  free some disk"),
    ]


def test_doctor_looks_at_everything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = Check(name="ray", ok=True, detail="not started in this test")
    monkeypatch.setattr(doctor, "_ray", lambda: started)
    found = answer(capsys, "doctor")
    checks = {check["name"]: check for check in found["checks"]}
    names = {"python", "torch", "mlflow", "devices", "disk", "ray", "tracking", "data digits"}
    assert set(checks) >= names
    assert found["ok"] and all(check["ok"] for check in checks.values())
    assert "labeldp data fetch mnist" in checks["data mnist"]["detail"]


def test_doctor_names_a_tracking_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_newer_schema(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", default_uri(tmp_path))
    check = doctor._tracking()
    assert not check.ok and "another version" in check.detail and "MLFLOW" in check.fix

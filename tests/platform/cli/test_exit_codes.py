"""exit_codes: each kind of error has one, the nearest class decides, defects have none."""

import subprocess
import sys

import pytest

from labeldp.platform.cli.exit_codes import ExitCode, exit_code
from labeldp.platform.sweep.cluster import ClusterUnusable
from labeldp.platform.sweep.configuration import ConfigurationError
from labeldp.platform.sweep.sweep import CannotFit
from labeldp.platform.vault.home_proxy import VaultLost
from labeldp.platform.vault.teacher_pool import EnsembleIncomplete
from labeldp.trainers.data.files import DatasetMissing
from labeldp.trainers.models.schedules import TrainingDiverged
from tests.platform.cli.asked import OVER_BUDGET


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("bad"), 2),
        (FileNotFoundError(2, "No such file", "x"), 2),
        (PermissionError(13, "Permission denied", "x"), 2),
        (MemoryError(), 2),
        (ConfigurationError("no such key"), 2),
        (ClusterUnusable("does not answer"), 2),
        (DatasetMissing("mnist"), 2),
        (CannotFit("a trial needs 64 CPU"), 3),
        (OVER_BUDGET, 4),
        (EnsembleIncomplete("teacher 3"), 1),
        (VaultLost("its node died"), 1),
        (KeyboardInterrupt(), 130),
        (RuntimeError("a defect"), None),
        (TrainingDiverged("which a trial's record tells, and no exit code"), None),
        (SystemExit(5), None),
    ],
)
def test_codes(error: BaseException, code: int | None) -> None:
    assert exit_code(error) == code


def test_a_bare_value_error_is_told_without_numpy() -> None:
    script = (
        "import sys; from labeldp.platform.cli.exit_codes import ExitCode, exit_code; "
        "assert exit_code(ValueError('bad')) is ExitCode.BAD_INPUT; "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_codes_are_what_shells_and_documents_know() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "NOT_OK": 1,
        "BAD_INPUT": 2,
        "CANNOT_FIT": 3,
        "OVER_BUDGET": 4,
        "INTERRUPTED": 130,
    }

"""report_verb: stores and experiments that are not there are named."""

from pathlib import Path

import pytest

from tests.platform.cli.asked import refusal
from tests.platform.stores import new_store


def test_an_experiment_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    uri = new_store(tmp_path)
    line = refusal(capsys, "report", "quickstart", "--tracking-uri", uri)
    assert "has no experiment 'quickstart'" in line

"""The hook for commit messages: a subject of 72 characters passes, one of 73 does not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT


@pytest.mark.parametrize(("length", "passes"), [(72, True), (73, False)])
def test_the_subject_of_a_commit_fits_a_line(length: int, passes: bool, tmp_path: Path) -> None:
    """A body may be as wide as it likes."""
    shutil.copy(ROOT / ".pre-commit-config.yaml", tmp_path)
    message = tmp_path / "message"
    message.write_text("s" * length + "\n\n" + "b" * 200 + "\n")
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "hooks")}
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):  # of a commit that runs these tests
        environment.pop(name, None)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, env=environment)
    subprocess.run(["git", "add", ".pre-commit-config.yaml"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "pre_commit", "run", "--hook-stage", "commit-msg"]
    done = subprocess.run(
        [*command, "--commit-msg-filename", str(message)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "subject of at most 72 characters" in done.stdout, done.stdout + done.stderr
    assert (done.returncode == 0) is passes

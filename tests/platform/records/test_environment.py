"""environment: which code a run ran on."""

import subprocess
from pathlib import Path

import pytest

import labeldp
from labeldp.platform.records import environment


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_commit_is_that_of_the_code_and_of_no_repository_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "labeldp" / "__init__.py"
    inner = tmp_path / ".venv" / "site-packages" / "labeldp" / "__init__.py"
    for path in (package, inner):
        path.parent.mkdir(parents=True)
    package.touch()
    monkeypatch.setattr(labeldp, "__file__", str(package))
    monkeypatch.delenv(environment.COMMIT_VARIABLE, raising=False)
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "first"]):
        git(tmp_path, *words)
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert environment.git_commit() == commit
    package.write_text("changed = True\n")
    assert environment.git_commit() == f"{commit}-dirty"
    monkeypatch.setattr(labeldp, "__file__", str(inner))
    assert environment.git_commit() == "unknown"
    monkeypatch.setenv(environment.COMMIT_VARIABLE, "0123abcd")
    assert environment.git_commit() == "0123abcd"

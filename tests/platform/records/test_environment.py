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


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that holds a package, which takes the place of ours."""
    package = tmp_path / "repository" / "labeldp" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.touch()
    monkeypatch.setattr(labeldp, "__file__", str(package))
    monkeypatch.delenv(environment.COMMIT_VARIABLE, raising=False)
    git(package.parents[1], "init", "--quiet")
    git(package.parents[1], "add", ".")
    git(package.parents[1], "commit", "--quiet", "--message", "first")
    return package.parents[1]


def test_a_checkout_names_its_commit_and_says_what_is_changed(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert environment.git_commit() == commit
    (checkout / "labeldp" / "__init__.py").write_text("changed = True\n")
    assert environment.git_commit() == f"{commit}-dirty"


def test_an_installed_package_does_not_take_the_repository_around_it(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = checkout / ".venv" / "site-packages" / "labeldp" / "__init__.py"
    package.parent.mkdir(parents=True)
    monkeypatch.setattr(labeldp, "__file__", str(package))
    assert environment.git_commit() == "unknown"
    monkeypatch.setenv(environment.COMMIT_VARIABLE, "0123abcd")
    assert environment.git_commit() == "0123abcd"

"""`make release`: what it refuses, and what it states of its files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra import release
from tests.source_tree import ROOT, run


def test_a_version_without_its_changes_or_with_others_is_refused() -> None:
    dated = "## [0.1.0] - 2026-12-01"
    assert release.refusals("0.1.0", changelog=dated, changes="") == []
    missing = release.refusals("0.1.0", changelog="## [Unreleased]", changes="")
    assert re.search(r"no section .## \[0\.1\.0\]", "".join(missing))
    assert len(release.refusals("0.1.1", changelog=dated, changes=" M README.md")) == 2


def test_the_statement_names_each_file_and_each_test_that_ran(tmp_path: Path) -> None:
    wheel = tmp_path / "some.whl"
    wheel.write_bytes(b"wheel")
    tested = [{"python": "3.11.7", "examples": ["own_csv.py"]}]
    stated = release.statement([wheel], tested)
    assert stated["subject"] == [{"name": "some.whl", "digest": {"sha256": release.digest(wheel)}}]
    assert stated["predicate"]["passedTests"] == ["own_csv.py on Python 3.11.7"]
    assert json.loads(json.dumps(stated)) == stated


def test_images_are_built_where_a_builder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (git,) = filter(None, [shutil.which("git")])
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "git").symlink_to(git)
    assert release.images("0.1.0") == []
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")  # a client whose daemon does not answer
    docker.chmod(0o700)
    assert release.images("0.1.0") == []
    docker.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho name@sha256:{"a" * 64}\n')
    found = release.images("0.1.0")
    assert {each["name"].partition(":")[0] for each in found} > {"labeldp", "labeldp-gpu"}
    assert found[0] == {"name": "labeldp:0.1.0", "digest": {"sha256": "a" * 64}}
    asked = (tmp_path / "asked").read_text()
    assert asked.count("build -f") == 3 and "--pull" not in asked
    # BuildKit gives a base no tag of its own, and the digest of an older one could be signed.
    assert asked.index("pull python:3.11-slim") < asked.index("build -f")
    assert "python:3.11-slim" in {each["name"] for each in found}


def test_checksums_are_checked_by_the_usual_tools(tmp_path: Path) -> None:
    (tmp_path / "some.whl").write_bytes(b"wheel")
    release.sign(tmp_path, None)
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    subprocess.run(check, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "some.whl").write_bytes(b"other")
    assert subprocess.run(check, cwd=tmp_path, check=False, capture_output=True).returncode


def test_what_it_names_is_there() -> None:
    assert all((ROOT / "examples" / name).is_file() for name in release.EXAMPLES)
    assert "--to there" in run("make", "-n", "release", "TO=there").stdout
    allowed = (ROOT / "pyproject.toml").read_text()
    assert f'requires-python = ">={release.PYTHONS[0]},<3.14"' in allowed
    with pytest.raises(SystemExit, match="failed:"):
        release.run(sys.executable, "-c", "raise ValueError")

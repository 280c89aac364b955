"""Images: pinned, unprivileged, without secrets; and what stays out of them and of job uploads."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.infra.documents import ROOT, SECRET, is_pinned

DOCKERFILES = ["Dockerfile", "Dockerfile.gpu", "Dockerfile.mlflow"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def dockerfile(name: str) -> str:
    return (ROOT / "infra/docker" / name).read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile: name and arguments, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    pairs = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, rest) for name, rest in pairs]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfiles_are_pinned_unprivileged_and_without_secrets(name: str) -> None:
    stages: set[str] = set()
    user = "root"
    for instruction, rest in instructions(dockerfile(name)):
        assert instruction != "ADD", "it may fetch from anywhere"
        if instruction == "FROM":
            image, *alias = rest.split(" AS ")
            assert image in stages or is_pinned(image)
            stages.update(alias)
            user = "root"
        elif instruction == "USER":
            user = rest
        elif instruction in ("ENV", "ARG"):  # they stay in the image's history
            assert not any(SECRET.search(word) for word in re.findall(r"(\w+)=", rest + "="))
        elif instruction == "RUN":
            # Where packages come from is the builder's to configure.
            assert not re.search(r"://|index-url|--index|find-links", rest)
            if "pip install" in rest:
                assert "--constraint /constraints/constraints.txt" in rest
            if "apt-get install" in rest:
                assert "rm -rf /var/lib/apt/lists" in rest
    assert user.split(":")[0] not in ("root", "0")


def test_the_images_are_of_this_version() -> None:
    texts = [dockerfile(name) for name in DOCKERFILES]
    texts += [path.read_text() for path in (ROOT / "infra").rglob("*.yaml")]
    tags = {tag for text in texts for tag in re.findall(r"\blabeldp(?:-\w+)?:([\w.]+)", text)}
    assert tags == {VERSION}


def test_nothing_is_copied_that_dockerignore_keeps_out() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "deny first, then name what an image needs"
    allowed = {line[1:] for line in rules if line.startswith("!")}
    copied = {
        source
        for name in DOCKERFILES
        for instruction, rest in instructions(dockerfile(name))
        if instruction == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert copied == allowed
    assert all((ROOT / source).exists() for source in copied)


def test_a_job_s_upload_holds_code_and_nothing_else(tmp_path: Path) -> None:
    from ray._private.runtime_env.packaging import create_package

    work = tmp_path / "work"
    code = {"sweeps/alibi_cifar100.py", "labeldp/__init__.py", "trainers/data/a.py"}
    code |= {"pyproject.toml"}
    kept_home = {"data/cifar100.npz", "sweeps/votes.npz", ".git/config", "infra/mlflow/.env"}
    kept_home |= {"results/alibi/vault.db", "results/alibi/trials/a.json", "mlruns/0/meta.yaml"}
    kept_home |= {"mlflow.db", "tracking.env", "tests/infra/test_images.py"}
    for name in code | kept_home:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (work / ".rayignore").write_text((ROOT / ".rayignore").read_text())
    package = tmp_path / "package.zip"
    create_package(str(work), package, include_gitignore=True)
    with zipfile.ZipFile(package) as archive:
        uploaded = {name for name in archive.namelist() if not name.endswith("/")}
    assert uploaded - {".rayignore"} == code

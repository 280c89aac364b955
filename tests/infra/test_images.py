"""Images: pinned, unprivileged, without secrets; and what stays out of them and of job uploads."""

import os
import re
import stat
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.infra.test_kubernetes import SECRET, is_pinned
from tests.source_tree import ROOT, run

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


def test_every_link_of_the_package_is_copied_before_the_wheel_is_built() -> None:
    first = instructions(dockerfile("Dockerfile").partition("pip wheel")[0])
    copied = {source for name, rest in first if name == "COPY" for source in rest.split()[:-1]}
    links = {path.name for path in (ROOT / "labeldp").iterdir() if path.is_symlink()}
    assert links and links <= copied


def test_a_job_s_upload_holds_code_and_nothing_else(tmp_path: Path) -> None:
    from ray._private.runtime_env.packaging import create_package

    work = tmp_path / "work"
    tracked = run("git", "ls-files", "labeldp", "mechanisms", "platform", "trainers", "sweeps")
    links = {path.name for path in (ROOT / "labeldp").iterdir() if path.is_symlink()}
    code = {*tracked.stdout.split()} - {f"labeldp/{link}" for link in links}
    code |= {"pyproject.toml", "my_sweep.py", "my_sweep.yaml", "my.yml", "sweeps/mine.yml"}
    kept_home = {"data/cifar100.npz", "sweeps/votes.npz", ".git/config", "infra/mlflow/.env"}
    kept_home |= {"results/alibi/vault.db", "results/alibi/trials/a.json", "mlruns/0/meta.yaml"}
    kept_home |= {"mlflow.db", "tracking.env", "tests/infra/test_images.py", "key.pem"}
    kept_home |= {f"mine.{kind}" for kind in "csv tsv xlsx npy csv.gz jsonl feather pt h5".split()}
    kept_home |= {"labels.vault/fits/a-0/people.npy", "labels.vault/votes/salt", "vault/votes/salt"}
    kept_home |= {"mine-results/private/figures/a.json", "mine-results/vault.db", "out/a.py"}
    kept_home |= {"sweeps/mine.csv", "sweeps/results/small/votes/salt", "trainers/data/mine.csv"}
    kept_home |= {"sweeps/out/id", "sweeps/key", "examples/secret", "id_rsa", "platform/key.json"}
    for name in code | kept_home:
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for link in links:
        (work / "labeldp" / link).symlink_to(Path("..", link))
    for name in (".rayignore", ".gitignore"):
        (work / name).write_text((ROOT / name).read_text())
    package = tmp_path / "package.zip"
    for either in (True, False):  # RAY_RUNTIME_ENV_IGNORE_GITIGNORE
        create_package(str(work), package, include_gitignore=either)
        with zipfile.ZipFile(package) as archive:
            uploaded = {name for name in archive.namelist() if not name.endswith("/")}
        package.unlink()
        linked = {f"labeldp/{name}" for name in code if name.partition("/")[0] in links}
        assert uploaded == code | linked


# infra/install.sh: certificates handed on, bytecode written, what uv has kept used offline.

#: Stands for uv: tells what it was asked, and fails as often as it is told to.
_UV = """#!/bin/sh
case "$*" in *--help*) echo "$HELP"; exit 0 ;; esac
echo "SSL_CERT_FILE=$SSL_CERT_FILE SYSTEM=$UV_SYSTEM_CERTS NATIVE=$UV_NATIVE_TLS $*" >> "$TOLD"
case "$*" in *--offline*) exit "$OFFLINE" ;; esac
[ "$ONLINE" = 0 ] || echo "error: no route to the index" >&2
exit "$ONLINE"
"""
#: Stands for the environment's Python; `pip config get` knows a certificate, `pip install` fails.
_PYTHON = """#!/bin/sh
echo "python $*" >> "$TOLD"
case "$*" in
*"pip config get global.cert"*) echo "$PIP_SAYS" ;;
*"pip install"*) exit 1 ;;
esac
"""


def install(tmp_path: Path, *, uv: str = "environment/bin", **variables: str) -> tuple[str, ...]:
    """Run the script on stand-ins; returns the exit code, what they were told, and what it says."""
    told = tmp_path / "told"
    for name, text in ((f"{uv}/uv", _UV), ("environment/bin/python", _PYTHON)):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    given = {"ONLINE": "0", "OFFLINE": "0", "HELP": "--system-certs", "PIP_SAYS": "", **variables}
    path = f"{tmp_path / 'on_the_path'}:{os.environ['PATH']}" if uv == "on_the_path" else "/usr/bin"
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "infra/install.sh"), str(tmp_path / "environment")],
        cwd=ROOT,
        env={"PATH": f"{path}:/bin:/usr/bin", "TOLD": str(told), **given},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return str(done.returncode), told.read_text(), done.stderr


def test_bytecode_is_written_and_versions_are_the_known_ones(tmp_path: Path) -> None:
    code, told, says = install(tmp_path)
    assert (code, says) == ("0", "")
    assert "--compile-bytecode" in told and "--constraint constraints.txt" in told
    assert "compileall -q labeldp/ mechanisms trainers platform" in told
    assert "--offline" not in told


@pytest.mark.parametrize(
    ("variables", "file"),
    [
        ({}, ""),
        ({"PIP_SAYS": "/etc/pip.pem"}, "/etc/pip.pem"),
        ({"PIP_SAYS": "/etc/pip.pem", "PIP_CERT": "/etc/own.pem"}, "/etc/own.pem"),
        ({"PIP_CERT": "/etc/own.pem", "SSL_CERT_FILE": "/etc/ssl.pem"}, "/etc/ssl.pem"),
    ],
)
def test_uv_trusts_what_pip_trusts(tmp_path: Path, variables: dict[str, str], file: str) -> None:
    _, told, _ = install(tmp_path, **variables)
    assert f"SSL_CERT_FILE={file} SYSTEM=true NATIVE= pip install" in told
    _, told, _ = install(tmp_path, HELP="--native-tls", **variables)  # an older uv
    assert f"SSL_CERT_FILE={file} SYSTEM= NATIVE=true pip install" in told


def test_without_an_index_kept_files_are_used_and_reported(tmp_path: Path) -> None:
    code, told, says = install(tmp_path, ONLINE="1")
    assert code == "0" and "--offline" in told
    assert "no package index can be reached" in says and "no route" not in says
    # Without either, the first error is printed.
    code, _, says = install(tmp_path, ONLINE="1", OFFLINE="2")
    assert code == "1" and "no route to the index" in says


def test_a_uv_on_the_path_does_where_pip_gets_none(tmp_path: Path) -> None:
    code, told, says = install(tmp_path, uv="on_the_path")
    assert code == "0" and "is used" in says and "pip install --quiet --compile-bytecode" in told
    code, _, says = install(tmp_path / "none", uv="elsewhere")
    assert code == "1" and "PIP_CERT=FILE" in says

"""infra/install.sh: certificates handed on, bytecode written, what uv has kept used offline."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.infra.documents import ROOT

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

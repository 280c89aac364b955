"""The real data sets for tests, unpacked once per user of the machine and kept.

From the folder that `LABELDP_DATA` names, or unpacked into a cache below the temporary folder.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from labeldp.trainers.data.catalog import find
from tests.shared_material import shared_path


def real_data_root(name: str) -> Path:
    """Root folder that holds the data set `name` for `load(name, root=...)`, or a skip."""
    given = os.environ.get("LABELDP_DATA")
    if given and find(name).available(Path(given)):
        return Path(given)
    script = shared_path("data", "unpack.py")
    version = hashlib.sha256(script.read_bytes()).hexdigest()[:8]
    cache = _private_folder(f"labeldp-real-data-{os.getuid()}")
    root = cache / f"{name}-{version}"
    if not root.is_dir():
        _unpack(script, name, root)
    return root


def _unpack(script: Path, name: str, root: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(dir=root.parent))
    try:
        subprocess.run(
            [sys.executable, str(script), str(unfinished), name], check=True, capture_output=True
        )
        try:
            unfinished.rename(root)
        except OSError:  # another run was quicker; its copy is as good
            assert root.is_dir()
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _private_folder(name: str) -> Path:
    """A folder that no other user can have prepared for us."""
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        pytest.skip(f"{folder} belongs to somebody else")
    return folder

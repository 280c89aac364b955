"""Where golden values and real data sets lie, for tests that use them when they are there.

`LABELDP_SHARED` names the folder; without it, a folder `shared` beside the repository is used.
"""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("LABELDP_SHARED", Path(__file__).resolve().parents[2] / "shared"))


def shared_path(*parts: str) -> Path:
    """Path of shared material, or a skip that says what is missing."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"{path.relative_to(SHARED.parent)} is not there (LABELDP_SHARED names its folder)"
        )
    return path

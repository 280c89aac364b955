"""settings: read without torch, handed on by the trainers, with types that are no words."""

import subprocess
import sys
from dataclasses import fields

import pytest

from labeldp.platform.sweep.configuration import METHODS
from tests.source_tree import sources

MODULES = sorted(
    f"labeldp.trainers.settings.{path.stem}"
    for path in sources("trainers/settings")
    if path.name != "__init__.py"
)


def test_settings_load_no_framework() -> None:
    slow = "{'omegaconf', 'ray', 'sklearn', 'torch'}"
    code = f"import sys, {', '.join(MODULES)}; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_types_of_fields_are_types_and_no_words(method: str) -> None:
    """A configuration's hash asks whether a field holds a float (`configuration._plain`)."""
    assert not [entry.name for entry in fields(METHODS[method]) if isinstance(entry.type, str)]

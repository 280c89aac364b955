"""own_modules: found where one stands, refused with the reason, and nothing of it left behind."""

import sys
from pathlib import Path

import pytest

from labeldp.trainers.models.own_models import OwnModuleMissing, own_module


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_module_that_is_written_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    with pytest.raises(OwnModuleMissing, match=r"module own_of_this_test can't be imported here"):
        own_module("own_of_this_test")
    Path("own_of_this_test.py").write_text("SIZE = 3\n")
    assert own_module("own_of_this_test").SIZE == 3
    monkeypatch.delitem(sys.modules, "own_of_this_test")
    assert sys.path == before


def test_what_it_raises_is_said() -> None:
    Path("own_that_fails.py").write_text("raise RuntimeError('no such thing')\n")
    with pytest.raises(OwnModuleMissing, match=r"RuntimeError: no such thing\); put it into the"):
        own_module("own_that_fails")

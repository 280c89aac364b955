"""Kept models: written whole, for the owner alone, and a write that fails says what to do."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from labeldp.platform.records import checkpoints
from labeldp.platform.records.checkpoints import Keeper
from labeldp.platform.records.results import ARRAYS, DESCRIPTION, kept_model, write_model
from labeldp.platform.sweep.trial import Checkpoints, ModelNotKept
from labeldp.trainers.data.files import NotOurs

FILES = {DESCRIPTION: b"{}", ARRAYS: b"arrays"}


def test_a_half_written_model_is_ignored(tmp_path: Path) -> None:
    """Also where an earlier start of the trial had written a whole one."""
    write_model(tmp_path, "ab", FILES)

    class Full(dict[str, bytes]):
        def __getitem__(self, name: str) -> bytes:
            if name == DESCRIPTION:
                raise OSError("no space left")
            return super().__getitem__(name)

    with pytest.raises(OSError, match="no space left"):
        write_model(tmp_path, "ab", Full(FILES))
    assert kept_model(tmp_path, "ab") is None and kept_model(tmp_path, "cd") is None
    write_model(tmp_path, "ab", FILES)
    assert kept_model(tmp_path, "ab") is not None
    assert sorted(path.name for path in (tmp_path / "ab").iterdir()) == [DESCRIPTION, ARRAYS]


def test_links_are_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "ab").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotOurs):
        write_model(tmp_path / "models", "ab", FILES)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_keeper_that_cannot_write_states_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        """An actor in this process."""

        class keep_model:
            @staticmethod
            def remote(digest: str, files: Any) -> Any:
                keeper: Any = Keeper(str(tmp_path), str(tmp_path / "models"))
                return lambda: keeper.keep_model(digest, files)

    monkeypatch.setattr(ray, "get", lambda call, timeout: call())
    trial = Checkpoints(keeper=Here(), digest="ab")
    model: Any = SimpleNamespace(files=lambda: FILES)
    trial.keep_model(model)
    assert kept_model(tmp_path / "models", "ab") is not None

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "write_model", full)
    with pytest.raises(ModelNotKept, match=r"No space left.*models\.keep=false.*--resume auto"):
        trial.keep_model(model)

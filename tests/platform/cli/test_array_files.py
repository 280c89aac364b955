"""array_files: files that can be read, and refusals of others by name."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.platform.cli.array_files import ArrayFileError, read_array


def saved(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def test_every_kind_of_file(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"  # not a key
    folder.mkdir()
    array = np.arange(6.0).reshape(2, 3)
    np.save(folder / "a.npy", array)
    np.savez(folder / "one.npz", only=array)
    np.savez(folder / "two.npz", first=array + 1, second=array)
    for name in ("a.npy", "one.npz", "one.npz:only", "two.npz:second"):
        np.testing.assert_array_equal(read_array(str(folder / name), what="--x"), array)
    for address, words in {
        "two.npz": "holds first, second; name one as two.npz:KEY",
        "two.npz:third": "holds no 'third'; it holds first, second",
    }.items():
        with pytest.raises(ArrayFileError, match=words):
            read_array(str(folder / address), what="--x")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", None, "a.npy can't be read: No such file"),
        ("a.npy", b"", "a.npy (0 bytes) can't be read"),
        ("a.npy", pickle.dumps([1, 2]), "no Python objects"),
        ("a.npy", saved(np.array([{}, None], dtype=object)), "no Python objects"),
        ("a.npy", saved(np.array(["a", "b"])), "numbers are needed"),
        ("a.npy", saved(np.zeros((0, 3))), "is empty; it must hold at least one number"),
    ],
)
def test_files_that_cannot_be_read(
    name: str, content: bytes | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArrayFileError) as caught:
        read_array(str(tmp_path / name), what="--votes")
    message = str(caught.value)
    assert message.startswith("--votes") and words in message and "\n" not in message

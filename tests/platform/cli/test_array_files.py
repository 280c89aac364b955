"""array_files: what can be read, and what is said of what can't."""

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
    array = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "one.npz", only=array)
    np.savez(tmp_path / "two.npz", first=array, second=array + 1)
    np.savetxt(tmp_path / "a.csv", array + 0.5, delimiter=",")
    for name, expected in {
        "a.npy": array,
        "one.npz": array,
        "one.npz:only": array,
        "two.npz:second": array + 1,
        "a.csv": array + 0.5,
    }.items():
        np.testing.assert_array_equal(read_array(str(tmp_path / name), what="--x"), expected)


def test_whole_numbers_of_a_table_are_whole(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("3\n1\n2\n")
    labels = read_array(str(tmp_path / "labels.csv"), what="--x")
    assert labels.dtype == np.int64 and labels.tolist() == [3, 1, 2]
    (tmp_path / "half.csv").write_text("1,nan\n2,inf\n")
    assert read_array(str(tmp_path / "half.csv"), what="--x").dtype == np.float64


def test_a_colon_in_a_path_is_no_key(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    np.save(folder / "x.npy", np.zeros(3))
    assert read_array(str(folder / "x.npy"), what="--x").shape == (3,)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.npy", None, "a.npy can't be read: No such file"),
        ("a.csv", None, "a.csv can't be read"),
        ("a.npy", b"", "holds no array that can be read"),
        ("a.npy", b"\x93NUMPY\x01\x00", "holds no array that can be read"),
        ("a.npz", b"PK\x03\x04 not a zip", "holds no array that can be read"),
        ("a.npy", pickle.dumps([1, 2]), "without Python objects"),
        ("a.npy", saved(np.array([{}, None], dtype=object)), "without Python objects"),
        ("a.npy", saved(np.array(["a", "b"])), "numbers are needed"),
        ("a.npy", saved(np.zeros((0, 3))), "is empty; it must hold at least one number"),
        ("a.csv", b"1,2\nx,y\n", "holds no array that can be read"),
        ("a.csv", b"1,2\n3\n", "holds no array that can be read"),
        ("a.csv", b"", "empty"),
        ("a.txt", b"1 2 3", "holds no array that can be read"),
    ],
)
def test_files_that_cannot_be_read(
    name: str, content: bytes | None, words: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ArrayFileError) as caught:
        read_array(str(tmp_path / name), what="--votes")
    assert str(caught.value).startswith("--votes")
    assert words in str(caught.value) and name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_archives_name_what_they_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", first=np.zeros(1), second=np.zeros(1))
    np.savez(tmp_path / "none.npz")
    for address, words in {
        "two.npz": "holds first, second; name one as two.npz:KEY",
        "two.npz:third": "holds no 'third'; it holds first, second",
        "none.npz": "holds nothing",
    }.items():
        with pytest.raises(ArrayFileError) as caught:
            read_array(str(tmp_path / address), what="--x")
        assert words in str(caught.value)

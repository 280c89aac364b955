"""embedding: whole or not at all, known again by its hash, and never another file's."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labeldp.trainers.encoders.embedding import embed
from labeldp.trainers.encoders.provenance import EmbeddingRefused, record_place
from tests.trainers.encoders.small_encoders import SMALL, embedded, request, some_images

ROOM = SMALL.rpartition(":")[0]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    np.save(tmp_path / "images.npy", some_images(20))
    return tmp_path / "images.npy"


def test_what_is_written_is_whole_and_said_beside(images: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    out = tmp_path / "x.npy"
    found = embed(request(images, out), told=lambda *both: told.append(both))
    vectors = np.load(out)
    assert vectors.shape == (20, 6) and vectors.dtype == np.float32
    assert (found.rows, found.dimensions, found.league) == (20, 6, "public-encoder")
    assert told == [(8, 20), (16, 20), (20, 20)] and not found.cached
    assert Path(found.record) == record_place(out) and found.names is None
    whole = embedded(images, tmp_path / "all.npy")
    assert whole.hash == found.hash and whole.sha256 == found.sha256


def test_what_is_there_is_not_made_again(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    first = embedded(images, out)
    before = out.stat()
    again = embedded(images, out)
    assert again.cached and again.hash == first.hash
    assert out.stat().st_mtime_ns == before.st_mtime_ns
    out.unlink()
    assert not embedded(images, out).cached


@pytest.mark.parametrize(
    "change",
    [
        {"half": True},
        {"encoder_seed": 1},
        {"encoder_image_size": 9},
        {"address": f"{ROOM}:large"},
    ],
)
def test_another_making_is_never_put_over_it(
    images: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    out = tmp_path / "x.npy"
    first = embedded(images, out)
    with pytest.raises(EmbeddingRefused, match=r"holds other features .* say --replace"):
        embedded(images, out, **change)  # type: ignore[arg-type]
    if "half" not in change:
        return
    replaced = embedded(images, out, half=True, replace=True)
    assert np.load(out).dtype == np.float16 and replaced.hash != first.hash


def test_other_images_and_other_files_are_refused(images: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    embedded(images, out)
    np.save(images, some_images(20, seed=1))
    with pytest.raises(EmbeddingRefused, match="of other images"):
        embedded(images, out)
    np.save(images, some_images(20))
    np.save(out, np.zeros((20, 6), np.float32))
    with pytest.raises(EmbeddingRefused, match="another file lies under that name"):
        embedded(images, out)
    record_place(out).unlink()
    with pytest.raises(EmbeddingRefused, match="nothing beside it says what it is"):
        embedded(images, out)


def test_who_stops_it_leaves_nothing(images: Path, tmp_path: Path) -> None:
    before = set(os.listdir(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        embedded(images, tmp_path / "x.npy", f"{ROOM}:interrupted")
    assert set(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("sequences", {}, r"of shape \(8, 5, 7\) .* sequences of 5 vectors of 7 numbers"),
        ("not_finite", {}, "makes of image 0 a vector with NaN or infinity"),
        ("large", {"half": True}, "half precision ends at 65,504.* leave --half out"),
    ],
)
def test_vectors_that_are_none_leave_nothing(
    images: Path, tmp_path: Path, name: str, said: dict[str, bool], message: str
) -> None:
    before = set(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=message):
        embedded(images, tmp_path / "x.npy", f"{ROOM}:{name}", **said)
    assert set(os.listdir(tmp_path)) == before


def test_a_folder_leaves_a_list_of_its_rows(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number, image in enumerate(some_images(3)):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / f"{number}.png")
    found = embedded(folder, tmp_path / "x.npy")
    assert found.names is not None
    assert Path(found.names).read_text() == "0.png\n1.png\n2.png\n"
    assert Path(found.names).stat().st_mode & 0o077 == 0  # folders may be called after classes


def test_names_of_files_are_checked_before_anything(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in .npy"):
        request("digits", tmp_path / "x.npz")
    with pytest.raises(ValueError, match="there is no folder"):
        request("digits", tmp_path / "nowhere" / "x.npy")

"""embedding: images of every source; files are whole, known by hash, never overwritten."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.splits import EmbeddingRefused, digest_of_images, record_place
from labeldp.trainers.encoders.encoder import image_source
from tests.trainers.encoders.small_encoders import SMALL, embedded, some_images

ROOM = SMALL.rpartition(":")[0]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    np.save(tmp_path / "images.npy", some_images(20))
    return tmp_path / "images.npy"


@pytest.mark.parametrize(
    "change",
    [
        {"half": True},
        {"encoder_seed": 1},
        {"encoder_image_size": 9},
        {"address": f"{ROOM}:large"},
    ],
)
def test_other_vectors_are_replaced_on_request_only(
    images: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    out = tmp_path / "x.npy"
    first = embedded(images, out)
    with pytest.raises(EmbeddingRefused, match=r"holds other features .* add --replace"):
        embedded(images, out, **change)
    replaced = embedded(images, out, **change, replace=True)
    assert replaced["hash"] != first["hash"] and not replaced["cached"]


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
    with pytest.raises(EmbeddingRefused, match="no record beside it describes it"):
        embedded(images, out)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("not_finite", {}, "makes of image 0 a vector with NaN, infinity"),
        ("large", {"half": True}, "above 65,504; .* leave --half out"),
        ("one_vector", {}, "returns 1 vectors for 8 images"),
        ("small", {"encoder_image_size": 2}, r"fails on a batch of shape .*--image-size N"),
    ],
)
def test_bad_vectors_leave_nothing(
    images: Path, tmp_path: Path, name: str, options: dict[str, Any], message: str
) -> None:
    before = set(os.listdir(tmp_path))
    with pytest.raises(ValueError, match=message):
        embedded(images, tmp_path / "x.npy", f"{ROOM}:{name}", **options)
    assert set(os.listdir(tmp_path)) == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of two sizes in two folders, and a file of text."""
    for place, side in (("b/1.png", 6), ("a/2.PNG", 6), ("a/1.jpg", 9)):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.fromarray(some_images(1, side=side)[0].transpose(1, 2, 0)).save(tmp_path / place)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_is_read_by_path_and_leaves_a_list_of_its_rows(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = image_source(str(folder))
    assert source.rows == 3
    (first, second), (third,) = source.batches(2)
    assert first.shape == (3, 9, 9) and second.shape == (3, 6, 6)
    assert (third.numpy() == some_images(1, side=6)[0]).all()
    digest = source.digest()
    assert image_source(str(folder)).digest() == digest
    found = embedded(folder, tmp_path_factory.mktemp("out") / "x.npy", encoder_image_size=8)
    assert found["names"] is not None
    assert Path(found["names"]).read_text() == "a/1.jpg\na/2.PNG\nb/1.png\n"
    assert Path(found["names"]).stat().st_mode & 0o077 == 0  # folders may be called after classes
    (folder / "b" / "1.png").write_bytes((folder / "a" / "1.jpg").read_bytes())
    assert image_source(str(folder)).digest() != digest


def test_arrays_of_every_order(tmp_path: Path) -> None:
    images = some_images(5)
    np.save(tmp_path / "x.npy", images.transpose(0, 2, 3, 1))
    np.savez(tmp_path / "a.npz", features=images, labels=np.zeros(5))
    np.savez(tmp_path / "b.npz", train_features=images[:3], test_features=images[3:])
    for name in ("x.npy", "a.npz", "b.npz"):
        source = image_source(str(tmp_path / name))
        assert source.digest() == digest_of_images(images)
        rows = torch.cat([torch.as_tensor(batch) for batch in source.batches(2)])
        assert source.rows == 5 and (rows.numpy() == images).all()
    source, public = image_source("digits"), load("digits").public
    parts = [public.train_features.numpy(), public.test_features.numpy()]
    assert source.digest() == digest_of_images(*parts)


def test_sources_without_images_are_refused(folder: Path) -> None:
    np.save(folder / "x.npy", np.ones((3, 4, 4)))
    np.savez(folder / "c.npz", other=np.ones(2))
    np.savez(folder / "d.npz", train_features=some_images(2), test_features=some_images(2, side=5))
    np.save(folder / "wide.npy", np.ones((3, 4, 5, 6), np.uint8))
    (folder / "broken").mkdir()
    (folder / "broken" / "1.png").write_bytes(random.Random(0).randbytes(50))
    (folder / "empty").mkdir()
    for named, message in (
        ("x.npy", "float64 of shape .* images are uint8"),
        ("wide.npy", "1 or 3 channels"),
        ("c.npz", "holds other; images are called"),
        ("d.npz", "training images have shape"),
        ("nowhere.npz", "is not there"),
        ("nowhere/at/all", "is not a folder, an .npz"),
        ("empty", "holds no image"),
    ):
        with pytest.raises(ValueError, match=message):
            image_source(str(folder / named))
    with pytest.raises(ValueError, match=r"1\.png can't be read as an image"):
        next(iter(image_source(str(folder / "broken")).batches(1)))
    with pytest.raises(ValueError, match=r"labeldp embed IMAGES\.npz"):
        image_source("own")

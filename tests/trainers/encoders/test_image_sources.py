"""image_sources: folders, arrays and data sets in an order that can be told."""

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.splits import digest_of_images
from labeldp.trainers.encoders.encoder import ArraySource, FolderSource, image_source
from tests.trainers.encoders.small_encoders import some_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of two sizes in two folders, and a file of text."""
    for place, side in (("b/1.png", 6), ("a/2.PNG", 6), ("a/1.jpg", 9)):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.fromarray(some_images(1, side=side)[0].transpose(1, 2, 0)).save(tmp_path / place)
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_a_folder_is_read_by_path(folder: Path) -> None:
    source = image_source(str(folder))
    assert isinstance(source, FolderSource) and source.rows == 3
    assert source.names == ["a/1.jpg", "a/2.PNG", "b/1.png"]
    (first, second), (third,) = source.batches(2)
    assert first.shape == (3, 9, 9) and second.shape == (3, 6, 6)
    assert (third.numpy() == some_images(1, side=6)[0]).all()
    digest = source.digest()
    assert image_source(str(folder)).digest() == digest
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


def test_a_data_set_gives_training_images_and_then_testing_ones() -> None:
    source, public = image_source("digits"), load("digits").public
    assert isinstance(source, ArraySource)
    parts = [public.train_features.numpy(), public.test_features.numpy()]
    assert source.digest() == digest_of_images(*parts)
    assert source.rows == 1797


def test_what_holds_no_images_is_refused(folder: Path) -> None:
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
        list(image_source(str(folder / "broken")).batches(1))
    with pytest.raises(ValueError, match="did you mean cifar10"):
        image_source("cifar1O")
    with pytest.raises(ValueError, match="name the file of your images"):
        image_source("own")

"""public_training: trained once, kept by content, whole or not at all."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from labeldp.trainers.data.labelled_data import LabelledData, labelled
from labeldp.trainers.data.splits import Splits
from labeldp.trainers.encoders.libraries import WeightsRefused, digest_of
from labeldp.trainers.encoders.pretrained import (
    CACHE,
    PublicTraining,
    cache_folder,
    publicly_trained,
)

QUICK = PublicTraining(epochs=2, width=2)


def stripes(count: int, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images [N, 3, 8, 8] that are bright above or below, and which of the two it is."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 2, count)
    images = generator.integers(0, 100, (count, 3, 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 4 * label : 4 * label + 4] += 120
    return images, labels


@pytest.fixture(scope="module")
def data() -> LabelledData:
    (train, labels), (test, test_labels) = stripes(120), stripes(40, seed=1)
    return labelled(
        "stripes",
        Splits(
            train_features=train,
            train_labels=labels,
            test_features=test,
            test_labels=test_labels,
            num_classes=2,
        ),
    )


def test_it_learns_the_labels_and_says_how_far_it_is(data: LabelledData, tmp_path: Path) -> None:
    told: list[str] = []
    settings = replace(QUICK, epochs=10, width=4)
    network = publicly_trained(data, settings, folder=tmp_path, told=told.append)
    assert told[0] == "training the fast network on 120 images of stripes and their labels, " + (
        "10 epochs"
    )
    assert told[10].startswith("epoch 10 of 10: ") and told[10].endswith("about 0 s left")
    assert float(told[10].split()[4].rstrip("%")) > 80
    assert network.features(torch.zeros(2, 3, 8, 8)).shape == (2, 16)


def test_the_same_is_not_trained_again_and_another_is(data: LabelledData, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    told: list[str] = []
    first = publicly_trained(data, QUICK, folder=folder, told=told.append)
    (file,) = folder.iterdir()
    told.clear()
    again = publicly_trained(data, QUICK, folder=folder, told=told.append)
    assert told == [f"weights of an earlier call: {file}"]
    assert digest_of(first) == digest_of(again)
    other_labels = replace(data, train_labels=1 - data.train_labels)
    negatives = replace(data.public, train_features=255 - data.public.train_features)
    for their, settings in (
        (other_labels, QUICK),
        (replace(data, public=negatives), QUICK),
        (data, replace(QUICK, seed=1)),
        (data, replace(QUICK, epochs=1)),
    ):
        publicly_trained(their, settings, folder=folder, told=told.append)
    assert len(list(folder.iterdir())) == 5


def test_who_stops_it_leaves_nothing(data: LabelledData, tmp_path: Path) -> None:
    def stop(said: str) -> None:
        if said.startswith("epoch 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publicly_trained(data, QUICK, folder=tmp_path, told=stop)
    assert os.listdir(tmp_path) == []


def test_a_damaged_file_is_refused(data: LabelledData, tmp_path: Path) -> None:
    publicly_trained(data, QUICK, folder=tmp_path, told=lambda said: None)
    (file,) = tmp_path.iterdir()
    right = file.read_bytes()
    changed = bytearray(right)
    changed[-1] ^= 1
    cut = right[:-9]
    for content, message in (
        (bytes(changed), "another file lies under their name, or it is damaged"),
        (cut, "can't be read"),
        (b"", "can't be read"),
    ):
        file.write_bytes(content)
        with pytest.raises(WeightsRefused, match=f"{message}.*take .*{tmp_path.name}.* away"):
            publicly_trained(data, QUICK, folder=tmp_path, told=lambda said: None)


def test_weights_of_other_labels_under_the_name_are_refused(
    data: LabelledData, tmp_path: Path
) -> None:
    """Whole and undamaged, of the same network: only what they were made of is another."""
    secret = replace(data, train_labels=1 - data.train_labels)
    for each in (data, secret):
        publicly_trained(each, QUICK, folder=tmp_path, told=lambda said: None)
    one, other = tmp_path.iterdir()
    content = one.read_bytes(), other.read_bytes()
    other.write_bytes(content[0])
    one.write_bytes(content[1])
    for each in (data, secret):
        with pytest.raises(WeightsRefused, match="another file lies under their name"):
            publicly_trained(each, QUICK, folder=tmp_path, told=lambda said: None)


def test_tables_are_no_images(tmp_path: Path) -> None:
    table = np.zeros((6, 3), np.float32)
    table[:, 0] = range(6)
    labels = np.array([0, 1] * 3)
    splits = Splits(
        train_features=table,
        train_labels=labels,
        test_features=table[:0],
        test_labels=labels[:0],
        num_classes=2,
    )
    with pytest.raises(ValueError, match="table holds no images"):
        publicly_trained(labelled("table", splits), QUICK, folder=tmp_path, told=lambda said: None)


def test_where_weights_are_kept_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "labeldp"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/labeldp")
    monkeypatch.setenv(CACHE, "~/mine")
    assert cache_folder() == Path.home() / "mine"


@pytest.mark.parametrize("changes", [{"epochs": 0}, {"width": 0}, {"seed": -1}])
def test_bad_settings_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        PublicTraining(**changes)

"""libraries: encoders of every library and of the user's; unfit weights are refused."""

import json
import sys
import urllib.error
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import models
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2 as transforms

from labeldp.trainers.data.files import DataFileError, file_digest
from labeldp.trainers.data.splits import (
    NO_OUTSIDE_DATA,
    EmbeddingRecord,
    FeatureProvenance,
    League,
    checked_record,
    record_place,
)
from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    Encoder,
    EncoderRequest,
    Preparation,
    WeightsRefused,
    finished,
    read_weights,
)
from tests.trainers.encoders.small_encoders import SMALL, Small, some_images

IMAGES = torch.from_numpy(some_images(2, side=32))
ROOM = SMALL.rpartition(":")[0]


def loaded(address: str, **options: Any) -> Encoder:
    return load_encoder(EncoderRequest(address=address, **options))


def test_weights_of_a_file_trained_for_other_classes(tmp_path: Path) -> None:
    torch.manual_seed(3)
    whole = models.get_model("resnet18", num_classes=7).eval()
    torch.save(whole.state_dict(), tmp_path / "w.pt")
    encoder = loaded("torchvision:resnet18", weights=str(tmp_path / "w.pt"), image_size=32)
    whole.fc = torch.nn.Identity()
    with torch.inference_mode():
        expected = whole(encoder.preparation(IMAGES))
    torch.testing.assert_close(encoder(IMAGES), expected)
    assert encoder.provenance.league is League.PUBLIC_ENCODER
    with pytest.raises(WeightsRefused, match=r"w.pt for torchvision:resnet34 do not fit"):
        loaded("torchvision:resnet34", weights=str(tmp_path / "w.pt"))


def test_a_failed_download_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = Mock(side_effect=urllib.error.URLError("Name or service not known"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", nowhere)
    with pytest.raises(WeightsRefused, match=r"fetch http.*resnet18-f37072fd.pth .* --weights F"):
        loaded("torchvision:resnet18")


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("torchvision:resnet18", {"weights": "IMAGENET22K"}, "IMAGENET1K_V1, or random"),
        ("torchvision:resnet81", {}, "no model 'resnet81'; did you mean torchvision:resn"),
        ("no_such_module:net", {}, "module no_such_module can't be imported"),
        (f"{ROOM}:no_such", {}, "has no function of that name"),
        (f"{ROOM}:fails", {}, "raises RuntimeError: no such thing$"),
        (f"{ROOM}:nothing", {}, "returns 3; it must return what maps a batch"),
        (SMALL, {"weights": "random"}, "leave --weights out"),
        (SMALL, {"weights": "V2"}, "V2, which is not a file"),
        ("not a module:net", {}, "named module:Name"),
        ("resnet18", {}, "torchvision:NAME, timm:NAME"),
        ("torchvision:", {}, "torchvision:NAME, timm:NAME"),
        (":net", {}, "torchvision:NAME, timm:NAME"),
        (SMALL, {"trained_on": "two\nlines"}, "must be one line"),
        (SMALL, {"image_size": 0}, "image_size"),
    ],
)
def test_missing_encoders_and_bad_requests(
    address: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        loaded(address, **options)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match=r"need the package.*pip install timm"):
        loaded("timm:resnet10t")


def test_encoders_of_timm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm = pytest.importorskip("timm")
    encoder = loaded("timm:resnet10t", weights="random", image_size=32)
    assert encoder(IMAGES).shape == (2, 512) and encoder.provenance.league is League.NONE
    torch.save(timm.create_model("resnet10t", num_classes=4).state_dict(), tmp_path / "w.pt")
    other = loaded("timm:resnet10t", weights=f"{tmp_path}/w.pt")
    assert other.provenance.weights != encoder.provenance.weights and other.preparation.crop == 176
    with pytest.raises(WeightsRefused, match=r"named with the model: .*10t\.TAG"):
        loaded("timm:resnet10t", weights="a1_in1k")
    with pytest.raises(ValueError, match="timm has no model 'resnet10'"):
        loaded("timm:resnet10")


def test_weights_of_an_own_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(Small().state_dict(), tmp_path / "w.pt")
    one, again, other, trained = (
        loaded(SMALL, seed=seed, weights=weights)
        for seed, weights in ((0, None), (0, None), (1, None), (0, str(tmp_path / "w.pt")))
    )
    assert one.provenance.weights == again.provenance.weights
    assert len({one.provenance.weights, other.provenance.weights, trained.provenance.weights}) == 3
    # The training data of a user's function is unknown.
    assert one.provenance.league is League.PUBLIC_ENCODER
    torch.save({"other": torch.zeros(3)}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="raises RuntimeError: ") as refused:
        loaded(SMALL, weights=str(tmp_path / "w.pt"))
    assert "\n" not in str(refused.value)
    monkeypatch.chdir(tmp_path)
    code = "def flat(weights):\n    return lambda images: images.flatten(1).float()\n"
    Path("encoder_of_this_test.py").write_text(code)
    assert loaded("encoder_of_this_test:flat")(IMAGES).shape == (2, 3072)


def test_files_without_weights_are_refused(tmp_path: Path) -> None:
    torch.save(nn.Linear(4, 5), tmp_path / "whole.pt")  # a pickle that would run code
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"no")
    for name, message in (
        ("whole.pt", "can't be read .* tensors and plain values"),
        ("list.pt", "more than tensors by name"),
        ("cut.pt", "can't be read"),
        ("cut.safetensors", "can't be read"),
        ("nowhere.pt", "No such file"),
    ):
        with pytest.raises(WeightsRefused, match=message):
            read_weights(tmp_path / name)


# encoder: requests, the league of their weights, prepared images, vectors of every output.


@pytest.mark.parametrize(
    ("options", "league", "words"),
    [
        ({}, League.PUBLIC_ENCODER, "trained on not stated, by not stated"),
        ({"weights": "w.pt"}, League.PUBLIC_ENCODER, "not stated"),
        ({"trained_on": "cats", "trained_by": "me"}, League.PUBLIC_ENCODER, "cats, by me"),
        ({"weights": "random"}, League.NONE, "nothing: random"),
        ({"weights": "random", "trained_on": "cats"}, League.PUBLIC_ENCODER, "cats"),
        ({"no_outside_data": True, "trained_on": "these"}, League.NONE, "trained on these"),
    ],
)
def test_leagues(options: dict[str, Any], league: League, words: str) -> None:
    found = finished(
        EncoderRequest(address="a:b", **options),
        lambda batch: batch,
        preparation=Preparation(raw=True),
    ).provenance
    assert found.league is league and words in found.words


@pytest.mark.parametrize(("kind", "height"), [("bilinear", 40), ("bicubic", 17)])
def test_images_are_prepared_as_by_torchvision(kind: str, height: int) -> None:
    images = torch.from_numpy(some_images(3, side=64))[:, :, :height, :30]
    theirs = transforms.Compose(
        [
            transforms.Resize(24, interpolation=InterpolationMode(kind), antialias=True),
            transforms.CenterCrop(20),
            transforms.ToDtype(torch.float32, scale=True),
            transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD),
        ]
    )
    ours = Preparation(resize=24, crop=20, interpolation=kind)
    # A byte's rounding apart, over the smallest deviation.
    torch.testing.assert_close(ours(images), theirs(images), atol=1 / 255 / 0.22, rtol=0)


def test_images_of_other_sizes_and_without_color() -> None:
    images = [torch.from_numpy(some_images(1, side=side)[0]) for side in (9, 12)]
    whole = finished(
        EncoderRequest(address="a:b", image_size=8),
        lambda batch: batch,
        preparation=Preparation(resize=9, crop=7),
    ).preparation
    assert whole(images).shape == (2, 3, 8, 8)
    with pytest.raises(ValueError, match=r"several sizes .* --image-size N"):
        Preparation()(images)
    grey = torch.from_numpy(some_images(2))[:, :1]
    found = Preparation(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))(grey)
    assert (found == (grey.float() / 255).expand(-1, 3, -1, -1)).all()
    assert (Preparation(raw=True)(grey) == grey).all()


# provenance: what is published of an encoder, and a record that can't be read.

MADE = FeatureProvenance(
    league=League.PUBLIC_ENCODER,
    encoder="timm:net",
    weights="ab" * 32,
    preparation="middle 224",
    trained_on="ImageNet-1k",
    trained_by="timm",
)


def test_a_restored_encoder_differs_from_another_one() -> None:
    described = MADE.described()
    assert FeatureProvenance.restored(described) == MADE
    assert FeatureProvenance.restored({}) == NO_OUTSIDE_DATA
    assert MADE.same_encoder(FeatureProvenance.restored({**described, "trained_on": "else"}))
    for key in ("encoder", "weights", "preparation"):
        assert not MADE.same_encoder(FeatureProvenance.restored({**described, key: "else"}))
    with pytest.raises(ValueError, match="premier"):
        FeatureProvenance.restored({"league": "premier"})


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"rows": "many"}, {"provenance": {"league": "premier"}}, None, "folder"],
)
def test_a_damaged_record_is_refused(tmp_path: Path, change: dict[str, object] | str) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.ones((3, 2), np.float32))
    record = EmbeddingRecord(
        provenance=MADE, inputs="i", rows=3, dimensions=2, key="k", sha256=file_digest(file)
    )
    record.write(file)
    assert checked_record(file) == record
    place = record_place(file)
    content = json.loads(place.read_text())
    place.unlink()
    if change == "folder":
        place.mkdir()
    else:
        place.write_text(json.dumps({**content, **change} if isinstance(change, dict) else []))
    with pytest.raises(DataFileError, match="can't be read"):
        checked_record(file)

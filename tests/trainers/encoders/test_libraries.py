"""libraries: torchvision's and timm's models, with weights of every kind but downloaded ones."""

import urllib.error
from pathlib import Path

import pytest
import torch
from torchvision import models

from labeldp.trainers.encoders import libraries
from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.libraries import WeightsRefused
from labeldp.trainers.encoders.provenance import League
from tests.trainers.encoders.small_encoders import some_images

IMAGES = torch.from_numpy(some_images(2, side=32))


def asked(**said: object) -> EncoderRequest:
    return EncoderRequest(address="torchvision:resnet18", **said)  # type: ignore[arg-type]


def test_random_weights_depend_on_the_seed_alone() -> None:
    one, again, other = (
        load_encoder(asked(weights="random", seed=seed, image_size=32)) for seed in (1, 1, 2)
    )
    assert one(IMAGES).shape == (2, 512)
    assert one.weights == again.weights != other.weights
    assert (one(IMAGES) == again(IMAGES)).all() and one.provenance.league is League.NONE
    assert one.preparation.mean == (0.485, 0.456, 0.406)


def test_weights_of_a_file_trained_for_other_classes(tmp_path: Path) -> None:
    torch.manual_seed(3)
    whole = models.get_model("resnet18", num_classes=7).eval()
    torch.save(whole.state_dict(), tmp_path / "w.pt")
    encoder = load_encoder(asked(weights=str(tmp_path / "w.pt"), image_size=32))
    whole.fc = torch.nn.Identity()
    with torch.inference_mode():
        expected = whole(encoder.preparation(IMAGES))
    torch.testing.assert_close(encoder(IMAGES), expected)
    assert encoder.provenance.league is League.PUBLIC_ENCODER


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    torch.save(models.get_model("squeezenet1_1").state_dict(), tmp_path / "w.pt")
    with pytest.raises(WeightsRefused, match=r"w.pt for torchvision:resnet18 do not fit"):
        load_encoder(asked(weights=str(tmp_path / "w.pt")))


def test_a_download_that_fails_says_which_file_to_place_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def nowhere(*_: object, **__: object) -> None:
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", nowhere)
    with pytest.raises(WeightsRefused) as refused:
        load_encoder(asked())
    said = str(refused.value)
    place = tmp_path / "hub" / "checkpoints" / "resnet18-f37072fd.pth"
    assert f"put it at {place}" in said and "--weights resnet18-f37072fd.pth" in said


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(WeightsRefused, match="IMAGENET1K_V1, or random"):
        load_encoder(asked(weights="IMAGENET22K"))
    with pytest.raises(ValueError, match=r"no model 'resnet81'; did you mean torchvision:resn"):
        load_encoder(EncoderRequest(address="torchvision:resnet81"))


def test_a_library_that_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(ValueError, match=r"need the package.*pip install 'labeldp\[encoders\]'"):
        libraries.library("labeldp_has_no_such_library")


def test_timms_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timm = pytest.importorskip("timm")
    small = EncoderRequest(address="timm:resnet10t", weights="random", image_size=32)
    encoder = load_encoder(small)
    assert encoder(IMAGES).shape == (2, 512) and encoder.provenance.league is League.NONE
    torch.save(timm.create_model("resnet10t", num_classes=4).state_dict(), tmp_path / "w.pt")
    loaded = load_encoder(EncoderRequest(address="timm:resnet10t", weights=f"{tmp_path}/w.pt"))
    assert loaded.weights != encoder.weights and loaded.preparation.crop == 176
    with pytest.raises(WeightsRefused, match=r"named with the model: .*10t\.TAG"):
        load_encoder(EncoderRequest(address="timm:resnet10t", weights="a1_in1k"))
    with pytest.raises(ValueError, match="timm has no model 'resnet10'"):
        load_encoder(EncoderRequest(address="timm:resnet10"))

    create = timm.create_model

    def offline(name: str, *, pretrained: bool, **more: object) -> torch.nn.Module:
        if pretrained:
            raise OSError("no network")
        network: torch.nn.Module = create(name, **more)
        return network

    monkeypatch.setattr(timm, "create_model", offline)
    monkeypatch.setattr(libraries, "silence", lambda *_: None)  # it answered, and then no more
    with pytest.raises(WeightsRefused, match=r"fetch model.safetensors of timm/resnet10t.* --weig"):
        load_encoder(EncoderRequest(address="timm:resnet10t"))

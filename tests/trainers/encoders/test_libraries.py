"""libraries: torchvision's and timm's models; weights are read safely and refused if unfit."""

import urllib.error
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision import models

from labeldp.trainers.encoders import libraries
from labeldp.trainers.encoders.embedding import load_encoder
from labeldp.trainers.encoders.encoder import EncoderRequest
from labeldp.trainers.encoders.libraries import (
    WeightsRefused,
    digest_of,
    put_in,
    read_weights,
    without_head,
)
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


def network(classes: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, classes))


def test_files_of_both_kinds(tmp_path: Path) -> None:
    state = network().state_dict()
    torch.save(state, tmp_path / "a.pt")
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "b.pt")
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "c.pth")
    save_file(state, tmp_path / "d.safetensors")
    for name in ("a.pt", "b.pt", "c.pth", "d.safetensors"):
        other = network()
        put_in(other, read_weights(tmp_path / name), what=name)
        assert all((other.state_dict()[key] == value).all() for key, value in state.items())


def test_what_is_no_file_of_weights_is_refused(tmp_path: Path) -> None:
    torch.save(network(), tmp_path / "whole.pt")  # a pickle that would run code
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "cut.pt").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.safetensors").write_bytes(b"no")
    for name, message in (
        ("whole.pt", "can't be read .* tensors by name and nothing else"),
        ("list.pt", "more than tensors by name"),
        ("cut.pt", "can't be read"),
        ("cut.safetensors", "can't be read"),
        ("nowhere.pt", "No such file"),
    ):
        with pytest.raises(WeightsRefused, match=message):
            read_weights(tmp_path / name)


def test_weights_that_do_not_fit_say_how() -> None:
    weights = dict(network().state_dict())
    del weights["0.bias"]
    weights["further"] = torch.ones(1)
    weights["2.weight"] = torch.ones(7, 5)
    with pytest.raises(
        WeightsRefused,
        match=r"mine do not fit.* 1 that the network has are not in it \(0.bias.* 1 in it are not "
        r"the network's \(further.* 1 are of another shape \(2.weight is \[7, 5\] there",
    ):
        put_in(network(), weights, what="mine")


def test_a_head_of_any_size_is_passed_over_where_the_network_has_none() -> None:
    whole, other = network(), network()
    digest = digest_of(whole)
    assert without_head(other) == "2"
    put_in(other, network(classes=7).state_dict(), what="w", without="2")
    assert other(torch.ones(2, 4)).shape == (2, 5)
    assert digest_of(whole) == digest != digest_of(network()) != digest_of(other)
    with pytest.raises(WeightsRefused, match="no linear layer"):
        without_head(nn.Sequential(nn.ReLU()))

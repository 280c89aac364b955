"""encoder: requests, the origin of well-known weights, and vectors of every kind of output."""

from pathlib import Path
from typing import Any

import pytest
import torch

from labeldp.trainers.encoders.encoder import (
    Encoder,
    EncoderRequest,
    Pool,
    Preparation,
    WeightsKind,
    finished,
    known,
    vectors_of,
)
from labeldp.trainers.encoders.provenance import League
from tests.trainers.encoders.small_encoders import some_images


def made(request: EncoderRequest, *, known_as: str = "") -> Encoder:
    return finished(
        request,
        lambda batch: batch.float().mean((2, 3)),
        name="e",
        preparation=Preparation(raw=True),
        weights="0" * 64,
        known_as=known_as,
    )


def test_what_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    for weights, kind in (
        (None, WeightsKind.LIBRARY),
        ("IMAGENET1K_V2", WeightsKind.LIBRARY),
        ("random", WeightsKind.RANDOM),
        ("mine.pt", WeightsKind.FILE),
        ("some/where", WeightsKind.FILE),
        (str(tmp_path / "plain"), WeightsKind.FILE),
    ):
        assert EncoderRequest(address="a:b", weights=weights).kind is kind


@pytest.mark.parametrize(
    ("said", "known_as", "league", "words"),
    [
        ({}, "torchvision:IMAGENET1K_V1", League.PUBLIC_ENCODER, "ImageNet-1k, with its labels"),
        ({}, "", League.PUBLIC_ENCODER, "trained on not stated, by not stated"),
        ({"weights": "w.pt"}, "torchvision:IMAGENET1K_V1", League.PUBLIC_ENCODER, "not stated"),
        ({"trained_on": "cats", "trained_by": "me"}, "", League.PUBLIC_ENCODER, "cats, by me"),
        ({"weights": "random"}, "torchvision:IMAGENET1K_V1", League.NONE, "nothing: random"),
        ({"no_outside_data": True, "trained_on": "these"}, "", League.NONE, "trained on these"),
    ],
)
def test_the_league_is_the_careful_one(
    said: dict[str, Any], known_as: str, league: League, words: str
) -> None:
    found = made(EncoderRequest(address="a:b", **said), known_as=known_as).provenance
    assert found.league is league and words in found.words


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda batch: batch[:1].float().mean((2, 3)), "returns 1 vectors for 3 images"),
        (lambda batch: batch @ torch.ones(3), r"fails on a batch of shape .*--image-size N"),
        (lambda batch: None, "a NoneType and not a tensor"),
    ],
)
def test_an_encoder_that_fails_is_told_of(forward: Any, message: str) -> None:
    encoder = finished(
        EncoderRequest(address="a:b"),
        forward,
        name="e",
        preparation=Preparation(raw=True),
        weights="",
    )
    with pytest.raises(ValueError, match=message):
        encoder(torch.from_numpy(some_images(3)))


@pytest.mark.parametrize("address", ["resnet18", "torchvision:", ":net"])
def test_an_address_without_library_or_name_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="torchvision:NAME, timm:NAME"):
        EncoderRequest(address=address)


def test_what_would_not_be_shown_is_refused_before_any_work() -> None:
    with pytest.raises(ValueError, match="must be one line"):
        EncoderRequest(address="a:b", trained_on="two\nlines")
    with pytest.raises(ValueError, match="image_size"):
        EncoderRequest(address="a:b", image_size=0)


def test_another_size_is_of_the_whole_image() -> None:
    usual = Preparation(resize=256, crop=224)
    assert usual.of_size(None) == usual
    assert usual.of_size(64) == Preparation(resize=64, square=True)


@pytest.mark.parametrize(
    ("address", "part", "by"),
    [
        ("torchvision:IMAGENET1K_V2", "ImageNet-1k", "torchvision"),
        ("torchvision:IMAGENET1K_SWAG_E2E_V1", "Instagram", "Meta"),
        ("timm:vit_base_patch16_clip_224.openai", "captions", "OpenAI"),
        ("timm:resnet50.a1_in1k", "ImageNet-1k", "timm"),
        ("huggingface:facebook/dinov2-small", "LVD-142M, without labels", "Meta"),
        ("huggingface:google/vit-base-patch16-224-in21k", "ImageNet-21k", "Google"),
    ],
)
def test_who_trained_them_on_what(address: str, part: str, by: str) -> None:
    trained_on, trained_by = known(address)
    assert part in trained_on and by in trained_by


@pytest.mark.parametrize("address", ["timm:resnet50.mine", "huggingface:me/mine", "mine:in1k"])
def test_nobody_guesses(address: str) -> None:
    assert known(address) == ("", "")


def test_vectors_and_maps_of_one_place_are_vectors() -> None:
    assert vectors_of(torch.ones(2, 3), pool=None, encoder="e").shape == (2, 3)
    assert vectors_of(torch.ones(2, 3, 1, 1), pool=None, encoder="e").shape == (2, 3)


def test_what_is_taken_of_a_sequence() -> None:
    sequence = torch.arange(12.0).view(1, 3, 4)
    assert vectors_of(sequence, pool=Pool.CLS, encoder="e").tolist() == [[0, 1, 2, 3]]
    assert vectors_of(sequence, pool=Pool.MEAN, encoder="e").tolist() == [[4, 5, 6, 7]]
    maps = sequence.view(1, 3, 2, 2)
    assert vectors_of(maps, pool=Pool.MEAN, encoder="e").tolist() == [[1.5, 5.5, 9.5]]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.ones(2, 197, 768), r"shape \(2, 197, 768\) .* sequences of 197 vectors .* --pool"),
        (torch.ones(2, 8, 7, 7), r"8 maps of 7 x 7.* --pool mean"),
        (torch.ones(2), r"shape \(2,\)"),
        (torch.tensor(1.0), r"shape \(\) for 0 images"),
        (torch.ones(2, 3, dtype=torch.int64), "torch.int64"),
        ((torch.ones(2, 3),), "a tuple and not a tensor"),
    ],
)
def test_anything_else_is_refused_with_its_shape(output: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)e returns .*{message}"):
        vectors_of(output, pool=None, encoder="e")

"""encoder: requests, the league of their weights, prepared images, vectors of every output."""

from typing import Any

import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2 as transforms

from labeldp.trainers.data.splits import League
from labeldp.trainers.encoders.encoder import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    EncoderRequest,
    Pool,
    Preparation,
    finished,
    vectors_of,
)
from tests.trainers.encoders.small_encoders import some_images


@pytest.mark.parametrize(
    ("options", "known_as", "league", "words"),
    [
        ({}, "torchvision:IMAGENET1K_V1", League.PUBLIC_ENCODER, "ImageNet-1k, with its labels"),
        ({}, "", League.PUBLIC_ENCODER, "trained on not stated, by not stated"),
        ({"weights": "w.pt"}, "torchvision:IMAGENET1K_V1", League.PUBLIC_ENCODER, "not stated"),
        ({"weights": "a/b"}, "torchvision:IMAGENET1K_V1", League.PUBLIC_ENCODER, "not stated"),
        ({"trained_on": "cats", "trained_by": "me"}, "", League.PUBLIC_ENCODER, "cats, by me"),
        ({"weights": "random"}, "torchvision:IMAGENET1K_V1", League.NONE, "nothing: random"),
        ({"weights": "random", "trained_on": "cats"}, "", League.PUBLIC_ENCODER, "cats"),
        ({"no_outside_data": True, "trained_on": "these"}, "", League.NONE, "trained on these"),
    ],
)
def test_the_league_is_the_careful_one(
    options: dict[str, Any], known_as: str, league: League, words: str
) -> None:
    found = finished(
        EncoderRequest(address="a:b", **options),
        lambda batch: batch,
        preparation=Preparation(raw=True),
        known_as=known_as,
    ).provenance
    assert found.league is league and words in found.words


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "resnet18"}, "torchvision:NAME, timm:NAME"),
        ({"address": "torchvision:"}, "torchvision:NAME, timm:NAME"),
        ({"address": ":net"}, "torchvision:NAME, timm:NAME"),
        ({"trained_on": "two\nlines"}, "must be one line"),
        ({"image_size": 0}, "image_size"),
    ],
)
def test_bad_requests_are_refused_before_any_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderRequest(**{"address": "a:b", **options})


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("height", "width"), [(40, 30), (17, 23)])
def test_images_are_prepared_as_by_torchvision(kind: str, height: int, width: int) -> None:
    images = torch.from_numpy(some_images(3, side=64))[:, :, :height, :width]
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
    whole = Preparation(resize=9, crop=7).of_size(8)
    assert whole(images).shape == (2, 3, 8, 8)
    with pytest.raises(ValueError, match=r"several sizes .* --image-size N"):
        Preparation()(images)
    grey = torch.from_numpy(some_images(2))[:, :1]
    found = Preparation(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))(grey)
    assert (found == (grey.float() / 255).expand(-1, 3, -1, -1)).all()
    assert (Preparation(raw=True)(grey) == grey).all()


def test_one_vector_of_a_sequence_or_of_maps() -> None:
    sequence = torch.arange(12.0).view(1, 3, 4)
    assert vectors_of(sequence, pool=Pool.CLS, encoder="e").tolist() == [[0, 1, 2, 3]]
    assert vectors_of(sequence, pool=Pool.MEAN, encoder="e").tolist() == [[4, 5, 6, 7]]
    maps = sequence.view(1, 3, 2, 2)
    assert vectors_of(maps, pool=Pool.MEAN, encoder="e").tolist() == [[1.5, 5.5, 9.5]]
    assert vectors_of(torch.ones(2, 3, 1, 1), pool=None, encoder="e").shape == (2, 3)

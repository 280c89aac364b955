"""preparation: sizes, crops and scales as stated."""

import numpy as np
import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2 as transforms

from labeldp.trainers.encoders.encoder import IMAGENET_MEAN, IMAGENET_STD, Preparation
from tests.trainers.encoders.small_encoders import some_images


@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
@pytest.mark.parametrize(("height", "width"), [(40, 30), (17, 23)])
def test_it_is_what_torchvisions_transforms_do(kind: str, height: int, width: int) -> None:
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


def test_images_of_several_sizes_become_one_size() -> None:
    images = [torch.from_numpy(some_images(1, side=side)[0]) for side in (9, 12)]
    assert Preparation(resize=8, square=True)(images).shape == (2, 3, 8, 8)
    with pytest.raises(ValueError, match=r"several sizes .* --image-size N"):
        Preparation()(images)


def test_grey_images_get_three_channels_and_raw_ones_stay_bytes() -> None:
    grey = torch.from_numpy(some_images(2))[:, :1]
    found = Preparation(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))(grey)
    assert (found == (grey.float() / 255).expand(-1, 3, -1, -1)).all()
    assert (Preparation(raw=True)(grey) == grey).all()
    assert Preparation(raw=True, resize=4)(grey).dtype == torch.uint8


def test_words_and_bad_settings() -> None:
    assert Preparation(resize=256, crop=224).words.startswith(
        "shorter side to 256 (bilinear); middle 224; mean 0.485"
    )
    assert Preparation(raw=True).words == "none"
    for bad in (
        {"resize": 0},
        {"interpolation": "magic"},
        {"std": (1.0, 0.0, 1.0)},
        {"mean": (0.5,)},
    ):
        with pytest.raises(ValueError):
            Preparation(**bad)


def test_a_crop_larger_than_the_image_enlarges_it() -> None:
    images = torch.from_numpy(np.full((1, 3, 8, 8), 7, np.uint8))
    assert Preparation(crop=16, raw=True)(images).shape == (1, 3, 16, 16)

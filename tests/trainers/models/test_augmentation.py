"""Crops and flips: against one image at a time, the law of the draws, seeds, refusals."""

import numpy as np
import pytest
import torch
from torchvision.transforms import functional

from labeldp.trainers.models.augmentation import CropAndFlip, normalize


def some_images(dtype: torch.dtype = torch.uint8, height: int = 9, width: int = 12) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (64, 3, height, width), generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_each_image_is_padded_cut_and_mirrored(dtype: torch.dtype, padding: int) -> None:
    images = some_images(dtype)
    augment = CropAndFlip(padding=padding)
    draws = augment.draw(len(images), torch.Generator().manual_seed(1))
    ours = augment.carry_out(images, draws)
    assert ours.dtype == dtype
    border = (0, 0), (padding, padding), (padding, padding)
    for row, (top, left, mirror) in enumerate(draws.T.tolist()):
        padded = np.pad(images[row].numpy(), border, mode="reflect")
        window = padded[:, top : top + 9, left : left + 12]
        expected = window[:, :, ::-1] if mirror else window
        np.testing.assert_array_equal(ours[row].numpy(), expected, err_msg=f"image {row}")


def test_every_window_is_as_likely_and_drawn_for_each_image_alone() -> None:
    draws = CropAndFlip().draw(90_000, torch.Generator().manual_seed(0))
    for place in draws[:2]:
        shares = torch.bincount(place, minlength=9) / 90_000
        assert shares.tolist() == pytest.approx([1 / 9] * 9, abs=0.005)
    assert draws[2].double().mean() == pytest.approx(0.5, abs=0.01)
    correlations = torch.corrcoef(draws.double()) - torch.eye(3)
    assert correlations.abs().max() < 0.02
    same = (draws[0, 1:] == draws[0, :-1]).double().mean()
    assert same == pytest.approx(1 / 9, abs=0.005)


def test_flips_can_be_left_out_without_moving_the_crops() -> None:
    with_flips = CropAndFlip().draw(100, torch.Generator().manual_seed(3))
    without = CropAndFlip(flip=False).draw(100, torch.Generator().manual_seed(3))
    assert torch.equal(with_flips[:2], without[:2]) and not without[2].any()


def test_normalize_is_torchvisions() -> None:
    images = some_images()
    mean, std = [0.49, 0.48, 0.44], [0.25, 0.24, 0.26]
    expected = functional.normalize(images / 255, mean, std)
    ours = normalize(images, torch.tensor(mean), torch.tensor(std))
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="padding is -1"):
        CropAndFlip(padding=-1)
    with pytest.raises(ValueError, match=r"shape \(64, 3, 4, 12\).*padding = 4"):
        CropAndFlip()(some_images(height=4), torch.Generator())
    with pytest.raises(ValueError, match=r"shape \(3, 9, 12\)"):
        CropAndFlip()(some_images()[0], torch.Generator())

"""Views: drawn per image, the same on every run, and nothing changed that was not asked for."""

import pytest
import torch

from labeldp.trainers.encoders.pretraining import Distortions, _shown, _tinted

IMAGES = torch.randint(
    256, (40, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(3)
)
STILL = Distortions(smallest_area=1.0, jitter=0.0, grey=0.0, flip=False)
WILD = Distortions(smallest_area=0.3, jitter=0.4, grey=0.2, flip=True)


def view(images: torch.Tensor, distort: Distortions, *, seed: int = 0) -> torch.Tensor:
    return distort(images, torch.Generator().manual_seed(seed))


def halfway(count: int) -> torch.Tensor:
    """Draws that are in the middle of all that may be drawn [count, 40]."""
    return torch.full((count, 40), 0.5)


def test_a_view_of_nothing_asked_for_is_the_image() -> None:
    # The largest window may still be stretched; a square one of all is the image.
    whole = _shown(IMAGES.float(), STILL._windows(halfway(5)))
    assert torch.allclose(whole, IMAGES.float(), atol=1e-3)
    same = _tinted(IMAGES.float(), STILL._colors(torch.rand(6, 40)))
    assert torch.allclose(same, IMAGES.float(), atol=1e-2)


def test_views_are_of_their_seed_and_differ_among_images_and_draws() -> None:
    same = IMAGES[:1].expand(6, -1, -1, -1)
    first = view(same, WILD)
    assert first.shape == same.shape and first.dtype == torch.float32
    assert torch.equal(first, view(same, WILD))
    assert not torch.equal(first, view(same, WILD, seed=1))
    assert len({tuple(each.flatten().tolist()) for each in first}) == 6
    assert first.min() >= 0 and first.max() <= 255


def test_mirrored_windows_are_mirror_images() -> None:
    draws, distort = halfway(5), Distortions(smallest_area=0.4)
    straight = _shown(IMAGES.float(), distort._windows(draws))
    draws[4] = 0.1
    mirrored = _shown(IMAGES.float(), distort._windows(draws))
    assert torch.allclose(mirrored, straight.flip(3), atol=1e-3)


def test_grey_views_have_one_lightness_in_all_channels_and_keep_it() -> None:
    draws = halfway(6)
    draws[5] = 0.0
    found = _tinted(IMAGES.float(), Distortions(jitter=0.0, grey=0.5)._colors(draws))
    assert torch.allclose(found[:, 0], found[:, 1], atol=0.1)
    light = torch.tensor((0.299, 0.587, 0.114)).view(3, 1, 1)
    assert torch.allclose(found[:, 0], (IMAGES.float() * light).sum(1), atol=0.2)


def test_hues_turn_and_lightness_stays() -> None:
    draws = halfway(6)
    draws[3], draws[4] = 1.0, 0.0  # the furthest hue, and changed
    found = _tinted(IMAGES.float(), Distortions(jitter=0.4, grey=0.0)._colors(draws))
    light = torch.tensor((0.299, 0.587, 0.114)).view(3, 1, 1)
    assert torch.allclose((found * light).sum(1), (IMAGES.float() * light).sum(1), atol=0.5)
    assert (found - IMAGES).abs().mean() > 5


def test_shares_above_1_are_refused() -> None:
    for area, jitter, grey in ((1.5, 0.0, 0.0), (1.0, 1.5, 0.0), (1.0, 0.0, 1.5)):
        with pytest.raises(ValueError, match="must be 1 at most"):
            Distortions(smallest_area=area, jitter=jitter, grey=grey)

"""Views: drawn per image, the same on every run, and nothing changed that was not asked for."""

import pytest
import torch

from labeldp.trainers.self_supervised.distortions import Distortions

IMAGES = torch.randint(
    256, (40, 3, 12, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(3)
)
STILL = {"smallest_area": 1.0, "jitter": 0.0, "grey": 0.0, "flip": False}


def view(images: torch.Tensor = IMAGES, seed: int = 0, **settings: object) -> torch.Tensor:
    distort = Distortions(**{**STILL, **settings})  # type: ignore[arg-type]
    return distort(images, torch.Generator().manual_seed(seed))


def test_a_view_of_nothing_asked_for_is_the_image() -> None:
    # The largest window may still be stretched; a square one of all is the image.
    plain = view()
    assert plain.shape == IMAGES.shape and plain.dtype == torch.float32
    middle = (plain - IMAGES).abs().flatten(1).amax(1)
    whole = Distortions(**STILL)._windows(IMAGES.float(), torch.full((5, 40), 0.5))
    assert torch.allclose(whole, IMAGES.float(), atol=1e-3)
    assert middle.max() > 1


def test_views_are_of_their_seed_and_differ_among_images_and_draws() -> None:
    same = IMAGES[:1].expand(6, -1, -1, -1)
    settings = {"smallest_area": 0.3, "jitter": 0.4, "grey": 0.2, "flip": True}
    first = view(same, **settings)
    assert torch.equal(first, view(same, **settings))
    assert not torch.equal(first, view(same, seed=1, **settings))
    assert len({tuple(each.flatten().tolist()) for each in first}) == 6
    assert first.min() >= 0 and first.max() <= 255


def test_mirrored_windows_are_mirror_images() -> None:
    draws = torch.full((5, 40), 0.5)
    distort = Distortions(smallest_area=0.4)
    straight = distort._windows(IMAGES.float(), draws)
    draws[4] = 0.1
    assert torch.allclose(distort._windows(IMAGES.float(), draws), straight.flip(3), atol=1e-3)


def test_grey_views_have_one_lightness_in_all_channels_and_keep_it() -> None:
    draws = torch.full((6, 40), 0.5)
    draws[5] = 0.0
    found = Distortions(jitter=0.0, grey=0.5)._colors(IMAGES.float(), draws)
    assert torch.allclose(found[:, 0], found[:, 1], atol=0.1)
    light = torch.tensor((0.299, 0.587, 0.114)).view(3, 1, 1)
    assert torch.allclose(found[:, 0], (IMAGES.float() * light).sum(1), atol=0.2)


def test_images_without_color_are_taken() -> None:
    assert view(IMAGES[:, :1], jitter=0.4, grey=1.0).shape == (40, 1, 12, 10)


@pytest.mark.parametrize("name", ["smallest_area", "jitter", "grey"])
def test_shares_above_1_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be 1 at most"):
        Distortions(**{name: 1.5})

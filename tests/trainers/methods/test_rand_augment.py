"""RandAugment: every pixel is Pillow's, the law of the draws, seeds, refusals."""

import pytest
import torch

from labeldp.trainers.methods.rand_augment import Operation, RandAugment, apply
from tests.trainers.pillow_reference import from_pillow, operate, sample_tiles, to_pillow


@pytest.mark.parametrize(("side", "channels"), [(32, 3), (28, 1)])
@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.value)
def test_every_pixel_is_pillows(operation: Operation, side: int, channels: int) -> None:
    images = sample_tiles(side=side, channels=channels, count=378)
    # Every magnitude in both directions, 21 images each.
    magnitudes = torch.arange(378) % 9 + 1
    signs = torch.arange(378) // 9 % 2 * 2 - 1
    before = images.clone()
    ours = apply(operation, images, magnitudes, signs)
    for row, image in enumerate(images):
        theirs = operate(operation, to_pillow(image), int(magnitudes[row]), int(signs[row]))
        assert torch.equal(ours[row], from_pillow(theirs)), f"image {row}"
    assert torch.equal(images, before), "the input was changed"
    if operation is not Operation.IDENTITY and (operation is not Operation.COLOR or channels == 3):
        assert not torch.equal(ours, images), "nothing happened, so the comparison says nothing"


def test_draws_have_the_published_law() -> None:
    count = 28_000
    draws = RandAugment().draw(count, torch.Generator().manual_seed(0))
    shares = torch.bincount(draws.operations.flatten() + 1) / (2 * count)
    assert shares[0] == pytest.approx(0.5, abs=0.01)
    assert shares[1:].tolist() == pytest.approx([0.5 / 14] * 14, abs=0.005)
    magnitudes = torch.bincount(draws.magnitudes.flatten(), minlength=11) / (2 * count)
    assert magnitudes[0] == magnitudes[10] == 0
    assert magnitudes[1:10].tolist() == pytest.approx([1 / 9] * 9, abs=0.01)
    assert draws.signs.double().mean() == pytest.approx(0, abs=0.02)
    # Each image has its own draw: neighbors and layers are independent.
    same = (draws.operations[:, 1:] == draws.operations[:, :-1]).double().mean()
    assert same == pytest.approx(0.25 + 0.25 / 14, abs=0.01)
    assert draws.corners.mean(1).tolist() == pytest.approx([0.5, 0.5], abs=0.01)

"""The batched operations against Pillow, pixel for pixel, on photographs."""

import pytest
import torch

from labeldp.trainers.methods.fixmatch.image_operations import Operation, apply
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


@pytest.mark.parametrize("operation", [Operation.EQUALIZE, Operation.AUTO_CONTRAST])
def test_flat_and_nearly_flat_images(operation: Operation) -> None:
    flat = torch.zeros(4, 1, 28, 28, dtype=torch.uint8)
    flat[1] = 255
    flat[2, :, 0, 0] = 7
    flat[3, :, :14] = 254
    ones = torch.ones(4, dtype=torch.int64)
    for row, image in enumerate(apply(operation, flat, ones, ones)):
        assert torch.equal(image, from_pillow(operate(operation, to_pillow(flat[row]), 1, 1)))

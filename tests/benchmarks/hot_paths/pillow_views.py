"""FixMatch's views as published code makes them: Pillow and torchvision, an image at a time."""

import random
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms

from labeldp.trainers.methods.rand_augment import Operation
from tests.trainers.pillow_reference import cut_out, operate, to_pillow


class PillowViews:
    """Weak and strong views of photographs of 32 x 32, standardized by fixed figures."""

    def __init__(self, *, mean: Sequence[float], std: Sequence[float]) -> None:
        """Take what pixels are standardized by, for each channel."""
        self._python = random.Random(0)
        # What the published code does to each image, with the same transforms of torchvision.
        self._crop = transforms.Compose(
            [
                transforms.RandomHorizontalFlip(),
                transforms.RandomCrop(32, padding=4, padding_mode="reflect"),
            ]
        )
        self._tensor = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize(tuple(mean), tuple(std))]
        )

    def weak(self, photographs: Sequence[Image.Image]) -> Tensor:
        """Crops and flips, float32 [B, C, 32, 32]."""
        return torch.stack([self._tensor(self._crop(image)) for image in photographs])

    def strong(self, photographs: Sequence[Image.Image]) -> Tensor:
        """Two operations of RandAugment and a grey box on top, likewise."""
        return torch.stack([self._tensor(self._strong(image)) for image in photographs])

    def _strong(self, image: Image.Image) -> Image.Image:
        python = self._python
        image = self._crop(image)
        for operation in python.choices(list(Operation), k=2):
            magnitude, sign = python.randrange(1, 10), python.choice((-1, 1))
            if python.random() < 0.5:
                image = operate(operation, image, magnitude, sign)
        return cut_out(image, 16, python.uniform(0, 32), python.uniform(0, 32))


def photographs_of(images: Tensor) -> list[Image.Image]:
    """Return images uint8 [N, C, H, W] as Pillow has them."""
    return [to_pillow(image) for image in images]

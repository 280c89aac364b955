"""Weak and strong views of FixMatch, against one image at a time with Pillow and torchvision."""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms

from labeldp.trainers.methods.fixmatch import ImageViews
from labeldp.trainers.methods.rand_augment import Operation, RandAugment
from labeldp.trainers.models.learner import CropAndFlip
from tests.benchmarks.benchmark import Work, benchmark
from tests.trainers.pillow_reference import cut_out, operate, sample_tiles, to_pillow

#: Unlabeled examples in one step of FixMatch, and how many the reference takes.
_BATCH, _ONE_BY_ONE = 448, 112


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


@benchmark(
    "views",
    "448 pairs of weak and strong views, 32 x 32",
    "Pillow and torchvision, an image at a time",
    mark=15,
    rounds=9,
)
def _views(scratch: Path) -> Work:
    images = sample_tiles(count=_BATCH)
    mean, std = torch.full((3,), 0.5), torch.full((3,), 0.25)
    views = ImageViews(mean=mean, std=std, crop=CropAndFlip(), augment=RandAugment())
    generator = torch.Generator().manual_seed(0)
    plain = PillowViews(mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25))
    photographs = photographs_of(images[:: _BATCH // _ONE_BY_ONE])

    def one_by_one() -> tuple[torch.Tensor, torch.Tensor]:
        return plain.weak(photographs), plain.strong(photographs)

    def batched() -> tuple[torch.Tensor, torch.Tensor]:
        return views.weak(images, generator), views.strong(images, generator)

    def check() -> None:
        """Draws differ: what is compared is the distribution of pixels, channel by channel."""
        for ours, theirs in zip(batched(), one_by_one(), strict=True):
            assert ours.shape[1:] == theirs.shape[1:] and ours.dtype == theirs.dtype
            for figure in (torch.mean, torch.std):
                gaps = figure(ours, dim=(0, 2, 3)) - figure(theirs, dim=(0, 2, 3))
                assert gaps.abs().max() < 0.25, (figure.__name__, gaps)

    return Work(ours=batched, reference=one_by_one, part=_ONE_BY_ONE / _BATCH, check=check)

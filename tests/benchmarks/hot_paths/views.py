"""Weak and strong views of FixMatch, against one image at a time with Pillow and torchvision."""

import random
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
    generator, python = torch.Generator().manual_seed(0), random.Random(0)
    photographs = [to_pillow(image) for image in images[:: _BATCH // _ONE_BY_ONE]]
    # What the published code does to each image, with the same transforms of torchvision.
    crop = transforms.Compose(
        [
            transforms.RandomHorizontalFlip(),
            transforms.RandomCrop(32, padding=4, padding_mode="reflect"),
        ]
    )
    tensor = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))]
    )

    def strong(image: Image.Image) -> Image.Image:
        """Two operations of RandAugment and a gray box on top."""
        image = crop(image)
        for operation in python.choices(list(Operation), k=2):
            magnitude, sign = python.randrange(1, 10), python.choice((-1, 1))
            if python.random() < 0.5:
                image = operate(operation, image, magnitude, sign)
        return cut_out(image, 16, python.uniform(0, 32), python.uniform(0, 32))

    def one_by_one() -> tuple[Tensor, Tensor]:
        weak = torch.stack([tensor(crop(image)) for image in photographs])
        return weak, torch.stack([tensor(strong(image)) for image in photographs])

    def batched() -> tuple[Tensor, Tensor]:
        return views.weak(images, generator), views.strong(images, generator)

    def check() -> None:
        """Draws differ: what is compared is the distribution of pixels, channel by channel."""
        for ours, theirs in zip(batched(), one_by_one(), strict=True):
            assert ours.shape[1:] == theirs.shape[1:] and ours.dtype == theirs.dtype
            for figure in (torch.mean, torch.std):
                gaps = figure(ours, dim=(0, 2, 3)) - figure(theirs, dim=(0, 2, 3))
                assert gaps.abs().max() < 0.25, (figure.__name__, gaps)

    return Work(ours=batched, reference=one_by_one, part=_ONE_BY_ONE / _BATCH, check=check)

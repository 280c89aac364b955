"""Weak and strong views of FixMatch, against one image at a time with Pillow and torchvision."""

from pathlib import Path

import torch

from labeldp.trainers.methods.fixmatch import ImageViews
from labeldp.trainers.methods.rand_augment import RandAugment
from labeldp.trainers.models.learner import CropAndFlip
from tests.benchmarks.benchmark import Benchmark, Work
from tests.benchmarks.hot_paths.pillow_views import PillowViews, photographs_of
from tests.trainers.pillow_reference import sample_tiles

#: Unlabeled examples in one step of FixMatch, and how many the reference takes.
_BATCH, _ONE_BY_ONE = 448, 112


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


BENCHMARKS = (
    Benchmark(
        name="views",
        path="448 pairs of weak and strong views of 32 x 32 photographs",
        reference="Pillow and torchvision, an image at a time",
        prepare=_views,
        mark=15,  # what was promised for pairs of views, though more than half of what was seen
        rounds=9,
    ),
)

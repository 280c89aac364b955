"""Weak and strong views: what they are made of, their laws, refusals."""

import pytest
import torch

from labeldp.trainers.methods.fixmatch.views import ImageViews, RandAugment, TableViews
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.predictors import normalize


def test_image_views_are_standardized_augmentations() -> None:
    images = torch.randint(256, (6, 3, 16, 16), dtype=torch.uint8)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])
    crop, augment = CropAndFlip(padding=2), RandAugment(box=8)
    views = ImageViews(mean=mean, std=std, crop=crop, augment=augment)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    assert torch.equal(views.plain(images), normalize(images, mean, std))
    weak = views.weak(images, generator())
    assert torch.equal(weak, normalize(crop(images, generator()), mean, std))
    one = generator()
    strong = augment(crop(images, one), one)
    assert torch.equal(views.strong(images, generator()), normalize(strong, mean, std))


def test_table_views_have_the_stated_law() -> None:
    views = TableViews(weak_noise_std=0.1, strong_noise_std=0.3, masked_share=0.25)
    table = torch.full((200, 100), 5.0)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(views.plain(table), table)
    weak = views.weak(table, generator) - table
    assert weak.std() == pytest.approx(0.1, rel=0.03) and abs(weak.mean()) < 0.003
    strong = views.strong(table, generator)
    blanked = strong == 0
    assert blanked.float().mean() == pytest.approx(0.25, abs=0.02)
    assert (strong[~blanked] - 5).std() == pytest.approx(0.3, rel=0.03)
    assert (table == 5).all()

"""Patch features: against a patch-by-patch encoder, seeds, quality on real images, refusals."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.trainers.models import patches as module
from labeldp.trainers.models.patches import PatchEncoder, PatchFeatures
from tests.trainers.small_data import small_images

SMALL = PatchFeatures(patch=3, centers=7, cells=2, dimensions=5, sampled_patches=300)


def _slowly(encoder: PatchEncoder, image: torch.Tensor) -> torch.Tensor:
    """One image, one patch at a time, in double precision."""
    height, width = (length - encoder.patch + 1 for length in image.shape[1:])
    centers = encoder.centers.double()
    answers = torch.zeros(height, width, len(centers), dtype=torch.float64)
    for y in range(height):
        for x in range(width):
            patch = image[:, y : y + encoder.patch, x : x + encoder.patch].double().flatten()
            patch = (patch - patch.mean()) / (patch.var(correction=0) + 10).sqrt()
            white = (patch - encoder.mean.double()) @ encoder.whitening.double()
            distances = (centers - white).norm(dim=1)
            answers[y, x] = (distances.mean() - distances).clamp(min=0)
    rows = np.array_split(np.arange(height), encoder.cells)
    columns = np.array_split(np.arange(width), encoder.cells)
    cells = [answers[np.ix_(row, column)].sum((0, 1)) for row in rows for column in columns]
    assert encoder.projection is not None
    pooled = torch.cat(cells).sqrt() - encoder.shift.double()
    return pooled @ encoder.projection.double()


@pytest.mark.parametrize(("side", "channels"), [(11, 1), (10, 3)])
def test_the_encoder_is_the_formula(side: int, channels: int) -> None:
    data, _ = small_images(side=side, channels=channels, examples=50)
    encoder = SMALL.fit(data.train_features)
    ours = encoder(data.test_features)
    slow = torch.stack([_slowly(encoder, image) for image in data.test_features[:6]])
    torch.testing.assert_close(ours[:6].double(), slow, atol=1e-4, rtol=1e-4)


def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = small_images(examples=50)
    encoder = SMALL.fit(data.train_features)
    whole = encoder(data.train_features)
    monkeypatch.setattr(module, "_BATCH_NUMBERS", 100 * 7 * 3)
    monkeypatch.setattr(module, "_IMAGES_AT_ONCE", 7)
    torch.testing.assert_close(encoder(data.train_features), whole, atol=1e-5, rtol=1e-5)


def test_seeds_repeat_and_flat_images_are_described() -> None:
    images = small_images(examples=60)[0].train_features.clone()
    images[:20] = 255
    first, again = (SMALL.fit(images)(images) for _ in range(2))
    assert torch.equal(first, again) and first.isfinite().all()
    other = replace(SMALL, seed=1).fit(images)(images)
    assert not torch.equal(first, other)


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8 x 8: take a smaller patch"):
        PatchFeatures().fit(torch.zeros(9, 1, 7, 9, dtype=torch.uint8))
    with pytest.raises(ValueError, match="uint8"):
        PatchFeatures().fit(torch.zeros(9, 1, 9, 9))

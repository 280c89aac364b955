"""Label-free features: both encoders against the formula, batches, files, seeds, refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.models.features import (
    PatchEncoder,
    PatchFeatures,
    RandomPatchEncoder,
    RandomPatchFeatures,
    ScaledStep,
    described_by_features,
)
from labeldp.trainers.performance import Precision
from tests.trainers.small_data import small_images, small_table

KMEANS = PatchFeatures(patch=3, centers=7, cells=2, dimensions=5, sampled_patches=300)
RANDOM = RandomPatchFeatures(
    patch=3, filters=6, cells=3, dimensions=5, sampled_patches=300, precision=Precision.FP32
)
SETTINGS = [KMEANS, RANDOM, replace(RANDOM, precision=Precision.BF16)]


def by_centers(encoder: PatchEncoder, image: Tensor) -> Tensor:
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
    return torch.cat(cells)


def by_filters(encoder: RandomPatchEncoder, image: Tensor) -> Tensor:
    """One image and its mirror image, one place and one filter at a time, in double precision."""
    patch, filters = encoder.kernels.shape[-1], encoder.filters
    answers = []
    for picture in (image, image.flip(2)):
        height, width = (length - patch + 1 for length in picture.shape[1:])
        found = torch.zeros(2, filters, height, width, dtype=torch.float64)
        for y in range(height):
            for x in range(width):
                some = picture[:, y : y + patch, x : x + patch].double() / 255
                products = (encoder.kernels.double() * some).sum((1, 2, 3)) + encoder.bias.double()
                cosines = products[:filters] / products[filters:].norm()
                cosines *= some.numel() ** 0.5
                found[0, :, y, x] = (cosines - encoder.threshold).clamp(min=0)
                found[1, :, y, x] = (-cosines - encoder.threshold).clamp(min=0)
        answers.append(F.adaptive_avg_pool2d(found, encoder.cells))
    both = (answers[0] + answers[1]) / 2
    middle = encoder.cells // 2
    parts = [both[..., :middle].flatten()]
    if encoder.cells % 2:
        parts.append(both[:, : filters // 2, :, middle].flatten())
    return torch.cat(parts)


@pytest.mark.parametrize(
    ("settings", "side", "channels"),
    [
        *((KMEANS, 11, 1), (KMEANS, 10, 3), (RANDOM, 11, 1), (RANDOM, 10, 3)),
        (replace(RANDOM, cells=2), 9, 3),
    ],
)
def test_the_encoder_is_the_formula(settings: Any, side: int, channels: int) -> None:
    data, _ = small_images(side=side, channels=channels, examples=50)
    encoder = settings.fit(data.train_features)
    slowly = by_centers if settings is KMEANS else by_filters
    pooled = torch.stack([slowly(encoder, image) for image in data.test_features[:4]])
    slow = (pooled.sqrt() - encoder.shift.double()) @ encoder.projection.double()
    ours = encoder(data.test_features)[:4].double()
    torch.testing.assert_close(ours, slow, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kept", [False, True], ids=["fitted", "read from disk"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_step_makes_the_features_again(tmp_path: Path, settings: Any, kept: bool) -> None:
    for data, _ in (small_images(channels=3), small_table()):
        if kept:
            described_by_features(data, settings, folder=tmp_path)
        described = described_by_features(data, settings, folder=tmp_path)
        raw = data.test_features.numpy()
        assert torch.equal(described.preprocessing(raw), described.test_features)
        assert described.fingerprint != data.fingerprint
        plain = json.loads(json.dumps(described.preprocessing.described()))
        restored = Preprocessing.restored(plain, described.preprocessing.arrays())
        assert torch.equal(restored(raw), described.test_features)
        assert restored.steps[-1].shape == tuple(described.test_features.shape[1:])


def test_a_rare_category_counts_no_more_than_a_frequent_one() -> None:
    """Numbers get the variance that one unit apart has, whatever their own units are."""
    random = np.random.default_rng(0)
    numbers = random.normal(3, 50, size=1000)
    rare, even = np.arange(1000) < 5, np.arange(1000) % 2
    rows = torch.tensor(np.column_stack([numbers, 4.0 * rare, even, np.full(1000, 7.0)])).float()
    found = ScaledStep.fit(rows)(rows)
    apart = (found.amax(0) - found.amin(0)).tolist()
    assert apart[1] == pytest.approx(apart[2])
    assert apart[2] == pytest.approx(found[:, 0].std(correction=0).item())
    assert found.square().sum(1).mean() == pytest.approx(1, rel=1e-5)
    torch.testing.assert_close(found.mean(0), torch.zeros(4), atol=1e-6, rtol=0)
    assert found[:, 3].abs().max() == 0


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8 x 8: take a smaller patch"):
        PatchFeatures().fit(torch.zeros(9, 1, 7, 9, dtype=torch.uint8))


def test_examples_that_are_held_out_have_the_same_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = small_images(examples=60)
    given = replace(data, held_out_features=data.test_features)
    for _ in range(2):
        held_out = described_by_features(given, KMEANS, folder=tmp_path)
        torch.testing.assert_close(held_out.held_out_features, held_out.test_features)
        # They are kept as all others.
        monkeypatch.setattr(PatchEncoder, "_pooled_answers", None)

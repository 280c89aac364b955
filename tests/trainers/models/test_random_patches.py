"""Random patches: against one place at a time, mirror images, precision, files, refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.methods.closed_forms import train_probes, vote
from labeldp.trainers.models import patches as module
from labeldp.trainers.models.features import described_by_features, label_free_features
from labeldp.trainers.models.patches import RandomPatchEncoder, RandomPatchFeatures
from labeldp.trainers.performance import Precision
from tests.real_data import real_data_root
from tests.trainers.small_data import small_images

SMALL = RandomPatchFeatures(
    patch=3, filters=6, cells=3, dimensions=5, sampled_patches=300, precision=Precision.FP32
)


def _slowly(encoder: RandomPatchEncoder, image: torch.Tensor) -> torch.Tensor:
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
    assert encoder.projection is not None
    pooled = torch.cat(parts).sqrt() - encoder.shift.double()
    return pooled @ encoder.projection.double()


@pytest.mark.parametrize(("side", "channels", "cells"), [(11, 1, 3), (10, 3, 3), (9, 3, 2)])
def test_the_encoder_is_the_formula(side: int, channels: int, cells: int) -> None:
    data, _ = small_images(side=side, channels=channels, examples=50)
    encoder = replace(SMALL, cells=cells).fit(data.train_features)
    ours = encoder(data.test_features)
    slow = torch.stack([_slowly(encoder, image) for image in data.test_features[:4]])
    torch.testing.assert_close(ours[:4].double(), slow, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("side", [9, 10, 13])
def test_an_image_and_its_mirror_image_are_the_same(side: int) -> None:
    images = small_images(side=side, channels=3, examples=60)[0].train_features
    encoder = SMALL.fit(images)
    torch.testing.assert_close(encoder(images.flip(3)), encoder(images), atol=1e-4, rtol=1e-4)
    assert (encoder(images.flip(2)) - encoder(images)).abs().max() > 1e-2


def test_the_strongest_directions_are_those_of_a_full_decomposition() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 200, generator=generator) * torch.linspace(3, 0.1, 200)
    rows -= rows.mean(0)
    found = module._strongest_directions(rows, 20, generator)
    torch.testing.assert_close(found.mT @ found, torch.eye(20), atol=1e-4, rtol=0)
    strengths = (rows @ found).square().sum()
    best = torch.linalg.svdvals(rows)[:20].square().sum()
    assert 0.999 * best < strengths <= 1.0001 * best


def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    images = small_images(channels=3, examples=50)[0].train_features
    encoder = SMALL.fit(images)
    whole = encoder(images)
    monkeypatch.setattr(module, "_ANSWERS_AT_ONCE", 100 * 33 * 3)
    monkeypatch.setattr(module, "_PHOTOGRAPHS_AT_ONCE", 7)
    torch.testing.assert_close(encoder(images), whole, atol=1e-5, rtol=1e-5)


def test_seeds_repeat_and_flat_images_are_described() -> None:
    images = small_images(channels=3, examples=60)[0].train_features.clone()
    images[:20] = 255
    first, again = (SMALL.fit(images)(images) for _ in range(2))
    assert torch.equal(first, again) and first.isfinite().all()
    assert not torch.equal(first, replace(SMALL, seed=1).fit(images)(images))


@pytest.mark.parametrize("precision", Precision)
def test_what_is_kept_and_read_makes_the_same_features(
    tmp_path: Path, precision: Precision
) -> None:
    data, _ = small_images(channels=3)
    settings = replace(SMALL, precision=precision)
    first = label_free_features(data, settings, folder=tmp_path)
    described = described_by_features(data, settings, folder=tmp_path)
    assert torch.equal(described.train_features, first.train)
    raw = data.test_features.numpy()
    assert torch.equal(described.preprocessing(raw), first.test)
    plain = json.loads(json.dumps(described.preprocessing.described()))
    restored = Preprocessing.restored(plain, described.preprocessing.arrays())
    assert torch.equal(restored(raw), first.test)
    assert restored.steps[-1].shape == (5,)
    label_free_features(data, replace(settings, threshold=0.1), folder=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == 2


def test_half_precision_is_as_good_on_photographs() -> None:
    labelled = load("cifar10", root=real_data_root("cifar10"), limit=2000)
    public, labels = labelled.public, labelled.train_labels
    settings = RandomPatchFeatures(
        filters=64, dimensions=300, sampled_patches=10_000, sampled_images=1000
    )
    accuracy, found = {}, {}
    for precision in Precision:
        encoder = replace(settings, precision=precision).fit(public.train_features)
        train, test = encoder(public.train_features), encoder(public.test_features[:1000])
        probe = train_probes(train, [np.arange(len(train))], [labels], 10, ridge=1.0)
        accuracy[precision] = (vote(probe, test)[0] == public.test_labels[:1000]).mean()
        found[precision] = test @ test.mT
    assert min(accuracy.values()) > 0.5
    # The standard error of one of them is .016; what they get wrong is mostly the same.
    assert accuracy[Precision.BF16] == pytest.approx(accuracy[Precision.FP32], abs=0.016)
    exact = found[Precision.FP32]
    assert (found[Precision.BF16] - exact).square().mean() < 1e-3 * exact.square().mean()

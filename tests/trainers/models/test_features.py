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

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.data.preprocessing import Preprocessing
from labeldp.trainers.methods.closed_forms import train_probes, vote
from labeldp.trainers.models import features as module
from labeldp.trainers.models.features import (
    PatchEncoder,
    PatchFeatures,
    RandomPatchEncoder,
    RandomPatchFeatures,
    described_by_features,
    label_free_features,
)
from labeldp.trainers.performance import Precision
from tests.real_data import real_data_root
from tests.trainers.small_data import small_images, small_table

KMEANS = PatchFeatures(patch=3, centers=7, cells=2, dimensions=5, sampled_patches=300)
RANDOM = RandomPatchFeatures(
    patch=3, filters=6, cells=3, dimensions=5, sampled_patches=300, precision=Precision.FP32
)
BOTH = pytest.mark.parametrize("settings", [KMEANS, RANDOM], ids=["k-means", "random"])
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


@pytest.mark.parametrize("side", [9, 10, 13])
def test_an_image_and_its_mirror_image_are_the_same(side: int) -> None:
    images = small_images(side=side, channels=3, examples=60)[0].train_features
    encoder = RANDOM.fit(images)
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


@BOTH
def test_batches_do_not_show(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    images = small_images(channels=3, examples=50)[0].train_features
    encoder = settings.fit(images)
    whole = encoder(images)
    for name, entries in (("_BATCH_NUMBERS", 100 * 7 * 3), ("_ANSWERS_AT_ONCE", 100 * 33 * 3)):
        monkeypatch.setattr(module, name, entries)
    for name in ("_IMAGES_AT_ONCE", "_PHOTOGRAPHS_AT_ONCE"):
        monkeypatch.setattr(module, name, 7)
    torch.testing.assert_close(encoder(images), whole, atol=1e-5, rtol=1e-5)


@BOTH
def test_seeds_repeat_and_flat_images_are_described(settings: Any) -> None:
    images = small_images(channels=3, examples=60)[0].train_features.clone()
    images[:20] = 255
    first, again = (settings.fit(images)(images) for _ in range(2))
    assert torch.equal(first, again) and first.isfinite().all()
    assert not torch.equal(first, replace(settings, seed=1).fit(images)(images))


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
    # The standard error of one of them is .016; their mistakes are mostly the same.
    assert accuracy[Precision.BF16] == pytest.approx(accuracy[Precision.FP32], abs=0.016)
    exact = found[Precision.FP32]
    assert (found[Precision.BF16] - exact).square().mean() < 1e-3 * exact.square().mean()


def test_features_are_centered_and_of_unit_size() -> None:
    for data, _ in (small_images(), small_table()):
        train = label_free_features(data, KMEANS).train
        assert train.mean(0).abs().max() < 1e-4
        assert train.square().sum(1).mean() == pytest.approx(1, abs=1e-3)


def test_features_are_kept_by_content(tmp_path: Path) -> None:
    data, _ = small_images()
    folder = tmp_path / "kept"
    first = label_free_features(data, KMEANS, folder=folder)
    (path,) = folder.glob("*.npy")
    # The next reader gets the file, not a new computation.
    stored = np.load(path)
    stored[0, 0] = 42.0
    np.save(path, stored)
    again = label_free_features(data, KMEANS, folder=folder)
    assert again.train[0, 0] == 42.0
    assert torch.equal(again.train[1:], first.train[1:]) and torch.equal(again.test, first.test)
    again.train.zero_()  # a private copy: the file stays
    assert np.load(path)[0, 0] == 42.0
    label_free_features(data, replace(KMEANS, seed=3), folder=folder)
    label_free_features(small_images(seed=5)[0], KMEANS, folder=folder)
    assert len(list(folder.glob("*.npy"))) == 3


@pytest.mark.parametrize("kept", [False, True], ids=["fitted", "read from disk"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_step_makes_the_features_again(tmp_path: Path, settings: Any, kept: bool) -> None:
    for data, _ in (small_images(channels=3), small_table()):
        if kept:
            label_free_features(data, settings, folder=tmp_path)
        described = described_by_features(data, settings, folder=tmp_path)
        raw = data.test_features.numpy()
        assert torch.equal(described.preprocessing(raw), described.test_features)
        assert described.fingerprint != data.fingerprint
        plain = json.loads(json.dumps(described.preprocessing.described()))
        restored = Preprocessing.restored(plain, described.preprocessing.arrays())
        assert torch.equal(restored(raw), described.test_features)
        assert restored.steps[-1].shape == tuple(described.test_features.shape[1:])


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space left"):
        label_free_features(small_table()[0], folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 8 x 8: take a smaller patch"):
        PatchFeatures().fit(torch.zeros(9, 1, 7, 9, dtype=torch.uint8))
    with pytest.raises(ValueError, match="uint8"):
        PatchFeatures().fit(torch.zeros(9, 1, 9, 9))

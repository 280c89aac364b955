"""How fast views, linear teachers and votes are, next to the obvious way, in one run on one thread.

`make bench` runs it. Ratios are of medians of interleaved runs; they carry over between machines,
seconds do not.
"""

import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from labeldp.mechanisms.pate.vote_counts import count_votes
from labeldp.trainers.augmentation import CropAndFlip
from labeldp.trainers.fixmatch.image_operations import Operation
from labeldp.trainers.fixmatch.rand_augment import RandAugment
from labeldp.trainers.fixmatch.views import ImageViews
from labeldp.trainers.pate.probes import train_probes, vote
from tests.trainers.pillow_reference import (
    cut_out,
    operate,
    sample_tiles,
    to_pillow,
)

pytestmark = pytest.mark.benchmark

#: Unlabeled examples in one step of FixMatch.
_BATCH = 448


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_pairs_of_views_against_one_image_at_a_time() -> None:
    images = sample_tiles(count=_BATCH)
    mean, std = torch.full((3,), 0.5), torch.full((3,), 0.25)
    views = ImageViews(mean=mean, std=std, crop=CropAndFlip(), augment=RandAugment())
    generator = torch.Generator().manual_seed(0)
    python = random.Random(0)
    photographs = [to_pillow(image) for image in images[:112]]
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
        image = crop(image)
        for operation in python.choices(list(Operation), k=2):
            magnitude, sign = python.randrange(1, 10), python.choice((-1, 1))
            if python.random() < 0.5:
                image = operate(operation, image, magnitude, sign)
        return cut_out(image, 16, python.uniform(0, 32), python.uniform(0, 32))

    def one_by_one() -> None:
        torch.stack([tensor(crop(image)) for image in photographs])
        torch.stack([tensor(strong(image)) for image in photographs])

    def batched() -> None:
        views.weak(images, generator)
        views.strong(images, generator)

    batched()
    one_by_one()
    rounds = [
        (len(photographs) / _seconds(one_by_one), _BATCH / _seconds(batched)) for _ in range(9)
    ]
    slow, fast = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    print(f"\npairs per second: {slow:,.0f} one by one, {fast:,.0f} batched: {fast / slow:.1f} x")
    assert fast >= 15 * slow


def test_800_linear_teachers_within_ten_seconds() -> None:
    draws = np.random.default_rng(0)
    labels = draws.integers(0, 10, 60_000)
    centers = draws.normal(size=(10, 400)) / 20
    features = torch.from_numpy(
        (centers[labels] + draws.normal(size=(60_000, 400)) / 20).astype(np.float32)
    )
    shards = list(draws.permutation(60_000).reshape(800, 75))
    of_shards = [labels[shard] for shard in shards]
    began = time.perf_counter()
    probes = train_probes(features, shards, of_shards, 10)
    trained = time.perf_counter()
    votes = vote(probes, features[:10_000])
    counts = count_votes(votes, num_classes=10)
    done = time.perf_counter()
    print(
        f"\n800 teachers: trained in {trained - began:.2f} s, 10,000 queries {done - trained:.2f} s"
    )
    assert (counts.argmax(1) == labels[:10_000]).mean() > 0.9
    assert done - began < 10


def test_forty_million_votes_within_a_second_and_100_mb() -> None:
    votes = np.random.default_rng(0).integers(0, 100, (800, 50_000), dtype=np.uint8)
    seconds = min(_seconds(lambda: count_votes(votes, num_classes=100)) for _ in range(3))
    tracemalloc.start()
    count_votes(votes, num_classes=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"\n40 million votes: {seconds:.2f} s, {peak / 1e6:.0f} MB beside the votes' 40 MB")
    assert seconds < 1
    assert peak + votes.nbytes < 100e6

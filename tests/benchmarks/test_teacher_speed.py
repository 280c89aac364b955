"""How fast 800 probes are on real images; `hot_paths/teachers.py` has them one by one."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.methods.pate.teachers import TeacherVotes
from labeldp.trainers.models.features import label_free_features
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.pate import EnsembleConfig
from tests.real_data import real_data_root

pytestmark = pytest.mark.benchmark

ON_CPU = Performance(device=Device.CPU)


def seconds(function: Callable[[], object]) -> float:
    """Processor time of one call in this process: others on the machine don't count."""
    start = time.process_time()
    function()
    return time.process_time() - start


def features_of_fashion_mnist() -> tuple[PublicData, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """60,000 images as 800 numbers each; random projections, since only speed is looked at."""
    loaded = load("fashion_mnist", root=str(real_data_root("fashion_mnist")))
    public = loaded.public
    generator = torch.Generator().manual_seed(0)
    pixels = public.train_features[0].numel()
    projection = torch.randn(pixels, 800, generator=generator) / pixels**0.5
    table = replace(
        public,
        train_features=public.train_features.flatten(1).float() / 255 @ projection,
        test_features=public.test_features.flatten(1).float() / 255 @ projection,
    )
    features = label_free_features(table)
    return (
        replace(table, train_features=features.train, test_features=features.test),
        loaded.train_labels,
    )


def test_800_probes_and_their_votes_take_less_than_10_seconds() -> None:
    torch.set_num_threads(2)
    data, labels = features_of_fashion_mnist()
    config = EnsembleConfig(teachers=800, queries=3000)
    shards = LabelVault(labels=labels, num_classes=10).partition(800, seed=0)
    vote = TeacherVotes(config=config, performance=ON_CPU)

    def all_batches() -> None:
        for first in range(0, 800, config.batch):
            ids = range(first, first + config.batch)
            vote(ids, shards[first : first + config.batch], data)

    all_batches()
    start = time.perf_counter()
    used = seconds(all_batches)
    wall = time.perf_counter() - start
    print(f"\n800 probes and 3,000 queries: {wall:.1f} s, {used:.1f} s of processor time")
    assert used < 10

"""Groups and directions: of features and a seed alone, and computed once for all workers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.vault import LabelVault, MemoryStore
from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.methods import prior_inputs
from labeldp.trainers.methods.prior_inputs import (
    Rows,
    clusters_of,
    kernel_directions,
    moment_query,
    remembered_directions,
)
from labeldp.trainers.methods.priors import PriorSettings, PriorSource

REMEMBERED = (prior_inputs.remembered_clusters, prior_inputs.remembered_directions)


def as_in_another_process() -> None:
    for remembered in REMEMBERED:
        remembered.cache_clear()


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    as_in_another_process()
    yield
    as_in_another_process()


def test_clusters_follow_from_features_and_seed() -> None:
    rows = torch.cat((torch.zeros(20, 3), torch.ones(30, 3)))
    rows += 0.01 * torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    groups = clusters_of(rows, clusters=2, seed=0)
    assert groups[0] != groups[-1]
    assert len(set(groups[:20])) == len(set(groups[20:])) == 1
    assert np.array_equal(groups, clusters_of(rows, clusters=2, seed=0))


@pytest.mark.parametrize(
    ("settings", "module", "name"),
    [
        (PriorSettings(source=PriorSource.CLUSTERS, clusters=20), prior_inputs, "clusters_of"),
        (
            PriorSettings(source=PriorSource.MOMENTS, landmarks=60),
            prior_inputs,
            "kernel_directions",
        ),
    ],
)
def test_another_worker_reads_what_one_has_computed_and_asks_for_the_same_release(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: PriorSettings,
    module: Any,
    name: str,
) -> None:
    data, calls, computed = load("digits", limit=300), list[int](), getattr(module, name)

    def counted(*args: Any, **settings: Any) -> Any:
        calls.append(1)
        return computed(*args, **settings)

    monkeypatch.setattr(module, name, counted)
    alone = data.public  # which keeps nothing, as it was before there were files
    shared = replace(data.public, features_folder=tmp_path)
    store, learned = MemoryStore(bytes(32)), []
    for public in (alone, shared, shared, replace(shared)):
        as_in_another_process()
        vault = LabelVault(labels=data.train_labels, num_classes=10, store=store)
        learned.append(settings.learn(public, vault, epsilon=1.0, delta=1e-5))
    assert calls == [1, 1], "once alone, once for all workers"
    assert len(store.charges()) == 1, "one release, by its query's bits"
    assert all(np.array_equal(learned[0], each) for each in learned)
    other = replace(settings, seed=1)
    as_in_another_process()
    other.learn(
        shared, LabelVault(labels=data.train_labels, num_classes=10), epsilon=1.0, delta=1e-5
    )
    assert len(calls) == 3 and len(list(tmp_path.iterdir())) == 2


def test_a_query_of_directions_from_a_file_is_the_same_to_the_bit(tmp_path: Path) -> None:
    """Kernels of NumPy may add up otherwise where memory begins elsewhere: here it does not."""
    rows = torch.randn(1003, 37, generator=torch.Generator().manual_seed(0))
    plain = kernel_directions(rows, landmarks=201, seed=3)
    kept = remembered_directions(Rows("these rows", rows, tmp_path), landmarks=201, seed=3)
    queries = [moment_query(each, noise_std=0.01, tolerated=0.1) for each in (plain, kept)]
    assert queries[0].weights.tobytes() == queries[1].weights.tobytes()
    assert queries[0].scale == queries[1].scale
    moments = np.random.default_rng(0).normal(size=(queries[0].weights.shape[1], 4))
    scores = [query.scores(moments, noise_std=0.01) for query in queries]
    assert scores[0].tobytes() == scores[1].tobytes()


def test_other_data_other_settings_and_other_code_are_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))

    def ask(fingerprint: str = "a", landmarks: int = 9, seed: int = 0) -> int:
        as_in_another_process()
        remembered_directions(Rows(fingerprint, rows, tmp_path), landmarks=landmarks, seed=seed)
        return len(list(tmp_path.iterdir()))

    assert [ask(), ask(), ask("b"), ask(landmarks=8), ask(seed=1)] == [1, 1, 2, 3, 4]
    monkeypatch.setattr(prior_inputs, "DIRECTIONS_VERSION", 2)
    assert ask() == 5

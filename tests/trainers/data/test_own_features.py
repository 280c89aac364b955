"""own_features: rows of any scale come out alike; what is made of which file is tried elsewhere."""

import functools
from typing import Any

import numpy as np
import pytest

from labeldp.mechanisms import LabelVault, Release, SeededNoise
from labeldp.platform.sweep.configuration import TrialConfig, flatten, with_changes
from labeldp.trainers.data.labelled_data import LabelledData, labelled
from labeldp.trainers.data.own_data import LARGEST_SQUARED_NORM, prepared, read_arrays
from labeldp.trainers.data.own_files import HoldOut
from labeldp.trainers.performance import Performance

METHODS = ("alibi", "alibi_prior", "bit_flip", "consensus", "convex", "lp_mst", "prior_labels")


@pytest.mark.parametrize("width", [3, 64, 65, 768])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e6])
def test_no_row_is_longer_on_average_than_stated(width: int, scale: float) -> None:
    random = np.random.default_rng(0)
    matrix = scale * random.normal(1, 2, (300, width))
    found = prepared(matrix, matrix[:5], where="X")
    squared = float((found.train.astype(float) ** 2).sum(1).mean())
    assert squared == pytest.approx(min(width, LARGEST_SQUARED_NORM), rel=1e-4)
    assert found.preprocessing is not None
    np.testing.assert_array_equal(found.preprocessing(matrix), found.train)


def test_columns_that_never_change_do_not_count() -> None:
    random = np.random.default_rng(0)
    matrix = np.concatenate([random.normal(0, 2, (300, 60)), np.full((300, 100), 7.0)], axis=1)
    found = prepared(matrix, matrix[:5], where="X")
    assert float((found.train.astype(float) ** 2).sum(1).mean()) == pytest.approx(60, rel=1e-4)


def test_columns_with_names_are_scaled_as_those_without() -> None:
    random = np.random.default_rng(0)
    matrix = random.normal(1, 2, (300, 200))
    columns = {f"x{place}": column for place, column in enumerate(matrix.T)}
    named = prepared(columns, {name: column[:5] for name, column in columns.items()}, where="X")
    np.testing.assert_allclose(
        named.train, prepared(matrix, matrix[:5], where="X").train, rtol=1e-5, atol=1e-7
    )


@functools.cache
def embeddings(norm: float) -> LabelledData:
    """Clouds of 768 numbers of very different size, of this norm, far from 0."""
    random = np.random.default_rng(0)
    centers, labels = random.normal(size=(3, 768)), random.integers(3, size=800)
    rows = 0.3 * centers[labels] + random.normal(size=(800, 768)) + 3 * random.normal(size=768)
    rows *= random.lognormal(0, 1, 768)
    rows *= norm / np.sqrt((rows**2).sum(1).mean())
    return labelled("own", read_arrays(rows, labels, classes=3, hold_out=HoldOut.PUBLIC))


class Source:
    """The labels' vault, as trainers see it."""

    def __init__(self, data: LabelledData) -> None:
        self.vault = LabelVault(labels=data.train_labels, num_classes=3)

    def release(self, *asked: Any, **more: Any) -> Release:
        return self.vault.release(*asked, noise=SeededNoise(seed=0), **more)


def test_the_scale_of_embeddings_is_gone() -> None:
    large, small = embeddings(30.0).public, embeddings(1e-3).public
    np.testing.assert_allclose(large.train_features, small.train_features, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rate", [None, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_embeddings_train_at_the_defaults_and_at_rates_for_short_rows(
    method: str, rate: float | None
) -> None:
    data = embeddings(30.0)
    config = with_changes(TrialConfig(), {"method": method, "trainer.epsilon": 8.0})
    known = flatten(config)
    wanted = {
        "trainer.epochs": 4,
        "trainer.batch_size": 64,
        "trainer.learning_rate": rate,
        "trainer.retrain_epochs": 2,
        "trainer.prior.clusters": 20,  # the default is for more rows than a test has
    }
    changes = {key: value for key, value in wanted.items() if key in known and value is not None}
    trainer = with_changes(config, changes).trainer.start(
        data=data.public, labels=Source(data), seed=0, performance=Performance()
    )
    losses = [trainer.epoch().loss for _ in range(4)]
    assert np.isfinite(losses).all()
    assert trainer.evaluate() > 0.8

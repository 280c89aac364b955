"""Recommender: stars are learned under privacy, each is released once, and errors are in stars."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.data.labelled_data import LabelledData, PublicData, load
from labeldp.trainers.methods.lp_mst import Recommender, rmse, stars_of
from labeldp.trainers.models.features import described_by_features
from labeldp.trainers.models.networks import TwoBranch, build_model
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import (
    AlibiConfig,
    ConvexConfig,
    PriorSettings,
    PriorSource,
    RecommenderConfig,
)
from labeldp.trainers.trainer import LabelSource, TrainerConfig
from tests.trainers.ratings import write_ratings
from tests.trainers.tiny_data import SeededSource, digits

ON_CPU = Performance(device=Device.CPU)
QUICK = RecommenderConfig(epsilon=4.0, epochs=4, batch_size=64)


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> LabelledData:
    root = tmp_path_factory.mktemp("data")
    write_ratings(root)
    return load("movielens_1m", root=root)


def started(
    config: RecommenderConfig, data: LabelledData, labels: LabelSource | None = None
) -> Recommender:
    source = labels or SeededSource(labels=data.train_labels, num_classes=5)
    trainer: Recommender = config.start(data=data.public, labels=source, seed=0, performance=ON_CPU)
    return trainer


def trained(
    config: RecommenderConfig, data: LabelledData, labels: LabelSource | None = None
) -> Recommender:
    trainer = started(config, data, labels)
    for _ in range(config.epochs):
        trainer.epoch()
    return trainer


def test_from_the_file_to_an_error_below_that_of_any_constant(ratings: LabelledData) -> None:
    """End to end with two stages; no constant does better than the spread of the test ratings."""
    config: TrainerConfig = replace(QUICK, epochs=10)
    vault = LabelVault(labels=ratings.train_labels, num_classes=5)
    assert isinstance(config, RecommenderConfig)
    trainer = trained(config, ratings, vault)
    figures = trainer.figures()
    rated = ratings.public.test_labels + 1
    assert figures["rmse_constant"] == pytest.approx(np.sqrt(np.mean((rated - rated.mean()) ** 2)))
    assert figures["rmse"] < 0.85 * figures["rmse_constant"]
    mean = trainer.predict(ratings.public.test_features) @ np.arange(1, 6)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((mean - rated) ** 2)), rel=1e-5)
    assert trainer.evaluate() > np.bincount(rated).max() / len(rated)
    # Each rating was released once: two stages cost what one of them costs.
    assert len(vault.charges()) == 2 and vault.epsilon(delta=0.0) == 4.0
    assert 1 <= figures["mean_top_k"] <= 5


def test_the_error_by_hand() -> None:
    probabilities = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]])
    stars = np.array([1.0, 2.0, 3.0])
    assert rmse(probabilities, stars, np.array([2.0, 3.0])) == pytest.approx(np.sqrt(0.5))
    with pytest.raises(ValueError, match="probabilities row 1"):
        rmse(np.array([[0.5, 0.5, 0.0], [0.5, 0.6, 0.0]]), stars, np.array([1.0, 1.0]))


def test_classes_that_are_no_numbers_are_refused(ratings: LabelledData) -> None:
    data, _ = digits(train=50)
    with pytest.raises(ValueError, match=r"classes of digits are named None.*method=lp_mst"):
        stars_of(data)
    words = replace(ratings.public, class_names=("bad", "poor", "fair", "good", "great"))
    with pytest.raises(ValueError, match=r"named \('bad'.*numbers"):
        stars_of(words)
    assert stars_of(ratings.public).tolist() == [1, 2, 3, 4, 5]


def test_identifiers_are_not_taken_for_numbers(ratings: LabelledData) -> None:
    data, source = ratings.public, SeededSource(labels=ratings.train_labels, num_classes=5)

    def start(config: TrainerConfig, public: PublicData = data) -> None:
        config.start(data=public, labels=source, seed=0, performance=ON_CPU)

    with pytest.raises(ValueError, match="model is mlp, but the features are identifiers"):
        start(AlibiConfig())
    with pytest.raises(ValueError, match="nothing halfway between two names: set mixup=0"):
        start(replace(QUICK, mixup=4.0))
    with pytest.raises(ValueError, match=r"movielens_1m holds identifiers.*convex can't use them"):
        start(ConvexConfig())
    with pytest.raises(ValueError, match=r"identifiers.*a prior from clusters can't use them"):
        start(replace(QUICK, prior=PriorSettings(source=PriorSource.CLUSTERS)))
    with pytest.raises(ValueError, match=r"identifiers.*data\.features=patches"):
        described_by_features(data)
    with pytest.raises(ValueError, match="model is two_branch, but the features are numbers"):
        build_model(ModelName.TWO_BRANCH, input_shape=(2,), num_classes=5, seed=0)
    with pytest.raises(ValueError, match="got 3 columns of identifiers; it takes two"):
        TwoBranch(cardinalities=(4, 6, 3), width=8, num_classes=5)
    with pytest.raises(ValueError, match=r"row 1 is \[2, -1\]; identifiers are counted from 0"):
        replace(data, train_features=torch.tensor([[0, 0], [2, -1]]))

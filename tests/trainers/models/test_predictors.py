"""predictors: what is handed over is what predicts; arrays that don't fit are refused."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.predictors import (
    MeanPredictor,
    NetworkPredictor,
    NetworkSettings,
    Pixels,
    restored,
)
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.settings.base import ModelName
from tests.trainers.small_data import small_images

IMAGES = NetworkSettings(model=ModelName.SMALL_CNN, input_shape=(1, 12, 12), num_classes=3, width=4)


def a_network(seed: int = 0) -> tuple[PublicData, NetworkPredictor]:
    data, _ = small_images()
    network = IMAGES.seeded(seed)
    return data, NetworkPredictor(
        network=network, settings=IMAGES, pixels=Pixels.of(data.mean, data.std)
    )


def test_every_network_is_written_down_and_built_again() -> None:
    for name in ModelName:
        shape: tuple[int, ...] = (1, 12, 12) if name.needs_images else (7,)
        places: tuple[int, ...] | None = None
        if name is ModelName.TWO_BRANCH:
            shape, places = (2,), (5, 6)
        width = 1 if name is ModelName.WIDE_RESNET28 else 4
        settings = NetworkSettings(
            model=name, input_shape=shape, num_classes=3, width=width, cardinalities=places
        )
        one = NetworkPredictor(network=settings.seeded(1), settings=settings)
        other = restored(one.described(), one.arrays())
        whole = places is not None
        features = torch.ones(2, *shape, dtype=torch.int64 if whole else torch.float32)
        assert (other.predict(features) == one.predict(features)).all(), name


def test_the_mean_is_that_of_its_parts() -> None:
    data, first = a_network()
    _, second = a_network(seed=1)
    both = MeanPredictor(parts=(first, second))
    parts = [each.predict(data.test_features) for each in (first, second)]
    again = restored(both.described(), both.arrays())
    np.testing.assert_allclose(again.predict(data.test_features), np.mean(parts, 0), rtol=1e-6)
    assert (parts[0] != parts[1]).any()


@pytest.mark.parametrize(
    "changes", [{"width": 8}, {"model": "mlp"}, {"model": "oracle"}, {"input_shape": [1, 99, 99]}]
)
def test_arrays_of_another_network_are_refused(changes: dict[str, object]) -> None:
    _, predictor = a_network()
    with pytest.raises((RuntimeError, ValueError)):
        restored({**predictor.described(), **changes}, predictor.arrays())


def test_weights_out_of_all_bounds_are_told_as_such() -> None:
    data, predictor = a_network()
    with torch.no_grad():
        list(predictor.network.parameters())[-1].fill_(math.inf)
    with pytest.raises(TrainingDiverged, match=r"200 of 200 rows: .*lower learning_rate"):
        predictor.predict(data.test_features)


def test_accuracy_is_the_share_of_right_guesses_of_a_public_split() -> None:
    data, predictor = a_network()
    guesses = predictor.predict(data.test_features).argmax(1)
    assert 0 < predictor.accuracy(data) == (guesses == data.test_labels).mean()
    nothing = replace(data, test_features=data.test_features[:0], test_labels=data.test_labels[:0])
    assert math.isnan(predictor.accuracy(nothing))

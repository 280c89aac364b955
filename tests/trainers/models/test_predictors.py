"""predictors: what is handed over is what predicts; arrays that don't fit are refused."""

import math
from dataclasses import replace

import pytest
import torch

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.predictors import NetworkPredictor, NetworkSettings, Pixels
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


def test_weights_beyond_all_bounds_are_reported() -> None:
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

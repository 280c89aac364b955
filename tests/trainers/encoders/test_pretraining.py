"""Training without labels: it learns, goes on bit for bit, and there is no way in for a label."""

import inspect
from dataclasses import replace
from typing import Any

import pytest
import torch

from labeldp.trainers.data.labelled_data import load
from labeldp.trainers.encoders.pretraining import Pretraining, described
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import SelfSupervisedConfig
from tests.trainers.encoders.digits import DIGITS, digits, worth_of_labels

CPU = Performance(device=Device.CPU)
IMAGES = torch.randint(
    256, (48, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
TINY = SelfSupervisedConfig(width=2, projection=8, epochs=4, batch_size=16)


def test_what_it_says_of_digits_is_worth_more_than_what_random_weights_say() -> None:
    test = load("digits").public.test_features
    training = Pretraining(DIGITS, images=digits(), seed=0, performance=CPU)

    def worth() -> tuple[float, float]:
        said = training.describe(digits()), training.describe(test)
        return worth_of_labels(*said, labels=20), worth_of_labels(*said, labels=1438)

    few, all_of_them = worth()
    losses = [training.epoch().loss for _ in range(DIGITS.epochs)]
    assert losses[-1] < 0.95 * losses[0]
    few_now, all_now = worth()
    # .37 and .72 by random weights; .6 and .88 were seen.
    assert few_now > few + 0.1 and all_now > all_of_them + 0.08


def test_it_goes_on_bit_for_bit() -> None:
    whole, first, second = (
        Pretraining(TINY, images=IMAGES, seed=3, performance=CPU) for _ in range(3)
    )
    losses = [whole.epoch().loss for _ in range(4)]
    assert [first.epoch().loss for _ in range(2)] == losses[:2]
    second.load_state_dict(first.state_dict())
    first.epoch()  # the state is a copy
    assert [second.epoch().loss for _ in range(2)] == losses[2:]
    assert second.epoch_number == 4
    assert torch.equal(second.describe(IMAGES), whole.describe(IMAGES))


def test_it_takes_images_and_nothing_that_could_be_a_label() -> None:
    takes = set(inspect.signature(Pretraining.__init__).parameters)
    assert takes == {"self", "config", "images", "seed", "performance"}
    assert set(inspect.signature(Pretraining.epoch).parameters) == {"self"}


@pytest.mark.parametrize("model", [ModelName.RESNET18, ModelName.SMALL_CNN])
def test_other_networks_and_half_precision_train_too(model: ModelName) -> None:
    config = replace(TINY, model=model, epochs=1)
    fast = replace(CPU, precision=Precision.BF16, channels_last=True)
    training = Pretraining(config, images=IMAGES, seed=0, performance=fast)
    assert training.epoch().loss > 0
    vectors = training.describe(IMAGES)
    assert vectors.dtype == torch.float32 and vectors.shape == (48, training.encoder().dimensions)
    assert vectors.isfinite().all()


def test_the_encoder_is_a_copy_that_says_the_same() -> None:
    training = Pretraining(TINY, images=IMAGES, seed=0, performance=CPU)
    encoder = training.encoder()
    before = described(encoder, IMAGES, performance=CPU)
    assert torch.equal(before, training.describe(IMAGES))
    training.epoch()
    assert torch.equal(before, described(encoder, IMAGES, performance=CPU))
    assert not torch.equal(before, training.describe(IMAGES))


def test_a_rate_that_is_too_high_is_said() -> None:
    training = Pretraining(
        replace(TINY, learning_rate=1e12), images=IMAGES, seed=0, performance=CPU
    )
    with pytest.raises(TrainingDiverged, match="lower learning_rate"):
        for _ in range(4):
            training.epoch()


@pytest.mark.parametrize(
    "images",
    [torch.zeros(5, 3, 8, 8), torch.zeros(5, 8, dtype=torch.uint8), IMAGES[:1]],
    ids=["no bytes", "no images", "one"],
)
def test_what_is_no_images_is_refused(images: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"bytes \[N, C, H, W\], two images at least"):
        Pretraining(TINY, images=images, seed=0, performance=CPU)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ModelName.MLP}, "views are of images"),
        ({"batch_size": 1}, "batch_size"),
        ({"momentum": 1.0}, "and below 1"),
        ({"grey": 1.2}, "and at most 1"),
        ({"smallest_area": 0.0}, "smallest_area"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TINY, **changes)


def test_weights_that_the_last_step_ruins_are_no_encoder() -> None:
    """No loss comes after it: the one of its epoch is finite."""
    config = replace(TINY, epochs=1, batch_size=len(IMAGES), warmup=0.0, learning_rate=1e39)
    training = Pretraining(config, images=IMAGES, seed=0, performance=CPU)
    with pytest.raises(TrainingDiverged, match="weights are not finite in epoch 1"):
        training.epoch()

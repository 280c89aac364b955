"""The learner: crops and flips, pieces of a recipe, exact resume."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from labeldp.trainers.models import learner as learners
from labeldp.trainers.models.learner import CropAndFlip, OnLabels
from labeldp.trainers.models.schedules import Flip, Recipe, Schedule
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import LearnerConfig
from tests.trainers.small_data import small_images, small_table


def some_images(dtype: torch.dtype = torch.uint8, height: int = 9) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (64, 3, height, 12), generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_each_image_is_padded_cut_and_mirrored(dtype: torch.dtype, padding: int) -> None:
    images = some_images(dtype)
    augment = CropAndFlip(padding=padding)
    draws = augment.draw(len(images), torch.Generator().manual_seed(1))
    ours = augment.carry_out(images, draws)
    assert ours.dtype == dtype
    border = (0, 0), (padding, padding), (padding, padding)
    for row, (top, left, mirror) in enumerate(draws.T.tolist()):
        padded = np.pad(images[row].numpy(), border, mode="reflect")
        window = padded[:, top : top + 9, left : left + 12]
        expected = window[:, :, ::-1] if mirror else window
        np.testing.assert_array_equal(ours[row].numpy(), expected, err_msg=f"image {row}")


ON_CPU = Performance(device=Device.CPU)
ALL = Recipe(
    flip=Flip.ALTERNATING,
    crop=1,
    bias_rate=8.0,
    decoupled_decay=True,
    average_decay=0.9,
    mirrored=True,
)
QUICK = LearnerConfig(
    model=ModelName.FAST_CNN,
    width=4,
    epochs=4,
    batch_size=64,
    learning_rate=0.3,
    weight_decay=0.01,
    schedule=Schedule.TRIANGLE,
    warmup=0.25,
    augment=True,
    recipe=ALL,
)


def a_learner(config: LearnerConfig = QUICK) -> OnLabels:
    data, labels = small_images(channels=3)
    return OnLabels(config, labels=labels, data=data, seed=0, performance=ON_CPU)


def test_it_continues_from_a_state_bit_for_bit_at_either_parity() -> None:
    for done in (1, 2):
        whole, resumed = a_learner(), a_learner()
        for _ in range(done):
            whole.epoch()
        resumed.load_state_dict(whole.state_dict())
        assert [whole.epoch().loss for _ in range(2)] == [resumed.epoch().loss for _ in range(2)]
        features = small_images(channels=3)[0].test_features
        np.testing.assert_array_equal(whole.predict(features), resumed.predict(features))


def test_an_alternating_flip_shows_each_image_both_ways_in_two_epochs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[torch.Tensor] = []

    def normalize(batch: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        seen.append(batch)
        return batch.float()

    monkeypatch.setattr(learners, "normalize", normalize)
    config = replace(QUICK, batch_size=400, epochs=2, recipe=replace(ALL, crop=0, mirrored=False))
    data, learner = small_images(channels=3)[0], a_learner(config)
    for _ in range(2):
        learner.epoch()
    shown = [{tuple(row.flatten().tolist()) for row in batch} for batch in seen]
    plain = [tuple(row.flatten().tolist()) for row in data.train_features]
    mirrored = [tuple(row.flatten().tolist()) for row in data.train_features.flip(3)]
    for one, other in zip(plain, mirrored, strict=True):
        assert (one in shown[0]) != (other in shown[0])
        assert (one in shown[0]) == (other in shown[1])
    assert 0.35 < np.mean([one in shown[0] for one in plain]) < 0.65


def test_tables_have_no_mirror_image() -> None:
    data, labels = small_table()
    config = LearnerConfig(recipe=Recipe(mirrored=True))
    with pytest.raises(ValueError, match=r"recipe.mirrored True, but small table holds no im"):
        OnLabels(config, labels=labels, data=data, seed=0, performance=ON_CPU)

"""FixMatch: published values, views, learning from a few labels, exact resume, refusals."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from labeldp.trainers.methods.fixmatch import (
    FixMatch,
    Operation,
    RandAugment,
    ShuffledStream,
    apply,
    cosine_factor,
    fixmatch_loss,
)
from labeldp.trainers.models.optimization import WeightAverage
from labeldp.trainers.settings.training import FixMatchConfig, TrainingDiverged, WeakBranch
from tests.shared_material import shared_path
from tests.trainers.pillow_reference import from_pillow, operate, sample_tiles, to_pillow
from tests.trainers.small_data import FEW_LABELS, ON_CPU, small_table


def test_losses_are_the_published_ones() -> None:
    cases = json.loads(shared_path("oracle", "antipodes", "fixmatch_loss.json").read_text())
    golden = np.load(shared_path("oracle", "antipodes", "fixmatch.npz"))
    assert len(cases) >= 2
    for case in cases:
        loss = fixmatch_loss(
            logits_labeled=torch.from_numpy(golden["logits_x"]),
            labels=torch.from_numpy(golden["targets_x"]),
            logits_weak=torch.from_numpy(golden["logits_u_w"]),
            logits_strong=torch.from_numpy(golden["logits_u_s"]),
            threshold=case["threshold"],
            temperature=case["T"],
            unlabeled_weight=case["lambda_u"],
        )
        assert float(loss) == pytest.approx(case["loss"], abs=1e-10)


def test_moving_averages_are_the_published_ones() -> None:
    golden = np.load(shared_path("oracle", "antipodes", "fixmatch.npz"))
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()

    def load(stage: str) -> None:
        state = {name: torch.from_numpy(golden[f"ema_{stage}__{name}"]) for name in expected}
        network.load_state_dict(state)

    expected = list(network.state_dict())
    load("init")
    average = WeightAverage(network, decay=0.999, young=False)
    for step in range(5):
        load(f"step{step}")
        average.update_parameters(network)
    for name, value in average.module.state_dict().items():
        np.testing.assert_allclose(
            value.numpy(), golden[f"ema_final__{name}"], rtol=0, atol=1e-10, err_msg=name
        )


def test_the_rate_falls_as_published() -> None:
    structure = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    factors = structure["fixmatch_cosine_factor_N1000"]
    assert len(factors) > 10
    for step, factor in factors.items():
        assert cosine_factor(int(step), steps=1000) == pytest.approx(factor, abs=1e-12)


def test_weak_views_without_gradient_learn_too_and_divergence_is_named() -> None:
    """The joint branch is PATE's student in the contract of methods."""
    data, labels = small_table()
    config = FixMatchConfig(**FEW_LABELS, weak_branch=WeakBranch.WITHOUT_GRADIENT)

    def start(config: FixMatchConfig) -> FixMatch:
        given: dict[str, Any] = {"examples": np.arange(30), "labels": labels[:30], "seed": 1}
        return FixMatch(config, data=data, performance=ON_CPU, **given)

    trainer = start(config)
    for _ in range(config.epochs):
        metrics = trainer.epoch()
    right = trainer.predict(data.test_features).argmax(1) == data.test_labels
    assert metrics.val_accuracy == pytest.approx(right.mean()) and right.mean() > 0.8
    with pytest.raises(TrainingDiverged, match=r"epoch 1, at learning rate 9\.99e\+37"):
        start(replace(config, learning_rate=1e38)).epoch()


@pytest.mark.parametrize("size", [1, 4, 7, 10, 25])
def test_every_pass_holds_everything_once(size: int) -> None:
    stream = ShuffledStream(10, seed=0)
    batches = [stream.take(size) for _ in range(40)]
    assert all(len(batch) == size for batch in batches)
    passes = torch.cat(batches)[: 40 * size // 10 * 10].view(-1, 10)
    assert (passes.sort(1).values == torch.arange(10)).all()
    assert len({tuple(one) for one in passes.tolist()}) == len(passes)


# RandAugment: every pixel is Pillow's, the law of the draws, seeds, refusals.


@pytest.mark.parametrize(("side", "channels"), [(32, 3), (28, 1)])
@pytest.mark.parametrize("operation", Operation, ids=lambda operation: operation.value)
def test_every_pixel_is_pillows(operation: Operation, side: int, channels: int) -> None:
    images = sample_tiles(side=side, channels=channels, count=378)
    # Every magnitude in both directions, 21 images each.
    magnitudes = torch.arange(378) % 9 + 1
    signs = torch.arange(378) // 9 % 2 * 2 - 1
    before = images.clone()
    ours = apply(operation, images, magnitudes, signs)
    for row, image in enumerate(images):
        theirs = operate(operation, to_pillow(image), int(magnitudes[row]), int(signs[row]))
        assert torch.equal(ours[row], from_pillow(theirs)), f"image {row}"
    assert torch.equal(images, before), "the input was changed"
    if operation is not Operation.IDENTITY and (operation is not Operation.COLOR or channels == 3):
        assert not torch.equal(ours, images), "nothing happened, so the comparison says nothing"


def test_draws_have_the_published_law() -> None:
    count = 28_000
    generator = torch.Generator().manual_seed(0)
    operations, magnitudes, signs, corners = RandAugment().draw(count, generator)
    shares = torch.bincount(operations.flatten() + 1) / (2 * count)
    assert shares[0] == pytest.approx(0.5, abs=0.01)
    assert shares[1:].tolist() == pytest.approx([0.5 / 14] * 14, abs=0.005)
    strengths = torch.bincount(magnitudes.flatten(), minlength=11) / (2 * count)
    assert strengths[0] == strengths[10] == 0
    assert strengths[1:10].tolist() == pytest.approx([1 / 9] * 9, abs=0.01)
    assert signs.double().mean() == pytest.approx(0, abs=0.02)
    # Each image has its own draw: neighbors and layers are independent.
    same = (operations[:, 1:] == operations[:, :-1]).double().mean()
    assert same == pytest.approx(0.25 + 0.25 / 14, abs=0.01)
    assert corners.mean(1).tolist() == pytest.approx([0.5, 0.5], abs=0.01)

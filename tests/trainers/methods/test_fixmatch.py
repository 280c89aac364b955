"""FixMatch: published values, views, learning from a few labels, exact resume, refusals."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.trainers.data.labelled_data import PublicData, load
from labeldp.trainers.methods.fixmatch import (
    FixMatch,
    ImageViews,
    ShuffledStream,
    TableViews,
    cosine_factor,
    fixmatch_loss,
    moving_average,
)
from labeldp.trainers.methods.rand_augment import RandAugment
from labeldp.trainers.models.learner import CropAndFlip
from labeldp.trainers.models.predictors import normalize
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.training import FixMatchConfig, WeakBranch
from tests.shared_material import shared_path
from tests.trainers.small_data import small_images, small_table


def test_losses_are_the_published_ones() -> None:
    cases = json.loads(shared_path("oracle", "antipodes", "fixmatch_loss.json").read_text())
    golden = np.load(shared_path("oracle", "antipodes", "fixmatch.npz"))
    assert len(cases) >= 2
    for case in cases:
        parts = fixmatch_loss(
            logits_labeled=torch.from_numpy(golden["logits_x"]),
            labels=torch.from_numpy(golden["targets_x"]),
            logits_weak=torch.from_numpy(golden["logits_u_w"]),
            logits_strong=torch.from_numpy(golden["logits_u_s"]),
            threshold=case["threshold"],
            temperature=case["T"],
            unlabeled_weight=case["lambda_u"],
        )
        assert float(parts.labeled) == pytest.approx(case["Lx"], abs=1e-10)
        assert float(parts.unlabeled) == pytest.approx(case["Lu"], abs=1e-10)
        assert float(parts.total) == pytest.approx(case["loss"], abs=1e-10)
        assert float(parts.confident) == pytest.approx(case["mask_mean"], abs=1e-10)


def test_moving_averages_are_the_published_ones() -> None:
    golden = np.load(shared_path("oracle", "antipodes", "fixmatch.npz"))
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()

    def load(stage: str) -> None:
        state = {name: torch.from_numpy(golden[f"ema_{stage}__{name}"]) for name in expected}
        network.load_state_dict(state)

    expected = list(network.state_dict())
    load("init")
    average = moving_average(network, 0.999)
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


def test_no_gradient_flows_through_weak_views() -> None:
    weak = torch.tensor([[9.0, 0.0], [0.1, 0.0]], requires_grad=True)
    strong = torch.zeros(2, 2, requires_grad=True)
    parts = fixmatch_loss(
        logits_labeled=torch.zeros(1, 2),
        labels=torch.tensor([1]),
        logits_weak=weak,
        logits_strong=strong,
        threshold=0.95,
    )
    parts.total.backward()  # type: ignore[no-untyped-call]
    assert weak.grad is None
    assert strong.grad is not None and strong.grad[0].tolist() == [-0.25, 0.25]
    assert (strong.grad[1] == 0).all()  # not confident: nothing to learn
    assert parts.total == functional.cross_entropy(torch.zeros(1, 2), torch.tensor([1])) * 1.5


QUICK = FixMatchConfig(
    model=ModelName.SMALL_CNN,
    width=8,
    epochs=3,
    steps_per_epoch=4,
    batch_size=8,
    unlabeled_ratio=3,
    padding=1,
    average_decay=0.9,
    threshold=0.6,
)


def start(
    config: FixMatchConfig = QUICK, *, data: PublicData | None = None, **changes: Any
) -> FixMatch:
    public, labels = small_images()
    settings: dict[str, Any] = {
        "indices": np.arange(12),
        "labels": labels[:12],
        "seed": 0,
    } | changes
    return FixMatch(config, data=public if data is None else data, **settings)


def same(first: FixMatch, second: FixMatch) -> bool:
    pairs = zip(
        (*first.network.state_dict().values(), *first.average.state_dict().values()),
        (*second.network.state_dict().values(), *second.average.state_dict().values()),
        strict=True,
    )
    return all(torch.equal(a, b) for a, b in pairs)


def test_unlabeled_digits_help() -> None:
    labelled = load("digits")
    public, labels = labelled.public, labelled.train_labels
    few = np.concatenate([np.flatnonzero(labels == label)[:4] for label in range(10)])
    config = FixMatchConfig(
        model=ModelName.SMALL_CNN,
        width=16,
        epochs=6,
        batch_size=32,
        unlabeled_ratio=4,
        padding=1,
        flip=False,
        box=3,
        average_decay=0.95,
        threshold=0.8,
    )
    accuracies = {}
    for weight in (0.0, 1.0):
        trainer = FixMatch(
            replace(config, unlabeled_weight=weight),
            data=public,
            indices=few,
            labels=labels[few],
            seed=0,
        )
        for _ in range(config.epochs):
            metrics = trainer.epoch()
        accuracies[weight] = trainer.evaluate()
        assert metrics.val_accuracy == accuracies[weight]
        assert 0.1 < float(trainer._step(0).confident) <= 1
    assert accuracies[1.0] > accuracies[0.0] + 0.02
    assert accuracies[1.0] > 0.85


@pytest.mark.parametrize("branch", WeakBranch)
def test_tables_are_learned_too(branch: WeakBranch) -> None:
    data, labels = small_table()
    config = replace(
        QUICK,
        model=ModelName.MLP,
        width=64,
        steps_per_epoch=30,
        threshold=0.95,
        weak_branch=branch,
    )
    trainer = FixMatch(config, data=data, indices=np.arange(30), labels=labels[:30], seed=1)
    for _ in range(config.epochs):
        metrics = trainer.epoch()
    assert metrics.val_accuracy > 0.8
    probabilities = trainer.predict(data.test_features)
    assert probabilities.shape == (200, 3) and probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (probabilities.argmax(1) == data.test_labels).mean() == pytest.approx(
        metrics.val_accuracy
    )


def test_a_resumed_training_is_the_same_bit_for_bit() -> None:
    whole = start()
    whole.epoch()
    state = whole.state_dict()
    expected = [whole.epoch() for _ in range(2)]
    resumed = start(seed=99)
    resumed.load_state_dict(state)
    again = [resumed.epoch() for _ in range(2)]
    assert [(m.epoch, m.loss, m.val_accuracy) for m in again] == [
        (m.epoch, m.loss, m.val_accuracy) for m in expected
    ]
    assert same(whole, resumed)


def test_seeds_repeat_and_no_hidden_generator_is_used() -> None:
    global_state = torch.get_rng_state()
    first, again, other = start(), start(), start(seed=1)
    for trainer in (first, again, other):
        trainer.epoch()
    assert same(first, again) and not same(first, other)
    assert torch.equal(torch.get_rng_state(), global_state)


def test_an_epoch_follows_the_published_counts() -> None:
    trainer = start(replace(QUICK, steps_per_epoch=None))
    assert trainer.steps_per_epoch == 400 // 8
    trainer = start()
    trainer.epoch()
    last_step = QUICK.steps_per_epoch - 1  # type: ignore[operator]
    expected = QUICK.learning_rate * cosine_factor(last_step, steps=12)
    assert trainer._optimizer.learning_rate == expected
    # Weights are pulled to 0, biases and normalization are not.
    decays = [
        (group.weight_decay, {parameter.ndim > 1 for parameter in group.parameters})
        for group in trainer._optimizer.groups
    ]
    assert decays == [(QUICK.weight_decay, {True}), (0.0, {False})]


def test_predictions_come_from_the_average() -> None:
    trainer = start()
    trainer.epoch()
    features = small_images()[0].test_features[:5]
    trainer.average.eval()
    with torch.no_grad():
        logits = trainer.average(trainer._views.plain(features))
    np.testing.assert_array_equal(trainer.predict(features), logits.softmax(1).numpy())
    assert not torch.equal(next(trainer.network.parameters()), next(trainer.average.parameters()))


def test_divergence_is_said() -> None:
    with pytest.raises(TrainingDiverged, match=r"epoch 1, at learning rate .*e\+37"):
        start(replace(QUICK, learning_rate=1e38)).epoch()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indices": np.array([1, 400]), "labels": np.array([0, 1])}, r"indices\[1\] is 400"),
        ({"indices": np.array([1, 1]), "labels": np.array([0, 1])}, "example 1 2 times"),
        ({"indices": np.array([1]), "labels": np.array([3])}, r"labels\[0\] is none of"),
        ({"indices": np.array([1]), "labels": np.array([0, 1])}, "1 indices and 2 labels"),
        ({"indices": np.array([], dtype=int)}, "indices is empty"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_labels_that_do_not_fit_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        start(**changes)


@pytest.mark.parametrize("size", [1, 4, 7, 10, 25])
def test_every_pass_holds_everything_once(size: int) -> None:
    stream = ShuffledStream(10, seed=0)
    batches = [stream.take(size) for _ in range(40)]
    assert all(len(batch) == size for batch in batches)
    passes = torch.cat(batches)[: 40 * size // 10 * 10].view(-1, 10)
    assert (passes.sort(1).values == torch.arange(10)).all()
    assert len({tuple(one) for one in passes.tolist()}) == len(passes)


def test_image_views_are_standardized_augmentations() -> None:
    images = torch.randint(256, (6, 3, 16, 16), dtype=torch.uint8)
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])
    crop, augment = CropAndFlip(padding=2), RandAugment(box=8)
    views = ImageViews(mean=mean, std=std, crop=crop, augment=augment)

    def generator() -> torch.Generator:
        return torch.Generator().manual_seed(3)

    assert torch.equal(views.plain(images), normalize(images, mean, std))
    weak = views.weak(images, generator())
    assert torch.equal(weak, normalize(crop(images, generator()), mean, std))
    one = generator()
    strong = augment(crop(images, one), one)
    assert torch.equal(views.strong(images, generator()), normalize(strong, mean, std))


def test_table_views_have_the_stated_law() -> None:
    views = TableViews(
        config=FixMatchConfig(weak_noise_std=0.1, strong_noise_std=0.3, masked_share=0.25)
    )
    table = torch.full((200, 100), 5.0)
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(views.plain(table), table)
    weak = views.weak(table, generator) - table
    assert weak.std() == pytest.approx(0.1, rel=0.03) and abs(weak.mean()) < 0.003
    strong = views.strong(table, generator)
    blanked = strong == 0
    assert blanked.float().mean() == pytest.approx(0.25, abs=0.02)
    assert (strong[~blanked] - 5).std() == pytest.approx(0.3, rel=0.03)
    assert (table == 5).all()

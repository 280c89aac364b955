"""Virtual adversarial training: the worst direction in closed form, and few labels that suffice."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.methods.fixmatch import adversarial_divergence, entropy
from labeldp.trainers.methods.pate import start_student
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.pate import StudentConfig, StudentKind
from labeldp.trainers.settings.training import LearnerConfig, VatConfig
from tests.trainers.small_data import ON_CPU, small_table


@pytest.mark.parametrize("shape", [(12,), (3, 2, 2)])
def test_the_worst_perturbation_of_a_linear_model_is_along_its_weights(
    shape: tuple[int, ...],
) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(12, generator=generator, dtype=torch.float64)
    inputs = torch.randn(1, *shape, generator=generator, dtype=torch.float64)

    def forward(x: torch.Tensor) -> torch.Tensor:
        score = x.flatten(1) @ weights
        return torch.stack((score, torch.zeros_like(score)), dim=1)

    found = adversarial_divergence(
        forward, inputs, forward(inputs), radius=0.2, generator=generator
    )
    # A root mean square of 0.2 over 12 numbers is a length of 0.2 sqrt 12.
    step = 0.2 * math.sqrt(12) * float(weights.norm())
    score = float(forward(inputs)[0, 0])
    p = 1 / (1 + math.exp(-score))
    either = []
    for q in (1 / (1 + math.exp(-score - sign * step)) for sign in (1, -1)):
        either.append(p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q)))
    assert min(abs(float(found) - each) for each in either) < 1e-5 * max(either)


def test_flat_predictions_cost_nothing_and_gradients_reach_the_weights_alone() -> None:
    network = nn.Linear(4, 3)
    nn.init.zeros_(network.weight)
    inputs, generator = torch.ones(5, 4), torch.Generator().manual_seed(0)
    logits = network(inputs)
    loss = adversarial_divergence(network, inputs, logits, radius=0.5, generator=generator)
    assert abs(loss.item()) < 1e-7
    loss.backward()  # type: ignore[no-untyped-call]
    assert network.weight.grad is not None and network.weight.grad.isfinite().all()
    assert inputs.grad is None
    assert float(entropy(torch.zeros(5, 3))) == pytest.approx(math.log(3))
    assert float(entropy(torch.tensor([[90.0, 0.0]]))) == pytest.approx(0, abs=1e-6)


def test_two_moons_need_fewer_labels_than_without_the_other_points() -> None:
    points, labels = make_moons(1500, noise=0.08, random_state=0)
    points = ((points - points.mean(0)) / points.std(0)).astype(np.float32)
    data = PublicData(
        name="moons",
        num_classes=2,
        train_features=torch.from_numpy(points[:1000]),
        test_features=torch.from_numpy(points[1000:]),
        test_labels=labels[1000:],
    )
    found = {}
    for config in (
        StudentConfig(
            kind=StudentKind.NETWORK,
            network=LearnerConfig(width=64, epochs=200, batch_size=8, learning_rate=0.1),
        ),
        StudentConfig(
            kind=StudentKind.VAT,
            vat=VatConfig(
                width=64,
                epochs=3,
                steps_per_epoch=250,
                batch_size=8,
                learning_rate=0.1,
                average_decay=0.99,
                radius=0.3,
            ),
        ),
    ):
        student = start_student(
            config,
            data=data,
            examples=np.arange(8),
            labels=labels[:8],
            seed=0,
            performance=ON_CPU,
        )
        for _ in range(config.epochs):
            student.epoch()
        found[config.kind] = student.evaluate()
    assert found[StudentKind.VAT] > max(0.97, found[StudentKind.NETWORK] + 0.05)


def test_identifiers_are_refused() -> None:
    data, _ = small_table(examples=50)
    names = PublicData(
        name="names",
        num_classes=3,
        train_features=(data.train_features > 0).long(),
        test_features=(data.test_features > 0).long(),
        test_labels=data.test_labels,
    )
    config = StudentConfig(kind=StudentKind.VAT, vat=VatConfig(model=ModelName.TWO_BRANCH))
    with pytest.raises(ValueError, match="virtual adversarial training can't use them"):
        config.check_data(names)

"""What describes an example: of networks that say so, of others, in batches, mirrored."""

import pytest
import torch
from torch import Tensor, nn

from labeldp.trainers.models.evaluation import described, features_by
from labeldp.trainers.models.networks import build_model
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName

ON_CPU = Performance(device=Device.CPU)


def images(count: int = 6) -> Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (ModelName.MLP, [8]),
        (ModelName.SMALL_CNN, None),
        (ModelName.RESNET18, None),
        (ModelName.FAST_CNN, [4 * 8 * 4, 8 * 4]),
    ],
)
def test_every_network_describes_its_inputs(model: ModelName, sizes: list[int] | None) -> None:
    network = build_model(model, input_shape=(3, 32, 32), num_classes=5, seed=0, width=8)
    found = described(network.eval(), images())
    assert all(len(part) == 6 and part.ndim == 2 for part in found)
    if sizes is not None:
        assert [part.shape[1] for part in found] == sizes
    # The head makes logits of the last kind.
    head = network.head
    assert isinstance(head, nn.Linear)
    torch.testing.assert_close(
        head(found[-1]) / (9 if model is ModelName.FAST_CNN else 1), network(images())
    )


def test_in_batches_it_is_the_same_and_a_mirror_image_is_averaged_in() -> None:
    network = build_model(
        ModelName.FAST_CNN, input_shape=(3, 32, 32), num_classes=5, seed=0, width=2
    )
    many = images(1030)
    whole = features_by(network, many, prepare=lambda rows: rows, performance=ON_CPU)
    with torch.no_grad():
        direct = described(network.eval(), many)
        mirrored = described(network, many.flip(3))
    both = features_by(network, many, prepare=lambda rows: rows, performance=ON_CPU, mirrored=True)
    for got, one, other, mean in zip(whole, direct, mirrored, both, strict=True):
        torch.testing.assert_close(got, one, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(mean, (one + other) / 2, atol=1e-5, rtol=1e-4)


def test_a_network_without_a_linear_layer_is_told_what_to_do() -> None:
    with pytest.raises(ValueError, match="Conv2d has no linear layer"):
        described(nn.Conv2d(3, 2, 3), images())

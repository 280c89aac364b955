"""Networks: published sizes and quirks, seeds, the fast network, features of inputs."""

import json

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.models.predictors import described
from labeldp.trainers.settings.base import ModelName
from tests.shared_material import shared_path


def on_meta(name: ModelName, *, width: int | None = None, num_classes: int = 10) -> nn.Module:
    """The network for CIFAR without memory or initial values."""
    with torch.device("meta"):
        return build_model(
            name, input_shape=(3, 32, 32), num_classes=num_classes, seed=0, width=width
        )


def count_parameters(model: nn.Module) -> int:
    """How many numbers the network learns."""
    return sum(parameter.numel() for parameter in model.parameters())


def test_published_sizes() -> None:
    assert count_parameters(on_meta(ModelName.RESNET18)) == 11_173_962
    assert count_parameters(on_meta(ModelName.RESNET18, num_classes=100)) == 11_220_132
    golden = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    for key, width, num_classes in (("WRN-28-2_C10", 2, 10), ("WRN-28-8_C100", 8, 100)):
        model = on_meta(ModelName.WIDE_RESNET28, width=width, num_classes=num_classes)
        expected = golden["param_counts"][key]
        assert count_parameters(model) == expected["params"]
        assert len(list(model.parameters())) == expected["tensors"]
        assert sum(buffer.numel() for buffer in model.buffers()) == expected["buffers"]


def test_the_wide_networks_first_blocks_take_their_input_raw() -> None:
    """The published quirk: the first norms of groups 2 and 3 are there and never used."""
    model = build_model(
        ModelName.WIDE_RESNET28, input_shape=(3, 8, 8), num_classes=4, seed=0, width=2
    )
    model(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))).sum().backward()
    unused = [name for name, value in model.named_parameters() if value.grad is None]
    assert unused == [f"blocks.{i}.norm1.{kind}" for i in (4, 8) for kind in ("weight", "bias")]


def built(shape: tuple[int, int, int] = (3, 32, 32), *, width: int = 4) -> FastCnn:
    network = build_model(ModelName.FAST_CNN, input_shape=shape, num_classes=5, seed=0, width=width)
    assert isinstance(network, FastCnn)
    return network


def smooth(shape: tuple[int, int, int], *, count: int = 60) -> torch.Tensor:
    """Images whose neighboring pixels are alike, of variance near 1."""
    noise = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0))
    blurred = functional.avg_pool2d(noise, 3, stride=1, padding=1)
    return 3 * blurred


@pytest.mark.parametrize("channels", [1, 3])
def test_the_first_layer_whitens_patches(channels: int) -> None:
    network, images = built((channels, 16, 16)), smooth((channels, 16, 16))
    network.fit_first(images)
    answers = functional.conv2d(images, network.filters).transpose(0, 1).flatten(1)
    half = 4 * channels
    assert len(answers) == 2 * half
    torch.testing.assert_close(answers[half:], -answers[:half])
    covariance = torch.cov(answers[:half].double())
    torch.testing.assert_close(covariance, torch.eye(half).double(), atol=0.02, rtol=0)
    raw = functional.unfold(images, 2).transpose(0, 1).flatten(1)
    assert torch.cov(raw)[0, 1] > 0.4, "there was nothing to whiten"


def test_images_without_a_patch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 x 7 pixels, but fast_cnn looks at patches of 2 x 2"):
        built((1, 1, 7))


def images(count: int = 6) -> Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_a_network_without_a_linear_layer_gets_the_fix() -> None:
    with pytest.raises(ValueError, match="Conv2d has no linear layer"):
        described(nn.Conv2d(3, 2, 3), images())

"""Networks: published sizes and quirks, explicit seeds, every shape of input, refusals."""

import json

import pytest
import torch
from torch import nn

from labeldp.trainers.models.networks import build_model
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


@pytest.mark.parametrize(
    ("name", "width", "num_classes", "parameters"),
    [
        (ModelName.RESNET18, None, 10, 11_173_962),
        (ModelName.RESNET18, None, 100, 11_220_132),
        (ModelName.WIDE_RESNET28, None, 10, 5_849_050),
        (ModelName.WIDE_RESNET28, 8, 100, 23_401_012),
    ],
)
def test_published_sizes(
    name: ModelName, width: int | None, num_classes: int, parameters: int
) -> None:
    model = on_meta(name, width=width, num_classes=num_classes)
    assert count_parameters(model) == parameters


def test_official_structure() -> None:
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


@pytest.mark.parametrize("name", [name for name in ModelName if name is not ModelName.TWO_BRANCH])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
def test_seeds_decide_and_global_state_stays(name: ModelName, shape: tuple[int, ...]) -> None:
    width = {ModelName.MLP: 16, ModelName.SMALL_CNN: 4, ModelName.RESNET18: 4}.get(name, 1)
    before = torch.get_rng_state()
    first, again, other = (
        build_model(name, input_shape=shape, num_classes=7, seed=seed, width=width)
        for seed in (1, 1, 2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for one, same in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, same)
    assert any(
        not torch.equal(one, different)
        for one, different in zip(first.parameters(), other.parameters(), strict=True)
    )
    logits = first.eval()(torch.zeros(5, *shape))
    assert logits.shape == (5, 7) and logits.isfinite().all()


def test_the_small_networks_treat_every_image_alone() -> None:
    images = torch.randn(6, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    for name in (ModelName.MLP, ModelName.SMALL_CNN):
        model = build_model(name, input_shape=(1, 28, 28), num_classes=3, seed=0, width=8)
        torch.testing.assert_close(model(images)[:2], model(images[:2]))


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"small_cnn needs images.*mlp takes any"):
        build_model(ModelName.SMALL_CNN, input_shape=(30,), num_classes=2, seed=0)
    with pytest.raises(ValueError, match="num_classes is 1"):
        build_model(ModelName.MLP, input_shape=(30,), num_classes=1, seed=0)
    with pytest.raises(ValueError, match="width is 0"):
        build_model(ModelName.MLP, input_shape=(30,), num_classes=2, seed=0, width=0)


def test_dropout_repeats_resumes_and_rests_when_nothing_is_learned() -> None:
    def built() -> nn.Module:
        return build_model(
            ModelName.MLP, input_shape=(6,), num_classes=3, seed=1, width=64, dropout=0.5
        )

    first, second, inputs = built(), built(), torch.ones(4, 6)
    once, again = first(inputs), first(inputs)
    assert not torch.equal(once, again)
    torch.testing.assert_close(second(inputs), once, rtol=0, atol=0)
    resumed = built()
    resumed.load_state_dict(second.state_dict())
    torch.testing.assert_close(resumed(inputs), again, rtol=0, atol=0)
    first.eval()
    assert torch.equal(first(inputs), first(inputs))
    # What is kept is scaled up, so that the mean stays.
    first.train()
    mean = torch.stack([first(inputs) for _ in range(3000)]).mean(0)
    first.eval()
    torch.testing.assert_close(mean, first(inputs), rtol=0, atol=0.05)

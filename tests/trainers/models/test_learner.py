"""The learner: crops and flips, and pieces of a recipe."""

import json
import math
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.trainers.base import ModelName
from labeldp.trainers.models import learner as learners
from labeldp.trainers.models import networks
from labeldp.trainers.models.learner import CropAndFlip, OnLabels
from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.models.optimization import Sgd, WeightAverage, batches
from labeldp.trainers.models.predictors import (
    NetworkPredictor,
    NetworkSettings,
    described,
    logits_of,
)
from labeldp.trainers.performance import Device, Performance, Precision, bf16_units
from labeldp.trainers.settings.training import (
    Flip,
    LearnerConfig,
    Recipe,
    Schedule,
    TrainingDiverged,
    rate_factor,
)
from tests.shared_material import shared_path
from tests.trainers.small_data import EVERY_STEP, ON_CPU, small_images


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("padding", [0, 1, 4])
def test_each_image_is_padded_cut_and_mirrored(dtype: torch.dtype, padding: int) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (64, 3, 9, 12), generator=generator).to(dtype)
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
    recipe=EVERY_STEP,
)


def a_learner(config: LearnerConfig, performance: Performance = ON_CPU) -> OnLabels:
    data, labels = small_images(channels=3)
    return OnLabels(config, labels=labels, data=data, seed=0, performance=performance)


def test_an_alternating_flip_shows_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    normalize = Mock(side_effect=lambda batch, *_: batch.float())
    monkeypatch.setattr(learners, "normalize", normalize)
    config = replace(
        QUICK, batch_size=400, epochs=2, recipe=replace(EVERY_STEP, crop=0, mirrored=False)
    )
    data, learner = small_images(channels=3)[0], a_learner(config)
    for _ in range(2):
        learner.epoch()
    seen = [call.args[0] for call in normalize.call_args_list]
    shown = [{tuple(row.flatten().tolist()) for row in batch} for batch in seen]
    plain = [tuple(row.flatten().tolist()) for row in data.train_features]
    mirrored = [tuple(row.flatten().tolist()) for row in data.train_features.flip(3)]
    for one, other in zip(plain, mirrored, strict=True):
        assert (one in shown[0]) != (other in shown[0])
        assert (one in shown[0]) == (other in shown[1])
    assert 0.35 < np.mean([one in shown[0] for one in plain]) < 0.65


def test_cutout_hides_one_square_of_each_image_as_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = Mock(wraps=logits_of)
    monkeypatch.setattr(learners, "logits_of", looked_at)
    config = replace(QUICK, recipe=Recipe(crop=0, flip=Flip.NONE, cutout=3))
    a_learner(config).epoch()
    _, inputs, _ = looked_at.call_args_list[0].args
    hidden = (inputs == 0).all(1)
    height, width = hidden.shape[1:]
    for image in hidden:
        rows, columns = torch.where(image)
        tall, broad = (int(each.max() - each.min()) + 1 for each in (rows, columns))
        assert len(rows) == tall * broad, "not a rectangle"
        assert 1 <= tall <= 3 >= broad >= 1
    # Nine of nine pixels in the middle, and fewer at the border: the mean over all centers.
    inside = [
        sum(0 <= c + d < n for c in range(n) for d in (-1, 0, 1)) / n for n in (height, width)
    ]
    assert float(hidden.sum((1, 2)).float().mean()) == pytest.approx(inside[0] * inside[1], rel=0.1)
    with pytest.raises(ValueError, match=r"recipe.cutout is 3, but augment is False"):
        a_learner(replace(config, augment=False))
    with pytest.raises(ValueError, match=r"recipe.cutout is \d+, but images of .* most of each"):
        replace(config, recipe=replace(config.recipe, cutout=height)).check_data(small_images()[0])


@pytest.mark.parametrize("model", [ModelName.RESNET18_V2, ModelName.INCEPTION])
def test_the_papers_networks_learn_small_images_under_cutout(model: ModelName) -> None:
    """Small forms of the tables that need a GPU; other tests train the other networks."""
    recipe = Recipe(crop=1, flip=Flip.NONE, cutout=3)
    config = LearnerConfig(
        model=model, width=8, epochs=6, batch_size=20, augment=True, recipe=recipe
    )
    learner = a_learner(config)
    for _ in range(config.epochs):
        learner.epoch()
    assert learner.evaluate() > 0.6  # a third by chance


# SGD and averaged weights: the formulas, resume, and a quick start.


def network() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Linear(3, 2))
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view_as(parameter))
            parameter.mul_(1 + place)
    return model


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, True), (0.9, False), (0.9, True)])
def test_it_is_torchs_optimizer_to_the_bit(momentum: float, nesterov: bool) -> None:
    ours, theirs = network(), network()
    optimizer = Sgd(
        ours, learning_rate=0.01, momentum=momentum, nesterov=nesterov, weight_decay=0.1
    )
    reference = torch.optim.SGD(
        theirs.parameters(),
        lr=0.01,
        nesterov=nesterov and momentum > 0,
        fused=True,
        momentum=momentum,
        weight_decay=0.1,
    )
    inputs = torch.linspace(-2, 2, 20).view(4, 5)
    for step in range(5):
        optimizer.learning_rate = reference.param_groups[0]["lr"] = 0.01 / (1 + step)
        for model, each in ((ours, optimizer), (theirs, reference)):
            each.zero_grad()
            # Of the first three layers of four.
            torch.autograd.backward(model[:3](inputs + step).square().mean())
            each.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other), f"step {step}"


def test_decoupled_decay_and_a_rate_of_its_own_written_out() -> None:
    model = nn.ParameterList([torch.tensor([0.7])])
    parameter = model[0]
    optimizer = Sgd(model, learning_rate=0.1, weight_decay=0.5, bias_rate=3.0, decoupled=True)
    weight, velocity = 0.7, 0.0
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(parameter.square().sum())
        optimizer.step()
        gradient = 2 * weight
        velocity = 0.9 * velocity + gradient
        weight = weight * (1 - 0.1 * 0.5) - 3 * 0.1 * (gradient + 0.9 * velocity)
    assert parameter.item() == pytest.approx(weight, rel=1e-5)


def test_it_is_the_textbooks_formula_once_it_is_old_enough() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = WeightAverage(network, decay=0.8, young=True)
    names = ("0.weight", "1.running_var")
    expected = {name: network.state_dict()[name].double() for name in names}
    generator = torch.Generator().manual_seed(0)
    for step in range(60):
        with torch.no_grad():
            for tensor in (*network.parameters(), network.get_buffer("1.running_var")):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
        average.update_parameters(network)
        past = min(0.8, (1 + step) / (10 + step))
        for name in names:
            expected[name] = past * expected[name] + (1 - past) * network.state_dict()[name]
    for name in names:
        found = average.module.state_dict()[name].double()
        torch.testing.assert_close(found, expected[name], atol=1e-5, rtol=0)
    assert (1 + 59) / (10 + 59) > 0.8, "the decay was reached"


# Shared pieces of training: the published schedule, batches, groups of parameters, errors.


def test_official_schedule() -> None:
    golden = json.loads(shared_path("oracle", "antipodes", "structure.json").read_text())
    factors = golden["alibi_lr_factor"]
    assert len(factors) == 100
    for epoch, expected in factors.items():
        ours = rate_factor(int(epoch), epochs=200, schedule=Schedule.STEPS)
        assert ours == pytest.approx(expected, rel=1e-12, abs=0), f"epoch {epoch}"


@pytest.mark.parametrize("epochs", [1, 2, 7, 10, 30, 100, 200, 333])
@pytest.mark.parametrize("schedule", list(Schedule))
@pytest.mark.parametrize("warmup", [0.0, 0.15, 0.9])
def test_schedules_rise_only_once(epochs: int, schedule: Schedule, warmup: float) -> None:
    factors = [
        rate_factor(epoch, epochs=epochs, schedule=schedule, warmup=warmup)
        for epoch in range(epochs)
    ]
    assert all(0 < factor <= 1 for factor in factors)
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])
    assert factors[top:] == sorted(factors[top:], reverse=True)
    if schedule is not Schedule.TRIANGLE:
        assert top <= warmup * epochs


def test_batches_hold_each_example_once() -> None:
    generator = torch.Generator().manual_seed(0)
    passes = [list(batches(103, 10, generator)) for _ in range(2)]
    for parts in passes:
        assert [len(part) for part in parts] == [10] * 10  # the last three are left out
        assert len(set(torch.cat(parts).tolist())) == 100
    assert not torch.equal(torch.cat(passes[0]), torch.cat(passes[1]))
    again = list(batches(103, 10, torch.Generator().manual_seed(0)))
    assert torch.equal(torch.cat(again), torch.cat(passes[0]))


# Networks: published sizes and quirks, seeds, the fast network, features of inputs.


def on_meta(name: ModelName, *, width: int | None = None, num_classes: int = 10) -> nn.Module:
    with torch.device("meta"):
        return build_model(
            name, input_shape=(3, 32, 32), num_classes=num_classes, seed=0, width=width
        )


def count_parameters(model: nn.Module) -> int:
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
    # Zhang et al. 2017 count the weights that learn; the paper's norms have no scale.
    inception = on_meta(ModelName.INCEPTION)
    assert sum(each.numel() for each in inception.parameters() if each.requires_grad) == 1_649_402
    # V1 has a norm after each of three projections, of 128, 256 and 512 channels; the others add up
    # to the same.
    first, second = count_parameters(on_meta(ModelName.RESNET18)), 11_172_170
    assert count_parameters(on_meta(ModelName.RESNET18_V2)) == second == first - 1792


def test_the_second_resnet_normalizes_and_activates_before_it_convolves() -> None:
    shape = (3, 8, 8)
    network = build_model(ModelName.RESNET18_V2, input_shape=shape, num_classes=4, seed=0, width=2)
    block: Any = network.get_submodule("blocks.0").eval()
    x = torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    inner = block.conv1(functional.relu(block.norm1(x)))
    expected = x + block.conv2(functional.relu(block.norm2(inner)))
    torch.testing.assert_close(block(x), expected)


def test_the_wide_networks_first_blocks_take_their_input_raw() -> None:
    """The published quirk: the first norms of groups 2 and 3 are there and never used."""
    model = build_model(
        ModelName.WIDE_RESNET28, input_shape=(3, 8, 8), num_classes=4, seed=0, width=2
    )
    model(torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))).sum().backward()
    unused = [name for name, value in model.named_parameters() if value.grad is None]
    assert unused == [f"blocks.{i}.norm1.{kind}" for i in (4, 8) for kind in ("weight", "bias")]


def built(shape: tuple[int, int, int]) -> FastCnn:
    network = build_model(ModelName.FAST_CNN, input_shape=shape, num_classes=5, seed=0, width=4)
    assert isinstance(network, FastCnn)
    return network


@pytest.mark.parametrize(("channels", "at_once"), [(1, 2**26), (3, 2**26), (1, 9000), (3, 1)])
def test_the_first_layer_whitens_patches(
    channels: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "_AT_ONCE", at_once)
    # Neighboring pixels are alike; the variance is near 1.
    noise = torch.randn(60, channels, 16, 16, generator=torch.Generator().manual_seed(0))
    network, images = built((channels, 16, 16)), 3 * functional.avg_pool2d(noise, 3, 1, 1)
    normalized = Mock(side_effect=lambda some: some)
    network.fit_first(images, normalized)
    sizes = [4 * call.args[0].numel() for call in normalized.call_args_list]
    assert max(sizes) <= max(at_once, 4 * images[0].numel()) and sum(sizes) == 4 * images.numel()
    answers = functional.conv2d(images, network.filters).transpose(0, 1).flatten(1)
    half = 4 * channels
    assert len(answers) == 2 * half
    torch.testing.assert_close(answers[half:], -answers[:half])
    covariance = torch.cov(answers[:half].double())
    torch.testing.assert_close(covariance, torch.eye(half).double(), atol=0.02, rtol=0)
    raw = functional.unfold(images, 2).transpose(0, 1).flatten(1)
    assert torch.cov(raw)[0, 1] > 0.4, "there was nothing to whiten"


@pytest.mark.parametrize("side", [1, 2, 4])
def test_few_pixels_get_the_gradients_of_any_convolution(side: int) -> None:
    block: Any = built((3, 8, 8)).get_submodule("blocks.block2")
    conv = block.conv1
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, side, side, generator=dice).bfloat16().requires_grad_()
    outward = torch.randn(9, 16, side, side, generator=dice).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = conv(x)
    assert type(out.grad_fn).__name__ == "_ByShiftedMapsBackward"
    gradients = torch.autograd.grad(out, (x, conv.weight), outward)
    inputs = (x.detach().float().requires_grad_(), conv.weight.bfloat16().float())
    exact = functional.conv2d(*inputs, padding=1)
    torch.testing.assert_close(out.float(), exact, rtol=0.01, atol=0.02)
    for ours, true in zip(
        gradients, torch.autograd.grad(exact, inputs, outward.float()), strict=True
    ):
        torch.testing.assert_close(ours.float(), true, rtol=0.01, atol=0.05)


def test_images_without_a_patch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 x 7 pixels, but fast_cnn looks at patches of 2 x 2"):
        built((1, 1, 7))


def test_a_network_without_a_linear_layer_gets_the_fix() -> None:
    with pytest.raises(ValueError, match="Conv2d has no linear layer"):
        described(nn.Conv2d(3, 2, 3), torch.zeros(6, 3, 32, 32))


# predictors: what is handed over is what predicts; arrays that don't fit are refused.


def test_weights_beyond_all_bounds_are_reported() -> None:
    data, _ = small_images()
    settings = NetworkSettings.for_data(data, model=ModelName.SMALL_CNN, width=4)
    predictor = NetworkPredictor(network=settings.seeded(0), settings=settings, pixels=data.pixels)
    with torch.no_grad():
        list(predictor.network.parameters())[-1].fill_(math.inf)
    with pytest.raises(TrainingDiverged, match=r"200 of 200 rows: .*lower learning_rate"):
        predictor.predict(data.test_features)


# Performance: names are checked, devices that are not there are refused.


@pytest.mark.parametrize(
    ("amx", "avx512", "units", "taken"),
    [
        (True, True, "amx_bf16", Precision.BF16),
        (False, True, "avx512_bf16", Precision.BF16),
        (False, False, None, Precision.FP32),
    ],
)
def test_auto_takes_the_precision_that_the_processor_has_units_for(
    amx: bool, avx512: bool, units: str | None, taken: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    cpu = Performance(device=Device.CPU, precision=Precision.AUTO)
    assert bf16_units(cpu.torch_device()) == units
    assert cpu.precision_here() is taken
    with cpu.autocast():
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert (product.dtype == torch.bfloat16) == (taken is Precision.BF16)


def test_cuda_is_refused_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Performance().torch_device() == torch.device("cpu")
    with pytest.raises(ValueError, match="no CUDA device; take device=auto"):
        Performance(device=Device.CUDA).torch_device()

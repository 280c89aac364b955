"""The fast network: what its first layer whitens, sizes, every shape, start of the convolutions."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.trainers.models.evaluation import logits_of
from labeldp.trainers.models.networks import FastCnn, build_model
from labeldp.trainers.models.predictors import NetworkPredictor, NetworkSettings, Pixels
from labeldp.trainers.performance import Device, Performance, Precision, _has_compiler
from labeldp.trainers.settings.base import ModelName
from tests.trainers.small_data import small_images


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


def test_the_same_images_give_the_same_bits_and_signs_are_settled() -> None:
    images, first, second = smooth((3, 16, 16)), built((3, 16, 16)), built((3, 16, 16))
    first.fit_first(images)
    second.fit_first(images.clone())
    assert torch.equal(first.filters, second.filters)
    rows = first.filters[:12].flatten(1)
    assert (rows.gather(1, rows.abs().argmax(1, keepdim=True)) > 0).all()


def test_it_is_fitted_to_all_training_images_and_no_label() -> None:
    data, _ = small_images(channels=3)
    settings = NetworkSettings.for_data(data, model=ModelName.FAST_CNN, width=4)
    pixels = Pixels.of(data.mean, data.std)
    assert pixels is not None
    by_hand = settings.seeded(7)
    assert isinstance(by_hand, FastCnn)
    by_hand.fit_first(pixels.normalized(data.train_features))
    found = settings.for_training(data, 7).state_dict()
    for name, value in by_hand.state_dict().items():
        assert torch.equal(found[name], value), name
    assert not torch.equal(found["filters"], settings.seeded(7).state_dict()["filters"])


def test_its_first_layer_is_not_trained_and_is_kept_with_the_weights() -> None:
    data, _ = small_images()
    settings = NetworkSettings.for_data(data, model=ModelName.FAST_CNN, width=4)
    network = settings.for_training(data, 0)
    learned = {name for name, value in network.named_parameters() if value.requires_grad}
    assert "filters" not in learned and "blocks.block1.norm1.weight" not in learned
    assert "blocks.block1.norm1.bias" in learned
    predictor = NetworkPredictor(
        network=network, settings=settings, pixels=Pixels.of(data.mean, data.std), mirrored=True
    )
    again = NetworkPredictor.restored(predictor.described(), predictor.arrays())
    expected = predictor.predict(data.test_features)
    assert (again.predict(data.test_features) == expected).all()
    unlike = {**predictor.described(), "mirrored": False}
    plain = NetworkPredictor.restored(unlike, predictor.arrays()).predict(data.test_features)
    assert (plain != expected).any()


def test_images_without_a_patch_are_refused() -> None:
    with pytest.raises(ValueError, match=r"1 x 7 pixels, but fast_cnn looks at patches of 2 x 2"):
        built((1, 1, 7))


def test_convolutions_hand_their_inputs_on_at_first() -> None:
    network = built(width=64)
    for name, conv in network.named_modules():
        if isinstance(conv, nn.Conv2d):
            inputs = conv.in_channels
            image = torch.randn(1, inputs, 6, 6, generator=torch.Generator().manual_seed(1))
            kept = min(inputs, conv.out_channels)
            torch.testing.assert_close(conv(image)[:, :kept], image[:, :kept], msg=name)


@pytest.mark.skipif(not _has_compiler(), reason="no C++ compiler here to compile with")
def test_compiled_in_half_precision_it_has_the_gradients_that_it_has_otherwise() -> None:
    network, inputs = built(), smooth((3, 32, 32), count=20)
    network.fit_first(inputs)
    plain, compiled = (gradients(network, inputs, compile=each) for each in (False, True))
    for name, gradient in plain.items():
        error = torch.linalg.norm(compiled[name] - gradient)
        assert error < 0.2 * torch.linalg.norm(gradient), name


def gradients(network: FastCnn, inputs: torch.Tensor, *, compile: bool) -> dict[str, torch.Tensor]:
    performance = Performance(device=Device.CPU, precision=Precision.BF16, compile=compile)
    logits = logits_of(performance.compiled(network), inputs, performance)
    loss = functional.cross_entropy(logits, torch.arange(len(inputs)) % 5)
    weights = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
    return dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))

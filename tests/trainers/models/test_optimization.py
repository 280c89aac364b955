"""SGD and averaged weights: the formulas, resume, and a quick start."""

import pytest
import torch
from torch import nn

from labeldp.trainers.models.optimization import Sgd, weight_average


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3), nn.Linear(3, 2))
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel()).sin().view_as(parameter))
            parameter.mul_(1 + place)
    return model


def gradients(model: nn.Module, step: int, *, depth: int = 3) -> None:
    """Gradients for the first `depth` layers of four."""
    inputs = torch.linspace(-2, 2, 20).view(4, 5) + step
    assert isinstance(model, nn.Sequential)
    torch.autograd.backward(model[:depth](inputs).square().mean())


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
    for step in range(5):
        optimizer.learning_rate = reference.param_groups[0]["lr"] = 0.01 / (1 + step)
        for model, each in ((ours, optimizer), (theirs, reference)):
            each.zero_grad()
            gradients(model, step)
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


def moved(network: nn.Module, step: int) -> None:
    """Change all parameters and statistics."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def test_it_is_the_textbooks_formula_once_it_is_old_enough() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = weight_average(network, decay=0.8)
    names = ("0.weight", "1.running_var")
    expected = {name: network.state_dict()[name].double() for name in names}
    for step in range(60):
        moved(network, step)
        average.update_parameters(network)
        past = min(0.8, (1 + step) / (10 + step))
        for name in names:
            expected[name] = past * expected[name] + (1 - past) * network.state_dict()[name]
    for name in names:
        found = average.module.state_dict()[name].double()
        torch.testing.assert_close(found, expected[name], atol=1e-5, rtol=0)
    assert (1 + 59) / (10 + 59) > 0.8, "the decay was reached"

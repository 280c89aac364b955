"""The average of weights: the textbook's formula, statistics too, resume, its own dropout."""

import copy

import torch
from torch import nn

from labeldp.trainers.models.networks import Dropout
from labeldp.trainers.models.optimization import WeightAverage


def moved(network: nn.Module, step: int) -> None:
    """Change all parameters and statistics."""
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for tensor in (*network.parameters(), *network.buffers()):
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape, generator=generator))


def test_it_is_the_textbooks_formula_once_it_is_old_enough() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = WeightAverage(network, decay=0.8)
    names = ("0.weight", "1.running_var")
    expected = {name: network.state_dict()[name].double() for name in names}
    for step in range(60):
        moved(network, step)
        average.update(network)
        past = min(0.8, (1 + step) / (10 + step))
        for name in names:
            expected[name] = past * expected[name] + (1 - past) * network.state_dict()[name]
    for name in names:
        found = average.network.state_dict()[name].double()
        torch.testing.assert_close(found, expected[name], atol=1e-5, rtol=0)
    assert (1 + 59) / (10 + 59) > 0.8, "the decay was reached"


def test_it_continues_from_a_state_bit_for_bit() -> None:
    network = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    whole, resumed = (WeightAverage(network, decay=0.9) for _ in range(2))
    for step in range(5):
        moved(network, step)
        whole.update(network)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    for step in range(5, 9):
        moved(network, step)
        whole.update(network)
        resumed.update(network)
    for one, other in zip(whole.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.equal(one, other) and not one.requires_grad


def test_a_network_with_random_numbers_of_its_own_can_be_averaged() -> None:
    linear = nn.Linear(3, 2)
    network = nn.Sequential(linear, Dropout(0.5, seed=0))
    average = WeightAverage(network, decay=0.9)
    average.update(network)
    assert torch.equal(average.network.state_dict()["0.weight"], linear.weight)

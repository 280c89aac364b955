"""FixMatch's pure parts against the published code's values."""

import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from labeldp.trainers.methods.fixmatch import cosine_factor, fixmatch_loss, moving_average
from tests.shared_material import shared_path


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

"""Evaluation: batches change nothing, the accuracy is a count, without a split there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from labeldp.trainers.data.labelled_data import PublicData
from labeldp.trainers.models.evaluation import Evaluation, logits_of
from labeldp.trainers.models.schedules import TrainingDiverged
from labeldp.trainers.performance import Device, Performance, Precision
from tests.trainers.tiny_data import table

ON_CPU = Performance(device=Device.CPU)


def judged(data: PublicData) -> tuple[nn.Module, Evaluation]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    evaluation = Evaluation(network, prepare=lambda rows: 2 * rows, data=data, performance=ON_CPU)
    return network, evaluation


def test_predictions_are_those_of_the_network_as_it_evaluates() -> None:
    data, _ = table(train=3000)
    network, evaluation = judged(data)
    network.train()
    found = evaluation.predict(data.train_features)  # more than two batches
    assert not network.training
    with torch.no_grad():
        expected = network(2 * data.train_features).softmax(1).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_accuracy_is_the_share_of_right_guesses() -> None:
    data, _ = table(train=1500)
    _, evaluation = judged(data)
    guesses = evaluation.predict(data.test_features).argmax(1)
    right = sum(int(a == b) for a, b in zip(guesses, data.test_labels, strict=True))
    assert 0 < right < 1500
    assert evaluation.accuracy() == right / 1500


def test_weights_out_of_all_bounds_are_told_as_such() -> None:
    data, _ = table(train=1500)
    network, evaluation = judged(data)
    with torch.no_grad():
        list(network.parameters())[-1].fill_(math.inf)
    with pytest.raises(TrainingDiverged, match=r"1500 of 1500 rows: .* lower learning_rate"):
        evaluation.predict(data.train_features)


def test_without_a_test_split_there_is_no_accuracy() -> None:
    data, _ = table()
    nothing = replace(data, test_features=data.test_features[:0], test_labels=data.test_labels[:0])
    assert math.isnan(judged(nothing)[1].accuracy())


def test_logits_are_single_precision_and_images_lie_as_asked() -> None:
    seen: list[torch.Tensor] = []

    def forward(inputs: torch.Tensor) -> torch.Tensor:
        seen.append(inputs)
        return nn.functional.linear(inputs.flatten(1), torch.ones(2, 48))

    performance = replace(ON_CPU, precision=Precision.BF16, channels_last=True)
    logits = logits_of(forward, torch.rand(3, 3, 4, 4), performance)
    assert logits.dtype == torch.float32
    assert torch.equal(logits, logits.bfloat16().float()), "computed in half precision"
    assert seen[0].is_contiguous(memory_format=torch.channels_last)

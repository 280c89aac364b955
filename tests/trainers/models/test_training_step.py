"""Recorded steps: the same function as plain ones, with batches and rates in fixed places."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from labeldp.mechanisms.vault import Shard
from labeldp.trainers.methods.fixmatch import FixMatch
from labeldp.trainers.methods.pate import TeacherVotes
from labeldp.trainers.methods.pate_settings import EnsembleConfig, TeacherKind
from labeldp.trainers.methods.settings import AlibiPriorConfig, PriorSettings, PriorSource
from labeldp.trainers.models import learner as learners
from labeldp.trainers.models.learner import OnLabels
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.training import (
    FixMatchConfig,
    LearnerConfig,
    Recipe,
    TrainingDiverged,
)
from tests.trainers.models.test_learner import QUICK, a_learner
from tests.trainers.small_data import FEW_LABELS, ON_CPU, digits, small_images, trained


class OwnNetwork(nn.Sequential):
    """A network of a user's, which may do anything in its forward pass."""

    def __init__(self, *, input_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__(nn.Flatten(), nn.Linear(math.prod(input_shape), num_classes))


class StandIn:
    """A recorder that repeats a function by calling it: what a graph does, on a processor."""

    def __init__(self) -> None:
        self.recordings = 0
        self.replays = 0

    def __call__(self, function: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recordings += 1

        def replay() -> Tensor:
            self.replays += 1
            return function()

        return replay


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setattr(learners, "RECORDERS", {"cpu": stand_in})
    return stand_in


def after_two_epochs(config: LearnerConfig, performance: Performance) -> dict[str, Tensor]:
    learner = a_learner(config, performance)
    for _ in range(2):
        learner.epoch()
    assert learner._average is not None
    parts = {"network": learner.network, "average": learner._average}
    return {
        f"{part}.{name}": value.cpu()
        for part, own in parts.items()
        for name, value in own.state_dict().items()
    }


PLAIN = replace(ON_CPU, capture=False)


@pytest.mark.parametrize("mixup", [0.0, 0.4])
def test_recorded_steps_train_the_same_network(recorder: StandIn, mixup: float) -> None:
    config = replace(QUICK, mixup=mixup)  # its learning rate changes every step
    expected = after_two_epochs(config, PLAIN)
    assert recorder.recordings == 0
    found = after_two_epochs(config, replace(PLAIN, capture=True))
    assert recorder.recordings == 1
    assert recorder.replays == 2 * (400 // 64) - 3
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_fixmatch_is_recorded_and_trains_the_same_network(recorder: StandIn) -> None:
    data, _ = digits(train=400)
    labels = np.arange(40) % 10
    given: dict[str, Any] = {"data": data, "examples": np.arange(40), "labels": labels, "seed": 0}
    config = FixMatchConfig(**FEW_LABELS)
    predictions = []
    for performance in (PLAIN, replace(PLAIN, capture=True)):
        trainer = FixMatch(config, **given, performance=performance)
        for _ in range(2):
            trainer.epoch()
        predictions.append(trainer.predict(data.test_features))
    assert recorder.replays == 2 * 20 - 3
    np.testing.assert_allclose(predictions[1], predictions[0], rtol=1e-3, atol=1e-5)


def test_a_loss_that_changes_by_epoch_reads_its_weight_from_the_device(recorder: StandIn) -> None:
    prior = PriorSettings(source=PriorSource.CLUSTERS, share=0.3)
    config = AlibiPriorConfig(epsilon=4.0, prior=prior, epochs=5)
    learner = trained(config, digits(train=600), epochs=0)
    weight = learner._now
    found = []
    for _ in range(5):
        learner.epoch()
        found.append(float(weight))
    assert recorder.recordings == 1 and learner._now is weight
    # The weight of the prior falls in the first two of five epochs.
    last = learner.weight
    assert last < 1
    assert found == pytest.approx([1, (1 + last) / 2, last, last, last])


def test_the_last_epoch_gives_the_memory_of_a_recording_back(
    recorder: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[int] = []
    learner = a_learner(replace(QUICK, epochs=2))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given.append(learner.epoch_number))
    for _ in range(2):
        assert not given
        learner.epoch()
    assert given == [2] and learner._step is None and recorder.recordings == 1


def test_own_networks_and_dropout_are_not_recorded(recorder: StandIn) -> None:
    data, labels = digits(train=300)
    own = {"model": f"{__name__}:OwnNetwork"}
    for change in ({"dropout": 0.1}, own):
        config = LearnerConfig(epochs=1, **change)
        OnLabels(config, labels=labels.labels, data=data, seed=0, performance=ON_CPU).epoch()
    assert recorder.recordings == 0


def teachers(performance: Performance, **settings: Any) -> tuple[TeacherVotes, Any]:
    """Three teachers of small networks, and how they are called: two shards are equally large."""
    data, labels = small_images(channels=3)
    network = replace(QUICK, batch_size=20, **settings)
    config = EnsembleConfig(kind=TeacherKind.NETWORK, teachers=3, queries=50, network=network)
    shards = [
        Shard(indices=rows, labels=labels[rows])
        for rows in np.split(np.arange(len(labels)), [130, 260])
    ]
    return TeacherVotes(config=config, performance=performance), (range(3), shards, data)


@pytest.mark.parametrize("recipe", [QUICK.recipe, replace(QUICK.recipe, average_decay=0.0)])
def test_teachers_in_one_recorded_step_vote_as_one_after_another(
    recorder: StandIn, recipe: Recipe
) -> None:
    vote, given = teachers(PLAIN, recipe=recipe)
    expected = vote(*given)
    assert recorder.recordings == 0
    vote, given = teachers(replace(PLAIN, capture=True), recipe=recipe)
    np.testing.assert_array_equal(vote(*given), expected)
    epochs = QUICK.epochs
    # One recording of the pair, and one of the teacher with a shard of another size.
    assert recorder.recordings == 2
    assert recorder.replays == (epochs * (130 // 20) - 3) + (epochs * (140 // 20) - 3)
    vote, given = teachers(replace(PLAIN, capture=True), learning_rate=1e30)
    with pytest.raises(TrainingDiverged):
        vote(*given)


class Line:
    """A stream of a GPU that is not there: it keeps which one waited for which."""

    waits: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def wait_stream(self, other: "Line") -> None:
        self.waits.append((self.name, other.name))


def test_teachers_in_one_recorded_step_wait_for_none_of_each_other(
    recorder: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = iter("ab")
    monkeypatch.setattr(Line, "waits", [])
    monkeypatch.setattr(learners, "_stream", lambda device: Line(next(lines)))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: Line("main"))
    monkeypatch.setattr(torch.cuda, "stream", lambda line: nullcontext())
    vote, (_, shards, data) = teachers(replace(PLAIN, capture=True))
    vote(range(2), shards[:2], data)
    forked = [("a", "main"), ("b", "main")]
    joined = [("main", "a"), ("main", "b")]
    assert Line.waits[:4] == forked + joined


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_cuda_graph_trains_several_teachers_as_each_by_itself() -> None:
    on_gpu = replace(PLAIN, device=Device.CUDA)
    vote, given = teachers(on_gpu)
    expected = vote(*given)
    vote, given = teachers(replace(on_gpu, capture=True))
    assert (vote(*given) == expected).mean() > 0.95


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_cuda_graph_trains_the_same_network() -> None:
    on_gpu = replace(PLAIN, device=Device.CUDA)
    expected = after_two_epochs(QUICK, on_gpu)
    found = after_two_epochs(QUICK, replace(on_gpu, capture=True))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-2, atol=1e-4, err_msg=name)

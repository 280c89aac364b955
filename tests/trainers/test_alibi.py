"""ALIBI on digits: it learns, repeats, resumes to the bit, says when it diverges, and refuses."""

import pickle
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms.accounting import GaussianEvent, PureEvent
from labeldp.mechanisms.posterior import PostProcessing
from labeldp.mechanisms.vault import LabelVault, Release
from labeldp.trainers.alibi import Alibi, AlibiConfig
from labeldp.trainers.data import PublicData
from labeldp.trainers.models import ModelName
from labeldp.trainers.performance import Device, Performance, Precision
from labeldp.trainers.schedules import Schedule, TrainingDiverged
from labeldp.trainers.targets import Noise
from labeldp.trainers.trainer import Trainer, TrainerConfig
from tests.trainers.tiny_data import SeededSource, digits, table

ON_CPU = Performance(device=Device.CPU)
QUICK = AlibiConfig(epochs=4, width=32, epsilon=4.0, learning_rate=0.1)


def started(
    config: AlibiConfig,
    given: tuple[PublicData, SeededSource] | None = None,
    *,
    seed: int = 0,
    performance: Performance = ON_CPU,
) -> Alibi:
    data, labels = digits() if given is None else given
    return config.start(data=data, labels=labels, seed=seed, performance=performance)


def trained(config: AlibiConfig, **how: Any) -> Alibi:
    trainer = started(config, **how)
    for _ in range(config.epochs):
        trainer.epoch()
    return trainer


def assert_equal_states(first: Any, second: Any) -> None:
    """All of two nested states is equal, to the bit."""
    assert type(first) is type(second)
    if isinstance(first, Mapping):
        assert first.keys() == second.keys()
        for key in first:
            assert_equal_states(first[key], second[key])
    elif isinstance(first, list):
        for one, other in zip(first, second, strict=True):
            assert_equal_states(one, other)
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    else:
        assert first == second


def test_it_is_a_trainer() -> None:
    config: TrainerConfig = QUICK
    data, labels = digits(train=100)
    trainer: Trainer = config.start(data=data, labels=labels, seed=0, performance=ON_CPU)
    assert trainer.epoch().epoch == 1


@pytest.mark.parametrize(
    ("noise", "epsilon", "accuracy"),
    [
        (Noise.NONE, 1.0, 0.97),
        (Noise.LAPLACE, 4.0, 0.93),
        (Noise.RANDOMIZED_RESPONSE, 4.0, 0.94),
        (Noise.GAUSSIAN, 8.0, 0.90),
    ],
)
def test_it_learns_digits(noise: Noise, epsilon: float, accuracy: float) -> None:
    config = AlibiConfig(noise=noise, epsilon=epsilon)
    trainer = started(config)
    metrics = [trainer.epoch() for _ in range(config.epochs)]
    assert [m.epoch for m in metrics] == list(range(1, 31))
    assert metrics[-1].val_accuracy == trainer.evaluate() > accuracy
    assert metrics[-1].loss < metrics[0].loss
    assert all(m.seconds > 0 for m in metrics)


def test_the_posterior_beats_hard_noisy_labels_and_privacy_costs_accuracy() -> None:
    config = AlibiConfig(epsilon=2.0)
    with_prior, hard, less_private = (
        trained(changed).evaluate()
        for changed in (
            config,
            replace(config, post_processing=PostProcessing.ARG_MAX),
            replace(config, epsilon=8.0),
        )
    )
    assert hard + 0.02 < with_prior < less_private


def test_without_noise_it_is_plain_cross_entropy() -> None:
    """One step by hand: the baseline shares nothing with Bayes' rule that could bend it."""
    data, labels = digits(train=50)
    config = AlibiConfig(noise=Noise.NONE, epochs=1, momentum=0.0, warmup=0.0, weight_decay=0.0)
    trainer = started(config, (data, labels))
    model = trainer._learner.network
    mean, std = torch.tensor(data.mean), torch.tensor(data.std)
    inputs = (data.train_features.float() / 255 - mean) / std
    loss = functional.cross_entropy(model(inputs), torch.from_numpy(labels.labels))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    expected = [p.detach() - 0.05 * g for p, g in zip(model.parameters(), gradients, strict=True)]
    assert trainer.epoch().loss == pytest.approx(float(loss.detach()), rel=1e-5)
    for parameter, value in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", list(PostProcessing))
@pytest.mark.parametrize("noise", list(Noise))
def test_every_rule_trains_on_every_noise(noise: Noise, rule: PostProcessing) -> None:
    config = replace(QUICK, noise=noise, post_processing=rule, epsilon=8.0)
    assert trained(config).evaluate() > 0.4  # four epochs; guessing gives 0.1


@pytest.mark.parametrize(
    "config",
    [
        QUICK,
        replace(QUICK, model=ModelName.SMALL_CNN, width=4, augment=True),
        replace(QUICK, model=ModelName.WIDE_RESNET28, width=1, augment=True),
    ],
    ids=lambda config: str(config.model),
)
def test_resuming_continues_to_the_bit(config: AlibiConfig) -> None:
    """BatchNorm, momentum, order of batches and augmentation all continue where they were."""
    given = digits(train=160)
    whole = started(config, given)
    whole.epoch()
    file = BytesIO()
    torch.save(whole.state_dict(), file)
    metrics = [whole.epoch() for _ in range(2)]
    file.seek(0)
    state = torch.load(file, weights_only=True)
    for _ in range(2):  # the state can be used twice: continuing does not change it
        resumed = started(config, given, seed=5)
        resumed.load_state_dict(state)
        again = [resumed.epoch() for _ in range(2)]
        assert [replace(m, seconds=0) for m in again] == [replace(m, seconds=0) for m in metrics]
        assert_equal_states(resumed.state_dict(), whole.state_dict())


def test_seeds_repeat_and_global_random_state_stays() -> None:
    before = torch.get_rng_state(), repr(np.random.get_state(legacy=False))
    first, again, other = (trained(QUICK, seed=seed) for seed in (1, 1, 2))
    assert_equal_states(first.state_dict(), again.state_dict())
    features = digits()[0].test_features
    assert not np.array_equal(first.predict(features), other.predict(features))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state(legacy=False)) == before[1]


@pytest.mark.parametrize("noise", [Noise.LAPLACE, Noise.NONE])
def test_divergence_is_an_error_with_a_way_out(noise: Noise) -> None:
    trainer = started(replace(QUICK, noise=noise, learning_rate=1e30, warmup=0.0))
    with pytest.raises(TrainingDiverged, match=r"epoch 1, at learning rate 1e\+30; lower"):
        trainer.epoch()


def test_predictions_are_probabilities_and_change_nothing() -> None:
    given = digits(train=160)
    trainer = trained(replace(QUICK, model=ModelName.WIDE_RESNET28, width=1, epochs=1), given=given)
    features = given[0].test_features
    before = trainer.state_dict()
    probabilities = trainer.predict(features)
    assert probabilities.shape == (359, 10) and probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(probabilities[:7], trainer.predict(features[:7]), atol=1e-5)
    assert_equal_states(before, trainer.state_dict())


def test_part_of_the_labels_is_enough() -> None:
    data, labels = digits()
    indices = np.arange(700, 1400, 2)
    config = replace(QUICK, noise=Noise.NONE, epochs=30, batch_size=64)
    release = labels.release(config.mechanism(10), indices=indices)
    trainer = Alibi(config, data=data, release=release, seed=0, performance=ON_CPU)
    accuracy = [trainer.epoch() for _ in range(30)][-1].val_accuracy
    assert accuracy > 0.85  # features and labels that do not belong together give 0.1


def test_tables() -> None:
    data, labels = table()
    assert trained(replace(QUICK, epochs=20, batch_size=32), given=(data, labels)).evaluate() > 0.85
    with pytest.raises(ValueError, match=r"holds no images.*augment=False"):
        started(replace(QUICK, augment=True), (data, labels))
    with pytest.raises(ValueError, match="small_cnn needs images"):
        started(replace(QUICK, model=ModelName.SMALL_CNN), (data, labels))


def test_fast_settings_give_the_same_training() -> None:
    config = replace(QUICK, model=ModelName.SMALL_CNN, width=8, epochs=2)
    plain = trained(config).predict(digits()[0].test_features)
    fast = Performance(device=Device.CPU, channels_last=True, precision=Precision.BF16)
    quick = trained(config, performance=fast).predict(digits()[0].test_features)
    assert (plain.argmax(1) == quick.argmax(1)).mean() > 0.9
    layout = Performance(device=Device.CPU, channels_last=True)
    same = trained(config, performance=layout).predict(digits()[0].test_features)
    np.testing.assert_allclose(same, plain, atol=1e-2)


def test_the_planned_charge_is_what_the_vault_charges() -> None:
    data, source = digits()
    for noise, kind in ((Noise.LAPLACE, PureEvent), (Noise.GAUSSIAN, GaussianEvent)):
        config = replace(QUICK, noise=noise)
        planned = config.planned_charge(num_classes=10, seed=0)
        vault = LabelVault(labels=source.labels, num_classes=10)
        for seed in (0, 1):  # two trials, one release
            config.start(data=data, labels=vault, seed=seed, performance=ON_CPU)
        (charge,) = vault.charges()
        assert isinstance(charge.event, kind) and charge.event == planned.event
        faster = replace(config, learning_rate=0.2).planned_charge(num_classes=10, seed=3)
        assert hash(faster.release) == hash(planned.release) and faster == planned
        assert planned != replace(config, epsilon=1.0).planned_charge(num_classes=10, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"epsilon": float("inf")}, "epsilon is inf"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"noise": "laplace"}, r"noise is 'laplace'.*one of laplace"),
        ({"post_processing": None}, "post_processing is None.*one of map_with_prior"),
        ({"epochs": 0}, "epochs is 0"),
        ({"batch_size": 2.5}, "batch_size is 2.5"),
        ({"learning_rate": -1.0}, "learning_rate is -1.0"),
        ({"momentum": 1.0}, "momentum is 1.0; it must be below 1"),
        ({"weight_decay": -0.1}, "weight_decay is -0.1"),
        ({"warmup": 1.5}, "warmup is 1.5"),
        ({"width": 0}, "width is 0"),
    ],
)
def test_bad_settings_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AlibiConfig(**changes)


def test_a_release_of_other_labels_is_refused() -> None:
    data, _ = digits()
    release = Release(key="", values=np.zeros((10, 10), dtype=np.float32), indices=None)
    with pytest.raises(ValueError, match="speaks of 10 labels, but there are 1438"):
        Alibi(QUICK, data=data, release=release, seed=0, performance=ON_CPU)


def test_settings_travel() -> None:
    assert pickle.loads(pickle.dumps(QUICK)) == QUICK
    assert replace(QUICK, schedule=Schedule.COSINE) != QUICK

"""The contract of every method: it plans its charge, trains, resumes to the bit, and refuses.

What is special to a method (its loss, its stages, its prior) is tested beside it.
"""

import io
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.randomness import SeededNoise
from labeldp.mechanisms.vault import LabelVault, MemoryStore, Release
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.models.schedules import Recipe, TrainingDiverged
from labeldp.trainers.performance import Device, Performance
from labeldp.trainers.settings.base import ModelName
from labeldp.trainers.settings.methods import (
    AlibiConfig,
    AlibiPriorConfig,
    BitFlipConfig,
    ConsensusConfig,
    ConvexConfig,
    LpMstConfig,
    Noise,
    PriorLabelsConfig,
    PriorSettings,
    PriorSource,
    Randomizer,
    RecommenderConfig,
    StagedMomentsConfig,
)
from labeldp.trainers.trainer import Trainer
from tests.trainers.ratings import write_ratings

ON_CPU = Performance(device=Device.CPU)
CLUSTERS = PriorSettings(source=PriorSource.CLUSTERS, clusters=40)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=150)
LEARNER: Mapping[str, Any] = {
    "epochs": 6,
    "width": 32,
    "learning_rate": 0.1,
    "batch_size": 64,
    "epsilon": 4.0,
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's settings, and what is known of them.

    Attributes:
        config: Small enough for a second of training.
        accuracy: What it reaches on the data at least; guessing gives .1 (digits), .4 (stars).
        releases: How many it asks for.
        shared: Trials of other seeds and rates read all of them, not only the first.
        ratings: It learns ratings, and not digits.
    """

    config: Any
    accuracy: float = 0.7
    releases: int = 1
    shared: bool = True
    ratings: bool = False


_LP_MST = LpMstConfig(**LEARNER, mixup=2.0, dropout=0.2)
METHODS = {
    "ALIBI": Method(config=AlibiConfig(**LEARNER)),
    "AGIBI": Method(config=AlibiConfig(**LEARNER, noise=Noise.GAUSSIAN), accuracy=0.15),
    "randomized response": Method(
        config=AlibiConfig(**LEARNER, noise=Noise.RANDOMIZED_RESPONSE, dropout=0.2)
    ),
    "subset selection": Method(config=AlibiConfig(**LEARNER, noise=Noise.SUBSET)),
    "a convolutional network, augmented": Method(
        config=replace(
            AlibiConfig(**LEARNER), model=ModelName.WIDE_RESNET28, width=1, epochs=2, augment=True
        ),
        accuracy=0.05,
    ),
    "bit flips": Method(config=BitFlipConfig(**LEARNER), accuracy=0.6),
    "consensus": Method(
        config=replace(ConsensusConfig(**LEARNER, retrain_epochs=3), epochs=14, retrain_epochs=7),
        accuracy=0.5,
    ),
    "ALIBI with a prior": Method(
        config=AlibiPriorConfig(**LEARNER, prior=CLUSTERS, dropout=0.3), releases=2
    ),
    "AGIBI with a prior": Method(
        config=AlibiPriorConfig(**LEARNER, prior=CLUSTERS, noise=Noise.GAUSSIAN), releases=2
    ),
    "randomized response with a prior": Method(
        config=AlibiPriorConfig(**LEARNER, prior=CLUSTERS, noise=Noise.RANDOMIZED_RESPONSE),
        releases=2,
    ),
    "ALIBI with moments": Method(config=AlibiPriorConfig(**LEARNER, prior=MOMENTS), releases=2),
    "optimal channel under moments": Method(
        config=AlibiPriorConfig(**LEARNER, prior=MOMENTS, noise=Noise.OPTIMAL), releases=2
    ),
    "cluster labels": Method(config=PriorLabelsConfig(**LEARNER, prior=CLUSTERS)),
    "moment labels": Method(config=PriorLabelsConfig(**LEARNER, prior=MOMENTS)),
    "staged moments": Method(
        config=StagedMomentsConfig(
            **LEARNER, earlier_epochs=2, prior=MOMENTS, mixup=2.0, dropout=0.2
        ),
        releases=2,
        shared=False,
    ),
    "LP-MST": Method(config=_LP_MST, releases=2, shared=False),
    "LP-MST by optimal channels": Method(
        config=replace(_LP_MST, randomizer=Randomizer.OPTIMAL), releases=2, shared=False
    ),
    "LP-MST, retrained": Method(config=replace(_LP_MST, stages=1, retrain_epochs=3), accuracy=0.25),
    "convex": Method(config=ConvexConfig(epsilon=4.0, epochs=4), accuracy=0.6),
    "ratings": Method(
        config=RecommenderConfig(epsilon=4.0, epochs=4, batch_size=64),
        accuracy=0.35,
        releases=2,
        shared=False,
        ratings=True,
    ),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Mapping[bool, LabelledData]:
    """Digits, and ratings (True)."""
    root = tmp_path_factory.mktemp("data")
    write_ratings(root, ratings=4000)
    return {False: load("digits", limit=700), True: load("movielens_1m", root=root)}


@pytest.fixture(params=METHODS)
def bench(request: pytest.FixtureRequest, data: Mapping[bool, LabelledData]) -> "Bench":
    method = METHODS[request.param]
    return Bench(method=method, data=data[method.ratings])


class SeededVault(LabelVault):
    """A vault whose noise repeats."""

    def release(self, *asked: Any, **how: Any) -> Release:
        return super().release(*asked, **how, noise=SeededNoise(seed=0))


@dataclass(frozen=True)
class Bench:
    """A method, its data, and vaults of their labels."""

    method: Method
    data: LabelledData

    def vault(self) -> "SeededVault":
        return SeededVault(
            labels=self.data.train_labels,
            num_classes=self.data.public.num_classes,
            store=MemoryStore(bytes(32)),
        )

    def started(self, vault: LabelVault, *, seed: int = 0, **changes: Any) -> Trainer:
        config = replace(self.method.config, **changes)
        trainer: Trainer = config.start(
            data=self.data.public, labels=vault, seed=seed, performance=ON_CPU
        )
        return trainer

    def trained(self, vault: LabelVault, *, seed: int = 0, **changes: Any) -> Trainer:
        trainer = self.started(vault, seed=seed, **changes)
        for _ in range(self.method.config.epochs):
            trainer.epoch()
        return trainer


def leaves(state: Any) -> Iterator[Any]:
    """Everything in a nested state."""
    if isinstance(state, Mapping):
        for each in state.values():
            yield from leaves(each)
    elif isinstance(state, list | tuple):
        for each in state:
            yield from leaves(each)
    else:
        yield state


def saved(trainer: Trainer) -> bytes:
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    return file.getvalue()


def test_it_learns_counts_its_epochs_and_predicts_probabilities(bench: Bench) -> None:
    vault, method = bench.vault(), bench.method
    trainer = bench.started(vault)
    metrics = [trainer.epoch() for _ in range(method.config.epochs)]
    assert [each.epoch for each in metrics] == list(range(1, method.config.epochs + 1))
    assert all(np.isfinite(each.loss) and each.seconds > 0 for each in metrics)
    assert metrics[-1].val_accuracy == trainer.evaluate() > method.accuracy
    before = saved(trainer)
    features = bench.data.public.test_features
    probabilities = trainer.predict(features)
    assert probabilities.shape == (len(features), bench.data.public.num_classes)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-4)
    np.testing.assert_allclose(trainer.predict(features[:7]), probabilities[:7], atol=1e-4)
    assert saved(trainer) == before, "predicting changes nothing"
    assert all(np.isfinite(value) for value in trainer.figures().values())


def test_the_plan_is_what_the_vault_charges_and_no_more_than_epsilon(bench: Bench) -> None:
    vault, config = bench.vault(), bench.method.config
    classes = bench.data.public.num_classes
    bench.trained(vault)
    assert len(vault.charges()) == bench.method.releases
    planned = config.planned_charge(num_classes=classes, seed=0)
    events = [part.event for part in planned.chain()]
    paid = vault.epsilon(delta=1e-5)
    assert paid == pytest.approx(epsilon_of(events, delta=1e-5), rel=1e-9)
    assert paid <= config.epsilon * (1 + 1e-9)
    assert paid > 0.9 * config.epsilon, "epsilon is used up, and not a part of it"
    assert all(charge.failure_probability == 0 for charge in vault.charges())


def test_other_trials_read_the_release_that_is_there_as_the_plan_says(bench: Bench) -> None:
    vault, config = bench.vault(), bench.method.config
    if hasattr(config, "learning_rate"):
        other = {"learning_rate": config.learning_rate / 2}
    else:
        other = {"step_factor": 0.5}
    trials = [(0, {}), (0, {}), (1, {}), (0, other)]
    planned: set[Any] = set()
    for seed, changes in trials:
        bench.trained(vault, seed=seed, **changes)
        charge = replace(config, **changes).planned_charge(
            num_classes=bench.data.public.num_classes, seed=seed
        )
        planned.update(part.release for part in charge.chain())
    if bench.method.shared:
        assert len(vault.charges()) == bench.method.releases == len(planned)
    else:
        # The first stage is one release for all; each of three trials has a second of its own.
        assert len(vault.charges()) == 1 + 3 <= len(planned) + 1


def test_a_resumed_training_is_the_same_to_the_bit_wherever_it_was_cut(bench: Bench) -> None:
    vault, epochs = bench.vault(), bench.method.config.epochs
    whole, states = bench.started(vault, seed=3), list[bytes]()
    metrics = []
    for _ in range(epochs):
        metrics.append(replace(whole.epoch(), seconds=0))
        states.append(saved(whole))
    for cut in range(1, epochs):
        resumed = bench.started(vault, seed=3)
        resumed.load_state_dict(torch.load(io.BytesIO(states[cut - 1]), weights_only=True))
        again = [replace(resumed.epoch(), seconds=0) for _ in range(epochs - cut)]
        assert again == metrics[cut:]
        assert saved(resumed) == states[-1]
        assert resumed.figures() == whole.figures()
    assert len(vault.charges()) == bench.method.releases, "nothing is asked for a second time"


def test_a_state_holds_no_true_labels(bench: Bench) -> None:
    truth = torch.from_numpy(bench.data.train_labels)
    for part in leaves(bench.trained(bench.vault()).state_dict()):
        assert isinstance(part, torch.Tensor | int | float | str | bytes | bool | None)
        if isinstance(part, torch.Tensor) and part.ndim and len(part) == len(truth):
            labels = part if part.ndim == 1 else part.argmax(1)
            assert not torch.equal(labels.long(), truth)


def test_seeds_repeat_and_global_random_state_stays(bench: Bench) -> None:
    before = torch.get_rng_state(), repr(np.random.get_state(legacy=False)), torch.get_num_threads()
    vault = bench.vault()
    first, again, other = (saved(bench.trained(vault, seed=seed)) for seed in (1, 1, 2))
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state(legacy=False)) == before[1]
    assert torch.get_num_threads() == before[2]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "convex"])
def test_divergence_is_an_error_with_a_way_out(
    name: str, data: Mapping[bool, LabelledData]
) -> None:
    bench = Bench(METHODS[name], data[METHODS[name].ratings])
    trainer = bench.started(bench.vault(), learning_rate=1e30, warmup=0.0)
    with pytest.raises(TrainingDiverged, match=r"epoch 1, at learning rate 1e\+30; lower"):
        trainer.epoch()


@pytest.mark.parametrize("name", METHODS)
def test_settings_travel_and_compare(name: str) -> None:
    config = METHODS[name].config
    again = pickle.loads(pickle.dumps(config))
    assert again == config and hash(again) == hash(config)
    assert replace(config, epsilon=3.5) != config


@pytest.mark.parametrize("name", [name for name in METHODS if name != "convex"])
def test_noisy_labels_are_not_smoothed(name: str) -> None:
    with pytest.raises(ValueError, match=r"label_smoothing is 0.1.*set recipe.label_smoothing=0"):
        replace(METHODS[name].config, recipe=Recipe(label_smoothing=0.1))


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ALIBI", {"noise": "lapalce"}, r"noise is 'lapalce'.*one of laplace"),
        ("ALIBI", {"post_processing": None}, "post_processing is None.*one of map_with_prior"),
        ("ALIBI", {"momentum": 1.0}, "momentum is 1.0; it must be .* below 1"),
        ("ALIBI with a prior", {"noise": Noise.NONE}, "noise is none"),
        ("cluster labels", {"prior": PriorSettings()}, "nothing to learn from"),
        ("consensus", {"retrain_epochs": 14}, "retrain_epochs is 14 of 14 epochs"),
        ("consensus", {"noise": Noise.NONE}, "noise is none"),
        ("LP-MST, retrained", {"retrain_epochs": 6}, "epochs is 6, 6 of them to retrain"),
        ("LP-MST", {"stages": 7}, "epochs is 6, 0 of them to retrain, for 7 stages"),
        ("LP-MST", {"loss": "forward?"}, "loss is 'forward"),
        ("staged moments", {"stages": 4}, "epochs is 6 for 4 stages"),
        ("staged moments", {"earlier_epochs": 6}, "epochs is 6 for 2 stages"),
        ("staged moments", {"prior": CLUSTERS}, "prior.source is clusters"),
    ],
)
def test_bad_settings_are_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(METHODS[name].config, **changes)

"""The contract of every method: it plans its charge, trains, resumes to the bit, and refuses.

Tests of a single method's own (its loss, its stages, its prior) are in `methods/`.
"""

import io
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from labeldp.mechanisms.accounting import epsilon_of
from labeldp.mechanisms.additive_noise import GaussianNoise
from labeldp.mechanisms.ledger import total_of_prices
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.vault import LabelVault
from labeldp.trainers.base import ModelName
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.pate_settings import (
    AggregatorKind,
    EnsembleConfig,
    ForestSettings,
    PateConfig,
    StudentConfig,
    StudentKind,
    TeacherKind,
)
from labeldp.trainers.methods.settings import (
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
    PriorStudentConfig,
    Randomizer,
    RecommenderConfig,
    StagedMomentsConfig,
    TableStackConfig,
)
from labeldp.trainers.settings.trainer import PlannedCharge, Trainer
from labeldp.trainers.settings.training import (
    FixMatchConfig,
    LearnerConfig,
    Recipe,
    SemiSupervisedConfig,
    TrainingDiverged,
)
from tests.trainers.ratings import write_ratings
from tests.trainers.small_data import EVERY_STEP, FEW_LABELS, ON_CPU, SeededVault, small_table

CLUSTERS = PriorSettings(source=PriorSource.CLUSTERS, clusters=40)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=150)
LEARNER: Mapping[str, Any] = {
    "epochs": 6,
    "width": 32,
    "learning_rate": 0.1,
    "batch_size": 64,
    "epsilon": 4.0,
}
STUDENT: Mapping[str, Any] = {
    "model": ModelName.MLP,
    "width": 32,
    "epochs": 10,
    "batch_size": 16,
    "unlabeled_ratio": 2,
    "learning_rate": 0.1,
    "padding": 1,
    "box": 2,
    "flip": False,
}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method's settings, and what is known of them.

    Attributes:
        config: Small enough for a second of training.
        accuracy: The least on the data; guessing gives .1 (digits), .4 (stars) and .33 (table).
        releases: How many labels' releases it requests; answers of teachers do not count.
        shared: Trials of other seeds and rates read all of them, not only the first.
    """

    config: Any
    accuracy: float = 0.7
    releases: int = 1
    shared: bool = True
    data: str = "digits"


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
            AlibiConfig(**LEARNER),
            model=ModelName.WIDE_RESNET28,
            width=1,
            epochs=3,
            augment=True,
            recipe=EVERY_STEP,
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
    "ALIBI with moments": Method(config=AlibiPriorConfig(**LEARNER, prior=MOMENTS), releases=2),
    "optimal channel under moments": Method(
        config=AlibiPriorConfig(**LEARNER, prior=MOMENTS, noise=Noise.OPTIMAL),
        releases=2,
        data="table",
    ),
    "cluster labels": Method(config=PriorLabelsConfig(**LEARNER, prior=CLUSTERS)),
    "moment labels": Method(config=PriorLabelsConfig(**LEARNER, prior=MOMENTS)),
    "a student of moment labels": Method(
        config=PriorStudentConfig(**STUDENT, labeled=20, epsilon=4.0, prior=MOMENTS)
    ),
    "students of moment labels in stages": Method(
        config=PriorStudentConfig(
            **STUDENT, labeled=20, epsilon=4.0, prior=MOMENTS, stages=2, earlier_epochs=1
        ),
        releases=2,
        shared=False,
    ),
    "staged moments": Method(
        config=StagedMomentsConfig(
            **LEARNER, earlier_epochs=2, prior=MOMENTS, mixup=2.0, dropout=0.2
        ),
        releases=2,
        shared=False,
    ),
    "LP-MST": Method(config=_LP_MST, releases=2, shared=False),
    "LP-MST by optimal channels": Method(
        config=replace(_LP_MST, randomizer=Randomizer.OPTIMAL),
        releases=2,
        shared=False,
        data="table",
    ),
    "LP-MST, retrained": Method(config=replace(_LP_MST, stages=1, retrain_epochs=3), accuracy=0.25),
    "LP-MST of one stage under clusters": Method(
        config=replace(_LP_MST, stages=1, prior=CLUSTERS), accuracy=0.5, releases=2
    ),
    "convex": Method(config=ConvexConfig(epsilon=4.0, epochs=4), accuracy=0.6),
    "convex, with a prior": Method(
        config=ConvexConfig(epsilon=4.0, epochs=4, prior=CLUSTERS), accuracy=0.6, releases=2
    ),
    "table stack": Method(config=TableStackConfig(epsilon=4.0), data="table"),
    "table stack, counts": Method(config=TableStackConfig(epsilon=0.9), accuracy=0.6, data="table"),
    "ratings": Method(
        config=RecommenderConfig(epsilon=4.0, epochs=4, batch_size=64),
        accuracy=0.35,
        releases=2,
        shared=False,
        data="ratings",
    ),
}
_STUDENT = StudentConfig(
    forest=ForestSettings(trees=10),
    network=LearnerConfig(width=16, epochs=5, batch_size=16, learning_rate=0.1),
    fixmatch=FixMatchConfig(**FEW_LABELS),
    semi_supervised=SemiSupervisedConfig(**STUDENT),
)
_TEACHERS = EnsembleConfig(teachers=40, queries=100)
_NEAREST = replace(_TEACHERS, kind=TeacherKind.NEIGHBORS, queries_per_label=20)
_PATE = PateConfig(aggregator=AggregatorKind.GNMAX, sigma2=5.0, answers=60, students=2)
PATE = {
    f"PATE, {name}": Method(
        config=replace(_PATE, ensemble=ensemble, student=replace(_STUDENT, kind=kind)),
        releases=0,
        data="table",
    )
    for name, ensemble, kind in [
        *((kind, _TEACHERS, kind) for kind in StudentKind),
        ("nearest labels", _NEAREST, StudentKind.FOREST),
    ]
}
EVERY = {**METHODS, **PATE}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, LabelledData]:
    root = tmp_path_factory.mktemp("data")
    write_ratings(root, ratings=4000)
    public, labels = small_table()
    return {
        "digits": load("digits", limit=700),
        "ratings": load("movielens_1m", root=root),
        "table": LabelledData(public=public, train_labels=labels),
    }


@pytest.fixture(params=EVERY)
def bench(request: pytest.FixtureRequest, data: Mapping[str, LabelledData]) -> "Bench":
    method = EVERY[request.param]
    return Bench(method=method, data=data[method.data])


@dataclass(frozen=True)
class Bench:
    """A method, its data, and vaults of their labels."""

    method: Method
    data: LabelledData

    def vault(self) -> SeededVault:
        return SeededVault(self.data.train_labels, self.data.public.num_classes)

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

    def planned(self, *, seed: int = 0, **changes: Any) -> list[PlannedCharge]:
        config = replace(self.method.config, **changes)
        classes = self.data.public.num_classes
        chain: list[PlannedCharge] = config.planned_charge(num_classes=classes, seed=seed).chain()
        return chain


def leaves(state: Any) -> Iterator[Any]:
    if isinstance(state, Mapping | list | tuple):
        for each in state.values() if isinstance(state, Mapping) else state:
            yield from leaves(each)
    else:
        yield state


def saved(trainer: Trainer) -> bytes:
    file = io.BytesIO()
    torch.save(trainer.state_dict(), file)
    return file.getvalue()


def test_it_learns_pays_what_its_plan_says_and_keeps_no_true_label(bench: Bench) -> None:
    vault, method = bench.vault(), bench.method
    trainer = bench.started(vault)
    metrics = [trainer.epoch() for _ in range(method.config.epochs)]
    assert [each.epoch for each in metrics] == list(range(1, method.config.epochs + 1))
    assert all(np.isfinite(each.loss) and each.seconds > 0 for each in metrics)
    assert trainer.evaluate() > method.accuracy
    if method.releases:
        assert metrics[-1].val_accuracy == trainer.evaluate()
    before = saved(trainer)
    features = bench.data.public.test_features
    probabilities = trainer.predict(features)
    assert probabilities.shape == (len(features), bench.data.public.num_classes)
    assert probabilities.dtype == np.float32
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-4)
    np.testing.assert_allclose(trainer.predict(features[:7]), probabilities[:7], atol=1e-4)
    assert saved(trainer) == before, "predicting changes nothing"
    assert all(np.isfinite(value) for value in trainer.figures().values())
    truth = torch.from_numpy(bench.data.train_labels)
    for part in leaves(trainer.state_dict()):
        assert isinstance(part, torch.Tensor | int | float | str | bytes | bool | None)
        if isinstance(part, torch.Tensor) and part.ndim and len(part) == len(truth):
            labels = part if part.ndim == 1 else part.argmax(1)
            assert not torch.equal(labels.long(), truth)
    assert len(vault.charges()) == method.releases
    if method.releases:
        paid = vault.epsilon(delta=1e-5)
        events = [part.event for part in bench.planned()]
        assert paid == pytest.approx(epsilon_of(events, delta=1e-5), rel=1e-9)
        # All of epsilon is used, and no more.
        assert 0.9 * method.config.epsilon < paid <= method.config.epsilon * (1 + 1e-9)
        assert all(charge.failure_probability == 0 for charge in vault.charges())


@pytest.mark.parametrize("bench", METHODS, indirect=True)
def test_others_read_the_planned_release(bench: Bench) -> None:
    vault = bench.vault()
    method = bench.method
    config = method.config
    other: dict[str, Any] = {}
    if hasattr(config, "learning_rate"):
        other = {"learning_rate": config.learning_rate / 2}
    elif hasattr(config, "diameter"):
        other = {"diameter": 25.0}
    planned: set[Any] = set()
    for seed, changes in [(0, {}), (0, {}), (1, {}), (0, other)]:
        # Only a later stage's release needs the training before it.
        (bench.started if method.shared else bench.trained)(vault, seed=seed, **changes)
        planned.update(part.release for part in bench.planned(seed=seed, **changes))
    if method.shared:
        assert len(vault.charges()) == method.releases == len(planned)
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
    assert len(vault.charges()) == bench.method.releases, "nothing is requested a second time"


def test_seeds_repeat_and_global_random_state_stays(bench: Bench) -> None:
    before = torch.get_rng_state(), repr(np.random.get_state(legacy=False)), torch.get_num_threads()
    vault, features = bench.vault(), bench.data.public.test_features
    first, again, other = (
        bench.trained(vault, seed=seed).predict(features).tobytes() for seed in (1, 1, 2)
    )
    assert first == again
    if "StudentKind.PROBE:" not in repr(bench.method.config):  # which has nothing to draw
        assert first != other
    assert torch.equal(torch.get_rng_state(), before[0])
    assert repr(np.random.get_state(legacy=False)) == before[1]
    assert torch.get_num_threads() == before[2]


WITH_RECIPE = [name for name, method in METHODS.items() if hasattr(method.config, "recipe")]


@pytest.mark.parametrize("bench", WITH_RECIPE, indirect=True)
def test_useless_settings_are_refused(bench: Bench) -> None:
    trainer = bench.started(bench.vault(), learning_rate=1e30, warmup=0.0)
    with pytest.raises(TrainingDiverged, match=r"epoch 1, at learning rate 1e\+30; lower"):
        trainer.epoch()
    with pytest.raises(ValueError, match=r"label_smoothing is 0.1.*set recipe.label_smoothing=0"):
        replace(bench.method.config, recipe=Recipe(label_smoothing=0.1))


@pytest.mark.parametrize("config", [each.config for each in EVERY.values()])
def test_settings_travel_and_compare(config: Any) -> None:
    again = pickle.loads(pickle.dumps(config))
    assert again == config and hash(again) == hash(config)
    assert replace(config, epsilon=3.5) != config


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("ALIBI with a prior", {"noise": Noise.NONE}, "noise is none"),
        ("cluster labels", {"prior": PriorSettings()}, "nothing to learn from"),
        ("convex, with a prior", {"noise": Noise.LAPLACE}, "a prior goes with randomized_response"),
        ("consensus", {"retrain_epochs": 14}, "retrain_epochs is 14 of 14 epochs"),
        ("consensus", {"noise": Noise.NONE}, "noise is none"),
        ("LP-MST, retrained", {"retrain_epochs": 6}, "epochs is 6, 6 of them to retrain"),
        ("LP-MST", {"stages": 7}, "epochs is 6, 0 of them to retrain, for 7 stages"),
        ("LP-MST", {"splits": (0.5, 0.4)}, "sum to 0.9"),
        ("LP-MST", {"splits": ()}, "0 shares"),
        ("LP-MST", {"splits": (0.5, 0.3, 0.2)}, "3 shares"),
        ("LP-MST", {"splits": (1.0, 0.0)}, "splits is .*above 0"),
        ("staged moments", {"stages": 4}, "epochs is 6 for 4 stages"),
        ("staged moments", {"earlier_epochs": 6}, "epochs is 6 for 2 stages"),
        ("staged moments", {"prior": CLUSTERS}, "prior.source is clusters"),
        (
            "students of moment labels in stages",
            {"prior": CLUSTERS},
            "set it to moments, or stages",
        ),
        ("students of moment labels in stages", {"epochs": 1}, "the last one needs an epoch"),
        (
            "PATE, probe",
            {"aggregator": AggregatorKind.CONFIDENT, "threshold": 71.0, "sigma1": 10.0},
            "threshold is 71, but 40 teachers that all agree reach 40 votes",
        ),
        ("PATE, probe", {"answers": 101}, "answers is 101, but ensemble.queries is 100"),
        ("PATE, probe", {"aggregator": AggregatorKind.INTERACTIVE, "answers": 1}, "two rounds"),
        ("PATE, probe", {"check_noise": CheckNoise.PER_CLASS}, "is per_class for aggregator gnmax"),
    ],
)
def test_bad_settings_are_named(name: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(EVERY[name].config, **changes)


@dataclass(frozen=True, kw_only=True)
class Unsure(GaussianNoise):
    failure_probability: ClassVar[float] = 4e-6


def test_each_of_several_releases_may_fail_as_the_ledger_has_it() -> None:
    mechanism = Unsure(noise_std=4.0, num_classes=2)
    planned = PlannedCharge.of(mechanism, releases=3)
    vault = LabelVault(labels=np.arange(30) % 2, num_classes=2)
    for rows in np.array_split(np.arange(30), 3):
        vault.release(mechanism, indices=rows)
    epsilon, delta = total_of_prices([planned], delta=1e-5)
    every = total_of_prices(vault.charges(), delta=1e-5)[1]
    assert delta == pytest.approx(every) == pytest.approx(2.4e-5)
    assert epsilon == pytest.approx(vault.epsilon(delta=delta), rel=1e-12)

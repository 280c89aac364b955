"""LP-MST, staged moments and consensus: parts, prices, losses, cleaner labels, errors in stars."""

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from labeldp.mechanisms.ledger import Budget, BudgetExceeded
from labeldp.mechanisms.rr_with_prior import RRWithPrior
from labeldp.trainers.data.labelled_data import LabelledData, load
from labeldp.trainers.methods.lp_mst import (
    StagedStudents,
    evidence_of,
    robust_loss,
    stage_parts,
    stars_of,
)
from labeldp.trainers.methods.settings import (
    AlibiConfig,
    ConsensusConfig,
    ConvexConfig,
    LpMstConfig,
    Noise,
    PriorSettings,
    PriorSource,
    PriorStudentConfig,
    RecommenderConfig,
    RobustLoss,
    StagedMomentsConfig,
)
from labeldp.trainers.models.features import described_by_features
from tests.trainers.ratings import write_ratings
from tests.trainers.small_data import SeededVault, digits, trained

QUICK: dict[str, Any] = {"width": 32, "epsilon": 2.0, "learning_rate": 0.1, "batch_size": 64}
LP_MST = LpMstConfig(epochs=8, **QUICK)
MOMENTS = PriorSettings(source=PriorSource.MOMENTS, landmarks=200)
STAGED = StagedMomentsConfig(epochs=6, earlier_epochs=2, prior=MOMENTS, **QUICK)
STUDENTS = PriorStudentConfig(
    epsilon=2.0, width=2, epochs=6, earlier_epochs=2, labeled=10, prior=MOMENTS, stages=2
)
RATINGS = RecommenderConfig(epsilon=4.0, epochs=10, batch_size=64)


def test_a_partition_that_depends_on_labels_or_has_an_empty_part_is_refused() -> None:
    # It takes a count and shares alone, so that nobody can give it labels.
    assert list(inspect.signature(stage_parts).parameters) == ["num_examples", "shares"]
    with pytest.raises(ValueError, match="num_examples is array"):
        stage_parts(np.array([0, 1, 1]), shares=(0.5, 0.5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"splits\[1\] is 0.01, which is less than one of 10"):
        stage_parts(10, shares=(0.99, 0.01))


@pytest.mark.parametrize("shares", [(1.0,), (0.65, 0.35), (0.5, 0.3, 0.2), (0.25,) * 4])
def test_all_stages_cost_what_one_costs(shares: tuple[float, ...]) -> None:
    """By the ledger: each label is in one release, and has paid epsilon in the end."""
    given = digits(budget=Budget(epsilon=2.0))
    stages = len(shares)
    splits = shares if stages == 3 else None  # the usual ones
    trainer = trained(replace(LP_MST, stages=stages, splits=splits), given)
    parts = [charge.indices for charge in given[1].charges() if charge.indices is not None]
    assert sorted(np.concatenate(parts).tolist()) == list(range(1438))
    for part, share in zip(parts, shares, strict=True):
        assert abs(len(part) - 1438 * share) <= 1 and (np.diff(part) > 0).all()
    assert given[1].epsilon(delta=0.0) == 2.0
    used = trainer.noisy_labels()[0].tolist()  # a later stage drops some
    assert len(set(used)) == len(used) and (len(used) == 1438) is (stages == 1)


@pytest.mark.parametrize("config", [STAGED, STUDENTS])
def test_staged_moments_stop_at_the_budget(
    config: StagedMomentsConfig | PriorStudentConfig,
) -> None:
    given = digits(budget=Budget(epsilon=1.9, delta=1e-5))
    trainer = trained(config, given, epochs=2)
    with pytest.raises(BudgetExceeded):
        trainer.epoch()
    assert len(given[1].charges()) == 1
    given = digits(budget=Budget(epsilon=2.0, delta=1e-5))
    trained(replace(config, stages=3), given)
    assert all(charge.indices is None for charge in given[1].charges())
    assert given[1].epsilon(delta=1e-5) == pytest.approx(2.0, rel=1e-6)


def test_a_student_goes_on_when_the_next_probabilities_are_its_evidence() -> None:
    trainer = trained(STUDENTS, digits(), epochs=2)
    assert isinstance(trainer, StagedStudents)
    before = trainer.predict(trainer._data.train_features)
    kept = trainer._current.predictor().network.state_dict()
    trainer._next_stage()
    for network in (trainer._current.network, trainer._current.predictor().network):
        assert all(torch.equal(kept[name], own) for name, own in network.state_dict().items())
    # What the reading of noisy sums rules out, and it rules much out, the student may still say.
    found = trainer._targets.numpy()
    assert (found > 0.3 * before - 1e-6).all() and not (found > 0.5 * before).all()
    assert np.allclose(found.sum(1), 1, atol=1e-4)


def test_one_stage_under_other_priors_is_not_one_release_in_the_plan() -> None:
    priors = [PriorSettings(source=PriorSource.CLUSTERS, clusters=count) for count in (10, 20)]
    plans = {
        replace(LP_MST, stages=1, prior=prior).planned_charge(num_classes=10, seed=seed).release
        for prior in (PriorSettings(), *priors)
        for seed in (0, 1)
    }
    assert len(plans) == 3
    convex = ConvexConfig(prior=priors[0]).planned_charge(num_classes=10, seed=0)
    assert convex.release not in plans, "LP-MST names its labels, so that its request is another"


LOGITS = torch.tensor([[0.3, -1.0, 2.0, 0.5]], dtype=torch.float64)


def losses(prior: np.ndarray, mechanism: RRWithPrior, loss: RobustLoss) -> dict[int, float]:
    """Loss of one prediction for every label that can be released."""
    found = {}
    for label in np.flatnonzero(mechanism.outputs(prior)[0]).tolist():
        evidence = evidence_of(np.array([label]), prior, mechanism, loss)
        found[label] = float(robust_loss(loss, LOGITS, torch.from_numpy(evidence).double()))
    return found


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (8, 8, 8, 1)])
def test_debiased_losses_are_right_on_average(epsilon: float, weights: tuple[int, ...]) -> None:
    prior, mechanism = np.array([weights]) / sum(weights), RRWithPrior(epsilon=epsilon)
    by_output = losses(prior, mechanism, RobustLoss.DEBIASED)
    for label in by_output:  # of the possible outputs; others cannot be told apart
        average = sum(
            float(np.exp(mechanism.log_likelihood(np.array([output]), prior)[0, label])) * value
            for output, value in by_output.items()
        )
        truth = functional.cross_entropy(LOGITS, torch.tensor([label]))
        assert average == pytest.approx(float(truth), rel=1e-5)


def test_the_forward_loss_is_the_likelihood_of_the_release() -> None:
    mechanism, prior = RRWithPrior(epsilon=1.0), np.full((1, 4), 0.25)
    predicted, keep = LOGITS.softmax(1).numpy()[0], np.e / (np.e + 3)
    for label, value in losses(prior, mechanism, RobustLoss.FORWARD).items():
        seen = predicted[label] * keep + (1 - predicted[label]) * (1 - keep) / 3
        assert value == pytest.approx(-np.log(seen), rel=1e-6)


def test_one_possible_output_is_taken_as_it_is_and_another_refused() -> None:
    prior, mechanism = np.array([[0.97, 0.01, 0.01, 0.01]]), RRWithPrior(epsilon=0.5)
    assert mechanism.top_k(prior).tolist() == [1]
    evidence = evidence_of(np.array([0]), prior, mechanism, RobustLoss.DEBIASED)
    assert evidence.tolist() == [[1.0, 0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match=r"noisy\[0\] is 2"):
        evidence_of(np.array([2]), prior, mechanism, RobustLoss.FORWARD)


@pytest.mark.parametrize(
    "config",
    [
        ConsensusConfig(epochs=8, retrain_epochs=4, **QUICK),
        ConsensusConfig(epochs=8, retrain_epochs=4, noise=Noise.SUBSET, **QUICK),
        replace(LP_MST, epochs=9, retrain_epochs=3),
    ],
)
def test_labels_of_the_consensus_are_cleaner(config: ConsensusConfig | LpMstConfig) -> None:
    given = digits()
    trainer, truth = trained(config, given), given[1].labels
    rows, noisy = trainer._first.noisy_labels()
    right = noisy == truth[rows] if noisy.ndim == 1 else noisy[rows, truth] / noisy[0].sum()
    kept = trainer._labels
    assert float((kept == truth[trainer._rows]).mean()) > float(right.mean()) + 0.1
    figures = trainer.figures()
    assert figures["consensus_share"] == len(kept) / len(rows) < 1
    assert 0 < figures["first_round_accuracy"] < 1


def test_a_model_that_agrees_with_nothing_drops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = ConsensusConfig(epochs=8, retrain_epochs=4, **QUICK)
    trainer = trained(config, digits(), epochs=0)
    rows, noisy = trainer._first.noisy_labels()
    contrary = np.eye(10, dtype=np.float32)[(noisy + 1) % 10]
    monkeypatch.setattr(trainer._first, "predict", lambda features: contrary[: len(features)])
    trainer._agree()
    assert np.array_equal(trainer._rows, rows)
    assert trainer.figures()["consensus_share"] == 0.0


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> LabelledData:
    root: Path = tmp_path_factory.mktemp("data")
    write_ratings(root)
    return load("movielens_1m", root=root)


def test_from_the_file_to_an_error_below_that_of_any_constant(ratings: LabelledData) -> None:
    """End to end with two stages; no constant does better than the spread of the test ratings."""
    trainer = trained(RATINGS, (ratings.public, SeededVault(ratings.train_labels, 5)))
    figures, rated = trainer.figures(), ratings.public.test_labels + 1
    assert figures["rmse_constant"] == pytest.approx(np.sqrt(np.mean((rated - rated.mean()) ** 2)))
    assert figures["rmse"] < 0.85 * figures["rmse_constant"]
    mean = trainer.predict(ratings.public.test_features) @ np.arange(1, 6)
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((mean - rated) ** 2)), rel=1e-5)
    assert trainer.evaluate() > np.bincount(rated).max() / len(rated)
    assert 1 <= figures["mean_top_k_stage_2"] <= 5


def test_identifiers_are_not_numbers_and_classes_of_ratings_are(ratings: LabelledData) -> None:
    data, given = ratings.public, (ratings.public, SeededVault(ratings.train_labels, 5))
    with pytest.raises(ValueError, match=r"classes of digits are named None.*method=lp_mst"):
        stars_of(digits(train=50)[0])
    with pytest.raises(ValueError, match=r"named \('bad'.*numeric names"):
        stars_of(replace(data, class_names=("bad", "poor", "fair", "good", "great")))
    clusters = PriorSettings(source=PriorSource.CLUSTERS)
    refused: dict[str, Any] = {
        "model is mlp, but the features are identifiers": AlibiConfig(),
        "nothing halfway between two names: set mixup=0": replace(RATINGS, mixup=4.0),
        r"movielens_1m holds identifiers.*convex can't use them": ConvexConfig(),
        r"identifiers.*a prior from clusters can't use them": replace(RATINGS, prior=clusters),
    }
    for message, config in refused.items():
        with pytest.raises(ValueError, match=message):
            trained(config, given, epochs=0)
    with pytest.raises(ValueError, match="set later_mixup=0"):  # before the first stage is paid
        replace(RATINGS, later_mixup=4.0).check_data(data)
    with pytest.raises(ValueError, match=r"identifiers.*data\.features=patches"):
        described_by_features(data)
    with pytest.raises(ValueError, match=r"row 1 is \[2, -1\]; .* count from 0"):
        replace(data, train_features=torch.tensor([[0, 0], [2, -1]]))

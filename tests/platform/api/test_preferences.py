"""Rewards from secret preferences, as users call them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import labeldp
from labeldp import LabelPrivatePreferences

GENERATOR = np.random.default_rng(0)
A, B = GENERATOR.normal(size=(2, 9000, 16))
SLOPES = 3 * GENERATOR.normal(size=16) / 4
PREFERS = GENERATOR.random(9000) < expit((A - B) @ SLOPES)
TRAIN, TEST = slice(0, 6000), slice(6000, None)
#: Of the true reward: .87 on the test pairs.
BEST = float(np.mean(((A - B)[TEST] @ SLOPES > 0) == PREFERS[TEST]))


def agreement(model: LabelPrivatePreferences) -> float:
    return float(np.mean(model.predict(A[TEST], B[TEST]) == PREFERS[TEST]))


@pytest.mark.parametrize(
    ("epsilon", "delta", "method", "missed"),
    [
        (0.2, 1e-6, "sums", 0.04),
        (0.2, 0.0, "counts", 0.06),
        (2.0, 0.0, "randomized_response", 0.03),
    ],
)
def test_a_reward_agrees_with_preferences(
    epsilon: float, delta: float, method: str, missed: float
) -> None:
    model = LabelPrivatePreferences(epsilon=epsilon, delta=delta)
    model.fit(A[TRAIN], B[TRAIN], PREFERS[TRAIN])
    assert model.method_ == method and agreement(model) > BEST - missed
    assert model.epsilon_ == pytest.approx(epsilon, rel=1e-6) and model.delta_ == delta
    assert "for each of 6,000 pairs" in str(model.ledger_[0])
    assert model.guarantee_.startswith("label differential privacy")
    found, swapped = model.predict_proba(A, B), model.predict_proba(B, A)
    assert (found[:, 0] + swapped[:, 0] == 1).all() and (found == swapped[:, ::-1]).all()
    assert np.array_equal(found[:, 0] > 0.5, model.score(A) > model.score(B))
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.score(A), model.score(A))


def test_a_reward_may_be_curved() -> None:
    a, b = GENERATOR.normal(size=(2, 8000, 2))
    nearer = np.abs(a).sum(1) < np.abs(b).sum(1)
    model = LabelPrivatePreferences(epsilon=2.0, delta=1e-6).fit(a[:6000], b[:6000], nearer[:6000])
    assert np.mean(model.predict(a[6000:], b[6000:]) == nearer[6000:]) > 0.9


def test_tables_have_two_sides_with_categories_and_swapped_pairs_pay_twice() -> None:
    kinds = GENERATOR.choice(["plain", "good"], size=(2, 3000))
    sides = [pd.DataFrame({"kind": kind, "length": GENERATOR.normal(size=3000)}) for kind in kinds]
    prefers = (kinds[0] == "good").astype(int) > (kinds[1] == "good").astype(int)
    kept = kinds[0] != kinds[1]
    a, b = (side[kept] for side in sides)
    model = LabelPrivatePreferences(epsilon=1.0).fit(a, b, prefers[kept])
    assert np.mean(model.predict(a, b) == prefers[kept]) > 0.95
    assert list(model.feature_names_in_) == ["kind", "length"]
    with pytest.warns(labeldp.PrivacyAddsUp):
        other = LabelPrivatePreferences(epsilon=1.0).fit(b, a, ~prefers[kept])
    assert other.total_epsilon_ == pytest.approx(2.0)


def test_sides_may_be_texts_or_lists() -> None:
    words = np.array(["kind", "rude", *(f"word{number}" for number in range(20))])
    a, b = (
        [" ".join(words[chosen]) for chosen in GENERATOR.integers(len(words), size=(2000, 5))]
        for _ in "ab"
    )
    kinder = np.array([x.count("kind") > y.count("kind") for x, y in zip(a, b, strict=True)])
    model = LabelPrivatePreferences(epsilon=4.0).fit(a, b, kinder)
    assert model.score(["so kind of you"]) > model.score(["how rude of you"])
    numbers = A[:50].tolist(), B[:50].tolist()
    assert len(LabelPrivatePreferences().fit(*numbers, PREFERS[:50]).predict(*numbers)) == 50


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_an_annotator_is_protected_with_all_choices(delta: float) -> None:
    annotators = np.arange(6000) // 10
    model = LabelPrivatePreferences(epsilon=3.0, delta=delta)
    model.fit(A[TRAIN], B[TRAIN], PREFERS[TRAIN], groups=annotators)
    assert "for each of 600 persons" in str(model.ledger_[0])
    assert "for all pairs of a person together" in model.guarantee_
    assert model.epsilon_ <= 3.0 and agreement(model) > BEST - 0.15


def test_attacks_by_canaries_find_no_more_than_is_paid() -> None:
    model = LabelPrivatePreferences(epsilon=1.0, canaries=200)
    model.fit(A[TRAIN], B[TRAIN], PREFERS[TRAIN])
    assert model.audit_["spoiled_labels"] == 400 and agreement(model) > BEST - 0.06
    assert model.private_["epsilon_m_low"] <= 1.0 < model.audit_["epsilon_one_run_ceiling"]
    assert model.private_["private/training_accuracy"] > 0.7


def test_what_is_wrong_is_refused_before_it_is_paid() -> None:
    vault = labeldp.SharedVault()
    model = LabelPrivatePreferences(epsilon=1.0, vault=vault)
    a = A[:50]
    b = B[:50]
    chosen = PREFERS[:50].astype(int)
    for wrong, match in (
        ((a, b[:, :3], chosen), "same columns"),
        ((a, b, np.where(np.arange(50) == 7, 2, chosen)), "row 7"),
        ((a, b[:40], chosen), "same pairs"),
        ((a[0], b[0], chosen), "dense"),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(*wrong)
    with pytest.raises(ValueError, match="delta is 0, and sums have Gaussian noise"):
        LabelPrivatePreferences(method="sums", vault=vault).fit(a, b, chosen)
    with pytest.raises(ValueError, match="prove nothing of annotators"):
        LabelPrivatePreferences(canaries=5, vault=vault).fit(a, b, chosen, groups=chosen)
    assert vault.epsilon() == 0.0


def test_choices_for_other_trainers_come_with_their_flip_probability() -> None:
    release = labeldp.privatize(PREFERS, epsilon=1.0, task="preference")
    assert release.flip_probability == pytest.approx(1 / (1 + np.e))
    assert release.epsilon == 1.0 and set(release.values.tolist()) == {0, 1}
    wrong = float(np.mean(release.values != PREFERS))
    assert wrong == pytest.approx(release.flip_probability, abs=0.025)
    with pytest.raises(ValueError, match="choices have a value"):
        labeldp.privatize(["a", "b"], epsilon=1.0, task="preference")

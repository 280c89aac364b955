"""Rewards from secret preferences, as users call them."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import labeldp
from labeldp import LabelPrivatePreferences
from labeldp.platform.api import two_parties
from tests.platform.api.asked import refused, released
from tests.platform.cli.asked import answer as ran
from tests.platform.cli.asked import refusal, words

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


def test_a_ledger_of_preferences_counts_pairs() -> None:
    model = LabelPrivatePreferences(epsilon=1.0, vault="vault").fit(A[:50], B[:50], PREFERS[:50])
    assert "a guess of a choice at even odds" in model.guarantee_
    assert "epsilon 1 for each of 50 pairs" in words("ledger", "vault")


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
    named = pd.Series(a, name="answer_a")
    model = LabelPrivatePreferences(epsilon=4.0).fit(named, b, kinder)
    assert model.score(["so kind of you"]) > model.score(["how rude of you"])
    numbers = A[:50].tolist(), B[:50].tolist()
    assert len(LabelPrivatePreferences().fit(*numbers, PREFERS[:50]).predict(*numbers)) == 50


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_an_annotator_is_protected_with_all_choices(delta: float) -> None:
    annotators = np.arange(6000) // 10
    model = LabelPrivatePreferences(epsilon=3.0, delta=delta)
    model.fit(A[TRAIN], B[TRAIN], PREFERS[TRAIN], groups=annotators)
    assert "for each of 600 persons" in str(model.ledger_[0])
    assert "for all choices of a person together" in model.guarantee_
    assert model.epsilon_ <= 3.0 and agreement(model) > BEST - 0.15


def test_attacks_by_canaries_find_no_more_than_is_paid() -> None:
    model = LabelPrivatePreferences(epsilon=1.0, canaries=200)
    model.fit(A[TRAIN], B[TRAIN], PREFERS[TRAIN])
    assert model.audit_["spoiled_labels"] == 200 and agreement(model) > BEST - 0.06
    assert model.private_["epsilon_m_low"] <= 1.0 < model.audit_["epsilon_one_run_ceiling"]
    assert model.private_["private/training_accuracy"] > 0.7


def test_what_is_wrong_is_refused_before_it_is_paid() -> None:
    model = LabelPrivatePreferences(epsilon=1.0)
    a = A[:50]
    b = B[:50]
    chosen = PREFERS[:50].astype(int)
    for wrong, match in (
        ((a, b[:, :3], chosen), "same columns"),
        ((a, b, np.where(np.arange(50) == 7, 2, chosen)), "row 7"),
        ((a, b[:40], chosen), "same pairs"),
        ((a[0], b[0], chosen), "dense"),
    ):
        refused(model, *wrong, says=match)
    sums = LabelPrivatePreferences(method="sums")
    refused(sums, a, b, chosen, says="delta is 0, and sums have Gaussian noise")
    audited = LabelPrivatePreferences(canaries=5)
    refused(audited, a, b, chosen, groups=chosen, says="replace single choices, which prove")


def test_choices_for_other_trainers_come_with_their_flip_probability() -> None:
    release = labeldp.privatize(PREFERS, epsilon=1.0, task="preference")
    assert release.flip_probability == pytest.approx(1 / (1 + np.e))
    assert release.epsilon == 1.0 and set(release.values.tolist()) == {0, 1}
    wrong = float(np.mean(release.values != PREFERS))
    assert wrong == pytest.approx(release.flip_probability, abs=0.025)
    as_objects = PREFERS.astype(object)
    assert labeldp.privatize(as_objects, epsilon=300.0, task="preference").values.sum() == sum(
        PREFERS
    )
    for bad, row in ((["a", "b"], 0), ([True, False, 2], 2), ([1, 0, None], 2)):
        with pytest.raises(ValueError, match=rf"choices have a value .* \(row {row}\)"):
            labeldp.privatize(bad, epsilon=1.0, task="preference")


def write_pairs() -> None:
    """Write pairs for one party, and choices for another one, in another order."""
    pairs = pd.DataFrame({"pair": np.arange(6000)})
    for name, side in (("a", A), ("b", B)):
        for column in range(16):
            pairs[f"{name}_x{column}"] = side[TRAIN, column]
    pairs.to_parquet("pairs.parquet")
    choices = pd.DataFrame({"pair": np.arange(6000), "prefers_a": PREFERS[TRAIN]})
    choices["annotator"] = np.arange(6000) // 3
    choices.sample(frac=1, random_state=0).to_csv("choices.csv", index=False)


@pytest.mark.parametrize(
    ("method", "epsilon", "persons", "missed"),
    [
        ("moments", "0.3", False, 0.04),
        ("moments", "1", True, 0.04),
        ("randomized_response", "2", False, 0.04),
    ],
)
def test_pairs_with_one_party_and_choices_with_another_give_a_reward(
    method: str, epsilon: str, persons: bool, missed: float
) -> None:
    write_pairs()
    asked = f"request pairs.parquet --id-column pair --pairs --classes True,False --method {method}"
    ran(*asked.split(), "--epsilon", epsilon, "-o", "request")
    given = "release choices.csv --id-column pair --label-column prefers_a --request request"
    given += " --person-column annotator" if persons else ""
    told = words(*given.split(), "--epsilon", epsilon, "-o", "release")
    unit = "person" if persons else "pair"
    assert f"epsilon {epsilon}" in told and f"for each {unit}" in told
    who = "2,000 persons" if persons else "6,000 pairs"
    assert f"for each of {who}" in words("ledger", "choices.vault")
    found = ran("fit", "pairs.parquet", "--release", "release", "-o", "model")
    assert found["estimator"] == "a reward" and found["epsilon"] == pytest.approx(float(epsilon))
    for name, side in (("a", A), ("b", B)):
        rows = pd.DataFrame(side[TEST], columns=[f"x{column}" for column in range(16)])
        rows.to_parquet(f"{name}.parquet")
        ran("predict", "model", f"{name}.parquet", "-o", f"{name}.csv")
    of_a, of_b = (pd.read_csv(f"{name}.csv")["prediction"] for name in "ab")
    assert np.mean((of_a > of_b) == PREFERS[TEST]) > BEST - missed


def test_pairs_of_texts_and_what_is_refused() -> None:
    words_ = np.array(["kind", "rude", *(f"word{number}" for number in range(20))])
    chosen = GENERATOR.integers(len(words_), size=(2, 1500, 5))
    texts = [[" ".join(each) for each in words_[side]] for side in chosen]
    pairs = pd.DataFrame({"id": range(1500), "a": texts[0], "b": texts[1]})
    kinder = (chosen[0] == 0).sum(1) > (chosen[1] == 0).sum(1)
    choices = pd.DataFrame({"id": range(1500), "bought": kinder.astype(int)})
    asked: dict[str, Any] = {"id_column": "id", "classes": ["1", "0"], "epsilon": 4.0}
    asked["pairs"] = True
    for changes, why in (
        ({"method": "subset"}, "moments, randomized_response"),
        ({"classes": ["left", "right"]}, "whether a is preferred"),
        ({"features": pairs.assign(prompt="x")}, "prompt; beside id"),
        ({"features": pairs.drop(columns="b")}, "id, a; beside id"),
    ):
        wrong = {"features": pairs, "method": "moments", **asked, **changes}
        with pytest.raises(ValueError, match=why):
            two_parties.write_request(to="no", **wrong)
    release = released(pairs, choices, method="moments", **asked)
    model = two_parties.fit_release(pairs, [release])
    kind, rude = model.predict(pd.DataFrame({"text": ["so kind of you", "how rude of you"]}))
    assert kind > rude
    with pytest.raises(ValueError, match="its sums are of other rows"):
        two_parties.fit_release(pairs.assign(a=pairs["b"], b=pairs["a"]), [release])
    with pytest.raises(ValueError, match="a reward, no classifier"):
        labeldp.LabelPrivateClassifier().fit_release(pairs, release)
    pairs.to_csv("pairs.csv", index=False)
    told = ("--release", "r", "--estimator", "logistic", "-o", "no")
    assert "without another estimator" in refusal("fit", "pairs.csv", *told)

"""audits: fair coins on free examples, figures against known epsilons, and no label gets out."""

import hmac
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labeldp.mechanisms.accounting import (
    DecisionEvent,
    GaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    RenyiEvent,
)
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.auditing import (
    CoinCanaries,
    GaussianCurve,
    PureCurve,
    RandomizedResponseCurve,
    candidate_scores,
    memorization_interval,
    one_run_audit,
    one_run_ceiling,
)
from labeldp.mechanisms.guess_risk import guess_rise
from labeldp.mechanisms.label_channels import PerLabel
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.randomized_response import BitFlip, NoNoise, RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy, SeededNoise
from labeldp.mechanisms.release_store import Charge, MemoryStore
from labeldp.mechanisms.vault import LabelVault
from labeldp.platform.settings.configuration import AuditSettings
from labeldp.platform.vault.audits import (
    OwnRelease,
    PlantedCanaries,
    check_room,
    curve_of,
    own_release,
    release_figures,
)
from labeldp.platform.vault.label_home import LabelHome, SecretLabels
from tests.mechanisms.test_ledger import line
from tests.platform.vault.homes import DRIVER, home_settings

LABELS = np.random.default_rng(1).integers(10, size=4000)
HUNDREDS = AuditSettings(canaries=100, coin_canaries=100)
NO_ATTACK = {
    "epsilon_m_low": 0.0,
    "epsilon_m_high": math.inf,
    "epsilon_m_ceiling": 0.0,
    "epsilon_m_paper_low": 0.0,
    "epsilon_m_paper_high": math.inf,
}


def planted(
    labels: Any = LABELS, num_classes: int = 10, secret: bytes = b"a secret", **settings: Any
) -> PlantedCanaries:
    audit = AuditSettings(**{"canaries": 100, "coin_canaries": 100, **settings})
    return PlantedCanaries.draw(labels, num_classes=num_classes, settings=audit, secret=secret)


def audited(
    canaries: PlantedCanaries, confidences: NDArray[Any], epsilon: float = math.inf, **extra: Any
) -> dict[str, float]:
    settings = {"confidence": 0.95, "delta": 0.0, "curve": None, **extra}
    return canaries.audit(confidences, epsilon=epsilon, **settings)[0]


def confident_in(labels: NDArray[np.int64], num_classes: int, mass: float) -> NDArray[np.float64]:
    rows = np.full((len(labels), num_classes), (1 - mass) / (num_classes - 1))
    rows[np.arange(len(labels)), labels] = mass
    return rows


def start(folder: Path | None, *, labels: NDArray[np.int64] = LABELS, **extra: Any) -> LabelHome:
    secrets = SecretLabels(training=labels, num_classes=10)
    return LabelHome(secrets, **home_settings(folder, **{"audit": HUNDREDS, **extra}))


def test_coins_are_fair_and_tell_nothing_about_anything_public() -> None:
    """Pooled over 200 secrets: chi-square values that would exceed the bounds once in 10,000."""
    sides = np.zeros((2, 2))  # by which candidate is the smaller label
    hits = np.zeros(len(LABELS))
    for number in range(200):
        drawn = planted(secret=b"%d" % number).coins
        assert drawn is not None
        smaller = (drawn.candidates[:, 0] < drawn.candidates[:, 1]).astype(int)
        np.add.at(sides, (smaller, drawn.coins), 1)
        hits[drawn.positions] += 1
    total = sides.sum()
    assert total == 20_000
    heads = sides.sum(axis=0)
    assert ((heads - total / 2) ** 2 / (total / 2)).sum() < 15.1
    expected = np.outer(sides.sum(axis=1), heads) / total
    assert ((sides - expected) ** 2 / expected).sum() < 15.1
    mislabeled = planted().mislabeled
    assert mislabeled is not None
    free = np.setdiff1d(np.arange(len(LABELS)), mislabeled.positions)
    assert hits[free].sum() == total
    spread = ((hits[free] - total / len(free)) ** 2 / (total / len(free))).sum()
    assert abs(spread - len(free)) < 5 * math.sqrt(2 * len(free))


def test_the_secret_decides_the_coins_and_the_published_canaries_stay() -> None:
    first, again, other = planted(), planted(), planted(secret=b"another secret")
    assert first.coins is not None and again.coins is not None and other.coins is not None
    assert (first.coins.coins == again.coins.coins).all()
    assert (first.coins.positions == again.coins.positions).all()
    assert (first.coins.positions != other.coins.positions).any()
    assert first.mislabeled is not None and other.mislabeled is not None
    assert (first.mislabeled.positions == other.mislabeled.positions).all()
    assert (first.positions[:100] != planted(canary_seed=5).positions[:100]).any()
    without = planted(coin_canaries=0)
    assert without.coins is None and len(without.positions) == 100
    # Blocks share no canary.
    blocks = [planted(canaries=30, coin_canaries=0, canary_block=block) for block in range(10)]
    assert len(np.unique(np.concatenate([block.positions for block in blocks]))) == 300
    assert (blocks[0].positions == planted(canaries=30, coin_canaries=0).positions).all()


@pytest.mark.parametrize("num_classes", [2, 10])
def test_as_many_are_planted_as_is_settled_where_no_number_is_given(num_classes: int) -> None:
    labels, settings = np.arange(60_000) % num_classes, AuditSettings()
    settled = settings.settled(num_labels=len(labels), num_classes=num_classes)
    drawn = planted(labels, num_classes=num_classes, canaries=None, coin_canaries=None)
    assert len(drawn.positions) == settled.spoiled > 0
    assert (drawn.mislabeled is None) == (settled.canaries == 0)


def test_coins_are_tossed_in_a_stream_of_their_own() -> None:
    """Places and candidates are public, and with them the state that their stream had."""

    def stream(name: bytes) -> list[int]:
        digest = hmac.digest(b"a secret", b"coin canaries: " + name, "sha256")
        generator = np.random.default_rng(int.from_bytes(digest, "big"))
        return [int(coin) for coin in generator.integers(2, size=300)]

    # Another set of labels has other candidates, and takes as much of their stream as it likes.
    for labels in (LABELS, np.random.default_rng(2).integers(10, size=6000)):
        coins = planted(labels, coin_canaries=300).coins
        assert coins is not None
        assert coins.coins.tolist() == stream(b"coins") != stream(b"places")


def test_a_model_that_remembers_everything_reaches_the_ceiling() -> None:
    canaries = planted(canaries=200, coin_canaries=200)
    labels = canaries.plant(LABELS)[canaries.positions]
    remembered = confident_in(labels, 10, 0.99)
    found = audited(canaries, remembered, curve=PureCurve())
    evidence = canaries.audit(remembered, confidence=0.95, epsilon=1.0, delta=0.0, curve=None)[1]
    assert (evidence.own[:, None] > evidence.others).all()
    ceiling = one_run_ceiling(canaries=200)
    assert found["epsilon_one_run_ceiling"] == ceiling == found["epsilon_m_ceiling"]
    paid = one_run_ceiling(canaries=200, confidence=1 - 0.05 / 4)
    assert found["private/epsilon_one_run"] == pytest.approx(paid)
    assert found["private/epsilon_f_dp"] == pytest.approx(paid, abs=0.05)
    assert found["epsilon_f_dp_ceiling"] == pytest.approx(ceiling, abs=0.05)
    assert found["private/one_run_correct"] == found["private/one_run_guesses"] == 200
    assert found["private/label_inference_accuracy"] == 1.0
    assert found["private/label_inference_advantage"] == pytest.approx(1 - 1 / 9)
    assert found["label_inference_bound"] == pytest.approx(1 - 1 / 9)
    attack = memorization_interval(remembered[:200], labels[:200], LABELS[canaries.positions[:200]])
    assert found["epsilon_m_low"] == attack.corrected.epsilon_low
    assert found["epsilon_m_high"] == attack.corrected.epsilon_high
    assert found["epsilon_m_paper_low"] == attack.paper.epsilon_low
    assert found["epsilon_m_paper_high"] == attack.paper.epsilon_high
    # A model that knows nothing proves nothing, nor does one that knows the right labels only.
    for rows in (np.full((400, 10), 0.1), confident_in(LABELS[canaries.positions], 10, 0.999)):
        nothing = audited(canaries, rows, 1.0, curve=GaussianCurve(delta=1e-5), delta=1e-5)
        assert nothing["private/epsilon_one_run"] == nothing["private/epsilon_f_dp"] == 0
        assert nothing["epsilon_m_low"] == 0
    # Told what labels are not, an attacker is not misled by what the model thinks of those.
    misled = 0.3 * np.eye(10)[labels] + 0.6 * np.eye(10)[LABELS[canaries.positions]] + 0.01
    assert audited(canaries, misled)["private/label_inference_accuracy"] == 1.0


def test_two_classes_are_audited_by_coins_alone() -> None:
    labels = LABELS % 2
    canaries = planted(labels, num_classes=2)
    assert canaries.coins is not None
    remembered = confident_in(canaries.plant(labels)[canaries.positions], 2, 0.9)
    found = audited(canaries, remembered, 3.0)
    assert found["epsilon_m_low"] == found["epsilon_m_ceiling"] == 0
    assert found["epsilon_m_high"] == math.inf
    assert found["private/epsilon_one_run"] > 2.5
    assert found["private/label_inference_advantage"] == 0.5
    assert found["label_inference_bound"] == pytest.approx(1 / (1 + math.exp(-3)) - 0.5)
    without = audited(planted(labels, num_classes=2, coin_canaries=0), remembered[:100], 3.0)
    assert "private/epsilon_one_run" not in without
    assert "private/label_inference_advantage" not in without


def test_coins_alone_and_nothing_at_all() -> None:
    canaries = planted(canaries=0)
    assert canaries.coins is not None
    labels = canaries.plant(LABELS)[canaries.positions]
    # The planted label is preferred to the other side of the coin; a third is preferred to both.
    third = np.array([np.setdiff1d(np.arange(10), two)[0] for two in canaries.coins.candidates])
    rows = 0.3 * np.eye(10)[labels] + 0.6 * np.eye(10)[third] + 0.01
    figures, evidence = canaries.audit(rows, confidence=0.95, epsilon=3.0, delta=0.0, curve=None)
    assert {name: figures[name] for name in NO_ATTACK} == NO_ATTACK
    assert figures["private/label_inference_accuracy"] == 1.0
    assert figures["private/label_inference_advantage"] == 0.5
    assert figures["label_inference_bound"] == guess_rise(1 / 2, epsilon=3.0)
    assert evidence.own.shape == (0,) and evidence.others.shape == (0, 8)
    nothing = planted(canaries=0, coin_canaries=0)
    empty = np.empty((0, 10))
    figures, evidence = nothing.audit(empty, confidence=0.95, epsilon=3.0, delta=0.0, curve=None)
    assert figures == NO_ATTACK
    assert all(not part.size for part in vars(evidence).values())


@pytest.mark.parametrize("num_classes", [3, 10])
def test_wrong_labels_are_inferred_from_the_memorization_canaries(num_classes: int) -> None:
    labels = LABELS % num_classes
    canaries = planted(labels, num_classes=num_classes)
    rows = np.full((200, num_classes), 1 / num_classes)
    rows[:100] = confident_in(canaries.plant(labels)[canaries.positions[:100]], num_classes, 0.9)
    evidence = canaries.audit(rows, confidence=0.95, epsilon=1.0, delta=0.0, curve=None)[1]
    assert evidence.own.min() == evidence.own.max() == 0.9
    assert audited(canaries, rows)["private/label_inference_accuracy"] == 1.0


def test_every_bound_is_stated_at_the_confidence_and_delta_that_were_requested() -> None:
    canaries = planted()
    assert canaries.coins is not None and canaries.mislabeled is not None
    rows = confident_in(canaries.plant(LABELS)[canaries.positions], 10, 0.9)
    found = audited(canaries, rows, 1.0, confidence=0.8, delta=0.01)
    wrong = canaries.mislabeled
    attack = memorization_interval(rows[:100], wrong.labels, wrong.true_labels, 0.8)
    assert found["epsilon_m_ceiling"] == attack.ceiling
    scores = candidate_scores(rows[100:], canaries.coins.candidates)
    one_run = one_run_audit(scores, canaries.coins.coins, delta=0.01, confidence=0.8)
    assert found["epsilon_one_run_ceiling"] == one_run.ceiling
    bound = guess_rise(1 / 9, epsilon=1.0, delta=0.01)
    assert found["label_inference_bound"] == bound


def test_curves_of_releases() -> None:
    def charge(event: Any, name: str, failing: float = 0.0) -> Charge:
        return replace(line(event, failing), mechanism={"name": name, "num_classes": 10})

    pure, gaussian = PureEvent(epsilon=1.0), GaussianEvent(noise_multiplier=2.0)
    other = RenyiEvent(orders=(2.0, 3.0), rdp=(1.0, 1.0))
    rr = charge(RandomizedResponseEvent(epsilon=1.0, num_classes=10), "OfAnyName")
    assert curve_of([rr], delta=0.0) == RandomizedResponseCurve(num_classes=10)
    assert curve_of([rr, rr], delta=0.0) == PureCurve()
    for name in ("LaplaceNoise", "RandomizedResponse"):  # names decide nothing
        assert curve_of([charge(pure, name)], delta=0.0) == PureCurve()
    normal = charge(gaussian, "GaussianNoise")
    assert curve_of([normal, normal], delta=1e-6) == GaussianCurve(delta=1e-6)
    assert curve_of([normal, charge(gaussian, "GaussianNoise", 1e-8)], delta=1e-6) is None
    assert curve_of([normal, rr], delta=1e-6) is None
    assert curve_of([charge(other, "PateAnswers")], delta=1e-5) is None
    assert curve_of([], delta=1e-5) is None
    # Decisions cost less than the Gaussian that their counts are, and are none.
    decided = DecisionEvent(noise_multiplier=2.0, orders=(2.0, 3.0), rdp=(0.1, 0.2))
    assert curve_of([charge(decided, "PateAnswers")], delta=1e-5) is None
    assert curve_of([normal, charge(decided, "PateAnswers")], delta=1e-5) is None


CLASSES = 4
FEW = np.random.default_rng(0).integers(CLASSES, size=600)
LOCAL: list[PerLabel] = [
    LaplaceNoise(epsilon=2.0, num_classes=CLASSES),
    GaussianNoise(noise_std=2.0, num_classes=CLASSES),
    RandomizedResponse(epsilon=2.0, num_classes=CLASSES),
    BitFlip(epsilon=2.0, num_classes=CLASSES),
]


def vault_of(store: MemoryStore) -> LabelVault:
    return LabelVault(labels=FEW, num_classes=CLASSES, store=store)


def found_in(store: MemoryStore, training: int = len(FEW)) -> OwnRelease | None:
    return own_release(store.charges(), store=store, training=training)


@pytest.mark.parametrize("mechanism", LOCAL, ids=lambda mechanism: type(mechanism).__name__)
def test_one_release_of_all_labels_to_train_on_is_found(mechanism: PerLabel) -> None:
    store, rows = MemoryStore(), np.arange(len(FEW))
    release = vault_of(store).release(mechanism, noise=SeededNoise(seed=1))
    found = found_in(store)
    assert found is not None and found[0] == mechanism and (found[1] == release.values).all()
    # Held-out labels do not hide it.
    beside = MemoryStore()
    held_out = RandomizedResponse(epsilon=1.0, num_classes=CLASSES)
    vault_of(beside).release(held_out, indices=rows[500:])
    assert found_in(beside, 500) is None  # nothing was released of the labels to train on
    vault_of(beside).release(mechanism, indices=rows[:500])
    found = found_in(beside, 500)
    assert found is not None and len(found[1]) == 500


def test_two_releases_some_labels_and_other_mechanisms_are_not_audited_so() -> None:
    twice, some, sums, plain = MemoryStore(), MemoryStore(), MemoryStore(), MemoryStore()
    for noise in (1, 2):
        vault_of(twice).release(LOCAL[0], noise=SeededNoise(seed=noise))
    vault_of(some).release(LOCAL[0], indices=np.arange(300))
    weights = np.eye(3)[FEW % 3]
    vault_of(sums).release(LabelMoments(noise_std=1.0, num_classes=CLASSES), weights)
    vault_of(plain).release(NoNoise(num_classes=CLASSES))
    assert all(found_in(store) is None for store in (twice, some, sums, plain, MemoryStore()))


@pytest.mark.parametrize(
    "change",
    [
        {"patient": 4711.0},
        {"num_classes": "4"},
        {"epsilon": 1.0},  # of a class by our name and fields, at another price than ours
        {"name": "Release"},  # one of our names, of no mechanism
        {"name": "TheirNoise"},  # none of our names
    ],
)
def test_a_class_with_our_name_is_not_audited_as_ours(change: dict[str, Any]) -> None:
    store = MemoryStore()
    vault_of(store).release(LOCAL[0])
    (charge,) = store.charges()
    strange = replace(charge, mechanism={**charge.mechanism, **change})
    assert own_release([strange], store=store, training=len(FEW)) is None


def test_figures_of_a_model_that_is_the_release_itself() -> None:
    generator = np.random.default_rng(2)
    labels = generator.integers(CLASSES, size=3_000)
    coins = CoinCanaries.draw(labels, num_classes=CLASSES, num_canaries=3_000, generator=generator)
    mechanism = LaplaceNoise(epsilon=2.0, num_classes=CLASSES)
    values = mechanism.release(coins.plant(labels), generator=generator)
    rows: NDArray[Any] = np.take_along_axis(values[coins.positions], coins.candidates, axis=1)
    scores = rows[:, 0] - rows[:, 1]
    figures = release_figures((mechanism, values), scores, coins, delta=0.0, confidence=0.95)
    assert figures["private/release_guesses"] == 1_500
    assert 1.5 < figures["private/epsilon_release"] < 2.0
    # The model's attacker pays for trying four numbers of guesses.
    assert 1.5 < figures["private/epsilon_tight"] < 2.0
    assert figures["private/epsilon_release_one_run"] < figures["private/epsilon_release"]
    assert all(math.isfinite(value) for value in figures.values())


def test_trials_get_positions_and_no_label_and_no_figure(tmp_path: Path) -> None:
    home = start(tmp_path)
    positions = home.canary_positions()
    mechanism = RandomizedResponse(epsilon=1.0, num_classes=10)
    release = home.release(mechanism, (), None, OsEntropy())
    rows = confident_in(release.values[positions], 10, 0.9)
    trial = "0123456789abcdef"
    home.begin(DRIVER, trial)
    told: Any = home.audit(trial, rows, 0.95, [release.key], 1e-5)  # type: ignore[func-returns-value]
    figures = home.figures(DRIVER, trial, [release.key])
    assert all(type(value) is float for value in figures.values())
    open_figures = {name for name in figures if not name.startswith("private/")}
    assert open_figures == {
        "epsilon_m_low",
        "epsilon_m_high",
        "epsilon_m_ceiling",
        "epsilon_m_paper_low",
        "epsilon_m_paper_high",
        "epsilon_one_run_ceiling",
        "epsilon_f_dp_ceiling",
        "epsilon_tight_ceiling",
        "epsilon_release_ceiling",
        "label_inference_bound",
    }
    # What a trial receives holds neither the planted labels, nor the true ones, nor the coins.
    assert told is None
    sent = pickle.dumps((positions, figures))
    truth = home._canaries
    assert truth.coins is not None and truth.mislabeled is not None
    secrets = [truth.mislabeled.labels, truth.mislabeled.true_labels, truth.coins.labels]
    secrets += [truth.coins.candidates, truth.coins.coins, LABELS[positions]]
    assert not any(secret.astype(np.int64).tobytes() in sent for secret in secrets)
    # Positions alone do not depend on the labels that sit there, for who has the secret as well.
    shuffled = planted(np.random.default_rng(9).permutation(LABELS))
    assert (shuffled.positions == planted().positions).all()


def test_more_canaries_than_examples_are_refused() -> None:
    check_room(HUNDREDS, num_labels=200)
    with pytest.raises(ValueError, match=r"canaries is 100.*199 training examples.*at most 199"):
        check_room(HUNDREDS, num_labels=199)
    with pytest.raises(ValueError, match="at most 150"):
        planted(LABELS[:150])


def test_confidences_are_checked() -> None:
    canaries = planted()
    with pytest.raises(ValueError, match="199 rows for 200 canaries"):
        audited(canaries, np.full((199, 10), 0.1))
    with pytest.raises(ValueError, match=r"must be \[N, 10\]"):
        audited(canaries, np.full((200, 9), 1 / 9))
    rows = np.full((200, 10), 0.1)
    rows[7, 0] = math.nan
    with pytest.raises(ValueError, match="confidences row 7"):
        audited(canaries, rows)

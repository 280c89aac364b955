"""Published costs: smoothness under moved votes, releases that hold, rules that see no votes."""

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate.published_bounds import (
    log_probability_answered,
    log_q_gaussian,
    rdp_gnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.published_cost import (
    TAIL_SHARE,
    ReleaseNoise,
    SanitizedEpsilon,
    log_smooth_sensitivity,
    public_order,
    public_rule,
    release_epsilon,
    smooth_sensitivity,
)
from labeldp.mechanisms.pate.sensitivity import BoundedPrices, ConditionsFailed, ExactPrices
from tests.shared_material import shared_path

Array = np.ndarray[Any, Any]
TEACHERS, CLASSES = 60, 4
SETTING: dict[str, Any] = {"noise_std": 10.0, "threshold": 35.0, "sigma1": 8.0}
ORDER = 6.0


def random_votes(seed: int, num_queries: int = 40) -> Array:
    random = np.random.default_rng(seed)
    shares = random.dirichlet([0.2] * CLASSES, size=num_queries)
    return random.multinomial(TEACHERS, shares)


def move_a_vote_of_every_query(votes: Array, random: np.random.Generator) -> Array:
    moved = votes.copy()
    for row in moved:
        row[random.choice(np.flatnonzero(row))] -= 1
        row[random.integers(CLASSES)] += 1
    return moved


PRICES = BoundedPrices(num_teachers=TEACHERS, num_classes=CLASSES, order=ORDER, **SETTING)


def secret_cost(votes: Array, answered: Array) -> tuple[float, Array]:
    return PRICES.cost(votes, votes, answered=answered)


def release(votes: Array, seed: int = 0, **changes: Any) -> SanitizedEpsilon:
    arguments = {**SETTING, "delta": 1e-5, "order": ORDER, **changes}
    return release_epsilon(votes, **arguments, generator=np.random.default_rng(seed))


def test_official_smooth_sensitivities() -> None:
    golden = json.loads(shared_path("oracle", "pate", "smooth_sensitivity.json").read_text())
    with np.load(shared_path("oracle", "pate", "local_sensitivity_arrays.npz")) as arrays:
        for row in (*golden["gnmax"], *golden["threshold"]):
            if "ls_key" in row:
                for beta, expected in zip(row["betas"], row["smooth"], strict=True):
                    ours = smooth_sensitivity(arrays[row["ls_key"]], beta)
                    assert ours == pytest.approx(expected, rel=1e-9, abs=0)


def test_smooth_sensitivity_falls_with_beta_and_never_underflows_in_logs() -> None:
    by_distance = np.array([0.0, 0.0, 1.0, 3.0])
    values = [smooth_sensitivity(by_distance, beta) for beta in (0.0, 0.5, 1.0, 2.0)]
    assert values == pytest.approx([3, 3 * math.exp(-1.5), 3 * math.exp(-3), math.exp(-4)])
    late = np.append(np.zeros(5000), 1e-3)
    assert smooth_sensitivity(late, 1.0) == 0
    assert log_smooth_sensitivity(late, 1.0) == pytest.approx(math.log(1e-3) - 5000)
    assert log_smooth_sensitivity([0.0, 0.0], 1.0) == -math.inf


def test_the_secret_cost_is_the_realised_one() -> None:
    votes = random_votes(1)
    answered = np.arange(len(votes)) % 3 == 0
    log_q = log_q_gaussian(votes, SETTING["noise_std"])
    log_p = log_probability_answered(votes, SETTING["threshold"], SETTING["sigma1"])
    expected = rdp_threshold(log_p, SETTING["sigma1"], [ORDER]).sum()
    expected += rdp_gnmax(log_q[answered], SETTING["noise_std"], [ORDER]).sum()
    cost, sensitivity = secret_cost(votes, answered)
    assert cost == pytest.approx(expected, rel=1e-12)
    assert 0 < cost < PRICES.flat(checked=len(votes), answered=int(answered.sum()))
    assert (np.diff(sensitivity) >= -1e-15).all()
    largest = PRICES.largest_change(checked=len(votes), answered=len(votes))
    assert sensitivity.max() <= largest * (1 + 1e-12)


def test_what_the_release_rests_on_holds_when_every_query_loses_a_vote() -> None:
    random = np.random.default_rng(2)
    moved_at_all = False
    for seed in range(30):
        votes = random_votes(seed)
        answered = random.random(len(votes)) < 0.5
        neighbor = move_a_vote_of_every_query(votes, random)
        here, there = secret_cost(votes, answered), secret_cost(neighbor, answered)
        change = abs(here[0] - there[0])
        moved_at_all |= change > 0.1 * here[1][0]
        for beta in (0.01, 0.1, 1.0):
            logs = [log_smooth_sensitivity(by_distance, beta) for _, by_distance in (here, there)]
            assert change <= math.exp(min(logs)) + 1e-12
            assert abs(logs[0] - logs[1]) <= beta + 1e-12
    assert moved_at_all


def test_a_release_bounds_the_cost_as_often_as_it_says() -> None:
    votes = random_votes(3)
    cost, sensitivity = secret_cost(votes, np.ones(len(votes), dtype=bool))
    noise = ReleaseNoise(beta=0.1, sensitivity_multiplier=3.0, cost_multiplier=0.3)
    smooth = smooth_sensitivity(sensitivity, noise.beta)
    delta, tail, repeats = 0.5, 0.4, 200
    releases = [
        release(votes, seed, delta=delta, tail=tail, noise=noise) for seed in range(repeats)
    ]
    below_cost = np.mean([released.rdp < cost for released in releases])
    below_smooth = np.mean([released.sensitivity_bound < smooth for released in releases])
    # Each is a coin of probability tail / 2; some three standard deviations of 200 draws
    assert below_cost == pytest.approx(tail / 2, abs=0.08)
    assert below_smooth == pytest.approx(tail / 2, abs=0.08)
    safe = [release(votes, seed) for seed in range(50)]
    assert all(released.rdp >= cost for released in safe)
    assert all(
        0 <= released.rdp <= PRICES.flat(checked=len(votes), answered=len(votes))
        for released in safe
    )


def test_published_noise_is_what_was_drawn() -> None:
    votes = random_votes(4, num_queries=1000)
    everything = np.ones(len(votes), dtype=bool)
    cost, sensitivity = secret_cost(votes, everything)
    noise = ReleaseNoise(beta=0.02, sensitivity_multiplier=5.0, cost_multiplier=1.0)
    log_smooth = log_smooth_sensitivity(sensitivity, noise.beta)
    releases = [release(votes, seed, noise=noise, delta=0.5, tail=0.2) for seed in range(200)]
    raised = 1.2815516  # standard deviations of a tail of 0.1
    first = [
        (math.log(one.sensitivity_bound) - log_smooth) / (0.02 * 5.0) - raised for one in releases
    ]
    second = [(one.rdp - cost) / one.noise_std - raised for one in releases]
    for draws in (np.array(first), np.array(second)):
        sorted_draws = np.sort(draws)
        distance = np.abs(ndtr(sorted_draws) - (np.arange(200) + 0.5) / 200).max()
        assert distance < 1.63 / math.sqrt(200)  # Kolmogorov-Smirnov at 1%, seeds are fixed
    assert all(one.noise_std == one.sensitivity_bound * noise.cost_multiplier for one in releases)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.25


def test_epsilon_covers_answers_release_and_tail() -> None:
    released = release(random_votes(5))
    total = released.rdp + released.rdp_release
    expected, _ = epsilon_from_rdp([ORDER], [total], 1e-5 - released.tail)
    assert released.epsilon == pytest.approx(expected, rel=1e-12)
    assert (released.delta, released.order) == (1e-5, ORDER)
    assert released.tail == TAIL_SHARE * 1e-5 == pytest.approx(1e-7)
    mironov = release(random_votes(5), conversion=Conversion.MIRONOV)
    assert mironov.rdp == released.rdp and mironov.epsilon > released.epsilon
    noise = ReleaseNoise(beta=0.1, sensitivity_multiplier=2.0, cost_multiplier=4.0)
    assert noise.rdp(order=8.0) == pytest.approx(8 / (2 * 4) + 8 / (2 * 16))
    # Publishing pays for itself: both draws are in the total.
    paid = release(random_votes(5), noise=noise).rdp_release
    assert paid == pytest.approx(ORDER / (2 * 4) + ORDER / (2 * 16))


def test_queries_without_a_record_are_charged_as_answered() -> None:
    votes = random_votes(6)
    everything, some = np.ones(len(votes), dtype=bool), np.arange(len(votes)) < 10
    assert release(votes) == release(votes, answered=everything)
    assert release(votes, answered=some).epsilon < release(votes).epsilon
    nothing = release(votes, answered=~everything)
    assert 0 <= nothing.rdp <= len(votes) * ORDER / (2 * SETTING["sigma1"] ** 2)
    plain = release(votes, threshold=None, sigma1=None)
    assert plain.epsilon_data_independent < release(votes).epsilon_data_independent


def test_votes_less_a_guess_are_checked_for_interactive_gnmax() -> None:
    votes = random_votes(7)
    fractions = votes - TEACHERS * np.full((len(votes), CLASSES), 1 / CLASSES)
    assert release(votes, check_counts=votes.astype(float)) == release(votes)
    other = release(votes, check_counts=fractions)
    assert other.sensitivity_bound != release(votes).sensitivity_bound


def test_nothing_is_hidden_where_nothing_is_secret() -> None:
    votes = np.array([[20, 0, 0], [8, 7, 5]])
    released = release_epsilon(
        votes,
        noise_std=40.0,
        delta=1e-5,
        order=25.0,
        generator=np.random.default_rng(0),
    )
    assert released.noise_std == released.rdp_release == released.sensitivity_bound == 0
    assert released.rdp == pytest.approx(2 * 25 / 1600)


def test_uncovered_parameters_release_nothing() -> None:
    votes = np.tile([160, *[10] * 9], (5, 1))
    arguments: dict[str, Any] = {"delta": 1e-5, "order": 25.0}
    with pytest.raises(ConditionsFailed, match="C6"):
        release_epsilon(votes, noise_std=20.0, **arguments, generator=np.random.default_rng(0))
    released = release_epsilon(
        votes, noise_std=30.0, **arguments, generator=np.random.default_rng(0)
    )
    assert math.isfinite(released.epsilon)


def test_the_public_rules() -> None:
    def order(**changes: Any) -> float:
        arguments: dict[str, Any] = {"num_queries": 1500, "num_answers": 500}
        arguments |= {"noise_std": 40.0, "delta": 1e-5, **changes}
        return public_order(**arguments)

    assert order() > order(num_answers=1500) > order(num_answers=1500, sigma1=10.0) > 1
    assert order(delta=1e-8) > order()
    assert order(num_answers=10**9) == 1.5
    rough = ReleaseNoise.public(order=8.0, tail=1e-6, sensitivity_guess=1.0)
    fine = ReleaseNoise.public(order=8.0, tail=1e-6, sensitivity_guess=1e-3)
    assert fine.cost_multiplier == pytest.approx(10 * rough.cost_multiplier)
    # The bound on smooth sensitivity lies a public factor above it, whatever the noise
    for noise in (rough, fine):
        deviations = 4.891638  # of a tail of 5e-7
        assert noise.beta * noise.sensitivity_multiplier * deviations == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": None}, "threshold is None and sigma1 is 8.0"),
        ({"delta": 0.0}, "delta is 0.0"),
        ({"tail": 1e-5}, "tail is 1e-05"),
        ({"order": 1.0}, "order is 1.0"),
        ({"noise_std": -1.0}, "noise_std is -1.0"),
        ({"answered": np.ones(3, dtype=bool)}, r"answered has shape \(3,\)"),
        ({"answered": np.ones(40)}, "boolean per query"),
        ({"check_counts": np.ones((3, CLASSES))}, r"check_counts has shape \(3, 4\)"),
        ({"check_counts": np.full((40, CLASSES), 99.0)}, "votes row 0 is 99"),
        (
            {"threshold": None, "sigma1": None, "answered": np.zeros(40, dtype=bool)},
            "without a threshold",
        ),
    ],
)
def test_bad_input_of_a_release(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        release(random_votes(0), **changes)


def test_bad_votes_and_missing_generators_are_refused() -> None:
    with pytest.raises(ValueError, match="row 1 sums to 59"):
        release(np.array([[60, 0, 0, 0], [59, 0, 0, 0]]))
    with pytest.raises(TypeError, match="generator is None"):
        release_epsilon(
            random_votes(0),
            **SETTING,
            delta=1e-5,
            order=ORDER,
            generator=None,  # type: ignore[arg-type]
        )
    for bad in ([], [[1.0]], [-1.0], [math.nan]):
        with pytest.raises(ValueError, match="ls_by_distance"):
            smooth_sensitivity(bad, 0.1)
    with pytest.raises(ValueError, match=r"beta is -0\.1"):
        smooth_sensitivity([1.0], -0.1)
    with pytest.raises(ValueError, match="cost_multiplier is 0"):
        ReleaseNoise(beta=0.1, sensitivity_multiplier=1.0, cost_multiplier=0.0)


def rule(**changes: Any) -> tuple[float, float]:
    settings: dict[str, Any] = {
        "queries": 1000,
        "answers": 300,
        "noise_std": 40.0,
        "check": (200.0, 150.0),
        "teachers": 250,
        "classes": 2,
        "delta": 1e-5,
        **changes,
    }
    return public_rule(**settings)


def test_two_classes_go_by_their_tables() -> None:
    order, guess = rule()
    tables = ExactPrices(
        num_classes=2, num_teachers=250, noise_std=40.0, order=order, threshold=200.0, sigma1=150.0
    )
    assert guess == pytest.approx(0.3 * tables.largest_change(checked=1000, answered=300))


def test_more_classes_go_by_the_published_bounds() -> None:
    order, guess = rule(classes=10)
    assert order == public_order(
        num_queries=1000, num_answers=300, noise_std=40.0, sigma1=150.0, delta=1e-5
    )
    assert guess > 0

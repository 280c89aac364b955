"""Published costs: smoothness under moved votes, releases that hold, rules that see no votes."""

import itertools
import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr

from labeldp.mechanisms.accounting import Conversion, epsilon_from_rdp
from labeldp.mechanisms.pate import published_cost
from labeldp.mechanisms.pate.accounting import (
    log_probability_answered,
    log_q_gaussian,
    rdp_gnmax,
    rdp_threshold,
)
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax
from labeldp.mechanisms.pate.decisions import (
    decision_rdp_gnmax,
    decision_rdp_threshold,
    exact_rdp_gnmax,
    exact_rdp_threshold,
)
from labeldp.mechanisms.pate.published_cost import (
    TAIL_SHARE,
    AnswerPrice,
    Prices,
    ReleaseNoise,
    SanitizedEpsilon,
    local_sensitivity_gnmax,
    local_sensitivity_threshold,
    log_smooth_sensitivity,
    public_rule,
    release_epsilon,
    smooth_sensitivity,
)
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost, released_of
from labeldp.mechanisms.randomness import SecureEntropy
from tests.shared_material import shared_path

Array = np.ndarray[Any, Any]
TEACHERS, CLASSES = 60, 4
SETTING: dict[str, Any] = {"noise_std": 10.0, "threshold": 35.0, "sigma1": 8.0}
ORDER = 6.0


@cache
def golden() -> tuple[dict[str, list[dict[str, Any]]], dict[str, Array]]:
    values = json.loads(shared_path("oracle", "pate", "smooth_sensitivity.json").read_text())
    with np.load(shared_path("oracle", "pate", "local_sensitivity_arrays.npz")) as arrays:
        return values, dict(arrays)


def all_votes(num_teachers: int, num_classes: int) -> Array:
    counts = itertools.product(range(num_teachers + 1), repeat=num_classes)
    return np.array([row for row in counts if sum(row) == num_teachers])


def random_votes(seed: int, num_queries: int = 40, classes: int = CLASSES) -> Array:
    random = np.random.default_rng(seed)
    shares = random.dirichlet([0.2] * classes, size=num_queries)
    return random.multinomial(TEACHERS, shares)


def move_a_vote_of_every_query(votes: Array, random: np.random.Generator) -> Array:
    moved = votes.copy()
    for row in moved:
        row[random.choice(np.flatnonzero(row))] -= 1
        row[random.integers(len(row))] += 1
    return moved


PRICES = Prices(num_teachers=TEACHERS, num_classes=CLASSES, order=ORDER, **SETTING)


def release(votes: Array, seed: int = 0, **changes: Any) -> SanitizedEpsilon:
    arguments = {**SETTING, "delta": 1e-5, "order": ORDER, **changes}
    return release_epsilon(votes, **arguments, generator=np.random.default_rng(seed))


def test_official_smooth_sensitivities() -> None:
    values, arrays = golden()
    for row in (*values["gnmax"], *values["threshold"]):
        if "ls_key" in row:
            for beta, expected in zip(row["betas"], row["smooth"], strict=True):
                ours = smooth_sensitivity(arrays[row["ls_key"]], beta)
                assert ours == pytest.approx(expected, rel=1e-9, abs=0)


def test_the_secret_cost_is_the_realised_one() -> None:
    votes = random_votes(1)
    answered = np.arange(len(votes)) % 3 == 0
    log_q = log_q_gaussian(votes, SETTING["noise_std"])
    log_p = log_probability_answered(votes, SETTING["threshold"], SETTING["sigma1"])
    expected = rdp_threshold(log_p, SETTING["sigma1"], [ORDER]).sum()
    nothing = np.zeros(len(votes), dtype=bool)
    assert PRICES.cost(votes, answered=nothing)[0] == pytest.approx(expected, rel=1e-12)
    expected += rdp_gnmax(log_q[answered], SETTING["noise_std"], [ORDER]).sum()
    cost, sensitivity = PRICES.cost(votes, answered=answered)
    assert cost == pytest.approx(expected, rel=1e-12)
    assert 0 < cost < PRICES.flat(checked=len(votes), answered=int(answered.sum()))
    assert (np.diff(sensitivity) >= -1e-15).all()
    largest = PRICES.largest_change(checked=len(votes), answered=len(votes))
    assert sensitivity.max() <= largest * (1 + 1e-12)


@pytest.mark.parametrize("classes", [2, CLASSES])
def test_the_assumption_of_the_release_holds_when_every_query_loses_a_vote(classes: int) -> None:
    random = np.random.default_rng(2)
    prices = Prices(num_teachers=TEACHERS, num_classes=classes, order=ORDER, **SETTING)
    moved_at_all = False
    for seed in range(30):
        votes = random_votes(seed, classes=classes)
        answered = random.random(len(votes)) < 0.5
        neighbor = move_a_vote_of_every_query(votes, random)
        here, there = (prices.cost(each, answered=answered) for each in (votes, neighbor))
        change = abs(here[0] - there[0])
        moved_at_all |= change > 0.1 * here[1][0]
        for beta in (0.01, 0.1, 1.0):
            logs = [log_smooth_sensitivity(by_distance, beta) for _, by_distance in (here, there)]
            assert change <= math.exp(min(logs)) + 1e-12
            assert abs(logs[0] - logs[1]) <= beta + 1e-12
    assert moved_at_all


def test_published_noise_is_what_was_drawn() -> None:
    votes = random_votes(4, num_queries=1000)
    everything = np.ones(len(votes), dtype=bool)
    cost, sensitivity = PRICES.cost(votes, answered=everything)
    noise = ReleaseNoise(beta=0.02, sensitivity_multiplier=5.0, cost_multiplier=1.0)
    log_smooth = log_smooth_sensitivity(sensitivity, noise.beta)
    releases = [release(votes, seed, noise=noise, delta=0.5, tail=0.2) for seed in range(200)]
    raised = 1.2815516  # standard deviations of a tail of 0.1
    first = [
        (math.log(one.sensitivity_bound) - log_smooth) / (0.02 * 5.0) - raised for one in releases
    ]
    second = [(one.rdp - cost) / one.noise_std - raised for one in releases]
    for draws in (np.array(first), np.array(second)):
        distance = np.abs(ndtr(np.sort(draws)) - (np.arange(200) + 0.5) / 200).max()
        assert distance < 1.63 / math.sqrt(200)  # Kolmogorov-Smirnov at 1%, seeds are fixed
        assert np.mean(draws < -raised) == pytest.approx(0.1, abs=0.06)  # the bound falls short
    assert all(one.noise_std == one.sensitivity_bound * noise.cost_multiplier for one in releases)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.25
    flat = PRICES.flat(checked=len(votes), answered=len(votes))
    assert all(cost <= release(votes, seed).rdp <= flat for seed in range(50))


@pytest.mark.parametrize("multiplier", [1.0, 1e-9])
def test_secure_noise_also_covers_rounding(multiplier: float) -> None:
    noise = ReleaseNoise(beta=0.02, sensitivity_multiplier=multiplier, cost_multiplier=multiplier)
    votes, secure = random_votes(4), SecureEntropy().generator("")
    setting = {**SETTING, "delta": 1e-5, "order": ORDER, "noise": noise}
    one = release_epsilon(votes, **setting, generator=secure)
    expected = max(one.sensitivity_bound * multiplier, 1e-3) * (1 + 1e-5)
    assert one.noise_std == pytest.approx(expected, rel=1e-9)
    _, sensitivity = PRICES.cost(votes, answered=np.ones(40, dtype=bool))
    raised = math.log(one.sensitivity_bound) - log_smooth_sensitivity(sensitivity, 0.02)
    assert 0.1 < raised / (0.02 * max(multiplier, 1e-3)) < 20


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


def test_nothing_is_hidden_where_nothing_is_secret() -> None:
    votes = np.array([[20, 0, 0], [8, 7, 5]])
    released = release(votes, noise_std=40.0, threshold=None, sigma1=None, order=25.0)
    assert released.noise_std == released.rdp_release == released.sensitivity_bound == 0
    assert released.beta == 0
    assert released.rdp == pytest.approx(2 * 25 / 1600)
    # Checks may be secret where answers are not.
    checks = {"threshold": 1.0, "sigma1": 1.0}
    prices = Prices(num_teachers=20, num_classes=3, noise_std=40.0, order=8.0, **checks)
    paid = rdp_threshold(log_probability_answered(votes, *checks.values()), 1.0, [8.0]).sum()
    cost, sensitivity = prices.cost(votes, answered=np.ones(2, dtype=bool))
    assert cost == pytest.approx(2 * 8 / 1600 + paid) and sensitivity.any()


def test_the_public_noise() -> None:
    rough = ReleaseNoise.public(order=8.0, tail=1e-6, sensitivity_guess=1.0)
    fine = ReleaseNoise.public(order=8.0, tail=1e-6, sensitivity_guess=1e-3)
    assert fine.cost_multiplier == pytest.approx(10 * rough.cost_multiplier)
    # By default it is that for a tenth of the largest sensitivity.
    votes = random_votes(5)
    guess = 0.1 * PRICES.largest_change(checked=40, answered=40)
    usual = ReleaseNoise.public(order=ORDER, tail=TAIL_SHARE * 1e-5, sensitivity_guess=guess)
    assert release(votes) == release(votes, noise=usual)
    assert release(votes[:1]) != release(votes)
    # The bound on smooth sensitivity lies a public factor above it, whatever the noise
    for noise in (rough, fine):
        deviations = 4.891638  # of a tail of 5e-7
        assert noise.beta * noise.sensitivity_multiplier * deviations == pytest.approx(0.8)


LOUD: dict[str, Any] = {"noise_std": 40.0, "threshold": 200.0, "sigma1": 150.0}


def rule(**changes: Any) -> tuple[float, float]:
    settings = {"queries": 1000, "answers": 300, "teachers": 250, "classes": 2, **LOUD}
    return public_rule(**{**settings, "delta": 1e-5, **changes})


@pytest.mark.parametrize(("classes", "share"), [(2, 0.3), (10, 0.1)])
def test_the_public_rule(classes: int, share: float) -> None:
    order, guess = rule(classes=classes)
    prices = Prices(num_classes=classes, num_teachers=250, order=order, **LOUD)
    assert guess == pytest.approx(share * prices.largest_change(checked=1000, answered=300))
    orders = [rule(classes=classes, **each)[0] for each in ({"answers": 1000}, {"sigma1": 10.0})]
    assert order > orders[0] > orders[1] > 1
    assert rule(classes=classes, delta=1e-8)[0] > order
    assert rule(classes=classes, answers=10**9)[0] == 1.5
    for answers in (1, 30, 300, 1000, 3000):  # a third of the worst case, and a twelfth for noise
        slope = answers * decision_rdp_gnmax(40.0, [2.0])[0] / 2
        slope += 1000 * decision_rdp_threshold(150.0, [2.0])[0] / 2
        if classes > 2:
            slope = answers / 40**2 + 1000 / (2 * 150**2)
        best = 1 + math.sqrt(math.log(1e5) / (slope / 3 + 1 / 12))
        assert abs(rule(classes=classes, answers=answers)[0] - best) <= 0.25


def test_official_q0_and_q1_and_conditions() -> None:
    rows = [row for row in golden()[0]["q0"] if "logq0" in row]
    assert len(rows) == 108
    held = {tuple(row["C5_C6"]) for row in golden()[0]["q0"] if "C5_C6" in row}
    assert held == {(True, True), (True, False)}
    for row in rows:
        price = AnswerPrice(noise_std=row["sigma"], num_classes=row["classes"], order=row["order"])
        assert price.log_q0 == pytest.approx(row["logq0"], rel=1e-9)
        if "logq1_error" in row:
            assert -math.inf < price.log_q1 < price.log_q0  # where the official program crashed
        else:
            assert price.log_q1 == pytest.approx(row["logq1"], rel=1e-9)
        if "C5_C6" in row:
            assert price.conditions(num_teachers=250) == tuple(row["C5_C6"])


def test_conditions_are_checked_one_vote_beyond_all_votes_and_for_any_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    price = AnswerPrice(noise_std=40.0, num_classes=10, order=12.5)
    assert price.is_constant(num_teachers=1) and not price.is_constant(num_teachers=250)
    assert price.after_a_vote(np.zeros(1), direction=1)[0] <= 0
    seen: list[Array] = []

    def spied(self: AnswerPrice, log_q: Array, original: Any = AnswerPrice.price) -> Any:
        seen.append(log_q)
        return original(self, log_q)

    monkeypatch.setattr(AnswerPrice, "price", spied)
    price.conditions(num_teachers=250)
    beyond = math.log(9) + log_ndtr(-252 / (40 * math.sqrt(2)))
    assert min(each.min() for each in seen) == pytest.approx(beyond, rel=1e-12)
    assert min(each.size for each in seen) >= 1000
    for noise_std, order, teachers in ((200.0, 300.0, 20_000), (1e5, 1.5e5, 10**7)):
        loud = AnswerPrice(noise_std=noise_std, num_classes=3, order=order)
        assert loud.conditions(num_teachers=teachers) == (True, False)


def test_a_bound_flat_up_to_rounding_does_not_start_the_search() -> None:
    # order / noise_std**2 and the bound's own ceiling differ in the last bit for some parameters
    for noise_std, order in [(15.0, 1.5), (30.0, 3.0), (60.0, 6.0), (15.0, 6.0)]:
        price = AnswerPrice(noise_std=noise_std, num_classes=3, order=order)
        between = np.linspace(price.log_q0, -1.0, 1000)[1:]
        np.testing.assert_allclose(rdp_gnmax(between, noise_std, [order])[:, 0], price.flat)
        assert price.conditions(num_teachers=250) == (True, True)


def test_official_local_sensitivity_of_answers() -> None:
    values, arrays = golden()
    groups: dict[tuple[int, int, float, float], list[dict[str, Any]]] = {}
    for row in values["gnmax"]:
        key = (row["num_teachers"], len(row["votes"]), row["sigma"], row["order"])
        groups.setdefault(key, []).append(row)
    compared = crashed = 0
    for (teachers, _, noise_std, order), rows in groups.items():
        batch = local_sensitivity_gnmax([row["votes"] for row in rows], teachers, noise_std, order)
        assert batch.shape == (len(rows), teachers)
        for row, ours in zip(rows, batch, strict=True):
            if "official_raised" in row:
                assert np.isfinite(ours).all() and 0 < ours.max() < order / noise_std**2
                crashed += 1
            else:
                np.testing.assert_allclose(ours, arrays[row["ls_key"]], rtol=1e-6, atol=0)
                compared += 1
    assert (compared, crashed) == (218, 3)


def test_sensitivities_of_many_histograms_are_those_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    votes, everything = random_votes(3), np.ones(40, dtype=bool)
    setting = (TEACHERS, SETTING["noise_std"], ORDER)
    each = [local_sensitivity_gnmax(row, *setting) for row in votes]
    np.testing.assert_array_equal(local_sensitivity_gnmax(votes, *setting), each)
    cost, sensitivity = PRICES.cost(votes, answered=everything)
    monkeypatch.setattr(published_cost, "_DISTANCE_ENTRIES", 7 * TEACHERS)
    np.testing.assert_array_equal(local_sensitivity_gnmax(votes, *setting), each)
    in_parts = PRICES.cost(votes, answered=everything)
    assert in_parts[0] == cost and in_parts[1] == pytest.approx(sensitivity, rel=1e-12)


def test_official_local_sensitivity_of_checks() -> None:
    values, arrays = golden()
    for row in values["threshold"]:
        ours = local_sensitivity_threshold(
            row["counts"], row["num_teachers"], row["threshold"], row["sigma"], row["order"]
        )
        np.testing.assert_allclose(ours, arrays[row["ls_key"]], rtol=1e-6, atol=0)


@pytest.mark.parametrize("peak", [0, 3, 5, 6, 10])
def test_a_check_s_sensitivity_is_the_change_at_counts_that_far_away(peak: int) -> None:
    teachers, setting = 10, {"threshold": 6.0, "sigma1": 2.0, "order": 3.0}
    counts = np.arange(teachers + 1)
    compared = np.stack([counts, 0.0 * counts], axis=1)
    log_p = log_probability_answered(compared, 6.0, 2.0)
    prices = rdp_threshold(log_p, 2.0, [3.0])[:, 0]
    change = [
        max(abs(prices[each] - prices[m]) for each in (m - 1, m + 1) if 0 <= each <= teachers)
        for m in counts
    ]
    far = max(peak, teachers - peak)  # a vote beyond, the change at the end came a vote earlier
    expected = [
        max(change[m] for m in {peak - d, peak + d} if 0 <= m <= teachers) if d < far else 0.0
        for d in range(teachers)
    ]
    votes = np.array([peak, 0, 0]) if peak else np.array([0.0, -1.0, -2.0])
    found = local_sensitivity_threshold(votes, teachers, **setting)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert local_sensitivity_threshold([1, 0], 1, **setting).shape == (1,)  # of one teacher


def true_sensitivity(prices: Array, distances: Array, num_teachers: int) -> Array:
    """The largest change by one vote anywhere within each distance, by looking everywhere."""
    here = np.where(distances == 1, np.abs(prices[:, None] - prices), 0.0).max(axis=1)
    within = [np.where(distances <= d, here, 0.0).max(axis=1) for d in range(num_teachers)]
    return np.stack(within, axis=1)


SMALL = [
    (noise_std, order, num_teachers, num_classes)
    for noise_std, order in [(0.4, 1.5), (0.7, 2.0), (1.0, 2.0), (2.0, 2.0), (3.0, 3.0), (4.0, 4.0)]
    for num_teachers, num_classes in [(2, 2), (15, 2), (16, 2), (11, 3), (7, 4)]
]


@pytest.mark.parametrize(("noise_std", "order", "num_teachers", "num_classes"), SMALL)
def test_answers_cover_every_vote_moved_in_every_way(
    noise_std: float, order: float, num_teachers: int, num_classes: int
) -> None:
    price = AnswerPrice(noise_std=noise_std, num_classes=num_classes, order=order)
    assert price.conditions(num_teachers=num_teachers) == (True, True)
    votes = all_votes(num_teachers, num_classes)
    distances = np.abs(votes[:, None] - votes).sum(axis=2) // 2
    prices = price.price(log_q_gaussian(votes, noise_std))
    ours = local_sensitivity_gnmax(votes, num_teachers, noise_std, order)
    truth = true_sensitivity(prices, distances, num_teachers)
    slack = 1e-12 * price.flat
    assert (truth <= ours + slack).all()
    # What makes it smooth: a neighbor's sensitivity at d is within the own one at d + 1.
    first, second = np.nonzero(distances == 1)
    assert (ours[first, :-1] <= ours[second, 1:] + slack).all()
    assert (np.diff(ours, axis=1) >= -slack).all()


def test_two_classes_pay_what_their_decisions_cost() -> None:
    setting: dict[str, Any] = {"noise_std": 2.0, "threshold": 5.0, "sigma1": 3.0}
    prices = Prices(num_classes=2, num_teachers=7, order=3.0, **setting)
    votes, answered = all_votes(7, 2), np.arange(8) % 3 == 0
    answers = exact_rdp_gnmax(votes, 2.0, [3.0])[:, 0]
    checks = exact_rdp_threshold(votes, 5.0, 3.0, [3.0])[:, 0]
    found, sensitivity = prices.cost(votes, answered=answered)
    assert found == pytest.approx(answers[answered].sum() + checks.sum())
    assert sensitivity[-1] <= prices.largest_change(checked=8, answered=3) * (1 + 1e-12)
    moved = [np.abs(np.diff(each)).max() for each in (answers, checks)]
    largest = prices.largest_change(checked=8, answered=3)
    assert largest == pytest.approx(3 * moved[0] + 8 * moved[1])

    def within(distance: int, prices: Array, peaks: Array) -> float:
        """The largest change of each query's price at most so many votes away, summed."""
        steps = np.abs(np.diff(prices))
        return sum(
            float(steps[max(0, peak - distance - 1) : peak + distance + 1].max()) for peak in peaks
        )

    peaks = votes.max(axis=1)
    expected = [within(d, answers, peaks[answered]) + within(d, checks, peaks) for d in range(7)]
    assert sensitivity == pytest.approx(expected)
    for flat, paid in (
        (prices.flat(checked=0, answered=1), answers),
        (prices.flat(checked=1, answered=0), checks),
    ):
        assert 0.7 * flat < paid.max() <= flat


def test_adult_is_published_below_two() -> None:
    """The 1,500 votes of forests on UCI Adult, at the setting of PATE 2018, Table 1."""
    with np.load(shared_path("data", "votes", "adult_votes_250.npz")) as arrays:
        votes = np.concatenate([arrays[name] for name in arrays.files])[:1500].astype(np.int64)
    aggregator = ConfidentGNMax(threshold=300.0, sigma1=200.0, sigma2=40.0)
    request = PateAnswers(aggregator=aggregator, queries=1500, max_answers=600)
    published = PublishedCost.of(request, teachers=250, classes=2, delta=1e-5)
    assert published is not None
    found = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        answers = aggregator.respond(votes, generator=generator, max_answers=600)
        released = published.sanitize(votes, released_of(answers), generator=generator)
        found.append(released.epsilon)
    assert 1.7 < np.mean(found) < 2.0

"""PATE's releases: what is charged, what is released, and that the bound on the cost bounds it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from labeldp.mechanisms.accounting import (
    ORDERS,
    Conversion,
    DecisionEvent,
    GaussianEvent,
    composed,
    epsilon_from_rdp,
    epsilon_of,
)
from labeldp.mechanisms.pate.accounting import (
    CheckNoise,
    QueryCosts,
    confident_gnmax_costs,
    gnmax_costs,
)
from labeldp.mechanisms.pate.aggregators import (
    ConfidentGNMax,
    GNMax,
    InteractiveGNMax,
    LNMax,
    surprise_counts,
)
from labeldp.mechanisms.pate.decisions import Accounting
from labeldp.mechanisms.pate.published_cost import (
    ConditionsFailed,
    ReleaseNoise,
    SanitizedEpsilon,
    public_rule,
    release_epsilon,
)
from labeldp.mechanisms.pate.releases import (
    BY_TEACHERS,
    LABEL,
    NOT_LOOKED_AT,
    AnsweredRequest,
    NeighborAnswers,
    PateAnswers,
    PublishedCost,
    RequestedAggregator,
    epsilon_of_counts,
    looked_at,
    private_costs,
)
from labeldp.mechanisms.pate.vote_leakage import answer_log_probabilities
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.vault import LabelVault

CONFIDENT = ConfidentGNMax(threshold=60.0, sigma1=20.0, sigma2=10.0)
PER_CLASS = replace(CONFIDENT, check_noise=CheckNoise.PER_CLASS)
AGGREGATORS: list[RequestedAggregator] = [
    CONFIDENT,
    GNMax(noise_std=10.0),
    LNMax(scale=20.0),
    InteractiveGNMax(threshold=60.0, sigma1=20.0, sigma2=10.0, confidence=0.9),
]


def votes_of_100_teachers(classes: int = 3, seed: int = 0) -> NDArray[np.int64]:
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(classes, 0.3), size=50)
    return np.stack([random.multinomial(100, share) for share in shares])


def answered(request: PateAnswers, votes: NDArray[np.int64], *, seed: int = 0) -> AnsweredRequest:
    released = request.release(votes, generator=np.random.default_rng(seed))
    return AnsweredRequest(request=request, votes=votes, released=released)


def test_each_votes_are_answered_once_at_a_charge_that_does_not_depend_on_them() -> None:
    request = PateAnswers(aggregator=CONFIDENT, queries=50, max_answers=20)
    vault = LabelVault(labels=np.zeros(100, dtype=int), num_classes=3)
    both = [np.tile(row, (50, 1)) for row in ([100, 0, 0], [34, 33, 33])]
    first, second, again = (vault.release_from_votes(request, both[i]).key for i in (0, 1, 0))
    assert first == again != second
    assert [charge.event for charge in vault.charges()] == [request.event] * 2
    # Other noise, and another ensemble that votes alike, are paid for; by the labels it learned.
    vault.release_from_votes(request, both[0], noise=OsEntropy(draw=1))
    for ensemble in ("a", "a", "b"):
        vault.release_from_votes(request, both[0], ensemble=ensemble, trained_on=np.arange(20, 30))
    assert len(vault.charges()) == 5
    trained_on = vault.charges()[-1].indices
    assert trained_on is not None and trained_on.tolist() == list(range(20, 30))
    with pytest.raises(ValueError, match=r"index 100 is outside 0\.\.99"):
        vault.release_from_votes(request, both[0], trained_on=np.array([100]))


def test_a_release_separates_answered_unanswered_and_unchecked_queries() -> None:
    votes = np.tile([[100, 0, 0], [34, 33, 33]], (25, 1))
    sharp = ConfidentGNMax(threshold=67.0, sigma1=1.0, sigma2=1.0)
    released = PateAnswers(aggregator=sharp, queries=50, max_answers=5).release(
        votes, generator=np.random.default_rng(0)
    )
    # Every other query passes: the fifth answer is that to the ninth query, the rest is not asked.
    assert released[:9, LABEL].tolist() == [0, -1] * 4 + [0]
    assert released[:9, BY_TEACHERS].tolist() == [1, 0] * 4 + [1]
    assert (released[9:, LABEL] == -1).all()
    assert (released[9:, BY_TEACHERS] == NOT_LOOKED_AT).all()
    assert looked_at(released) == 9


def test_reinforced_labels_of_an_interactive_round_are_not_the_teachers() -> None:
    votes = np.tile([50, 50, 0], (10, 1))
    scores = np.tile([0.0, 0.01, 0.99], (10, 1)).astype(np.float32)
    aggregator = InteractiveGNMax(threshold=500.0, sigma1=1.0, sigma2=1.0, confidence=0.9)
    request = PateAnswers(aggregator=aggregator, queries=10, max_answers=4)
    released = request.release(votes, scores, generator=np.random.default_rng(0))
    assert (released[:, LABEL] == 2).all() and (released[:, BY_TEACHERS] == 0).all()


@pytest.mark.parametrize("aggregator", AGGREGATORS)
def test_a_label_that_votes_on_some_queries_pays_as_if_there_were_no_others(
    aggregator: RequestedAggregator,
) -> None:
    given: dict[str, Any] = {"aggregator": aggregator, "queries": 50, "max_answers": 20}
    for most, queries, answers in ((1, 1, 1), (5, 5, 5), (30, 30, 20), (50, 50, 20), (80, 50, 20)):
        limited = NeighborAnswers(**given, queries_per_label=most)
        alone = PateAnswers(aggregator=aggregator, queries=queries, max_answers=answers)
        assert limited.event == alone.event
        assert epsilon_of_counts([limited], delta=1e-5) == epsilon_of_counts([alone], delta=1e-5)
    if aggregator in AGGREGATORS[:3]:
        few = NeighborAnswers(**given, queries_per_label=3)
        made = private_costs([answered(few, votes_of_100_teachers())], delta=1e-5)
        charged = epsilon_of([few.event], delta=1e-5)
        assert made["realised"] <= made["realised_data_independent"] <= charged
        assert made["expected"] <= charged


def test_the_likelihood_of_all_answers_stays_within_the_price_of_the_moved_queries() -> None:
    """Exact Renyi divergences of whole runs of GNMax, whose answers are independent."""
    noise_std, most = 10.0, 6
    votes = votes_of_100_teachers(seed=3)
    moved = votes.copy()
    rows = np.random.default_rng(0).permutation(50)[:most]
    moved[rows, votes[rows].argmax(1)] -= 1
    moved[rows, votes[rows].argmin(1)] += 1
    request = NeighborAnswers(
        aggregator=GNMax(noise_std=noise_std), queries=50, max_answers=50, queries_per_label=most
    )
    event = request.event
    assert isinstance(event, DecisionEvent)
    log_p, log_q = (
        np.stack([answer_log_probabilities(row, noise_std) for row in each])
        for each in (votes, moved)
    )
    for order, most_allowed in zip(event.orders, event.rdp, strict=True):
        if 1 < order < 60:
            each = logsumexp(order * log_p + (1 - order) * log_q, axis=1) / (order - 1)
            assert 0 < each.sum() <= most_allowed


@pytest.mark.parametrize("aggregator", AGGREGATORS[:3])
def test_a_charge_is_the_most_that_a_release_can_cost(
    aggregator: RequestedAggregator,
) -> None:
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=20)
    delta = 0.0 if isinstance(aggregator, LNMax) else 1e-5
    charged = epsilon_of([request.event], delta=delta)
    for seed in range(5):
        costs = private_costs([answered(request, votes_of_100_teachers(seed=seed))], delta=1e-5)
        assert costs["realised"] <= charged
        assert costs["realised_data_independent"] <= charged


def costs_of(
    aggregator: Any, votes: NDArray[np.int64], scores: Any, accounting: Accounting
) -> QueryCosts:
    """By the functions of `accounting`, with every parameter named."""
    if isinstance(aggregator, GNMax):
        return gnmax_costs(votes, noise_std=aggregator.noise_std, accounting=accounting)
    return confident_gnmax_costs(
        votes,
        threshold=aggregator.threshold,
        sigma1=aggregator.sigma1,
        sigma2=aggregator.sigma2,
        check_counts=None if scores is None else surprise_counts(votes, scores),
        check_noise=getattr(aggregator, "check_noise", CheckNoise.ON_MAXIMUM),
        accounting=accounting,
    )


@pytest.mark.parametrize("aggregator", [*AGGREGATORS[:2], AGGREGATORS[3], PER_CLASS])
def test_private_costs_are_the_aggregators_own_of_the_queries_that_were_looked_at(
    aggregator: RequestedAggregator,
) -> None:
    votes = votes_of_100_teachers()
    scores = None
    if isinstance(aggregator, InteractiveGNMax):
        aggregator = replace(aggregator, threshold=20.0)
        scores = np.random.default_rng(1).dirichlet(np.ones(3), size=50)
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=20)
    public = () if scores is None else (scores,)
    released = request.release(votes, *public, generator=np.random.default_rng(0))
    seen = looked_at(released)
    assert seen < 50
    looked = votes.copy()
    looked[seen:] = -1  # no votes at all: the others are not even read
    run = AnsweredRequest(request=request, votes=looked, released=released, student_scores=scores)
    found = private_costs([run], delta=1e-5)
    scores = scores if scores is None else scores[:seen]
    own, published = (
        costs_of(aggregator, votes[:seen], scores, accounting)
        for accounting in (Accounting.DECISION, Accounting.COUNTS)
    )
    answers = released[:seen, BY_TEACHERS] == 1
    for name, rdp in (
        ("expected", own.rdp()),
        ("expected_of_counts", published.rdp()),
        ("realised", own.rdp(answered=answers)),
    ):
        assert found[name] == pytest.approx(epsilon_from_rdp(ORDERS, rdp, 1e-5)[0], rel=1e-12)
    any_votes = aggregator.events(checked=seen, answered=20)
    assert found["realised_data_independent"] == epsilon_of(any_votes, delta=1e-5)


def test_decisions_are_charged_less_than_their_counts() -> None:
    for aggregator in AGGREGATORS:
        request = PateAnswers(aggregator=aggregator, queries=1000, max_answers=300)
        if isinstance(aggregator, LNMax):
            assert epsilon_of_counts([request], delta=1e-5) == epsilon_of([request.event], delta=0)
            continue
        event = request.event
        assert isinstance(event, DecisionEvent) and event.orders == tuple(ORDERS.tolist())
        counts = epsilon_of([GaussianEvent(noise_multiplier=event.noise_multiplier)], delta=1e-5)
        assert epsilon_of_counts([request], delta=1e-5) == counts
        assert epsilon_of([event], delta=1e-5) <= counts
    request = PateAnswers(aggregator=CONFIDENT, queries=1000, max_answers=300)
    # Two rounds, or a bound that is published beside them, are one event with both prices.
    both = composed([request.event, request.event, GaussianEvent(noise_multiplier=50.0)])
    assert isinstance(both, DecisionEvent)
    listed = [request.event, request.event, GaussianEvent(noise_multiplier=50.0)]
    assert epsilon_of([both], delta=1e-5) == pytest.approx(epsilon_of(listed, delta=1e-5))


def a_published_cost(
    aggregator: RequestedAggregator = CONFIDENT, *, delta: float = 1e-5
) -> PublishedCost:
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=20)
    published = PublishedCost.of(request, teachers=100, classes=3, delta=delta)
    assert published is not None
    return published


def test_a_published_bound_is_not_rounded_below_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores keep single precision, to which some of these would be rounded down."""
    votes, published = votes_of_100_teachers(), a_published_cost(delta=0.2)
    request = PateAnswers(aggregator=CONFIDENT, queries=50, max_answers=20)
    run = answered(request, votes)
    exact: list[float] = []

    def spied(*args: Any, **settings: Any) -> SanitizedEpsilon:
        found = release_epsilon(*args, **settings)
        exact.append(found.epsilon)
        return found

    monkeypatch.setattr("labeldp.mechanisms.pate.releases.release_epsilon", spied)
    generator = np.random.default_rng(0)
    for _ in range(10):
        kept = published.release(votes, run.released, generator=generator).astype(np.float32)
        assert exact[-1] <= float(kept[0]) <= exact[-1] * (1 + 2e-7)
    assert any(float(np.float32(bound)) < bound for bound in exact)


@pytest.mark.parametrize("aggregator", [CONFIDENT, GNMax(noise_std=20.0)])
def test_a_published_bound_is_that_of_the_queries_that_were_looked_at(
    aggregator: RequestedAggregator,
) -> None:
    delta, votes = 0.2, votes_of_100_teachers()
    published = a_published_cost(aggregator, delta=delta)
    noise: dict[str, Any] = {"noise_std": 20.0, "threshold": None, "sigma1": None}
    if aggregator is CONFIDENT:
        noise = {"noise_std": 10.0, "threshold": 60.0, "sigma1": 20.0}
    sizes: dict[str, Any] = {"queries": 50, "answers": 20, "teachers": 100, "classes": 3}
    order, guess = public_rule(**sizes, **noise, delta=delta)
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=20)
    released = answered(request, votes).released
    seen = looked_at(released)
    assert seen < 50
    for share, conversion in zip((1, 2), Conversion, strict=True):
        tail = share * published.tail
        drawn = ReleaseNoise.public(order=order, tail=tail, sensitivity_guess=guess)
        changed = replace(published, tail=tail, publishing_noise=drawn)
        assert share == 2 or changed == published
        found = changed.sanitize(
            votes, released, generator=np.random.default_rng(3), conversion=conversion
        )
        assert found == release_epsilon(
            votes[:seen],
            **noise,
            answered=released[:seen, BY_TEACHERS] == 1 if aggregator is CONFIDENT else None,
            delta=delta,
            order=order,
            tail=tail,
            noise=drawn,
            conversion=conversion,
            generator=np.random.default_rng(3),
        )


def test_no_more_is_published_than_any_votes_would_cost_and_prices_of_counts_add_up() -> None:
    published = a_published_cost()
    request = PateAnswers(aggregator=CONFIDENT, queries=50, max_answers=20)
    most = epsilon_of([request.event, published.event], delta=1e-5 - published.tail)
    assert published.capped(1e9, request) == most and published.capped(0.1, request) == 0.1
    other = PateAnswers(aggregator=GNMax(noise_std=30.0), queries=9, max_answers=9)
    counts = [20**-2 * 50 + 10**-2 * 20 * 2, 30**-2 * 9 * 2]  # 1 / noise multipliers squared
    events: list[Any] = [GaussianEvent(noise_multiplier=each**-0.5) for each in counts]
    both = epsilon_of_counts([request, other], delta=1e-5)
    assert both == pytest.approx(epsilon_of(events, delta=1e-5), rel=1e-12)
    with_bound = epsilon_of_counts([request, other], published, delta=1e-5)
    expected = epsilon_of([*events, published.event], delta=1e-5 - published.tail)
    assert with_bound == pytest.approx(expected, rel=1e-12)
    assert composed(events[:1]) is events[0]


def test_publishing_is_charged_as_two_gaussians() -> None:
    published = a_published_cost()
    noise = published.publishing_noise
    assert published.failure_probability == published.tail > 0
    two = [
        GaussianEvent(noise_multiplier=noise.sensitivity_multiplier),
        GaussianEvent(noise_multiplier=noise.cost_multiplier),
    ]
    assert epsilon_of([published.event], delta=1e-5) == pytest.approx(epsilon_of(two, delta=1e-5))


@pytest.mark.parametrize("aggregator", [*AGGREGATORS[2:], PER_CLASS])
def test_nothing_is_published_where_nothing_is_proven(aggregator: RequestedAggregator) -> None:
    request = PateAnswers(aggregator=aggregator, queries=50, max_answers=20)
    assert PublishedCost.of(request, teachers=100, classes=3, delta=1e-5) is None


def test_where_conditions_fail_nothing_is_charged() -> None:
    # pate.md, section 3: C6 fails for noise 20, 10 classes, order 25.
    vault = LabelVault(labels=np.zeros(100, dtype=int), num_classes=10)
    published = a_published_cost(GNMax(noise_std=20.0))
    failing = replace(published, order=25.0)
    votes = votes_of_100_teachers(classes=10)
    released = np.stack([votes.argmax(1), np.ones(50, dtype=int)], axis=1)
    with pytest.raises(ConditionsFailed):
        vault.release_from_votes(failing, votes, released)
    assert vault.charges() == ()

"""Refusals name the parameter that is out of range, or the arguments that contradict each other.

A row is a call that is right, a change that makes it wrong, and what the refusal says. A right call
has its whole numbers at the ends of their ranges where that is possible. Labels and what is read
from them are secret: 77 is in no message.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from labeldp.mechanisms import auditing, guess_risk, pate
from labeldp.mechanisms import randomized_response as rr
from labeldp.mechanisms._validate import probabilities
from labeldp.mechanisms.accounting import (
    DecisionEvent,
    PureEvent,
    RandomizedResponseEvent,
    epsilon_from_rdp,
    gaussian_epsilon,
    pure_rdp,
)
from labeldp.mechanisms.accuracy_estimate import AccuracyEstimate, CorrectCount
from labeldp.mechanisms.additive_noise import LaplaceNoise
from labeldp.mechanisms.amounts import BINS, AmountChannel, AmountSums, ErrorSums, to_levels
from labeldp.mechanisms.calibration import (
    calibrate_gaussian,
    calibrate_laplace,
    calibrate_randomized_response,
    price_laplace,
)
from labeldp.mechanisms.channels import StaircaseChannel, SubsetSelection, optimal_channel
from labeldp.mechanisms.label_channels import best_subset_size
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.ledger import Budget, PrivacyLedger
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.pate.aggregators import price_for_any_votes
from labeldp.mechanisms.pate.decisions import Decisions
from labeldp.mechanisms.pate.published_cost import AnswerPrice, ReleaseNoise, public_rule
from labeldp.mechanisms.randomness import (
    SecureGenerator,
    SeededNoise,
    cryptographic_generator,
    normal,
    on_lattice,
)
from labeldp.mechanisms.rr_with_prior import ClusterHistograms, RRWithPrior, tempered
from labeldp.mechanisms.score_histogram import ScoreCells, ScoreHistogram
from labeldp.mechanisms.selection import selection_price
from labeldp.mechanisms.vault import LabelVault
from tests.mechanisms.test_ledger import line

Call = Callable[..., object]
Row = tuple[Call, dict[str, Any], str]
NAN, INF = math.nan, math.inf
NOT_POSITIVE = (0.0, -1.0, NAN, INF)
NO_EPSILON = (*NOT_POSITIVE, 1.9e-6, 5e-324, 500.5, 1e308, 10**400)
NOT_BETWEEN_0_AND_1 = (0.0, 1.0, NAN)
NOT_A_CLASS = r"\[1\] is not one of the classes"
DRAWS = np.random.default_rng(0)


def out_of_range(*calls: Call, **values: Any) -> Iterator[Row]:
    for call in calls:
        for name, bad in values.items():
            yield from ((call, {name: each}, f"{name} is") for each in bad)


def ints(*values: Any) -> Any:
    return np.array(values, dtype=np.int64)


# Prices

CURVE = partial(epsilon_from_rdp, orders=[2.0], rdp=[0.1], delta=1e-5)
LAPLACE = partial(calibrate_laplace, epsilon=1.0)
GAUSSIAN = partial(calibrate_gaussian, epsilon=1.0, delta=1e-5)
RESPONSE = partial(calibrate_randomized_response, epsilon=1.0, num_classes=2)
PRICE = partial(price_laplace, scale=1.0)
SELECTION = partial(selection_price, epsilon=1.0, mean_trials=10, distribution="geometric")
DECISIONS = partial(DecisionEvent, noise_multiplier=1.0, orders=(2.0,), rdp=(0.1,))
GUESS = partial(guess_risk.guess_after, prior=0.5, epsilon=1.0, delta=1.0)
AFTER_GAUSSIAN = partial(guess_risk.guess_after_gaussian, prior=0.5, mu=1.0)
KEEP = partial(rr.keep_probability, epsilon=INF, num_classes=2)
KEPT = partial(rr.epsilon_from_keep_probability, keep_probability=0.9, num_classes=2)
PURE_CHANNEL = partial(auditing.LaplaceFamily().epsilon, 1.0, delta=0.0)
NORMAL_CHANNEL = partial(auditing.GaussianFamily().epsilon, 1.0, delta=1e-5)
PRICES: list[Row] = [
    (CURVE, {"orders": [1.0, 2.0], "rdp": [0.1, 0.1]}, "above 1"),
    (CURVE, {"orders": [2.0, 3.0], "rdp": [2.0, -1.0]}, "rdp is -1.0 at order 3.0; .* 0 or above"),
    (CURVE, {"rdp": [NAN]}, "0 or above"),
    (CURVE, {"orders": [], "rdp": []}, "at least 1"),
    (CURVE, {"orders": [2.0, 3.0]}, "shape"),
    *out_of_range(
        CURVE,
        partial(gaussian_epsilon, noise_multiplier=1.0, delta=1e-5),
        partial(auditing.GaussianCurve, delta=1e-5),
        GAUSSIAN,
        delta=NOT_BETWEEN_0_AND_1,
    ),
    *out_of_range(
        partial(PureEvent, epsilon=INF),
        partial(pure_rdp, epsilon=INF, orders=[2.0]),
        epsilon=(0.0, -1.0, NAN, True, "1"),
    ),
    *out_of_range(LAPLACE, GAUSSIAN, RESPONSE, SELECTION, epsilon=NO_EPSILON),
    *out_of_range(
        RESPONSE,
        KEPT,
        partial(RandomizedResponseEvent, epsilon=1.0, num_classes=2),
        partial(auditing.RandomizedResponseCurve, num_classes=2),
        KEEP,
        partial(rr.NoNoise, num_classes=2),
        partial(auditing.SubsetFamily, num_classes=2, subset_size=1),
        partial(best_subset_size, epsilon=1.0, num_classes=2),
        partial(LabelVault, labels=np.zeros(4, dtype=int), num_classes=2),
        num_classes=[1],
    ),
    (partial(auditing.SubsetFamily, num_classes=3, subset_size=1), {"subset_size": 3}, "at most 2"),
    *out_of_range(KEEP, epsilon=(-1.0, NAN)),
    (KEPT, {"keep_probability": 1.5}, r"keep_probability is 1\.5"),
    (PRICE, {"scale": None}, "give one of the two"),
    (PRICE, {"noise_std": 1.0}, "give one of the two"),
    (PRICE, {"scale": None, "noise_std": 0.0}, "noise_std is 0"),
    (RESPONSE, {"epsilon": 1e-18, "num_classes": 3}, "it must be at least 2e-06"),
    *out_of_range(
        SELECTION, mean_trials=(0.5, *NOT_POSITIVE), delta=[1.0], trial_delta=(-1e-6, NAN)
    ),
    (SELECTION, {"distribution": "uniform"}, r"distribution is 'uniform'.*geometric, logarithmic"),
    (SELECTION, {"delta": 1e-6, "trial_delta": 1e-6}, "need at least 1e-05"),
    *out_of_range(GUESS, epsilon=(-1.0, NAN), delta=(-0.1, 1.1, NAN)),
    *out_of_range(GUESS, AFTER_GAUSSIAN, prior=NOT_BETWEEN_0_AND_1),
    *out_of_range(DECISIONS, noise_multiplier=[0.0]),
    (DECISIONS, {"rdp": (0.1, 0.2)}, "shape"),
    *out_of_range(PURE_CHANNEL, NORMAL_CHANNEL, delta=(-0.1, 1.0, NAN)),
    *out_of_range(NORMAL_CHANNEL, delta=[0.0]),
    *out_of_range(partial(CorrectCount, epsilon=500), epsilon=NO_EPSILON),
    *out_of_range(
        partial(Budget, epsilon=INF, delta=0.0), epsilon=[-1.0, 10**400], delta=(-1e-9, 1.0, NAN)
    ),
    *out_of_range(partial(PrivacyLedger, num_labels=1), num_labels=[0]),
]


# Releases of labels and what is read from them

TWO, TWICE = ints(0, 1), ints(0, 0)
#: What a mechanism of three classes takes besides labels.
DRAWN: dict[str, Any] = {"labels": TWO, "generator": DRAWS}
HALVES = np.array([[0.5, 0.5], [0.5, 0.5]])
PRIOR_OF_BINS = np.full(BINS, 1 / BINS)
ESTIMATE = partial(
    AccuracyEstimate.from_release,
    values=np.zeros((3, 3)),
    predictions=ints(0, 1, 2),
    mechanism=LaplaceNoise(epsilon=1.0, num_classes=3),
)
COUNT = partial(CorrectCount(epsilon=1.0).release, **DRAWN, predictions=TWO)
ACCURACY = partial(AccuracyEstimate, accuracy=0.5, sampling_error=0.0, count_scale=0.0)
COUNTED = partial(AccuracyEstimate.from_count, 1.0, examples=1, mechanism=CorrectCount(epsilon=1.0))
LEVELS = partial(to_levels, amounts=np.array([1.0, 2.0]), bounds=(0.0, 2.0))
AMOUNTS = partial(
    AmountChannel(epsilon=1.0).release, levels=TWO, prior=PRIOR_OF_BINS, generator=DRAWS
)
SUMS = partial(AmountSums(noise_std=1.0).release, levels=TWO, weights=np.eye(2), generator=DRAWS)
TABLE = partial(AmountChannel(epsilon=1.0).table, prior=PRIOR_OF_BINS)
ROW = partial(probabilities, values=[[0.5, 0.5]], name="prior", num_classes=2)
SUBSET = partial(SubsetSelection, epsilon=1.0, num_classes=10, subset_size=9)
CHANNEL = partial(optimal_channel, prior=[0.5, 0.5], epsilon=1.0)
MOMENTS = partial(LabelMoments(noise_std=1.0, num_classes=3).release, **DRAWN, weights=np.eye(2))
HISTOGRAMS = partial(ClusterHistograms(epsilon=1.0, num_classes=3).release, **DRAWN, clusters=TWO)
WITH_PRIOR = partial(RRWithPrior(epsilon=1.0).release, **DRAWN, prior=HALVES)
NOISY = partial(RRWithPrior(epsilon=1.0).log_likelihood, noisy=ints(0), prior=[[0.9, 0.1, 0.0]])
SHARP = partial(tempered, logits=np.array([[0.0, 0.0], [0.0, -INF]]), temperature=1.0)
CELLS = partial(ScoreHistogram(epsilon=1.0).release, **DRAWN, places=np.array([[0, 1], [-1, 1]]))
SCORES = partial(ScoreCells.of, scores=np.array([0.1, 1.0 + 1e-9]), epsilon=1.0)
ERRORS = partial(ErrorSums(epsilon=1.0).release, levels=TWO, guesses=np.zeros(2), generator=DRAWS)
BITS = partial(rr.BitFlip(epsilon=1.0, num_classes=3).log_likelihood, bits=np.eye(3))
SEED = partial(SeededNoise, seed=0, draw=0)
HOME = partial(LabelVault, labels=TWO, num_classes=2)
VAULT = LabelVault(labels=np.arange(4) % 2, num_classes=2)
SHARDS = partial(VAULT.partition, teachers=4, seed=0)
RELEASES: list[Row] = [
    (ESTIMATE, {"mechanism": LabelMoments(noise_std=1.0, num_classes=2)}, "nothing about single l"),
    (ESTIMATE, {"mechanism": RRWithPrior(epsilon=1.0)}, "count right predictions instead"),
    (ESTIMATE, {"predictions": ints(0, 0, 0, 0)}, "predictions has 4 rows and values 3"),
    (ESTIMATE, {"predictions": ints(0, 1, 11)}, r"predictions\[2\] is 11"),
    (COUNT, {"predictions": ints(0)}, r"shape \(1,\) for 2 labels"),
    (COUNT, {"predictions": np.zeros((2, 3), dtype=int)}, "for 2 labels; give one for each"),
    (COUNT, {"predictions": np.zeros(2)}, "of type float64; they must be classes"),
    (COUNT, {"labels": TWO[:0], "predictions": TWO[:0]}, "predictions are empty"),
    *out_of_range(ACCURACY, sampling_error=[-0.1], count_scale=[-0.1]),
    *out_of_range(COUNTED, examples=[0]),
    *out_of_range(
        partial(ACCURACY().interval, choices=1), choices=[0], confidence=NOT_BETWEEN_0_AND_1
    ),
    (LEVELS, {"bounds": (2.0, 2.0)}, "bounds are 2 and 2; two finite numbers, the smaller first"),
    (LEVELS, {"bounds": (0.0, INF)}, "bounds are 0 and inf"),
    (LEVELS, {"amounts": np.array([1.0, NAN])}, "amount 1 is missing or infinite"),
    *((call, {"levels": ints(0, 77)}, NOT_A_CLASS) for call in (AMOUNTS, SUMS, ERRORS)),
    *((TABLE, {"prior": bad}, "prior") for bad in (NAN * PRIOR_OF_BINS, np.ones(BINS), [0.2] * 5)),
    *out_of_range(SUBSET, subset_size=(0, 10)),
    (ROW, {"values": [[-2e-6, 1.000002]]}, "row 0"),
    (ROW, {"values": [[0.5, 0.5], [0.5, 0.50011]]}, "row 1"),
    (ROW, {"values": [[0.5, 0.5j]]}, "complex"),
    (ROW, {"values": np.zeros((0, 2))}, "is empty"),
    (ROW, {"values": [[0.5, 0.25, 0.25]]}, r"must be \[N, 2\]"),
    *out_of_range(CHANNEL, epsilon=NO_EPSILON),
    *((CHANNEL, {"prior": bad}, "row 0") for bad in ([0.5, 0.6], [0.5, NAN], [1.2, -0.2])),
    *out_of_range(partial(StaircaseChannel, epsilon=1.0, prototypes=1), prototypes=[0]),
    (MOMENTS, {"weights": np.diag([1.0, 1.01])}, "row 1 has length 1.01"),
    (MOMENTS, {"weights": np.diag([NAN, 1.0])}, "row 0 has length nan"),
    (MOMENTS, {"weights": np.diag([1.0, INF])}, "row 1 has length (inf|nan)"),
    (MOMENTS, {"weights": np.eye(3)}, "weights has 3 rows and labels 2"),
    (MOMENTS, {"weights": np.ones(2)}, r"shape \(2,\)"),
    (MOMENTS, {"weights": np.ones((2, 0))}, r"shape \(2, 0\)"),
    (HISTOGRAMS, {"clusters": ints(0)}, "clusters has 1 rows and labels 2"),
    (HISTOGRAMS, {"clusters": ints(0, 2)}, "3 clusters of 2 labels"),
    (HISTOGRAMS, {"clusters": ints(0, -1)}, r"clusters\[1\] is -1"),
    (HISTOGRAMS, {"clusters": np.array([0.0, 1.0])}, "float64"),
    *out_of_range(partial(ClusterHistograms, epsilon=1.0, num_classes=2), epsilon=[1e-12]),
    (WITH_PRIOR, {"prior": [[0.5, 0.5], [0.5, 0.4]]}, "prior row 1 .* sum 0.9"),
    (WITH_PRIOR, {"prior": np.array([0.5, 0.5])}, "shape"),
    (WITH_PRIOR, {"prior": HALVES[:1]}, "prior has 1 rows and labels 2"),
    (NOISY, {"noisy": ints(2)}, r"noisy\[0\] is 2, which is not among"),
    *out_of_range(SHARP, temperature=(0.0, -1.0, NAN)),
    *(
        (SHARP, {"logits": np.array([[0.0, 0.0], row])}, "logits row 1")
        for row in ([NAN, 0.0], [INF, 0.0], [-INF, -INF])
    ),
    *((SHARP, {"logits": np.zeros(shape)}, "logits has shape") for shape in ((3,), (0, 3))),
    (CELLS, {"places": np.array([[0, 1]])}, "1 rows and labels 2"),
    (CELLS, {"places": np.zeros((2, 2))}, "float64"),
    (CELLS, {"places": np.array([[0, 9], [0, 1]])}, "without gaps"),
    (CELLS, {"places": np.array([[0, -2], [0, 1]])}, "-1 for what is not counted"),
    (CELLS, {"places": np.full((2, 2), -1)}, "without gaps"),
    (CELLS, {"places": TWO}, "shape"),
    (CELLS, {"labels": ints(), "places": np.empty((0, 2), dtype=int)}, "shape"),
    *(
        (SCORES, {"scores": bad}, "scores have shape")
        for bad in (np.array([0.1, NAN]), np.full((3, 1), 0.5), np.full((3, 2, 2), 0.5))
    ),
    *((ERRORS, {"guesses": bad}, "a finite number") for bad in (np.zeros(3), np.array([0.0, NAN]))),
    *out_of_range(partial(ErrorSums, epsilon=1.0, largest=1.0), largest=[0.0]),
    (BITS, {"bits": np.zeros((2, 4))}, r"must be \[N, 3\]"),
    (BITS, {"bits": np.array([[0, 1, 0], [0, 2, 0]])}, "bits row 1"),
    (BITS, {"bits": torch.tensor([[0.0, NAN, 1.0]])}, "bits row 0"),
    *out_of_range(SEED, seed=(-1, 0.5), draw=[-1]),
    *out_of_range(
        partial(on_lattice, normal, SecureGenerator(bits=DRAWS), scale=1.0, shape=(2,)),
        scale=(*NOT_POSITIVE, 1e9),
    ),
    (partial(cryptographic_generator, key=bytes(16)), {"key": bytes(32)}, "key has 32 bytes"),
    *(
        (call, {"indices": bad}, says)
        for call in (
            partial(VAULT.release, rr.RandomizedResponse(epsilon=1.0, num_classes=2), indices=TWO),
            partial(PrivacyLedger(num_labels=4).charge, PureEvent(epsilon=1.0), indices=TWO),
        )
        for bad, says in (
            (TWICE, "more than once"),
            (ints(4), r"outside 0\.\.3"),
            (ints(-1), r"outside 0\.\.3"),
            (np.array([0.5]), "whole numbers"),
            (np.array([True, False]), "whole numbers"),  # places are numbers, not a mask
            (ints(), "non-empty"),
        )
    ),
    (HOME, {"labels": ints(0, 77)}, NOT_A_CLASS + ".*1 of 2"),
    *out_of_range(partial(line(PureEvent(epsilon=1.0)).is_beyond, training=0), training=[None]),
    (SHARDS, {"teachers": 5}, "teachers is 5.*but there are 4 labels"),
    (SHARDS, {"teachers": 0}, "teachers is 0.*least 1"),
]


# Votes

VOTES, FEW = [[3, 1], [2, 2]], [1.5, 2.0]
LNMAX, GNMAX = partial(pate.LNMax, scale=5.0), partial(pate.GNMax, noise_std=10.0)
CONFIDENT = partial(pate.ConfidentGNMax, threshold=0.0, sigma1=20.0, sigma2=10.0)
INTERACTIVE = partial(
    pate.InteractiveGNMax, threshold=0.0, sigma1=20.0, sigma2=10.0, confidence=1.0
)
PER_CLASS = CONFIDENT(check_noise=CheckNoise.PER_CLASS)
AGGREGATORS: list[Any] = [LNMAX(), GNMAX(), CONFIDENT(), PER_CLASS]
ASKED = partial(INTERACTIVE().answer, VOTES, student_scores=HALVES, generator=DRAWS)
ANY_VOTES = partial(price_for_any_votes, GNMAX(), checked=1, answered=1, delta=1e-5)
LOG_Q = [
    partial(pate.log_q_gaussian, votes=VOTES, noise_std=1.0),
    partial(pate.log_q_laplace, votes=VOTES, scale=1.0),
    partial(pate.log_probability_answered, votes=VOTES, threshold=0.0, sigma1=1.0),
]
RDP = [
    partial(pate.rdp_gnmax, log_q=[-1.0], noise_std=1.0, orders=FEW),
    partial(pate.rdp_lnmax, log_q=[-1.0], scale=1.0, orders=FEW),
    partial(pate.rdp_threshold, log_p=[-1.0], sigma1=1.0, orders=FEW),
]
TOO_LITTLE_OR_MUCH = (*NOT_POSITIVE, 1e-200, "1")
COSTS = pate.confident_gnmax_costs(VOTES, threshold=2, sigma1=3.0, sigma2=2.0)
COST = partial(COSTS.cost, delta=1e-5, answered=[True, False])
CHECKS = partial(pate.decision_rdp_threshold, sigma1=40.0, orders=FEW)
EXACT_CHECKS = partial(
    pate.exact_rdp_threshold, votes=VOTES, threshold=0.0, sigma1=40.0, orders=FEW
)
ANSWERS = partial(pate.decision_rdp_gnmax, sigma2=40.0, orders=FEW)
EXACT_ANSWERS = partial(pate.exact_rdp_gnmax, votes=VOTES, noise_std=40.0, orders=FEW)
MANY = np.tile([30, 20, 5, 5], (40, 1))
PUBLISHED = partial(
    pate.release_epsilon,
    votes=MANY,
    noise_std=10.0,
    threshold=35.0,
    sigma1=8.0,
    delta=1e-5,
    order=6.0,
    generator=DRAWS,
)
OF_TEN: dict[str, Any] = {"votes": [5, 5], "num_teachers": 10, "order": 2.0}
OF_ANSWERS = partial(pate.local_sensitivity_gnmax, **OF_TEN, noise_std=1.0)
OF_CHECKS = partial(pate.local_sensitivity_threshold, **OF_TEN, threshold=5.0, sigma1=1.0)
SMOOTH = partial(pate.smooth_sensitivity, ls_by_distance=[1.0], beta=0.0)
REQUEST = partial(pate.PateAnswers, aggregator=GNMAX(), queries=1, max_answers=1)
ANSWERED = partial(REQUEST().release, votes=ints(3, 1)[None], generator=DRAWS)
NEIGHBORS = partial(pate.NeighborAnswers, **REQUEST.keywords, queries_per_label=1)
CHANCES = partial(pate.answer_log_probabilities, votes=[3, 1], noise_std=40.0)
FOUND = partial(pate.reconstruct, counts=[[9000, 500, 500]], noise_std=40.0, num_teachers=100)
OF_VOTES: list[Row] = [
    *out_of_range(LNMAX, scale=NOT_POSITIVE),
    *out_of_range(GNMAX, noise_std=NOT_POSITIVE),
    *out_of_range(
        CONFIDENT, INTERACTIVE, sigma1=NOT_POSITIVE, sigma2=NOT_POSITIVE, threshold=(-1.0, NAN, INF)
    ),
    *out_of_range(INTERACTIVE, confidence=(-0.1, 1.1, NAN)),
    *(
        (partial(each.answer, votes=VOTES, generator=DRAWS, max_answers=2), change, says)
        for each in AGGREGATORS
        for change, says in (
            ({"votes": [[3, 1], [3, 2]]}, "row 1 sums to 5"),
            ({"student_scores": VOTES}, "takes no student_scores"),
            ({"max_answers": 3}, "max_answers is 3, but there are only 2 queries"),
            ({"max_answers": 0}, "max_answers is 0"),
        )
    ),
    *(
        (partial(each.events, checked=2, answered=2), change, says)
        for each in AGGREGATORS
        for change, says in (
            ({"answered": 3}, "answered is 3"),
            ({"checked": -1}, "checked is -1"),
            ({"answered": -1}, "answered is -1"),
        )
    ),
    (ASKED, {"student_scores": [[0.5, 0.5]]}, "1 rows and votes 2"),
    (ASKED, {"student_scores": [[0.5, 0.5, 0.0]] * 2}, r"must be \[N, 2\]"),
    (ASKED, {"student_scores": [[0.5, 0.5], [0.9, 0.3]]}, "student_scores row 1"),
    (ASKED, {"student_scores": None}, "needs student_scores"),
    *out_of_range(ANY_VOTES, COST, PUBLISHED, delta=NOT_BETWEEN_0_AND_1),
    (ANY_VOTES, {"answered": 2}, "answered is 2"),
    *out_of_range(LOG_Q[0], RDP[0], noise_std=TOO_LITTLE_OR_MUCH),
    *out_of_range(LOG_Q[1], RDP[1], scale=TOO_LITTLE_OR_MUCH),
    *out_of_range(LOG_Q[2], RDP[2], sigma1=TOO_LITTLE_OR_MUCH),
    *out_of_range(LOG_Q[2], EXACT_CHECKS, threshold=(-1.0, NAN, INF)),
    *((RDP[0], {"orders": bad}, "orders") for bad in ([2.0, 1.0], [INF], [NAN], [])),
    *((RDP[0], {"log_q": bad}, "log_q") for bad in ([0.1], [NAN], [])),
    (COST, {"answered": [1, 0]}, r"bool \[2\]"),
    (partial(COSTS.head, queries=2), {"queries": 3}, "queries is 3"),
    *out_of_range(partial(COSTS.until, max_answers=2), max_answers=[0]),
    (partial(COSTS.until, max_answers=2), {"max_answers": 3}, "max_answers is 3, but there are"),
    (EXACT_ANSWERS, {"votes": [[0.5, 0.5]]}, "votes row 0 is .*fractional"),
    (EXACT_CHECKS, {"votes": [[NAN, 1]]}, "votes row 0 is .*NaN"),
    *(
        (call, {"orders": [2.0, order]}, "order")
        for call in (CHECKS, EXACT_CHECKS, ANSWERS, EXACT_ANSWERS)
        for order in (1.0, 0.5, NAN, INF)
    ),
    *out_of_range(CHECKS, EXACT_CHECKS, sigma1=NOT_POSITIVE),
    *out_of_range(ANSWERS, sigma2=NOT_POSITIVE),
    *out_of_range(EXACT_ANSWERS, noise_std=NOT_POSITIVE),
    *out_of_range(partial(Decisions, noise_std=1.0, count=0), noise_std=[0.0], count=[-1]),
    (PUBLISHED, {"threshold": None}, r"threshold is None and sigma1 is 8\.0"),
    (PUBLISHED, {"tail": 1e-5}, "tail is 1e-05"),
    (PUBLISHED, {"order": 1.0}, "Renyi order"),
    (PUBLISHED, {"noise_std": -1.0}, r"noise_std is -1\.0"),
    (PUBLISHED, {"answered": np.ones(3, bool)}, r"answered has type bool and shape \(3,\)"),
    (PUBLISHED, {"answered": np.ones(40)}, r"must be bool \[40\]"),
    (
        PUBLISHED,
        {"threshold": None, "sigma1": None, "answered": np.zeros(40, dtype=bool)},
        "without a threshold",
    ),
    (PUBLISHED, {"votes": [[60, 0, 0, 0], [59, 0, 0, 0]]}, "row 1 sums to 59"),
    *out_of_range(partial(AnswerPrice, noise_std=1.0, num_classes=2, order=2.0), num_classes=[1]),
    (OF_ANSWERS, {"num_teachers": 11}, "votes sum to 10, but num_teachers is 11"),
    *out_of_range(OF_ANSWERS, num_teachers=[0], noise_std=[0.0]),
    *(
        (call, {"order": bad}, "Renyi order")
        for call in (OF_ANSWERS, OF_CHECKS)
        for bad in (0.5, 1.0, INF)
    ),
    *out_of_range(OF_CHECKS, num_teachers=[0], threshold=[-1.0], sigma1=[-1.0]),
    (OF_CHECKS, {"votes": [12.0, 0.0]}, "votes is 12; with 10 teachers"),
    (OF_CHECKS, {"votes": [NAN, 0.0]}, "NaN"),
    *((SMOOTH, {"ls_by_distance": bad}, "ls_by_dist") for bad in ([], [[1.0]], [-1.0], [NAN])),
    *out_of_range(SMOOTH, beta=[-0.1]),
    *out_of_range(
        partial(ReleaseNoise, beta=0.1, sensitivity_multiplier=1.0, cost_multiplier=1.0),
        beta=[0.0],
        sensitivity_multiplier=[0.0],
        cost_multiplier=[0.0],
    ),
    *out_of_range(
        partial(ReleaseNoise.public, order=8.0, tail=1e-7, sensitivity_guess=1.0),
        tail=NOT_BETWEEN_0_AND_1,
        sensitivity_guess=[0.0],
    ),
    *out_of_range(
        partial(
            public_rule, queries=9, answers=9, noise_std=4.0, teachers=9, classes=3, delta=1e-5
        ),
        delta=NOT_BETWEEN_0_AND_1,
    ),
    *out_of_range(
        partial(AnswerPrice(noise_std=40.0, num_classes=2, order=2.0).is_constant, num_teachers=1),
        num_teachers=[0],
    ),
    *out_of_range(REQUEST, NEIGHBORS, queries=[0], max_answers=[0]),
    *out_of_range(NEIGHBORS, queries_per_label=[0]),
    (ANSWERED, {"votes": VOTES}, "votes has 2 rows; 1 queries were declared"),
    (FOUND, {"counts": [60, 40, 20]}, r"counts has shape \(3,\)"),
    (FOUND, {"counts": [[1, 2, 3], [1, 2, -1]]}, "counts row 1 is .*-1"),
    (FOUND, {"counts": [[0.5, 0.5]]}, "counts row 0 is .*0.5"),
    (FOUND, {"counts": [[1, 2, 3], [0, 0, 0]]}, "counts row 1 is .*never answered"),
    *out_of_range(FOUND, num_teachers=(0, None), noise_std=[0.0]),
    (FOUND, {"num_teachers": 5}, "cannot come from 5 teachers at noise_std 40.*check"),
    (FOUND, {"noise_std": 1e-6}, "too small beside"),
    (CHANCES, {"votes": [3]}, r"votes has shape \(1,\)"),
]


# Audits

LABELS = ints(0, 1, 2)
DRAW = partial(auditing.Canaries.draw, LABELS, num_classes=3, num_canaries=3, seed=2**32 - 1)
PLANTED = partial(auditing.Canaries, positions=ints(1), labels=ints(1), true_labels=ints(2))
ONE_RUN = partial(auditing.one_run_lower_bound, canaries=10, guesses=5, correct=5)
CURVES = [
    partial(auditing.f_dp_lower_bound, canaries=10, guesses=5, correct=5, curve=curve)
    for curve in (auditing.PureCurve(), auditing.GaussianCurve(delta=1e-5))
]
TIGHT = partial(
    auditing.tight_lower_bound,
    canaries=1_000,
    guesses=500,
    correct=400,
    family=auditing.LaplaceFamily(),
)
OF_NORMALS = partial(TIGHT, family=auditing.GaussianFamily(), delta=1e-5, guesses_fixed=True)
COUNTS = (ONE_RUN, *CURVES, TIGHT)
AUDIT = partial(auditing.one_run_audit, scores=np.ones(5), truth=np.zeros(5))
ROWS = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
PAIRS = partial(auditing.candidate_scores, confidences=ROWS, candidates=np.array([[0, 1], [0, 2]]))
MEMORY = partial(
    auditing.memorization_interval,
    confidences=np.full((20, 4), 0.25),
    canary_labels=np.ones(20, int),
    true_labels=np.zeros(20, int),
)
OWN = partial(
    auditing.memorization_interval_from_pairs, own=np.full(9, 0.8), others=np.full((9, 2), 0.1)
)
TEN, THIRDS = np.arange(10) % 3, np.full((10, 3), 1 / 3)
UNKNOWN = partial(
    auditing.observational_audit,
    confidences=THIRDS,
    labels=TEN,
    proxy=THIRDS,
    proxy_log_error=0.0,
    generator=DRAWS,
)
TWENTY = auditing.CoinCanaries.draw(
    np.arange(40) % 3, num_classes=3, num_canaries=20, generator=DRAWS
)
OF_MOMENTS = partial(
    auditing.audit_moments,
    LabelMoments(noise_std=1.0, num_classes=3),
    canaries=50,
    delta=1e-5,
    generator=DRAWS,
)
AUDITS: list[Row] = [
    (DRAW, {"num_canaries": 4}, "4 canaries are requested, but there are 3 examples"),
    (DRAW, {"num_classes": 1}, "num_classes is 1; it must be at least 2"),
    (DRAW, {"num_classes": 2}, r"labels\[2\] is not one of"),
    *out_of_range(DRAW, seed=[2**32], num_canaries=[0], block=[-1]),
    *(
        (partial(PLANTED().plant, labels=np.zeros(2, int)), {"labels": bad}, "plant canaries in th")
        for bad in (ints(0), np.zeros((4, 1), dtype=np.int64))
    ),
    *(
        row
        for call in COUNTS
        for row in (
            (call, {"correct": 6, "guesses": 5}, "correct is 6, guesses 5"),
            (call, {"guesses": 11, "canaries": 10, "correct": 5}, "guesses 11 and canaries 10"),
            (call, {"correct": 2.5}, r"correct is 2\.5"),
            (call, {"canaries": 9.5}, r"canaries is 9\.5"),
            (call, {"guesses": -1, "correct": 0}, "guesses is -1"),
            (call, {"canaries": 0, "guesses": 0, "correct": 0}, "canaries is 0"),
        )
    ),
    (ONE_RUN, {"canaries": 4, "guesses": 4, "correct": 4}, "it takes 5 to prove .* 0, and 62"),
    *out_of_range(ONE_RUN, AUDIT, delta=[1.0]),
    *out_of_range(*COUNTS, MEMORY, confidence=(0.0, 1.0, 1.5)),
    *out_of_range(partial(auditing.canaries_needed, epsilon=0.0), epsilon=[-1.0], confidence=[1.5]),
    *out_of_range(OF_NORMALS, delta=[0.0]),
    (OF_NORMALS, {"guesses_fixed": False}, "500 of 1000 canaries.* was not fixed"),
    (AUDIT, {"truth": np.zeros(2)}, r"scores has shape \(5,\) and truth \(2,\)"),
    (AUDIT, {"scores": np.zeros((5, 1)), "truth": np.zeros((5, 1))}, r"scores has shape \(5, 1\)"),
    (AUDIT, {"scores": np.array([0, NAN, 1, 1, 1])}, r"scores\[1\] is nan"),
    (AUDIT, {"truth": np.array([0, 1, 2, 0, 0])}, r"truth\[2\] is 2"),
    (PAIRS, {"candidates": np.array([[0, 3], [0, 2]])}, r"candidates\[:, 1\]\[0\] is 3"),
    (PAIRS, {"candidates": np.array([[0, 1], [-1, 2]])}, r"candidates\[:, 0\]\[1\] is -1"),
    (PAIRS, {"candidates": TWO}, r"candidates has shape \(2,\)"),
    (PAIRS, {"confidences": ROWS * [[1], [2]]}, "confidences row 1"),
    (MEMORY, {"confidences": np.full((20, 4), 0.5)}, "confidences row 0"),
    (MEMORY, {"confidences": np.full((20, 2), 0.5)}, r"2 classes.*needs at least 3"),
    (MEMORY, {"canary_labels": np.full(20, 4)}, r"canary_labels\[0\] is 4"),
    (MEMORY, {"canary_labels": np.zeros(20, int)}, r"canary_labels\[0\] is the true label"),
    (MEMORY, {"true_labels": np.zeros(19, int)}, "confidences has 20 rows and true_labels 19"),
    (MEMORY, {"true_labels": np.full(20, 77)}, r"true_labels\[0\] is not one of the classes"),
    (MEMORY, {name: rows[:4] for name, rows in MEMORY.keywords.items()}, "canaries is 4.*takes 5"),
    *(
        (OWN, change, "they must be")
        for change in (
            {"own": np.full((9, 2), 0.8)},
            {"others": np.full(9, 0.1)},
            {"own": np.full(8, 0.8)},
            {"others": np.empty((9, 0))},
        )
    ),
    (UNKNOWN, {"labels": TWO}, "labels 2"),
    (UNKNOWN, {"labels": ints(0, 1, 77, *TEN[3:])}, r"labels\[2\] is not one of the classes"),
    (UNKNOWN, {"proxy": np.full((10, 2), 0.5)}, "^proxy"),
    (UNKNOWN, {"proxy": np.eye(3)[ints(0, 1, 1, *TEN[3:])]}, "example 2 probability 0"),
    (UNKNOWN, {"proxy": np.eye(3)[TEN]}, "nothing to distinguish"),
    (UNKNOWN, {"confidences": np.full((10, 3), 0.5)}, "^confidences"),
    *out_of_range(UNKNOWN, proxy_log_error=[-1.0]),
    (
        partial(
            auditing.audit_release,
            values=np.zeros(20, dtype=int),
            mechanism=rr.RandomizedResponse(epsilon=1.0, num_classes=3),
            coins=TWENTY,
        ),
        {"values": np.zeros(40, dtype=int)},
        "40 rows and canaries 20",
    ),
    *out_of_range(OF_MOMENTS, canaries=[1], delta=[0.0]),
]
EVERY = [*PRICES, *RELEASES, *OF_VOTES, *AUDITS]


@pytest.mark.parametrize(("call", "change", "says"), EVERY)
def test_it_is_refused_by_name(call: Call, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        call(**change)
    assert not re.search(r"\b77\b", str(refused.value))


def test_what_is_changed_is_right_itself() -> None:
    for call in {id(call): call for call, _, _ in EVERY}.values():
        call()

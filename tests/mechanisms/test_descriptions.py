"""descriptions: a line is of a class of ours by its fields and their types, never by its name."""

import json
from typing import Any

import pytest

from labeldp.mechanisms.accuracy_estimate import CorrectCount, MostCorrect
from labeldp.mechanisms.additive_noise import GaussianNoise, LaplaceNoise
from labeldp.mechanisms.bit_flip import BitFlip
from labeldp.mechanisms.cluster_prior import ClusterHistograms
from labeldp.mechanisms.label_moments import LabelMoments
from labeldp.mechanisms.pate.accounting import CheckNoise
from labeldp.mechanisms.pate.aggregators import ConfidentGNMax, GNMax, InteractiveGNMax, LNMax
from labeldp.mechanisms.pate.published_cost import ReleaseNoise
from labeldp.mechanisms.pate.releases import PateAnswers, PublishedCost
from labeldp.mechanisms.randomized_response import NoNoise, PublishedClasses, RandomizedResponse
from labeldp.mechanisms.randomness import OsEntropy
from labeldp.mechanisms.release_address import describe, is_of
from labeldp.mechanisms.rr_with_prior import RRWithPrior

CHECKED: dict[str, Any] = {"threshold": 150.0, "sigma1": 100.0}
OURS = [
    LaplaceNoise(epsilon=1, num_classes=3),
    GaussianNoise(noise_std=1.0, num_classes=3),
    RandomizedResponse(epsilon=1.0, num_classes=3),
    RRWithPrior(epsilon=1.0),
    BitFlip(epsilon=1.0, num_classes=3),
    ClusterHistograms(epsilon=1.0, num_classes=3),
    LabelMoments(noise_std=1.0, num_classes=3),
    CorrectCount(epsilon=1.0),
    MostCorrect(epsilon=1.0),
    PublishedClasses(num_classes=3),
    NoNoise(num_classes=3),
    *(
        PateAnswers(aggregator=aggregator, queries=4, max_answers=2)
        for aggregator in (
            LNMax(scale=2.0),
            GNMax(noise_std=2.0),
            ConfidentGNMax(**CHECKED, sigma2=40.0),
            ConfidentGNMax(**CHECKED, sigma2=40.0, check_noise=CheckNoise.PER_CLASS),
            InteractiveGNMax(**CHECKED, sigma2=40.0, confidence=0.9),
        )
    ),
    PublishedCost(
        noise_std=40.0,
        threshold=None,
        sigma1=None,
        order=8.5,
        delta=1e-5,
        tail=1e-6,
        publishing_noise=ReleaseNoise.public(order=8.5, tail=1e-6, sensitivity_guess=0.05),
    ),
]


@pytest.mark.parametrize("mechanism", OURS, ids=repr)
def test_our_own_are_known_before_and_after_they_are_written(mechanism: Any) -> None:
    described = describe(mechanism, OsEntropy())
    for each in (described, json.loads(json.dumps(described))):
        assert [kind for kind in {type(one) for one in OURS} if is_of(kind, each)] == [
            type(mechanism)
        ]
        assert not is_of(type(mechanism), {**each, "note": 1.0})
        field = next(name for name in each if name not in ("name", "noise"))
        assert not is_of(type(mechanism), {key: each[key] for key in each if key != field})
        assert not is_of(type(mechanism), {**each, field: "4711"})
        assert not is_of(type(mechanism), {**each, field: [1.0]})
        assert not is_of(type(mechanism), {**each, field: True})


def test_a_class_of_the_same_name_is_not_ours() -> None:
    """Releases of such a class are refused today; older stores may hold some."""
    described = describe(LaplaceNoise(epsilon=1.0, num_classes=3), OsEntropy())
    del described["epsilon"]
    assert not is_of(LaplaceNoise, {**described, "patient": 4711.0})
    assert not is_of(LaplaceNoise, {}) and not is_of(LaplaceNoise, {"name": "LaplaceNoise"})


def test_what_lies_inside_is_looked_at_as_well() -> None:
    answers = PateAnswers(aggregator=GNMax(noise_std=2.0), queries=4, max_answers=2)
    described = describe(answers, OsEntropy())
    typed = {"type": "GNMax", "parameters": {"noise_std": 2.0}}
    assert is_of(PateAnswers, {**described, "aggregator": typed})
    for inside in (
        {"noise_std": 2.0, "patient": 4711.0},
        {"type": "OtherMax", "parameters": {"noise_std": 2.0}},
        {"type": "GNMax", "parameters": {"noise_std": "4711"}},
        {"type": "GNMax", "parameters": [4711.0]},
        "GNMax",
    ):
        assert not is_of(PateAnswers, {**described, "aggregator": inside})

"""methods: names there and back, near misses, and the border of the rule behind `auto`."""

import math

import pytest

from labeldp.platform.api.methods import ENOUGH_KEPT, NAMED, choose, kept, name_of, named
from labeldp.platform.sweep.configuration import METHODS, TrialConfig, flatten, with_changes


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_found_in_the_configuration_that_it_makes(name: str) -> None:
    method = named(name)
    config = with_changes(TrialConfig(), {"method": method.method, **method.changes})
    assert name_of(flatten(config)) == name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("RR", "randomized_response"),
        ("lp-2st", "lp_2st"),
        ("Moment Labels", "moment_labels"),
        ("none", "no_privacy"),
        ("lp_mst", "lp_mst"),
    ],
)
def test_names_as_people_write_them(written: str, meant: str) -> None:
    assert named(written).name == meant and named(written).method in METHODS


def test_a_near_miss_is_named() -> None:
    with pytest.raises(ValueError, match=r"'momentlabels'; did you mean 'moment_labels'"):
        named("momentlabels")
    with pytest.raises(ValueError, match="Known are auto, moment_labels"):
        named("xyz")
    assert name_of({"method": "recommender"}) == "recommender"


@pytest.mark.parametrize("classes", [2, 3, 10, 100])
def test_single_labels_are_used_above_the_border_and_sums_below(classes: int) -> None:
    border = math.log((classes - 1) * ENOUGH_KEPT / (1 - ENOUGH_KEPT))
    assert kept(epsilon=border, num_classes=classes) == pytest.approx(ENOUGH_KEPT)
    above, _ = choose(epsilon=border + 0.01, delta=1e-5, num_classes=classes)
    below, _ = choose(epsilon=border - 0.01, delta=1e-5, num_classes=classes)
    pure, reason = choose(epsilon=border - 0.01, delta=0.0, num_classes=classes)
    assert (above, below) == ("alibi_randomized_response", "moment_labels")
    assert pure == "alibi_cluster_prior" and "delta is 0" in reason
    assert {above, below, pure} <= set(NAMED)


def test_the_rule_agrees_with_the_best_lines_of_the_reproduction() -> None:
    """docs/reproduction.md, ten classes: moment labels up to epsilon 2, ALIBI at 4.

    On CIFAR-10 ALIBI learns more from randomized response than from its own noise.
    """
    chosen = [
        choose(epsilon=epsilon, delta=1e-5, num_classes=10)[0]
        for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
    ]
    assert chosen == ["moment_labels"] * 5 + ["alibi_randomized_response"]
    with pytest.raises(ValueError, match="epsilon is 0"):
        choose(epsilon=0, delta=1e-5, num_classes=2)
    with pytest.raises(ValueError, match="num_classes is 1"):
        choose(epsilon=1, delta=1e-5, num_classes=1)

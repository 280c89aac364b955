"""methods: names there and back, near misses, and the border of the rule behind `auto`."""

import math

import pytest

from labeldp.mechanisms.randomized_response import keep_probability
from labeldp.platform.api.methods import ENOUGH_KEPT, NAMED, choose, name_of, named
from labeldp.platform.sweep.configuration import TrialConfig, flatten, with_changes


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_found_in_the_configuration_that_it_makes(name: str) -> None:
    method = named(name)
    config = with_changes(TrialConfig(), {"method": method.method, **method.changes})
    assert name_of(flatten(config)) == name


def test_names_of_trainers_and_near_misses() -> None:
    assert named("lp_mst").method == "lp_mst"
    assert name_of({"method": "recommender"}) == "recommender"
    with pytest.raises(ValueError, match="'momentlabels'; did you mean moment_labels"):
        named("momentlabels")


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_single_labels_are_used_above_the_border_and_sums_below(classes: int) -> None:
    border = math.log((classes - 1) * ENOUGH_KEPT / (1 - ENOUGH_KEPT))
    assert keep_probability(epsilon=border, num_classes=classes) == pytest.approx(ENOUGH_KEPT)
    above, _ = choose(epsilon=border + 0.01, delta=1e-5, num_classes=classes)
    below, _ = choose(epsilon=border - 0.01, delta=1e-5, num_classes=classes)
    pure, reason = choose(epsilon=border - 0.01, delta=0.0, num_classes=classes)
    assert (above, below) == ("subset", "moment_labels")
    assert pure == "alibi_cluster_prior" and "delta is 0" in reason
    assert {above, below, pure} <= set(NAMED)
    with pytest.raises(ValueError, match="epsilon is 0"):
        choose(epsilon=0, delta=1e-5, num_classes=classes)

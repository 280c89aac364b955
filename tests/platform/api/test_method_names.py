"""method_names: names there and back, near misses, and trainers that know what is set."""

import pytest

from labeldp.platform.api.method_names import NAMED, name_of, named
from labeldp.platform.sweep.configuration import METHODS, TrialConfig, flatten, with_changes


@pytest.mark.parametrize("name", NAMED)
def test_a_name_is_found_in_the_configuration_that_it_makes(name: str) -> None:
    method = named(name)
    config = with_changes(TrialConfig(), {"method": method.method, **method.changes})
    assert name_of(flatten(config)) == name


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("RR", "randomized_response"),
        ("lp-2st", "lp_2st"),
        ("Moment Labels", "moment_labels"),
        ("none", "no_privacy"),
        ("lp_mst", "lp_mst"),
    ],
)
def test_names_as_people_write_them(said: str, meant: str) -> None:
    assert named(said).name == meant
    assert named(said).method in METHODS


def test_a_near_miss_is_named() -> None:
    with pytest.raises(ValueError, match=r"'momentlabels'; did you mean 'moment_labels'"):
        named("momentlabels")
    with pytest.raises(ValueError, match="Known are auto, moment_labels"):
        named("xyz")


def test_a_configuration_without_a_name_keeps_its_trainers() -> None:
    assert name_of({"method": "recommender"}) == "recommender"

"""key_reference: every key there is, and facts that the configuration itself holds to."""

import pytest

from labeldp.platform.sweep.configuration import METHODS, TrialConfig, flatten
from labeldp.platform.sweep.configuration import with_changes as changed
from labeldp.platform.sweep.key_reference import KeyFacts, all_keys, keys_of


@pytest.fixture(scope="module")
def listed() -> list[KeyFacts]:
    return all_keys()


@pytest.mark.parametrize("method", METHODS)
def test_every_key_of_every_method_is_listed_with_a_meaning(method: str) -> None:
    found = keys_of(method)
    assert [facts.key for facts in found] == list(
        flatten(changed(TrialConfig(), {"method": method}))
    )
    for facts in found:
        assert facts.meaning.strip(), f"{facts.key} says nothing of itself"
        assert facts.type and facts.default


def test_defaults_are_written_as_they_are_taken(listed: list[KeyFacts]) -> None:
    """Each default, typed as it is shown, changes nothing."""
    from labeldp.platform.sweep.overrides import parse_overrides

    for method in METHODS:
        base = changed(TrialConfig(), {"method": method})
        typed = [f"{facts.key}={facts.default}" for facts in keys_of(method)[1:]]
        assert changed(base, parse_overrides(typed)) == base


def test_bounds_are_what_is_refused(listed: list[KeyFacts]) -> None:
    bounds = {facts.key: facts.bounds for facts in listed}
    assert bounds["trainer.epsilon"] == "above 0"
    assert bounds["trainer.momentum"] == "at least 0 and below 1"
    assert bounds["audit.confidence"] == "strictly between 0 and 1"
    assert bounds["trainer.epochs"] == "at least 1"
    assert bounds["trainer.sigma1"]
    unbounded = [facts.key for facts in listed if "number" in facts.type and not facts.bounds]
    assert not unbounded

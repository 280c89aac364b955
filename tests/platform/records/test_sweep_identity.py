"""sweep_identity: every fact comes back, of folders of every age; what is damaged is named."""

from dataclasses import fields
from typing import Any

import pytest

from labeldp.platform.records.sweep_identity import SweepIdentity
from labeldp.platform.sweep.accuracy_figures import ChooseBy

FACTS: dict[str, Any] = {
    "sweep": "small",
    "sweep_id": "5eed",
    "fingerprint": "f",
    "vault": "v",
    "path": "/results",
    "parent_run_id": "babe",
    "tracking_uri": "sqlite:///mlflow.db",
    "num_labels": 40,
    "held_out_labels": 10,
    "choose_by": "estimated",
    "count_epsilon": 0.25,
    "teachers_trained": 3,
    "teachers_reused": 0,
    "learned_epsilon": 2.0,
    "learned_counts": 0,
    "learned_delta": 1e-5,
    "learned_releases": False,
}


def test_every_fact_comes_back_and_what_is_unknown_stays() -> None:
    assert set(FACTS) == {each.name for each in fields(SweepIdentity)} - {"more"}
    written = {**FACTS, "of_a_later_version": {"a": [1]}}
    kept = SweepIdentity.from_json(written)
    assert kept.to_json() == written and kept.choose_by is ChooseBy.ESTIMATED


def test_the_vault_has_the_labels_that_are_held_out_too() -> None:
    assert SweepIdentity(num_labels=40, held_out_labels=10).all_labels == 50
    assert SweepIdentity(num_labels=40).all_labels == 40


def test_what_is_the_owners_is_named_where_it_is_known() -> None:
    places = ("path", "tracking_uri", "vault", "sweep_id", "parent_run_id")
    assert SweepIdentity.from_json(FACTS).of_the_owner == {name: FACTS[name] for name in places}
    assert SweepIdentity(vault="v", sweep="small").of_the_owner == {"vault": "v"}


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("value", [None, [1], {"a": 1}])
def test_a_mistyped_fact_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} is "):
        SweepIdentity.from_json({**FACTS, name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_labels", True), ("num_labels", 2.0), ("learned_releases", 1), ("choose_by", "luck")],
)
def test_kinds_that_python_takes_for_each_other_are_told_apart(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} is "):
        SweepIdentity.from_json({name: value})
